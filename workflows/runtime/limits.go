package runtime

// Bounds of what outsiders can make a run keep.
const (
	MaxUnread     = 1000
	MaxUnreadSize = 1 << 20
	maxRejects    = 10
	MaxMessage    = 256 << 10
	// MaxName bounds by and idempotency keys, maxReason why somebody did something.
	MaxName   = 500
	MaxReason = 1 << 10
	// MaxShown is how long the arguments are that a request shows itself.
	MaxShown = 16 << 10
	// MaxDepth is how deep a stored value nests: what is deeper cannot be decoded again inside of what carries it.
	MaxDepth = 100
)
