package llm

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// claude is Anthropic's Messages API. The vendor's SDK is not used: it would need a transport of ours for
// limits, timeouts and errors anyway.
type claude struct{ *remote }

// claudeVersion is the version of the API that is spoken here.
const claudeVersion = "2023-06-01"

type claudeBody struct {
	Model     string          `json:"model"`
	MaxTokens int             `json:"max_tokens"`
	Tools     []claudeTool    `json:"tools,omitempty"`
	Choice    *claudeChoice   `json:"tool_choice,omitempty"`
	System    []*claudeBlock  `json:"system,omitempty"`
	Messages  []claudeMessage `json:"messages"`

	Temperature *float64        `json:"temperature,omitempty"`
	TopP        *float64        `json:"top_p,omitempty"`
	TopK        int             `json:"top_k,omitempty"`
	Stop        []string        `json:"stop_sequences,omitempty"`
	Thinking    *claudeThinking `json:"thinking,omitempty"`
	Output      *claudeOutput   `json:"output_config,omitempty"`
	Stream      bool            `json:"stream,omitempty"`
}

type claudeTool struct {
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	Schema      any        `json:"input_schema"`
	Cache       *cacheMark `json:"cache_control,omitempty"`
}

type claudeChoice struct {
	Type       string `json:"type"`
	Name       string `json:"name,omitempty"`
	NoParallel bool   `json:"disable_parallel_tool_use,omitempty"`
}

// claudeMessage has blocks of ours or, as raw JSON, of the provider's.
type claudeMessage struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type claudeBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Source    *claudeSource   `json:"source,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   any             `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Cache     *cacheMark      `json:"cache_control,omitempty"`
}

type claudeSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

type claudeThinking struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens,omitempty"`
}

type claudeOutput struct {
	Effort string        `json:"effort,omitempty"`
	Format *claudeFormat `json:"format,omitempty"`
}

type claudeFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// cacheMark ends a prefix that the provider keeps.
type cacheMark struct {
	Type string `json:"type"`
}

func (c claude) authorize(req *http.Request, _ []byte) error {
	if c.key != "" {
		req.Header.Set("X-Api-Key", c.key)
	}
	if req.Header.Get("Anthropic-Version") == "" {
		req.Header.Set("Anthropic-Version", claudeVersion)
	}
	return nil
}

func (c claude) encode(call *Call, in []llms.MessageContent, o *llms.CallOptions) (*outgoing, error) {
	b := claudeBody{Model: cmp.Or(o.Model, c.model), Stop: o.StopWords, Stream: !c.unary}
	traits := claudeTraits(b.Model)
	for i := range in {
		c.message(&b, &in[i])
	}
	b.startWithUser()
	if err := c.setTools(&b, call, o); err != nil {
		return nil, err
	}
	b.setSampling(o, traits)
	if err := c.setThinking(&b, call.Effort, traits); err != nil {
		return nil, err
	}
	if traits.schema && len(call.Schema) > 0 && acceptedByClaude(call.Schema) {
		if b.Output == nil {
			b.Output = &claudeOutput{}
		}
		b.Output.Format = &claudeFormat{Type: "json_schema", Schema: call.Schema}
	}
	if c.cachesPrompt(call) {
		b.markPrefixes()
	}
	raw, err := c.marshal(&b, call.Extra)
	return &outgoing{path: "/messages", body: raw, stream: b.Stream}, err
}

// startWithUser lets the conversation begin as the API wants it.
func (b *claudeBody) startWithUser() {
	if len(b.Messages) > 0 && b.Messages[0].Role == "user" {
		return
	}
	first := claudeMessage{Role: "user", Content: []any{&claudeBlock{Type: "text", Text: emptyText}}}
	b.Messages = append([]claudeMessage{first}, b.Messages...)
}

