package llm

import (
	"context"
	"encoding/json"

	"github.com/tmc/langchaingo/llms"
)

// Kinds of calls, for scripts.
const (
	KindAgent    = "agent"
	KindJudge    = "judge"
	KindCondense = "condense"
)

// Call is what langchaingo's options cannot say about one model call. It travels in the
// context and is not changed by a call.
type Call struct {
	// IdempotencyKey goes into a header; empty sends none.
	IdempotencyKey string
	// Attempt counts from 1; 0 means 1.
	Attempt int32
	// Kind is one of the constants; Node is the node's id.
	Kind string
	Node string
	// At is the call's place: the workflow's id, a slash, and the call's own id there.
	At string
	// Step is the execution's; Turn is the caller's count of model calls.
	Step, Turn int
	// Question is the text of the condition that a judge answers.
	Question string
	// Schema is the JSON Schema of the answer, JSON that the answer must be JSON. They
	// are sent where the provider's row supports them, and are hints: the caller
	// checks the answer. A schema that the server refuses is left out.
	Schema json.RawMessage
	JSON   bool
	// Parallel, if set, allows or forbids several tool calls in one answer; Effort is how
	// much a model thinks: none, minimal, low, medium, high, xhigh or max. Extra is an
	// object of further fields of the request, sent as they are.
	Parallel *bool
	Effort   string
	Extra    json.RawMessage
	// Script is what the model "script" answers, see [ParseScript].
	Script json.RawMessage
	// Partial, if set, gets the text streamed so far, from the calling goroutine.
	Partial func(text string)
	// Waiting, if set, gets what the call waits for before it begins, and "" when it
	// begins.
	Waiting func(what string)
	// Observe, if set, is called before each model of a list is called, from the calling goroutine.
	// The call is made in the context that it returns, and its outcome goes to the function.
	Observe func(ctx context.Context, r Request) (context.Context, func(*Answer, error))
}

// Request describes a call of a model to observers.
type Request struct {
	// System is who runs the model, by OpenTelemetry's conventions; Model is the model's name there.
	System, Model string
	// Stream is whether the answer is streamed. A negative temperature, top_p or seed of Options is
	// not set.
	Stream  bool
	Options llms.CallOptions
}

type callKey struct{}

// WithCall attaches c to the context of a [Generate].
func WithCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallFrom is the call attached to ctx, or an empty one.
func CallFrom(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok && c != nil {
		return c
	}
	return &Call{}
}
