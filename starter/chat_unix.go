//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// stayInBackground makes reads of the terminal fail, instead of stopping the process, in the background.
func stayInBackground() { signal.Ignore(syscall.SIGTTIN) }
