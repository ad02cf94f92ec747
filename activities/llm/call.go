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

// Call is what langchaingo's options cannot express about one model call. It is passed in the context and not
// modified.
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
	// Schema is the JSON Schema of the answer, JSON that the answer must be JSON. Both are hints, sent where
	// the provider supports them: the caller checks the answer.
	Schema json.RawMessage
	JSON   bool
	// Parallel, if set, allows or forbids several tool calls in one answer. Effort is none, minimal, low,
	// medium, high, xhigh or max. Extra is an object of further request fields.
	Parallel *bool
	Effort   string
	Extra    json.RawMessage
	// Script is what the model "script" answers, see [ParseScript].
	Script json.RawMessage
	// Partial, if set, gets the text streamed so far, from the calling goroutine.
	Partial func(text string)
	// Waiting, if set, gets what the call waits for before it starts, and "" when it starts.
	Waiting func(what string)
	// Observe, if set, is called in the calling goroutine before each model of a list is called, with the
	// context that it returns; the outcome goes to the function.
	Observe func(ctx context.Context, r Request) (context.Context, func(*Answer, error))
}

// Request describes a call of a model to observers.
type Request struct {
	// System is who runs the model, by OpenTelemetry's conventions; Model is the model's name there.
	System, Model string
	// Stream is whether the answer is streamed. Negative temperature, top_p and seed of Options are not set.
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
