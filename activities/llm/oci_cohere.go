package llm

import (
	"cmp"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// Cohere's models at Oracle's service have a format of their own. The model's name tells it; for an OCID the
// author adds a prefix.
const (
	ociCohereName   = "cohere."
	ociCoherePrefix = "cohere/"
)

// ociCohere is a model of Cohere's.
type ociCohere struct{ oci }

type ociCohereCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type ociThinking struct {
	Type   string `json:"type"`
	Budget int    `json:"tokenBudget,omitempty"`
}

func (c ociCohere) reader(x *exchange) reader {
	return &ociReader{chatDraft: chatDraft{draft: draft{x: x}}, repeats: true}
}

func (c ociCohere) encode(call *Call, in []llms.MessageContent, o *llms.CallOptions) (*outgoing, error) {
	if call.Parallel != nil {
		return nil, c.unsendable("Cohere's models at OCI take no parallel_tool_calls; leave it out, or choose another model")
	}
	q := c.request("COHEREV2", in, o)
	for i := range q.Messages {
		q.Messages[i].toCohere()
	}
	q.CohereStop = o.StopWords
	if err := c.setTools(q, o); err != nil {
		return nil, err
	}
	if err := c.setThinking(q, call.Effort); err != nil {
		return nil, err
	}
	c.setFormat(q, call, o)
	// How a stream has the pieces of a call is not documented.
	q.Stream = !c.unary && len(q.Tools) == 0
	return c.send(q, strings.TrimPrefix(cmp.Or(o.Model, c.model), ociCoherePrefix), call.Extra)
}

// toCohere turns a message into Cohere's format.
func (m *ociMessage) toCohere() {
	for i := range m.Content {
		if m.Content[i].Image != nil {
			m.Content[i].Type = "IMAGE_URL"
		}
	}
	if m.Reasoning != "" {
		m.Content = append([]ociContent{{Type: "THINKING", Thinking: m.Reasoning}}, m.Content...)
		m.Reasoning = ""
	}
	for i, call := range m.ToolCalls {
		if c, ok := call.(ociCall); ok {
			m.ToolCalls[i] = ociCohereCall{c.ID, c.Type, chatFunction{c.Name, c.Arguments}}
		}
	}
}

// setTools lists the tools. A tool that must be called is the only one sent: the service cannot name it.
func (c ociCohere) setTools(q *ociRequest, o *llms.CallOptions) error {
	want, err := c.choiceOf(o.ToolChoice)
	if err != nil {
		return err
	}
	all, err := encodeTools(c.remote, o.Tools, func(f *llms.FunctionDefinition, schema any) chatTool {
		return chatTool{"FUNCTION", chatDefinition{f.Name, f.Description, schema}}
	})
	for _, t := range all {
		if want.tool == "" || want.tool == t.Function.Name {
			q.Tools = append(q.Tools, t)
		}
	}
	switch {
	case len(q.Tools) == 0:
	case want.tool != "", want.mode == choiceRequired:
		q.CohereChoice = "REQUIRED"
	case want.mode == choiceNone:
		q.CohereChoice = "NONE"
	}
	return err
}

// setThinking sets how much to think. A budget has to leave room for the answer.
func (c ociCohere) setThinking(q *ociRequest, effort string) error {
	if effort == "" {
		return nil
	}
	budget, err := c.budget(geminiBudgets, effort)
	if budget == 0 {
		q.Thinking = &ociThinking{Type: "DISABLED"}
		return err
	}
	if q.MaxTokens > 0 {
		budget = min(budget, max(1, q.MaxTokens/2))
	}
	q.Thinking = &ociThinking{Type: "ENABLED", Budget: budget}
	return nil
}

func (c ociCohere) setFormat(q *ociRequest, call *Call, o *llms.CallOptions) {
	if len(q.Tools) == 0 && wantsObject(call, o) {
		q.Response = &ociFormat{Type: "JSON_OBJECT", Cohere: call.Schema}
	}
}
