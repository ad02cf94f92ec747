//go:build !unix

package main

// stayInBackground has nothing to do: no other process takes the terminal away.
func stayInBackground() {}
