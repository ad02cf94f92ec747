//go:build unix

package host

import (
	"syscall"
	"time"
)

// processorTime returns the CPU time of this process, or 0 if the system does not report it.
func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
