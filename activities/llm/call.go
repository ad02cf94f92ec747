package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm/wire"
	"weft/activities/textutil"
)

// Kinds of calls, for scripts.
const (
	KindAgent    = "agent"
	KindJudge    = "judge"
	KindCondense = "condense"
)

// Call is one model call: the request and its caller. It is not modified.
type Call struct {
	// Request is the request. References in its messages must be resolved; Once is derived from Kind.
	wire.Request
	// IdempotencyKey is sent in a header unless it is empty.
	IdempotencyKey string
	// Tenant is the tenant of the call, and Weight the tenant's share of rate limits; 0 means 1.
	Tenant string
	Weight float32
	// Attempt counts from 1; 0 means 1.
	Attempt int32
	// Cut counts the earlier attempts whose answers were cut off.
	Cut int
	// Kind is [KindAgent], [KindJudge] or [KindCondense]; Node is the node's id.
	Kind string
	Node string
	// At identifies the call: the workflow's id, a slash, and the call's id within the workflow.
	At string
	// Step is the execution's step number; Turn is the caller's count of model calls.
	Step, Turn int
	// Question is the text of the condition that a judge evaluates.
	Question string
	// Finish is the name of the tool that ends the node, if any. Only the model "script" uses it.
	Finish string
	// Script is the script of the model "script", see [ParseScript].
	Script json.RawMessage
	// Partial, if set, is called in the calling goroutine with all text streamed so far.
	Partial func(text string)
	// Waiting, if set, is called with the reason while the call waits to start, and with "" once it starts.
	Waiting func(what string)
	// Loading, if set, is called with the reason while the server loads the model, and with "" once it is loaded.
	Loading func(what string)
	// Spent, if set, is called in the calling goroutine with the usage so far of the answer being received.
	Spent func(u contract.Usage)
	// Observe, if set, is called in the calling goroutine before each model of a list is called. The model is called with
	// the returned context; the returned function receives the outcome.
	Observe func(ctx context.Context, r Request) (context.Context, func(*Answer, error))
}

// Request describes a call of a model to observers.
type Request struct {
	// System is the provider's name in OpenTelemetry's conventions; Model is the model's name at the provider.
	System, Model string
	// Stream reports whether the answer is streamed.
	Stream bool
}

// Answer is a model's complete answer. The ids of its calls are unique in the conversation.
type Answer struct {
	wire.Answer
	// Fallbacks are the models that were tried before, see [Models.Ask].
	Fallbacks []contract.Fallback
}

// Options returns call options with the given ones applied; the other parameters are marked as unset.
func Options(opts ...llms.CallOption) llms.CallOptions {
	o := llms.CallOptions{Temperature: -1, TopP: -1, Seed: -1}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// prepare returns a copy of the call whose messages have their parts joined. It fails with bad_request, listing every
// message that cannot be sent.
func (c *Call) prepare() (*Call, error) {
	out := *c
	out.Once = c.Kind == KindJudge || c.Kind == KindCondense
	out.Messages = slices.Clone(c.Messages)
	var problems []string
	for i := range out.Messages {
		if err := joinParts(&out.Messages[i]); err != nil {
			problems = append(problems, fmt.Sprintf("message %d: %v", i+1, err))
		}
	}
	if len(problems) > 0 {
		return nil, failf(contract.ClassBadRequest, "", "%s", strings.Join(problems, "; "))
	}
	return &out, nil
}

// joinParts validates a message and joins its parts into its text.
func joinParts(m *contract.Message) error {
	for i, p := range m.Parts {
		if p.Ref != nil {
			return fmt.Errorf("part %d is an unresolved reference", i+1)
		}
		if i == 0 {
			m.Text = ""
		}
		m.Text += p.Shown(p.Text)
	}
	m.Parts = nil
	for i := range m.Media {
		if _, err := m.Media[i].File(); err != nil {
			return fmt.Errorf("image %d: %w", i+1, err)
		}
	}
	switch m.Role {
	case contract.RoleUser, contract.RoleAssistant:
		return nil
	case contract.RoleTool:
		if m.CallID == "" {
			return fmt.Errorf("result of tool %q has no call id", m.Name)
		}
		return nil
	}
	return fmt.Errorf("invalid role %q; expected user, assistant or tool", textutil.Truncate(m.Role, 60))
}

type model interface {
	answer(ctx context.Context, call *Call) (*wire.Answer, error)
}

// generate makes one model call and checks the answer. It never retries.
//
// Its error is a [contract.Failure] or ctx's error. A filtered or refused answer fails as refused, with its usage.
func generate(ctx context.Context, m model, call *Call) (*Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	call, err := call.prepare()
	if err != nil {
		return nil, err
	}
	a, err := m.answer(ctx, call)
	// Check the context even without an error: a stream that it interrupted can look complete.
	var ctxErr *contextError
	switch {
	case errors.As(err, &ctxErr):
		return nil, ctxErr
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, contract.FailureOf(err)
	}
	why := ""
	switch {
	case a.Refusal != "":
		why = "the model refused: " + textutil.Truncate(a.Refusal, maxQuoted)
	case a.Stop == "content_filter":
		why = fmt.Sprintf("the provider filtered the answer after %d bytes", len(a.Message.Text))
	case a.Stop != "stop" && a.Stop != "length" && a.Message.Text == "" && len(a.Message.Calls) == 0:
		why = fmt.Sprintf("the answer ended with %q, without text or tool calls", a.Stop)
	case a.Stop == "stop" && len(a.Message.Calls) > 0:
		a.Stop = "tool_calls"
	}
	if why != "" {
		f := failf(contract.ClassRefused, remedies[contract.ClassRefused], "model %q: %s", a.Model, why)
		return nil, contract.Spent(f, a.Usage) // the provider charges for it like for any answer
	}
	fillIDs(a.Message.Calls, call.Messages)
	return &Answer{Answer: *a}, nil
}

// fillIDs assigns every call an id that is unique in the conversation: some servers omit it or count from 0.
func fillIDs(calls []contract.ToolCall, in []contract.Message) {
	used := map[string]bool{}
	for i := range in {
		for _, c := range in[i].Calls {
			used[c.ID] = true
		}
	}
	before := len(used)
	for i := range calls {
		id := cmp.Or(calls[i].ID, fmt.Sprintf("call_%d", before+i+1))
		unique := id
		for n := 2; used[unique]; n++ {
			unique = fmt.Sprintf("%s_%d", id, n)
		}
		used[unique], calls[i].ID = true, unique
	}
}