// setSampling sends what was set, to models that take it.
func (b *claudeBody) setSampling(o *llms.CallOptions, traits claudeModel) {
	if b.MaxTokens = o.MaxTokens; b.MaxTokens == 0 {
		b.MaxTokens = traits.maxTokens
	}
	if !traits.sampling {
		return
	}
	b.TopK = o.TopK
	// Models that take both of them take only one at a time.
	if b.Temperature = optional(o.Temperature); b.Temperature == nil {
		b.TopP = optional(o.TopP)
	}
}

// setTools lists the tools and says which may be called.
func (c claude) setTools(b *claudeBody, call *Call, o *llms.CallOptions) (err error) {
	b.Tools, err = encodeTools(c.remote, o.Tools, func(f *llms.FunctionDefinition, schema any) claudeTool {
		return claudeTool{Name: f.Name, Description: f.Description, Schema: schema}
	})
	if err != nil {
		return err
	}
	want, err := c.choiceOf(o.ToolChoice)
	if err != nil || len(b.Tools) == 0 {
		return err
	}
	switch {
	case want.tool != "":
		b.Choice = &claudeChoice{Type: "tool", Name: want.tool}
	case want.mode == choiceRequired:
		b.Choice = &claudeChoice{Type: "any"}
	case want.mode != "":
		b.Choice = &claudeChoice{Type: want.mode}
	}
	if call.Parallel != nil && !*call.Parallel && want.mode != choiceNone {
		if b.Choice == nil {
			b.Choice = &claudeChoice{Type: "auto"}
		}
		b.Choice.NoParallel = true
	}
	return nil
}

// setThinking sets an effort where the model takes one, else a number of tokens.
func (c claude) setThinking(b *claudeBody, effort string, traits claudeModel) error {
	switch {
	case effort == "":
		return nil
	case effort == "none":
		if traits.adaptive {
			b.Thinking = &claudeThinking{Type: "disabled"}
		}
		return nil
	case traits.adaptive:
		if effort == "minimal" {
			effort = "low"
		}
		b.Thinking, b.Output = &claudeThinking{Type: "adaptive"}, &claudeOutput{Effort: effort}
		return nil
	case !traits.budget:
		return c.unsendable("reasoning_effort is %q, but this model does not think; leave it out, or choose another model", effort)
	}
	budget, err := c.budget(claudeBudgets, effort)
	if err != nil {
		return err
	}
	// The thoughts count into the bound of the answer, which must leave room for the rest.
	if b.MaxTokens <= budget {
		if budget = b.MaxTokens / 2; budget < 1024 {
			return c.unsendable("max_tokens is %d, too little for reasoning_effort %q: want 2048 or more", b.MaxTokens, effort)
		}
	}
	b.Thinking, b.Temperature, b.TopK = &claudeThinking{Type: "enabled", Budget: budget}, nil, 0
	return nil
}

// message adds one message. Consecutive messages of one role are merged: all results of an answer's calls must
// come together.
func (c claude) message(b *claudeBody, mc *llms.MessageContent) {
	var content []any
	role := "user"
	switch mc.Role {
	case llms.ChatMessageTypeSystem:
		for _, part := range mc.Parts {
			if p, ok := part.(llms.TextContent); ok && strings.TrimSpace(p.Text) != "" {
				b.System = append(b.System, &claudeBlock{Type: "text", Text: p.Text})
			}
		}
	case llms.ChatMessageTypeAI:
		role = "assistant"
		content = c.assistantContent(mc)
	default:
		content = c.userContent(mc)
	}
	if len(content) == 0 {
		return
	}
	if n := len(b.Messages); n > 0 && b.Messages[n-1].Role == role {
		b.Messages[n-1].Content = append(b.Messages[n-1].Content, content...)
	} else {
		b.Messages = append(b.Messages, claudeMessage{role, content})
	}
}

