//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// stayInBackground makes terminal reads of a background process fail instead of stopping it.
func stayInBackground() { signal.Ignore(syscall.SIGTTIN) }
