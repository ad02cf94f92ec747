//go:build !unix

package host

import "time"

// processorTime returns 0: the CPU time is unknown on this system, so that only memory limits the slots.
func processorTime() time.Duration { return 0 }
