package llm

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// compatible is OpenAI's chat completions protocol, with the differences of its provider's row.
type compatible struct{ *remote }

func (c compatible) authorize(req *http.Request, _ []byte) error {
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	return nil
}

// body is a request. Its fields are ordered, so that equal conversations begin with equal bytes, which
// providers cache.
type body struct {
	Model          string             `json:"model"`
	Messages       []chatMessage      `json:"messages"`
	Tools          []chatTool         `json:"tools,omitempty"`
	ToolChoice     any                `json:"tool_choice,omitempty"`
	ResponseFormat *chatFormat        `json:"response_format,omitempty"`
	Temperature    *float64           `json:"temperature,omitempty"`
	TopP           *float64           `json:"top_p,omitempty"`
	TopK           int                `json:"top_k,omitempty"`
	Frequency      float64            `json:"frequency_penalty,omitempty"`
	Presence       float64            `json:"presence_penalty,omitempty"`
	Effort         string             `json:"reasoning_effort,omitempty"`
	Reasoning      *effort            `json:"reasoning,omitempty"`
	Parallel       *bool              `json:"parallel_tool_calls,omitempty"`
	Stop           []string           `json:"stop,omitempty"`
	Seed           *int               `json:"seed,omitempty"`
	RandomSeed     *int               `json:"random_seed,omitempty"`
	MaxTokens      int                `json:"max_tokens,omitempty"`
	MaxCompletion  int                `json:"max_completion_tokens,omitempty"`
	Stream         bool               `json:"stream,omitempty"`
	StreamOptions  *chatStreamOptions `json:"stream_options,omitempty"`
	Cache          *cacheMark         `json:"cache_control,omitempty"`
}

type effort struct {
	Effort string `json:"effort"`
}

type chatStreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatFormat struct {
	Type   string      `json:"type"`
	Schema *chatSchema `json:"json_schema,omitempty"`
}

