package llm

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// oci is the chat of Oracle's Generative AI service in its GENERIC format: all models but Cohere's, see
// [ociCohere].
type oci struct{ *remote }

type ociBody struct {
	Compartment string          `json:"compartmentId"`
	Serving     ociServing      `json:"servingMode"`
	Request     json.RawMessage `json:"chatRequest"`
}

type ociServing struct {
	Type     string `json:"servingType"`
	Model    string `json:"modelId,omitempty"`
	Endpoint string `json:"endpointId,omitempty"`
}

// ociRequest is a request of either format. Fields of one format alone are marked with it.
type ociRequest struct {
	Format        string       `json:"apiFormat"`
	Messages      []ociMessage `json:"messages"`
	Tools         []any        `json:"tools,omitempty"`
	Choice        *ociChoice   `json:"toolChoice,omitempty"` // GENERIC
	CohereChoice  string       `json:"toolsChoice,omitempty"`
	Parallel      *bool        `json:"isParallelToolCalls,omitempty"` // GENERIC
	Response      *ociFormat   `json:"responseFormat,omitempty"`
	Thinking      *ociThinking `json:"thinking,omitempty"` // COHEREV2
	Temperature   *float64     `json:"temperature,omitempty"`
	TopP          *float64     `json:"topP,omitempty"`
	TopK          int          `json:"topK,omitempty"`
	Frequency     float64      `json:"frequencyPenalty,omitempty"`
	Presence      float64      `json:"presencePenalty,omitempty"`
	Stop          []string     `json:"stop,omitempty"` // GENERIC
	CohereStop    []string     `json:"stopSequences,omitempty"`
	Seed          *int         `json:"seed,omitempty"`
	MaxTokens     int          `json:"maxTokens,omitempty"`
	MaxCompletion int          `json:"maxCompletionTokens,omitempty"` // GENERIC
	Effort        string       `json:"reasoningEffort,omitempty"`     // GENERIC
	Stream        bool         `json:"isStream"`
	Options       *ociOptions  `json:"streamOptions,omitempty"`
}

type ociOptions struct {
	IncludeUsage bool `json:"isIncludeUsage"`
}

type ociMessage struct {
	Role       string       `json:"role"`
	Content    []ociContent `json:"content"`
	Reasoning  string       `json:"reasoningContent,omitempty"`
	ToolCalls  []any        `json:"toolCalls,omitempty"` // ociCall, or ociCohereCall
	ToolCallID string       `json:"toolCallId,omitempty"`
}

type ociContent struct {
	Type     string    `json:"type"`
	Text     *string   `json:"text,omitempty"`
	Image    *ociImage `json:"imageUrl,omitempty"`
	Thinking string    `json:"thinking,omitempty"`
}

type ociImage struct {
	URL string `json:"url"`
}

type ociCall struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type ociTool struct {
	Type        string `json:"type"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Parameters  any    `json:"parameters"`
}

type ociChoice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

type ociFormat struct {
	Type   string          `json:"type"`
	Schema *ociSchema      `json:"jsonSchema,omitempty"` // GENERIC
	Cohere json.RawMessage `json:"schema,omitempty"`     // COHEREV2
}

type ociSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"isStrict"`
}

// ociEndpoint begins the id of an endpoint of a dedicated cluster.
const ociEndpoint = "ocid1.generativeaiendpoint."

func (c oci) authorize(req *http.Request, _ []byte) error { return c.signer.sign(c.remote, req) }

func (c oci) encode(call *Call, in []llms.MessageContent, o *llms.CallOptions) (*outgoing, error) {
	model := cmp.Or(o.Model, c.model)
	q := c.request("GENERIC", in, o)
	q.Stop, q.Effort = o.StopWords, strings.ToUpper(call.Effort)
	if strings.HasPrefix(model, "google.") {
		q.Messages = pairResults(q.Messages)
	}
	if err := c.setTools(q, call, o); err != nil {
		return nil, err
	}
	if c.noSampling(model) {
		q.Temperature, q.TopP = nil, nil
	}
	if strings.HasPrefix(model, "openai.") {
		q.MaxTokens, q.MaxCompletion = 0, o.MaxTokens
	}
	c.setFormat(q, call, o)
	q.Stream = !c.unary
	return c.send(q, model, call.Extra)
}

// request is what the requests of both formats have in common.
func (c oci) request(format string, in []llms.MessageContent, o *llms.CallOptions) *ociRequest {
	q := &ociRequest{Format: format, Temperature: optional(o.Temperature), TopP: optional(o.TopP), TopK: o.TopK,
		Frequency: o.FrequencyPenalty, Presence: o.PresencePenalty, Seed: optional(o.Seed), MaxTokens: o.MaxTokens}
	for i := range in {
		q.Messages = append(q.Messages, c.messages(&in[i])...)
	}
	return q
}

