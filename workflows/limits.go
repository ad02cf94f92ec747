package workflows

// Bounds of what outsiders can make a run keep.
const (
	maxUnread     = 1000
	maxUnreadSize = 1 << 20
	maxRejects    = 10
	maxMessage    = 256 << 10
	// maxName bounds by and idempotency keys, maxReason why somebody did something.
	maxName   = 500
	maxReason = 1 << 10
	// maxShown is how long the arguments are that a request shows itself.
	maxShown = 16 << 10
	// maxDepth is how deep a stored value nests: what is deeper cannot be decoded again inside of what carries it.
	maxDepth = 100
)
