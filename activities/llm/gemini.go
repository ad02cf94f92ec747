package llm

import (
	"cmp"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/textutil"
)

// gemini is Google's generateContent. The vendor's SDK is not used: it drops the headers of errors and reads
// arguments into floats, which changes long integers.
type gemini struct{ *remote }

type geminiBody struct {
	System     *geminiContent    `json:"systemInstruction,omitempty"`
	Tools      []geminiTools     `json:"tools,omitempty"`
	ToolConfig *geminiToolConfig `json:"toolConfig,omitempty"`
	Contents   []geminiContent   `json:"contents"`
	Config     geminiConfig      `json:"generationConfig"`
}

type geminiContent struct {
	Role  string       `json:"role,omitempty"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text      *string         `json:"text,omitempty"`
	Thought   bool            `json:"thought,omitempty"`
	Inline    *geminiBlob     `json:"inlineData,omitempty"`
	File      *geminiFile     `json:"fileData,omitempty"`
	Call      *geminiCall     `json:"functionCall,omitempty"`
	Result    *geminiResult   `json:"functionResponse,omitempty"`
	Signature string          `json:"thoughtSignature,omitempty"`
	raw       json.RawMessage // instead of all others
}

// MarshalJSON writes a part, or the one that came from the provider.
func (p geminiPart) MarshalJSON() ([]byte, error) {
	if p.raw != nil {
		return p.raw, nil
	}
	type plain geminiPart
	return textutil.JSON(plain(p))
}

type geminiBlob struct {
	MIME string `json:"mimeType"`
	Data string `json:"data"`
}

type geminiFile struct {
	MIME string `json:"mimeType,omitempty"`
	URI  string `json:"fileUri"`
}

type geminiCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type geminiResult struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

type geminiTools struct {
	Functions []geminiFunction `json:"functionDeclarations"`
}

type geminiFunction struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Schema      any    `json:"parametersJsonSchema"`
}

type geminiToolConfig struct {
	Calling geminiCalling `json:"functionCallingConfig"`
}

type geminiCalling struct {
	Mode    string   `json:"mode"`
	Allowed []string `json:"allowedFunctionNames,omitempty"`
}

type geminiConfig struct {
	Temperature *float64        `json:"temperature,omitempty"`
	TopP        *float64        `json:"topP,omitempty"`
	TopK        int             `json:"topK,omitempty"`
	MaxTokens   int             `json:"maxOutputTokens,omitempty"`
	Stop        []string        `json:"stopSequences,omitempty"`
	Seed        *int            `json:"seed,omitempty"`
	Presence    float64         `json:"presencePenalty,omitempty"`
	Frequency   float64         `json:"frequencyPenalty,omitempty"`
	MIME        string          `json:"responseMimeType,omitempty"`
	Schema      json.RawMessage `json:"responseJsonSchema,omitempty"`
	Thinking    *geminiThinking `json:"thinkingConfig,omitempty"`
}

type geminiThinking struct {
	Level  string `json:"thinkingLevel,omitempty"`
	Budget *int   `json:"thinkingBudget,omitempty"`
}

// noSignature is Google's documented placeholder for the signature of a call that another model made.
const noSignature = "skip_thought_signature_validator"

func (c gemini) authorize(req *http.Request, _ []byte) error {
	if c.key != "" {
		req.Header.Set("X-Goog-Api-Key", c.key)
	}
	return nil
}

func (c gemini) encode(call *Call, in []llms.MessageContent, o *llms.CallOptions) (*outgoing, error) {
	model := cmp.Or(o.Model, c.model)
	b := geminiBody{}
	names := map[string]string{}
	for i := range in {
		c.message(&b, &in[i], names)
	}
	if len(b.Contents) == 0 || b.Contents[0].Role != "user" {
		b.Contents = append([]geminiContent{{"user", []geminiPart{textPart(emptyText)}}}, b.Contents...)
	}
	c.sign(&b, model)
	if err := c.setTools(&b, o); err != nil {
		return nil, err
	}
	if err := c.configure(&b, call, o, model); err != nil {
		return nil, err
	}
	where := "/models/" + url.PathEscape(model)
	if strings.HasPrefix(model, "models/") || strings.HasPrefix(model, "tunedModels/") {
		kind, name, _ := strings.Cut(model, "/")
		where = "/" + kind + "/" + url.PathEscape(name)
	}
	raw, err := c.marshal(&b, call.Extra)
	if c.unary {
		return &outgoing{path: where + ":generateContent", body: raw}, err
	}
	return &outgoing{path: where + ":streamGenerateContent?alt=sse", body: raw, stream: true}, err
}

func (c gemini) setTools(b *geminiBody, o *llms.CallOptions) error {
	list, err := encodeTools(c.remote, o.Tools, func(f *llms.FunctionDefinition, schema any) geminiFunction {
		return geminiFunction{f.Name, f.Description, schema}
	})
	if err != nil {
		return err
	}
	want, err := c.choiceOf(o.ToolChoice)
	if err != nil || len(list) == 0 {
		return err
	}
	b.Tools = []geminiTools{{list}}
	switch {
	case want.tool != "":
		b.ToolConfig = &geminiToolConfig{geminiCalling{"ANY", []string{want.tool}}}
	case want.mode == choiceRequired:
		b.ToolConfig = &geminiToolConfig{geminiCalling{Mode: "ANY"}}
	case want.mode != "":
		b.ToolConfig = &geminiToolConfig{geminiCalling{Mode: strings.ToUpper(want.mode)}}
	}
	return nil
}

// configure sets parameters and format. JSON is asked for where tools do not forbid it.
func (c gemini) configure(b *geminiBody, call *Call, o *llms.CallOptions, model string) error {
	g := &b.Config
	g.TopK, g.MaxTokens, g.Stop, g.Presence, g.Frequency = o.TopK, o.MaxTokens, o.StopWords, o.PresencePenalty, o.FrequencyPenalty
	g.Temperature, g.TopP, g.Seed = optional(o.Temperature), optional(o.TopP), optional(o.Seed)
	if (len(b.Tools) == 0 || o.ToolChoice == choiceNone) && (call.JSON || o.JSONMode || len(call.Schema) > 0) {
		// Forbidden tools need not be sent, and keep the format from being accepted.
		if !b.called() {
			b.Tools, b.ToolConfig = nil, nil
		}
		if len(b.Tools) == 0 {
			g.MIME, g.Schema = "application/json", call.Schema
		}
	}
	return c.setThinking(g, call.Effort, model)
}

// called reports whether the conversation has a call of a tool.
func (b *geminiBody) called() bool {
	return slices.ContainsFunc(b.Contents, func(c geminiContent) bool {
		return slices.ContainsFunc(c.Parts, func(p geminiPart) bool { return p.Call != nil })
	})
}

// geminiBudgets are efforts as tokens, for models that know no level.
var geminiBudgets = map[string]int{"none": 0, "minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576, "xhigh": 24_576, "max": 24_576}

// geminiLevels are efforts as levels.
var geminiLevels = map[string]string{"none": "minimal", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}

func (c gemini) setThinking(g *geminiConfig, effort, model string) error {
	if effort == "" {
		return nil
	}
	budget, err := c.budget(geminiBudgets, effort)
	if err != nil {
		return err
	}
	if strings.HasPrefix(model, "gemini-2.5") {
		g.Thinking = &geminiThinking{Budget: &budget}
	} else {
		g.Thinking = &geminiThinking{Level: geminiLevels[effort]}
	}
	return nil
}

// message adds one message. Consecutive messages of one role are merged: all results of an answer's calls must
// come together. names are the calls' names by id.
func (c gemini) message(b *geminiBody, mc *llms.MessageContent, names map[string]string) {
	role, encode := "user", c.userParts
	if mc.Role == llms.ChatMessageTypeAI {
		role, encode = "model", c.modelParts
	}
	parts := encode(mc, names)
	if len(parts) == 0 {
		return
	}
	if mc.Role == llms.ChatMessageTypeSystem {
		if b.System == nil {
			b.System = &geminiContent{}
		}
		b.System.Parts = append(b.System.Parts, parts...)
		return
	}
	if n := len(b.Contents); n > 0 && b.Contents[n-1].Role == role {
		b.Contents[n-1].Parts = append(b.Contents[n-1].Parts, parts...)
	} else {
		b.Contents = append(b.Contents, geminiContent{role, parts})
	}
}

func textPart(s string) geminiPart { return geminiPart{Text: &s} }

func (c gemini) userParts(mc *llms.MessageContent, names map[string]string) []geminiPart {
	var out []geminiPart
	for _, part := range mc.Parts {
		switch p := part.(type) {
		case llms.TextContent:
			if p.Text != "" {
				out = append(out, textPart(p.Text))
			}
		case llms.BinaryContent, llms.ImageURLContent:
			media, data, address := imageData(part)
			if address == "" {
				out = append(out, geminiPart{Inline: &geminiBlob{media, data}})
				continue
			}
			if u, err := url.Parse(address); err == nil {
				media = mime.TypeByExtension(path.Ext(u.Path))
			}
			out = append(out, geminiPart{File: &geminiFile{media, address}})
		case llms.ToolCallResponse, FailedResult:
			result, failed := resultOf(part)
			out = append(out, c.result(result, map[bool]string{false: "output", true: "error"}[failed], names))
		}
	}
	return out
}

func (c gemini) result(p *llms.ToolCallResponse, key string, names map[string]string) geminiPart {
	return geminiPart{Result: &geminiResult{
		ID: p.ToolCallID, Name: cmp.Or(p.Name, cmp.Or(names[p.ToolCallID], p.ToolCallID)), Response: map[string]string{key: p.Content},
	}}
}

func (c gemini) modelParts(mc *llms.MessageContent, names map[string]string) []geminiPart {
	var out []geminiPart
	for _, p := range c.assistantBlocks(mc.Parts) {
		switch {
		case p.raw != nil:
			out = append(out, geminiPart{raw: p.raw})
		case p.call != nil:
			f := p.call.FunctionCall
			names[p.call.ID] = f.Name
			out = append(out, geminiPart{Signature: p.signature, Call: &geminiCall{
				ID: p.call.ID, Name: f.Name, Args: json.RawMessage(objectArguments(f.Arguments)),
			}})
		case p.text != "" || p.signature != "":
			out = append(out, geminiPart{Text: &p.text, Signature: p.signature})
		}
	}
	return out
}

// sign marks the calls that have no signature, because another model made them.
func (c gemini) sign(b *geminiBody, model string) {
	if strings.HasPrefix(model, "gemini-1") || strings.HasPrefix(model, "gemini-2") {
		return
	}
	for i := range b.Contents {
		for j := range b.Contents[i].Parts {
			if p := &b.Contents[i].Parts[j]; p.Call != nil {
				if p.Signature == "" {
					p.Signature = noSignature
				}
				break // only the first call of an answer has one
			}
		}
	}
}
