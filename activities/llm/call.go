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

// Call is one call of a model: what it is asked, and who asks. It is not modified.
type Call struct {
	// Request is what is asked. Its messages have resolved references; Once follows from Kind.
	wire.Request
	// IdempotencyKey goes into a header; empty sends none.
	IdempotencyKey string
	// Tenant is whose call it is, and Weight the tenant's share of limits; 0 means 1.
	Tenant string
	Weight float32
	// Attempt counts from 1; 0 means 1.
	Attempt int32
	// Cut counts the earlier attempts whose answers were cut.
	Cut int
	// Kind is one of the constants; Node is the node's id.
	Kind string
	Node string
	// At is the call's place: the workflow's id, a slash, and the call's own id there.
	At string
	// Step is the execution's; Turn is the caller's count of model calls.
	Step, Turn int
	// Question is the text of the condition that a judge answers.
	Question string
	// Finish is the name of the tool by which the node ends, if there is one; it is for the model "script" alone.
	Finish string
	// Script is what the model "script" answers, see [ParseScript].
	Script json.RawMessage
	// Partial, if set, gets the text streamed so far, from the calling goroutine.
	Partial func(text string)
	// Waiting, if set, gets what the call waits for before it starts, and "" when it starts.
	Waiting func(what string)
	// Loading, if set, gets what the call waits for while the server loads the model, and "" when it does no longer.
	Loading func(what string)
	// Spent, if set, gets what the answer that is under way has taken so far, from the calling goroutine.
	Spent func(u contract.Usage)
	// Observe, if set, is called in the calling goroutine before each model of a list is called, with the
	// context that it returns; the outcome goes to the function.
	Observe func(ctx context.Context, r Request) (context.Context, func(*Answer, error))
}

// Request describes a call of a model to observers.
type Request struct {
	// System is who runs the model, by OpenTelemetry's conventions; Model is the model's name there.
	System, Model string
	// Stream is whether the answer is streamed.
	Stream bool
}

// Answer is a model's whole answer; ids of its calls are unique in the conversation.
type Answer struct {
	wire.Answer
	// Fallbacks are the models that were asked before, see [Models.Ask].
	Fallbacks []contract.Fallback
}

// Options applies options to values that say unset.
func Options(opts ...llms.CallOption) llms.CallOptions {
	o := llms.CallOptions{Temperature: -1, TopP: -1, Seed: -1}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// prepared is a call whose messages have their text in one piece. It fails with bad_request, naming every message that
// cannot be sent.
func (c *Call) prepared() (*Call, error) {
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

// joinParts checks a message and makes its parts its text.
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
			return fmt.Errorf("result of tool %q names no call", m.Name)
		}
		return nil
	}
	return fmt.Errorf("role %q: want user, assistant or tool", textutil.Truncate(m.Role, 60))
}

type model interface {
	answer(ctx context.Context, call *Call) (*wire.Answer, error)
}

// generate makes one call of a model, checks the answer, and never repeats the call.
//
// Its errors are [contract.Failure]s, or ctx's own. A filtered or refused answer fails as refused, with its
// usage.
func generate(ctx context.Context, m model, call *Call) (*Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	call, err := call.prepared()
	if err != nil {
		return nil, err
	}
	a, err := m.answer(ctx, call)
	// First, even without an error: a stream that the context cut can look like success.
	var late *ended
	switch {
	case errors.As(err, &late):
		return nil, late
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
		why = fmt.Sprintf("the answer ended with %q, without text or calls of tools", a.Stop)
	case a.Stop == "stop" && len(a.Message.Calls) > 0:
		a.Stop = "tool_calls"
	}
	if why != "" {
		f := failf(contract.ClassRefused, remedies[contract.ClassRefused], "model %q: %s", a.Model, why)
		return nil, contract.Spent(f, a.Usage) // it is charged like any answer
	}
	fillIDs(a.Message.Calls, call.Messages)
	return &Answer{Answer: *a}, nil
}

// fillIDs gives every call an id that is unique in the conversation: servers leave it empty or count from 0.
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
