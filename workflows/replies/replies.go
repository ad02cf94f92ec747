// Package replies makes replies to tool calls, as the model sees them.
package replies

import (
	"encoding/json"
	"errors"
	"fmt"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// Error returns a reply that reports an error to the model.
func Error(format string, args ...any) contract.ToolReply {
	return contract.ToolReply{Text: fmt.Sprintf(format, args...), Failed: true}
}

// JSON returns a reply that contains v as JSON.
func JSON(v any) contract.ToolReply {
	raw, err := json.Marshal(v)
	if err != nil {
		return Error("%v", err)
	}
	return contract.ToolReply{Text: string(textutil.Unescape(raw))}
}

// Refused is the error of a call that is answered with a reply instead of being made.
type Refused struct{ Reply contract.ToolReply }

func (r *Refused) Error() string { return r.Reply.Text }

// Refuse returns a [Refused] error with a reply that reports an error to the model.
func Refuse(format string, args ...any) error { return &Refused{Error(format, args...)} }

// Result returns the result of a call: it turns a [Refused] error into its reply.
func Result(reply contract.ToolReply, err error) (contract.ToolReply, error) {
	if r, ok := errors.AsType[*Refused](err); ok {
		return r.Reply, nil
	}
	return reply, err
}
