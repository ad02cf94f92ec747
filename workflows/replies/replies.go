// Package replies makes the replies to calls of tools, as the model sees them.
package replies

import (
	"encoding/json"
	"errors"
	"fmt"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// Error is a reply that tells the model of an error.
func Error(format string, args ...any) contract.ToolReply {
	return contract.ToolReply{Text: fmt.Sprintf(format, args...), Failed: true}
}

// JSON is a reply that is JSON.
func JSON(v any) contract.ToolReply {
	raw, err := json.Marshal(v)
	if err != nil {
		return Error("%v", err)
	}
	return contract.ToolReply{Text: string(textutil.Unescape(raw))}
}

// Refused is the error of a call that is answered with a reply and not made.
type Refused struct{ Reply contract.ToolReply }

func (r *Refused) Error() string { return r.Reply.Text }

// Refuse is the error of a call for the model to see.
func Refuse(format string, args ...any) error { return &Refused{Error(format, args...)} }

// Result is what a call gives: the reply of one that was refused is no error.
func Result(made contract.ToolReply, err error) (contract.ToolReply, error) {
	if r, ok := errors.AsType[*Refused](err); ok {
		return r.Reply, nil
	}
	return made, err
}