// send adds the model and the compartment that is charged. Extra parameters belong to the inner request.
func (c oci) send(q *ociRequest, model string, extra json.RawMessage) (*outgoing, error) {
	if q.Stream {
		q.Options = &ociOptions{IncludeUsage: true}
	}
	inner, err := c.marshal(q, extra)
	if err != nil {
		return nil, err
	}
	b := ociBody{Compartment: c.compartment, Serving: ociServing{Type: "ON_DEMAND", Model: model}, Request: inner}
	if strings.HasPrefix(model, ociEndpoint) {
		b.Serving = ociServing{Type: "DEDICATED", Endpoint: model}
	}
	raw, err := c.marshal(&b, nil)
	return &outgoing{path: "/20231130/actions/chat", body: raw, stream: q.Stream}, err
}

func (c oci) setTools(q *ociRequest, call *Call, o *llms.CallOptions) (err error) {
	q.Tools, err = encodeTools(c.remote, o.Tools, func(f *llms.FunctionDefinition, schema any) any {
		return ociTool{"FUNCTION", f.Name, f.Description, schema}
	})
	if err != nil {
		return err
	}
	want, err := c.choiceOf(o.ToolChoice)
	if err != nil || len(q.Tools) == 0 {
		return err
	}
	q.Parallel = call.Parallel
	if want.tool != "" {
		q.Choice = &ociChoice{"FUNCTION", want.tool}
	} else if want.mode != "" {
		q.Choice = &ociChoice{Type: strings.ToUpper(want.mode)}
	}
	return nil
}

func (c oci) setFormat(q *ociRequest, call *Call, o *llms.CallOptions) {
	switch {
	case len(q.Tools) > 0 && (q.Choice == nil || q.Choice.Type != "NONE"):
	case len(call.Schema) > 0:
		q.Response = &ociFormat{Type: "JSON_SCHEMA", Schema: &ociSchema{Name: "answer", Schema: call.Schema}}
	case call.JSON || o.JSONMode:
		q.Response = &ociFormat{Type: "JSON_OBJECT"}
	}
}

func ociText(s string) []ociContent { return []ociContent{{Type: "TEXT", Text: &s}} }

// messages turns one message into the service's: several results become several messages.
func (c oci) messages(mc *llms.MessageContent) []ociMessage {
	m := ociMessage{Role: strings.ToUpper(roles[mc.Role])}
	var results []ociMessage
	for _, part := range mc.Parts {
		switch p := part.(type) {
		case llms.TextContent:
			if p.Text != "" {
				m.Content = append(m.Content, ociText(p.Text)...)
			}
		case llms.ImageURLContent, llms.BinaryContent:
			url, _ := imageURL(part)
			m.Content = append(m.Content, ociContent{Type: "IMAGE", Image: &ociImage{url}})
		case ReasoningPart:
			if c.ownState(p.Provider) != nil {
				m.Reasoning = p.Reasoning
			}
		case llms.ToolCall:
			m.ToolCalls = append(m.ToolCalls, ociCall{"FUNCTION", c.callID(p.ID), p.FunctionCall.Name, objectArguments(p.FunctionCall.Arguments)})
		case llms.ToolCallResponse, FailedResult:
			result, _ := resultOf(part)
			results = append(results, c.result(result))
		}
	}
	if mc.Role == llms.ChatMessageTypeTool {
		return results
	}
	return append(results, m.withContent())
}

// withContent is the message with some content: the service fails without any.
func (m ociMessage) withContent() ociMessage {
	switch {
	case len(m.Content) > 0:
	case m.Role == "ASSISTANT":
		m.Content = ociText(".")
	default:
		m.Content = ociText(emptyText)
	}
	return m
}

func (c oci) result(p *llms.ToolCallResponse) ociMessage {
	return ociMessage{Role: "TOOL", Content: ociText(p.Content), ToolCallID: c.callID(p.ToolCallID)}
}

// pairResults puts each result behind its own call: Google's models at OCI want one at a time.
func pairResults(in []ociMessage) []ociMessage {
	var out []ociMessage
	for i := 0; i < len(in); i++ {
		calls := in[i].ToolCalls
		if len(calls) < 2 || i+len(calls) >= len(in) {
			out = append(out, in[i])
			continue
		}
		for j := range calls {
			m := in[i]
			if j > 0 {
				m = ociMessage{Role: m.Role, Content: ociText(".")}
			}
			m.ToolCalls = calls[j : j+1]
			out = append(out, m, in[i+1+j])
		}
		i += len(calls)
	}
	return out
}