func (c claude) userContent(mc *llms.MessageContent) []any {
	var out []any
	var result *claudeBlock // the last one, to which images of a tool belong
	for _, part := range mc.Parts {
		switch p := part.(type) {
		case llms.TextContent:
			if strings.TrimSpace(p.Text) != "" {
				out = append(out, &claudeBlock{Type: "text", Text: p.Text})
			}
		case llms.BinaryContent, llms.ImageURLContent:
			source := &claudeSource{Type: "base64"}
			if source.MediaType, source.Data, source.URL = imageData(part); source.URL != "" {
				source.Type = "url"
			}
			image := &claudeBlock{Type: "image", Source: source}
			if _, inline := part.(llms.BinaryContent); inline && result != nil {
				result.attach(image)
			} else {
				out = append(out, image)
			}
		case llms.ToolCallResponse, FailedResult:
			result = c.result(resultOf(part))
			out = append(out, result)
		}
	}
	return out
}

// attach adds an image to a result.
func (b *claudeBlock) attach(image *claudeBlock) {
	switch held := b.Content.(type) {
	case []*claudeBlock:
		b.Content = append(held, image)
	case string:
		b.Content = []*claudeBlock{image}
		if strings.TrimSpace(held) != "" {
			b.Content = []*claudeBlock{{Type: "text", Text: held}, image}
		}
	default:
		b.Content = []*claudeBlock{image}
	}
}

func (c claude) result(p *llms.ToolCallResponse, failed bool) *claudeBlock {
	text := p.Content
	if failed && strings.TrimSpace(text) == "" {
		text = emptyText // an error needs a text
	}
	b := &claudeBlock{Type: "tool_result", ToolUseID: c.callID(p.ToolCallID), IsError: failed}
	if text != "" {
		b.Content = text
	}
	return b
}

func (c claude) assistantContent(mc *llms.MessageContent) []any {
	var out []any
	for _, p := range c.assistantBlocks(mc.Parts) {
		switch {
		case p.raw != nil:
			out = append(out, json.RawMessage(p.raw))
		case p.call != nil:
			out = append(out, &claudeBlock{
				Type: "tool_use", ID: c.callID(p.call.ID), Name: p.call.FunctionCall.Name,
				Input: json.RawMessage(objectArguments(p.call.FunctionCall.Arguments)),
			})
		case strings.TrimSpace(p.text) != "":
			out = append(out, &claudeBlock{Type: "text", Text: p.text})
		}
	}
	return out
}

// dataURL takes a data: URL apart.
func dataURL(s string) (media, data string, ok bool) {
	rest, ok := strings.CutPrefix(s, "data:")
	if !ok {
		return "", "", false
	}
	media, data, ok = strings.Cut(rest, ";base64,")
	return media, data, ok
}

// cachesPrompt reports whether a call's prompt is worth keeping. Judges and condensers ask once.
func (c *remote) cachesPrompt(call *Call) bool {
	return !c.noCache && call.Kind != KindJudge && call.Kind != KindCondense
}

// markPrefixes marks what the provider caches: the tools, the system prompt and, where more turns are likely,
// the conversation up to each of its last two user messages. The earlier mark finds what the previous call
// stored.
func (b *claudeBody) markPrefixes() {
	mark := &cacheMark{Type: "ephemeral"}
	if n := len(b.Tools); n > 0 {
		b.Tools[n-1].Cache = mark
	}
	if n := len(b.System); n > 0 {
		b.System[n-1].Cache = mark
	}
	marks := 2
	if len(b.Tools) == 0 && !b.hasAnswer() {
		marks = 0
	}
	for i := len(b.Messages) - 1; i >= 0 && marks > 0; i-- {
		if b.Messages[i].Role != "user" {
			continue
		}
		if last, ok := b.Messages[i].Content[len(b.Messages[i].Content)-1].(*claudeBlock); ok {
			last.Cache = mark
			marks--
		}
	}
}

// hasAnswer reports whether the conversation has had an answer before.
func (b *claudeBody) hasAnswer() bool {
	return slices.ContainsFunc(b.Messages, func(m claudeMessage) bool { return m.Role == "assistant" })
}
