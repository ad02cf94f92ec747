//go:build !unix

package main

// stayInBackground does nothing: there is no job control.
func stayInBackground() {}
