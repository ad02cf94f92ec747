package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// Keys of langchaingo's GenerationInfo that this package's models set.
const (
	infoModel    = "Model"
	infoRefusal  = "Refusal"
	infoProvider = "Provider"
	// infoUsage holds a [contract.Usage].
	infoUsage = "Usage"
)

// Answer is a model's whole answer.
type Answer struct {
	// Message is the assistant's; ids of its calls are unique in the conversation.
	Message contract.Message
	// Stop is stop, length or tool_calls; another word is the provider's own.
	Stop string
	// Model is provider/model as the provider names it, "script" for scripted answers.
	Model string
	// Usage counts one call.
	Usage contract.Usage
	// Fallbacks are the models that were asked before, see [Models.Ask].
	Fallbacks []contract.Fallback
}

// Generate makes one call of a model, normalises the answer, and never repeats the call.
//
// Its errors are [contract.Failure]s, or ctx's own. A filtered or refused answer fails as refused, with its
// usage; one without a stop reason as unavailable.
func Generate(ctx context.Context, m llms.Model, in []llms.MessageContent, tools []llms.Tool, opts ...llms.CallOption) (*Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(tools) > 0 {
		opts = append([]llms.CallOption{llms.WithTools(tools)}, opts...)
	}
	resp, err := m.GenerateContent(ctx, in, opts...)
	// First, even without an error: a stream that the context cut can look like success.
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, contract.FailureOf(err)
	}
	a, err := merge(resp)
	if err != nil {
		return nil, err
	}
	fillIDs(a.Message.Calls, in)
	return a, nil
}

// merge joins the choices: some implementations return one per block of content.
func merge(resp *llms.ContentResponse) (*Answer, error) {
	a := &Answer{Message: contract.Message{Role: contract.RoleAssistant}, Usage: contract.Usage{Calls: 1}}
	var text, reasoning, refusal strings.Builder
	counted := false
	for _, c := range choicesOf(resp) {
		text.WriteString(c.Content)
		reasoning.WriteString(c.ReasoningContent)
		refusal.WriteString(infoText(c.GenerationInfo, infoRefusal))
		a.Stop = cmp.Or(c.StopReason, a.Stop)
		a.Model = cmp.Or(infoText(c.GenerationInfo, infoModel), a.Model)
		if raw, ok := c.GenerationInfo[infoProvider].(json.RawMessage); ok {
			a.Message.Provider = raw
		}
		// The same usage is repeated in each choice.
		if !counted {
			counted = count(&a.Usage, c.GenerationInfo)
		}
		if err := addCalls(&a.Message, c.ToolCalls); err != nil {
			return nil, err
		}
	}
	a.Message.Text, a.Message.Reasoning = text.String(), reasoning.String()
	if err := check(a, refusal.String()); err != nil {
		if f := contract.FailureOf(err); f.Class == contract.ClassRefused {
			return nil, contract.Spent(f, a.Usage) // it is charged like any answer
		}
		return nil, err
	}
	return a, nil
}

// choicesOf are an answer's choices, without holes.
func choicesOf(resp *llms.ContentResponse) []*llms.ContentChoice {
	if resp == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(resp.Choices), func(c *llms.ContentChoice) bool { return c == nil })
}

// check refuses answers that are none, and settles the stop reason.
func check(a *Answer, refusal string) error {
	who := ""
	if a.Model != "" {
		who = fmt.Sprintf("model %q: ", a.Model)
	}
	remedy := "change what the model is asked, or choose another model"
	switch {
	case refusal != "":
		return failf(contract.ClassRefused, remedy, "%sthe model refused: %s", who, textutil.Truncate(refusal, maxQuoted))
	case a.Stop == "":
		return failf(contract.ClassUnavailable, "", "%sthe answer is empty or has no stop reason: it was cut", who)
	case a.Stop == "content_filter":
		return failf(contract.ClassRefused, remedy, "%sthe provider filtered the answer after %d bytes", who, len(a.Message.Text))
	case a.Stop == "stop" && len(a.Message.Calls) > 0:
		a.Stop = "tool_calls"
	}
	return nil
}

func addCalls(m *contract.Message, calls []llms.ToolCall) error {
	for _, c := range calls {
		if c.FunctionCall == nil || c.FunctionCall.Name == "" {
			return failf(contract.ClassUnavailable, "", "tool call %q of the answer has no name", textutil.Truncate(c.ID, 100))
		}
		m.Calls = append(m.Calls, contract.ToolCall{ID: c.ID, Name: c.FunctionCall.Name, Arguments: c.FunctionCall.Arguments})
	}
	return nil
}

// fillIDs gives every call an id that is unique in the conversation: servers leave it empty or count from 0.
func fillIDs(calls []contract.ToolCall, in []llms.MessageContent) {
	used := map[string]bool{}
	for _, mc := range in {
		for _, p := range mc.Parts {
			if c, ok := p.(llms.ToolCall); ok {
				used[c.ID] = true
			}
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

// count reads usage under the names that implementations use. It reports whether it found any.
func count(u *contract.Usage, info map[string]any) bool {
	if own, ok := info[infoUsage].(contract.Usage); ok {
		own.Calls = u.Calls
		*u = own
		return true
	}
	found := false
	number := func(keys ...string) int {
		for _, k := range keys {
			if n, ok := integer(info[k]); ok {
				found = true
				return n
			}
		}
		return 0
	}
	u.Input = number("PromptTokens", "InputTokens", "input_tokens", "prompt_tokens")
	u.Output = number("CompletionTokens", "OutputTokens", "output_tokens", "completion_tokens")
	u.Cached = number("PromptCachedTokens", "CacheReadInputTokens", "CachedTokens", "cached_tokens")
	u.CacheWrite = number("CacheCreationInputTokens")
	u.Reasoning = number("ReasoningTokens", "ThinkingTokens", "reasoning_tokens")
	return found
}

// integer reads a count of tokens from any of Go's numbers.
func integer(v any) (int, bool) {
	var n int64
	switch v := v.(type) {
	case int:
		n = int64(v)
	case int32:
		n = int64(v)
	case int64:
		n = v
	case float64:
		if math.IsNaN(v) || math.Abs(v) > math.MaxInt32 {
			return 0, false
		}
		n = int64(v)
	default:
		return 0, false
	}
	return int(min(max(0, n), math.MaxInt32)), true
}

// infoText reads a text from langchaingo's GenerationInfo.
func infoText(info map[string]any, key string) string {
	s, _ := info[key].(string)
	return s
}

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
