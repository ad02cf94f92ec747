//go:build !unix

package host

import "time"

// processorTime is not known on this system: memory alone decides.
func processorTime() time.Duration { return 0 }