type chatSchema struct {
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

// chatMessage is a message. Content is a string, a list of parts, or null beside tool calls.
type chatMessage struct {
	Role             string          `json:"role"`
	Content          any             `json:"content"`
	Name             string          `json:"name,omitempty"`
	ReasoningContent string          `json:"reasoning_content,omitempty"`
	Reasoning        string          `json:"reasoning,omitempty"`
	ReasoningDetails json.RawMessage `json:"reasoning_details,omitempty"`
	ToolCalls        []chatCall      `json:"tool_calls,omitempty"`
	ToolCallID       string          `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Function chatFunction    `json:"function"`
	Extra    json.RawMessage `json:"extra_content,omitempty"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatTool struct {
	Type     string         `json:"type"`
	Function chatDefinition `json:"function"`
}

type chatDefinition struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Parameters  any    `json:"parameters"`
}

// encode gives a request. A conversation or a schema that cannot be sent is a bad_request.
func (c compatible) encode(call *Call, in []llms.MessageContent, o *llms.CallOptions) (*outgoing, error) {
	b := body{Model: cmp.Or(o.Model, c.model), ToolChoice: o.ToolChoice, Stop: o.StopWords}
	for i := range in {
		b.Messages = append(b.Messages, c.bridge(b.Messages, c.messages(&in[i]))...)
	}
	if err := c.setTools(&b, o.Tools); err != nil {
		return nil, err
	}
	c.setSampling(&b, o)
	c.setEffort(&b, call)
	c.setFormat(&b, call, o)
	b.Stream = !c.unary && !(c.row.UnaryTools && len(b.Tools) > 0)
	if b.Stream && c.row.StreamUsage {
		b.StreamOptions = &chatStreamOptions{IncludeUsage: true}
	}
	if c.row.CacheMark != "" && strings.HasPrefix(b.Model, c.row.CacheMark) && c.cachesPrompt(call) {
		// The server applies one mark to the last message, and finds what an earlier request stored.
		b.Cache = &cacheMark{Type: "ephemeral"}
	}
	raw, err := c.marshal(&b, call.Extra)
	return &outgoing{path: "/chat/completions", body: raw, stream: b.Stream}, err
}

// bridge inserts an assistant's message between results and a user's message, where the server requires it.
func (c compatible) bridge(before, next []chatMessage) []chatMessage {
	n := len(before)
	if !c.row.BridgeResults || n == 0 || len(next) == 0 || before[n-1].Role != "tool" || next[0].Role != "user" {
		return next
	}
	return append([]chatMessage{{Role: "assistant", Content: "I have the results."}}, next...)
}

// setEffort says how much to think, and whether several tools may be called at once.
func (c compatible) setEffort(b *body, call *Call) {
	if c.row.EffortObject && call.Effort != "" {
		b.Reasoning = &effort{call.Effort}
	} else {
		b.Effort = call.Effort
	}
	if len(b.Tools) > 0 {
		b.Parallel = call.Parallel
	}
}

// setTools lists the tools. Where tool_choice is not obeyed, "none" leaves them out.
func (c compatible) setTools(b *body, tools []llms.Tool) (err error) {
	if !c.row.ToolChoice && b.ToolChoice == choiceNone {
		tools = nil
	}
	b.Tools, err = encodeTools(c.remote, tools, func(f *llms.FunctionDefinition, schema any) chatTool {
		return chatTool{"function", chatDefinition{f.Name, f.Description, schema}}
	})
	if len(b.Tools) == 0 || !c.row.ToolChoice {
		b.ToolChoice = nil
	}
	return err
}

// setSampling sends what was set. Zero is a value; the sentinels say unset.
func (c compatible) setSampling(b *body, o *llms.CallOptions) {
	if !c.noSampling(b.Model) {
		b.Temperature, b.TopP = optional(o.Temperature), optional(o.TopP)
	}
	b.TopK, b.Frequency, b.Presence = o.TopK, o.FrequencyPenalty, o.PresencePenalty
	if c.row.RandomSeed {
		b.RandomSeed = optional(o.Seed)
	} else {
		b.Seed = optional(o.Seed)
	}
	if c.row.MaxCompletion {
		b.MaxCompletion = o.MaxTokens
	} else {
		b.MaxTokens = o.MaxTokens
	}
}

// noSampling reports whether the model refuses sampling parameters.
func (c *remote) noSampling(model string) bool {
	return slices.ContainsFunc(c.row.NoSampling, func(prefix string) bool { return strings.HasPrefix(model, prefix) })
}

// setFormat asks for JSON where the row supports it, and where tools do not forbid it.
func (c compatible) setFormat(b *body, call *Call, o *llms.CallOptions) {
	switch {
	case len(b.Tools) > 0 && b.ToolChoice != choiceNone && !c.row.FormatWithTools:
	case len(call.Schema) > 0 && c.takesSchema(call.Schema):
		b.ResponseFormat = &chatFormat{Type: "json_schema",
			Schema: &chatSchema{Name: "answer", Schema: call.Schema, Strict: c.row.StrictSchema && acceptedByStrict(call.Schema)}}
	case wantsObject(call, o) && c.row.JSON && mentionsJSON(b.Messages):
		b.ResponseFormat = &chatFormat{Type: "json_object"}
	}
}

// takesSchema reports whether a schema is sent.
func (c compatible) takesSchema(schema json.RawMessage) bool {
	return c.row.Schema && (!c.row.StrictSchema || rootOf(schema).Type == "object")
}

// wantsObject reports whether a JSON mode, which writes objects alone, may be asked for.
func wantsObject(call *Call, o *llms.CallOptions) bool {
	if len(call.Schema) > 0 {
		return wantsObjectRoot(call.Schema)
	}
	return call.JSON || o.JSONMode
}

// mentionsJSON reports whether a message has the word: json_object is refused without it.
func mentionsJSON(msgs []chatMessage) bool {
	return slices.ContainsFunc(msgs, func(m chatMessage) bool {
		s, ok := m.Content.(string)
		return ok && strings.Contains(strings.ToLower(s), "json")
	})
}

var roles = map[llms.ChatMessageType]string{
	llms.ChatMessageTypeSystem: "system", llms.ChatMessageTypeHuman: "user", llms.ChatMessageTypeGeneric: "user",
	llms.ChatMessageTypeAI: "assistant", llms.ChatMessageTypeTool: "tool",
}

// messages converts one message; several results become several messages.
func (c compatible) messages(mc *llms.MessageContent) []chatMessage {
	m := chatMessage{Role: roles[mc.Role]}
	var results []chatMessage
	var parts []any
	var text strings.Builder
	images := false
	for _, part := range mc.Parts {
		switch p := part.(type) {
		case llms.TextContent:
			text.WriteString(p.Text)
			parts = append(parts, map[string]string{"type": "text", "text": p.Text})
		case llms.ImageURLContent, llms.BinaryContent:
			images, parts = true, append(parts, imagePart(imageURL(part)))
		case llms.ToolCall:
			m.ToolCalls = append(m.ToolCalls, c.toolCall(&p))
		case llms.ToolCallResponse, FailedResult:
			result, _ := resultOf(part)
			results = append(results, c.result(result))
		}
	}
	if m.Role == "tool" {
		return attachImages(results, images, parts)
	}
	c.restoreState(&m, mc.Parts)
	m.Content = text.String()
	if images {
		m.Content = parts
	} else if text.Len() == 0 && len(m.ToolCalls) > 0 {
		m.Content = nil
	}
	return append(results, m)
}

// attachImages adds the images of a message to its last result.
func attachImages(results []chatMessage, images bool, parts []any) []chatMessage {
	if images && len(results) > 0 {
		last := &results[len(results)-1]
		last.Content = append([]any{map[string]any{"type": "text", "text": last.Content}}, parts...)
	}
	return results
}

// imagePart writes an image. langchaingo's own JSON of it has another shape.
func imagePart(url, detail string) any {
	type image struct {
		URL    string `json:"url"`
		Detail string `json:"detail,omitempty"`
	}
	return struct {
		Type  string `json:"type"`
		Image image  `json:"image_url"`
	}{"image_url", image{url, detail}}
}

func (c compatible) result(p *llms.ToolCallResponse) chatMessage {
	m := chatMessage{Role: "tool", Content: p.Content, ToolCallID: c.callID(p.ToolCallID)}
	if c.row.ToolName {
		m.Name = p.Name
	}
	return m
}

// toolCall converts a tool call. Arguments that are not a JSON object are wrapped unless the server takes them.
func (c compatible) toolCall(p *llms.ToolCall) chatCall {
	args := p.FunctionCall.Arguments
	if !c.row.RawArguments || strings.TrimSpace(args) == "" {
		args = objectArguments(args)
	}
	return chatCall{ID: c.callID(p.ID), Type: "function", Function: chatFunction{Name: p.FunctionCall.Name, Arguments: args}}
}

func isObject(s string) bool {
	return strings.HasPrefix(strings.TrimSpace(s), "{") && json.Valid([]byte(s))
}

var wordID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

var nineAlnum = regexp.MustCompile(`^[A-Za-z0-9]{9}$`)

// callID gives an id that the server accepts; the same id always becomes the same.
func (c *remote) callID(id string) string {
	switch c.row.CallIDs {
	case idsMax40:
		if len(id) <= 40 {
			return id
		}
		return "call_" + digest(id)[:32]
	case idsWord:
		if wordID.MatchString(id) {
			return id
		}
		return "call_" + digest(id)[:32]
	case idsNine:
		if nineAlnum.MatchString(id) {
			return id
		}
		return digest(id)[:9]
	}
	return id
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
