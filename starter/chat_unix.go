//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// stayInBackground makes a read of the terminal fail, instead of stopping the process, while
// another one has the terminal: whoever wrote & still sees how the run goes on.
func stayInBackground() { signal.Ignore(syscall.SIGTTIN) }
