package llm

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// oci is the chat of Oracle's Generative AI service in its GENERIC format: all models there
// but Cohere's, see [ociCohere]. Requests are signed, see [signer].
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

type ociRequest struct {
	Format        string       `json:"apiFormat"`
	Messages      []ociMessage `json:"messages"`
	Tools         []ociTool    `json:"tools,omitempty"`
	Choice        *ociChoice   `json:"toolChoice,omitempty"`
	Parallel      *bool        `json:"isParallelToolCalls,omitempty"`
	Response      *ociFormat   `json:"responseFormat,omitempty"`
	Temperature   *float64     `json:"temperature,omitempty"`
	TopP          *float64     `json:"topP,omitempty"`
	TopK          int          `json:"topK,omitempty"`
	Frequency     float64      `json:"frequencyPenalty,omitempty"`
	Presence      float64      `json:"presencePenalty,omitempty"`
	Stop          []string     `json:"stop,omitempty"`
	Seed          *int         `json:"seed,omitempty"`
	MaxTokens     int          `json:"maxTokens,omitempty"`
	MaxCompletion int          `json:"maxCompletionTokens,omitempty"`
	Effort        string       `json:"reasoningEffort,omitempty"`
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
	ToolCalls  []ociCall    `json:"toolCalls,omitempty"`
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
	Type   string     `json:"type"`
	Schema *ociSchema `json:"jsonSchema,omitempty"`
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
	q := ociRequest{
		Format: "GENERIC", Stream: !c.unary, Stop: o.StopWords, TopK: o.TopK, Frequency: o.FrequencyPenalty, Presence: o.PresencePenalty,
		Effort: strings.ToUpper(call.Effort),
	}
	if q.Stream {
		q.Options = &ociOptions{IncludeUsage: true}
	}
	for i := range in {
		list, err := c.messages(&in[i])
		if err != nil {
			return nil, c.unsendable("message %d: %v", i+1, err)
		}
		q.Messages = append(q.Messages, list...)
	}
	if strings.HasPrefix(model, "google.") {
		q.Messages = paired(q.Messages)
	}
	if err := c.setTools(&q, call, o); err != nil {
		return nil, err
	}
	c.setSampling(&q, o, model)
	if err := c.setFormat(&q, call, o); err != nil {
		return nil, err
	}
	// Further parameters belong to the chat's request, not to what surrounds it.
	inner, err := c.marshal(&q, call.Extra)
	if err != nil {
		return nil, err
	}
	return c.wrapped(model, inner, q.Stream)
}

// wrapped says which model a request is for, and whom it is charged to.
func (c oci) wrapped(model string, inner json.RawMessage, stream bool) (*outgoing, error) {
	b := ociBody{Compartment: c.compartment, Serving: ociServing{Type: "ON_DEMAND", Model: model}, Request: inner}
	if strings.HasPrefix(model, ociEndpoint) {
		b.Serving = ociServing{Type: "DEDICATED", Endpoint: model}
	}
	raw, err := c.marshal(&b, nil)
	return &outgoing{path: "/20231130/actions/chat", body: raw, stream: stream}, err
}

func (c oci) setTools(q *ociRequest, call *Call, o *llms.CallOptions) error {
	for _, t := range o.Tools {
		schema, err := c.schemaOf(&t)
		if err != nil {
			return err
		}
		q.Tools = append(q.Tools, ociTool{"FUNCTION", t.Function.Name, t.Function.Description, schema})
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

func (c oci) setSampling(q *ociRequest, o *llms.CallOptions, model string) {
	refuses := c.noSampling(model)
	if o.Temperature >= 0 && !refuses {
		q.Temperature = &o.Temperature
	}
	if o.TopP >= 0 && !refuses {
		q.TopP = &o.TopP
	}
	if o.Seed >= 0 {
		q.Seed = &o.Seed
	}
	if strings.HasPrefix(model, "openai.") {
		q.MaxCompletion = o.MaxTokens
	} else {
		q.MaxTokens = o.MaxTokens
	}
}

func (c oci) setFormat(q *ociRequest, call *Call, o *llms.CallOptions) error {
	if len(q.Tools) > 0 && (q.Choice == nil || q.Choice.Type != "NONE") {
		return nil
	}
	switch {
	case len(call.Schema) > 0 && !json.Valid(call.Schema):
		return c.unsendable("the schema of the answer is no JSON")
	case len(call.Schema) > 0:
		q.Response = &ociFormat{Type: "JSON_SCHEMA", Schema: &ociSchema{Name: "answer", Schema: call.Schema}}
	case call.JSON || o.JSONMode:
		q.Response = &ociFormat{Type: "JSON_OBJECT"}
	}
	return nil
}

func ociText(s string) []ociContent { return []ociContent{{Type: "TEXT", Text: &s}} }

// messages turns one message into the service's: several results become several messages.
func (c oci) messages(mc *llms.MessageContent) ([]ociMessage, error) {
	role, ok := roles[mc.Role]
	if !ok {
		return nil, fmt.Errorf("role %q is not supported", mc.Role)
	}
	m := ociMessage{Role: strings.ToUpper(role)}
	var results []ociMessage
	for _, part := range mc.Parts {
		switch p := part.(type) {
		case llms.TextContent:
			if p.Text != "" {
				m.Content = append(m.Content, ociText(p.Text)...)
			}
		case llms.ImageURLContent:
			m.Content = append(m.Content, ociContent{Type: "IMAGE", Image: &ociImage{p.URL}})
		case llms.BinaryContent:
			url := "data:" + p.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(p.Data)
			m.Content = append(m.Content, ociContent{Type: "IMAGE", Image: &ociImage{url}})
		case ReasoningPart:
			if c.ownState(p.Provider) != nil {
				m.Reasoning = p.Reasoning
			}
		case llms.ToolCall:
			if p.FunctionCall == nil {
				return nil, fmt.Errorf("tool call %q has no function", p.ID)
			}
			m.ToolCalls = append(m.ToolCalls, ociCall{"FUNCTION", c.callID(p.ID), p.FunctionCall.Name, objectArguments(p.FunctionCall.Arguments)})
		case llms.ToolCallResponse:
			results = append(results, c.result(&p))
		case FailedResult:
			results = append(results, c.result(&p.ToolCallResponse))
		default:
			return nil, fmt.Errorf("content of type %T is not supported", part)
		}
	}
	if role == "tool" {
		return results, nil
	}
	return append(results, m.filled()), nil
}

// filled is the message with some content: the service fails without any.
func (m ociMessage) filled() ociMessage {
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

// paired puts each result behind its own call: Google's models at OCI want one at a time.
func paired(in []ociMessage) []ociMessage {
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
