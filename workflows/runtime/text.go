package runtime

import (
	"errors"
	"fmt"

	"weft/activities/contract"
)

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

// MaxInline is the size up to which something that history has already is sent again, so
// that it can be seen where it is used and no worker has to ask for it.
const MaxInline = 1 << 10

// ToolError is a reply that tells the model of an error.
func ToolError(format string, args ...any) contract.ToolReply {
	return contract.ToolReply{Text: fmt.Sprintf(format, args...), Failed: true}
}

// maxSummary keeps a summary under Temporal's 400 bytes.
const maxSummary = 200

// Refused is the error of a call of a tool that is answered with a reply and not made.
type Refused struct{ Reply contract.ToolReply }

func (r *Refused) Error() string { return r.Reply.Text }

// Refuse is the error of a call for the model to see.
func Refuse(format string, args ...any) error { return &Refused{ToolError(format, args...)} }

// Replied is what a call gives: the reply of one that was refused is no error.
func Replied(reply contract.ToolReply, err error) (contract.ToolReply, error) {
	if r, ok := errors.AsType[*Refused](err); ok {
		return r.Reply, nil
	}
	return reply, err
}
