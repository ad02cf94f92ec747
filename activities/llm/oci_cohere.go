package llm

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// Cohere's models at Oracle's service speak a format of their own: Cohere's second API in Oracle's
// names. A model's name tells it; where it is an OCID, as those of dedicated clusters are, the
// author does, by a prefix.
const (
	ociCohereName   = "cohere."
	ociCoherePrefix = "cohere/"
)

// ociCohere is a model of Cohere's.
type ociCohere struct{ oci }

type ociCohereRequest struct {
	Format      string             `json:"apiFormat"`
	Messages    []ociCohereMessage `json:"messages"`
	Tools       []ociCohereTool    `json:"tools,omitempty"`
	Choice      string             `json:"toolsChoice,omitempty"`
	Response    *ociCohereFormat   `json:"responseFormat,omitempty"`
	Thinking    *ociCohereThinking `json:"thinking,omitempty"`
	Temperature *float64           `json:"temperature,omitempty"`
	TopP        *float64           `json:"topP,omitempty"`
	TopK        int                `json:"topK,omitempty"`
	Frequency   float64            `json:"frequencyPenalty,omitempty"`
	Presence    float64            `json:"presencePenalty,omitempty"`
	Stop        []string           `json:"stopSequences,omitempty"`
	Seed        *int               `json:"seed,omitempty"`
	MaxTokens   int                `json:"maxTokens,omitempty"`
	Stream      bool               `json:"isStream"`
	Options     *ociOptions        `json:"streamOptions,omitempty"`
}

type ociCohereMessage struct {
	Role       string          `json:"role"`
	Content    []ociContent    `json:"content"`
	ToolCalls  []ociCohereCall `json:"toolCalls,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
}

type ociCohereCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type ociCohereTool struct {
	Type     string         `json:"type"`
	Function chatDefinition `json:"function"`
}

type ociCohereFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

type ociCohereThinking struct {
	Type   string `json:"type"`
	Budget int    `json:"tokenBudget,omitempty"`
}

func (c ociCohere) reader(x *exchange) reader {
	return &ociReader{chatDraft: chatDraft{draft: draft{x: x}}, repeats: true}
}

func (c ociCohere) encode(call *Call, in []llms.MessageContent, o *llms.CallOptions) (*outgoing, error) {
	q := ociCohereRequest{Format: "COHEREV2", Stop: o.StopWords, TopK: o.TopK, Frequency: o.FrequencyPenalty, Presence: o.PresencePenalty, MaxTokens: o.MaxTokens}
	if call.Parallel != nil {
		return nil, c.unsendable("Cohere's models at OCI take no parallel_tool_calls; leave it out, or choose another model")
	}
	for i := range in {
		list, err := c.messages(&in[i])
		if err != nil {
			return nil, c.unsendable("message %d: %v", i+1, err)
		}
		for _, m := range list {
			q.Messages = append(q.Messages, cohereMessage(m))
		}
	}
	if err := c.setTools(&q, o); err != nil {
		return nil, err
	}
	if o.Temperature >= 0 {
		q.Temperature = &o.Temperature
	}
	if o.TopP >= 0 {
		q.TopP = &o.TopP
	}
	if o.Seed >= 0 {
		q.Seed = &o.Seed
	}
	if err := c.setThinking(&q, call.Effort); err != nil {
		return nil, err
	}
	if err := c.setFormat(&q, call, o); err != nil {
		return nil, err
	}
	// How a stream has the pieces of a call is not documented.
	if q.Stream = !c.unary && len(q.Tools) == 0; q.Stream {
		q.Options = &ociOptions{IncludeUsage: true}
	}
	inner, err := c.marshal(&q, call.Extra)
	if err != nil {
		return nil, err
	}
	return c.wrapped(strings.TrimPrefix(cmp.Or(o.Model, c.model), ociCoherePrefix), inner, q.Stream)
}

// cohereMessage is a message in Cohere's form.
func cohereMessage(m ociMessage) ociCohereMessage {
	out := ociCohereMessage{Role: m.Role, ToolCallID: m.ToolCallID}
	if m.Reasoning != "" {
		out.Content = []ociContent{{Type: "THINKING", Thinking: m.Reasoning}}
	}
	for _, part := range m.Content {
		if part.Image != nil {
			part.Type = "IMAGE_URL"
		}
		out.Content = append(out.Content, part)
	}
	for _, call := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, ociCohereCall{call.ID, call.Type, chatFunction{call.Name, call.Arguments}})
	}
	return out
}

// setTools lists the tools. One that must be called is the only one that is offered: the service
// knows no other way to name it.
func (c ociCohere) setTools(q *ociCohereRequest, o *llms.CallOptions) error {
	want, err := c.choiceOf(o.ToolChoice)
	if err != nil {
		return err
	}
	for _, t := range o.Tools {
		schema, err := c.schemaOf(&t)
		if err != nil {
			return err
		}
		if want.tool == "" || want.tool == t.Function.Name {
			q.Tools = append(q.Tools, ociCohereTool{"FUNCTION", chatDefinition{t.Function.Name, t.Function.Description, schema}})
		}
	}
	switch {
	case len(q.Tools) == 0:
	case want.tool != "", want.mode == choiceRequired:
		q.Choice = "REQUIRED"
	case want.mode == choiceNone:
		q.Choice = "NONE"
	}
	return nil
}

// setThinking says how much to think. A budget has to leave room for the answer.
func (c ociCohere) setThinking(q *ociCohereRequest, effort string) error {
	if effort == "" {
		return nil
	}
	budget, known := geminiBudgets[effort]
	switch {
	case !known:
		return c.unsendable("reasoning_effort is %q, want none, minimal, low, medium, high, xhigh or max", effort)
	case budget == 0:
		q.Thinking = &ociCohereThinking{Type: "DISABLED"}
		return nil
	}
	if q.MaxTokens > 0 {
		budget = min(budget, max(1, q.MaxTokens/2))
	}
	q.Thinking = &ociCohereThinking{Type: "ENABLED", Budget: budget}
	return nil
}

func (c ociCohere) setFormat(q *ociCohereRequest, call *Call, o *llms.CallOptions) error {
	if len(q.Tools) > 0 {
		return nil
	}
	switch {
	case len(call.Schema) > 0 && !json.Valid(call.Schema):
		return c.unsendable("the schema of the answer is no JSON")
	case len(call.Schema) > 0 && asksObject(call.Schema):
		q.Response = &ociCohereFormat{Type: "JSON_OBJECT", Schema: call.Schema}
	case len(call.Schema) == 0 && (call.JSON || o.JSONMode):
		q.Response = &ociCohereFormat{Type: "JSON_OBJECT"}
	}
	return nil
}
