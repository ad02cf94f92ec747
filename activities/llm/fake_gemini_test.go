package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"weft/activities/contract"
)

// fakeGemini implements Google's generateContent as Gemini 3 models do.
type fakeGemini struct{}

// noQuota marks that an exhausted quota is reported like any rate limit.
func (fakeGemini) noQuota() {}

type googleRequest struct {
	System   *googleContent  `json:"systemInstruction"`
	Contents []googleContent `json:"contents"`
	Tools    []struct {
		Functions []struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Schema      any    `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig *struct {
		Calling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Config struct {
		Temperature *float64 `json:"temperature"`
		TopP        *float64 `json:"topP"`
		TopK        *int     `json:"topK"`
		MaxTokens   int      `json:"maxOutputTokens"`
		Stop        []string `json:"stopSequences"`
		Seed        *int     `json:"seed"`
		Presence    float64  `json:"presencePenalty"`
		Frequency   float64  `json:"frequencyPenalty"`
		MIME        string   `json:"responseMimeType"`
		Schema      any      `json:"responseJsonSchema"`
		Thinking    *struct {
			Level  string `json:"thinkingLevel"`
			Budget *int   `json:"thinkingBudget"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
}

type googleContent struct {
	Role  string       `json:"role"`
	Parts []googlePart `json:"parts"`
}

type googlePart struct {
	Text      *string `json:"text"`
	Thought   bool    `json:"thought"`
	Signature string  `json:"thoughtSignature"`
	Inline    *struct {
		MIME string `json:"mimeType"`
		Data string `json:"data"`
	} `json:"inlineData"`
	File *struct {
		MIME string `json:"mimeType"`
		URI  string `json:"fileUri"`
	} `json:"fileData"`
	Call *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Result *struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		Response object `json:"response"`
	} `json:"functionResponse"`
}

func (f fakeGemini) parse(r *http.Request, body []byte) (*parsedRequest, error) {
	var q googleRequest
	if err := decodeStrict(body, &q); err != nil {
		return nil, err
	}
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/v1/models/")
	escaped, method, found := strings.Cut(rest, ":")
	model, err := url.PathUnescape(escaped)
	if !ok || !found || err != nil || strings.Contains(r.URL.RawQuery, "key") {
		return nil, fmt.Errorf("no such address %s", r.URL)
	}
	out := &parsedRequest{
		model: model, key: r.Header.Get("X-Goog-Api-Key"), stream: method == "streamGenerateContent", temperature: q.Config.Temperature, topP: q.Config.TopP,
		maxTokens: q.Config.MaxTokens, stop: q.Config.Stop, seed: q.Config.Seed, schema: q.Config.Schema, json: q.Config.MIME == "application/json",
	}
	if !out.stream && method != "generateContent" || out.stream && r.URL.RawQuery != "alt=sse" {
		return nil, fmt.Errorf("no such method %s?%s", method, r.URL.RawQuery)
	}
	if q.Config.Thinking != nil {
		out.effort = q.Config.Thinking.Level
	}
	if q.System != nil {
		for _, p := range q.System.Parts {
			out.system += *p.Text
		}
	}
	for i, content := range q.Contents {
		turn, err := f.turn(&content)
		if err != nil {
			return nil, fmt.Errorf("contents[%d]: %w", i, err)
		}
		out.turns = append(out.turns, *turn)
	}
	if len(out.turns) == 0 || out.turns[0].role != "user" {
		return nil, fmt.Errorf("contents is not specified, or does not begin with a user turn")
	}
	if err := answered(out.turns); err != nil {
		return nil, err
	}
	return out, f.tools(out, &q)
}

func (fakeGemini) tools(out *parsedRequest, q *googleRequest) error {
	for _, t := range q.Tools {
		for _, fn := range t.Functions {
			out.tools = append(out.tools, parsedTool{fn.Name, fn.Description, fn.Schema})
		}
	}
	if out.json && len(out.tools) > 0 {
		return fmt.Errorf("function calling with a response mime type 'application/json' is unsupported")
	}
	if q.ToolConfig != nil {
		c := q.ToolConfig.Calling
		out.choice = map[string]string{"AUTO": "auto", "NONE": "none", "ANY": "required"}[c.Mode]
		if len(c.Allowed) == 1 && c.Mode == "ANY" {
			out.choice = "tool " + c.Allowed[0]
		}
	}
	return nil
}

func (fakeGemini) turn(content *googleContent) (*parsedTurn, error) {
	turn := &parsedTurn{role: map[string]string{"user": "user", "model": "assistant"}[content.Role]}
	if turn.role == "" || len(content.Parts) == 0 {
		return nil, fmt.Errorf("role %q with %d parts", content.Role, len(content.Parts))
	}
	for _, p := range content.Parts {
		if p.Signature != "" {
			turn.thoughts = append(turn.thoughts, p.Signature)
		}
		switch {
		case p.Call != nil:
			if p.Signature == "" && len(turn.calls) == 0 {
				return nil, fmt.Errorf("function call is missing a thought_signature in functionCall parts: %s", p.Call.Name)
			}
			turn.calls = append(turn.calls, contract.ToolCall{ID: p.Call.ID, Name: p.Call.Name, Arguments: string(p.Call.Args)})
		case p.Result != nil:
			output, failed := p.Result.Response["error"]
			if !failed {
				output = p.Result.Response["output"]
			}
			turn.results = append(turn.results, parsedResult{id: p.Result.ID, name: p.Result.Name, text: output.(string), failed: failed})
		case p.Inline != nil:
			turn.images = append(turn.images, p.Inline.MIME+" "+p.Inline.Data)
		case p.File != nil:
			if p.File.MIME != "image/jpeg" {
				return nil, fmt.Errorf("mimeType %q", p.File.MIME)
			}
			turn.images = append(turn.images, p.File.URI)
		case p.Text != nil && *p.Text != "":
			turn.text += *p.Text
		default:
			return nil, fmt.Errorf("a part needs data")
		}
	}
	return turn, nil
}

func (fakeGemini) stop(s fakeAnswer) string {
	return map[string]string{"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "refused": "SAFETY"}[s.stop]
}

func (f fakeGemini) chunk(s fakeAnswer, parts []object, last bool) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	out := object{"candidates": []object{candidate}, "modelVersion": "gemini-x-2026", "usageMetadata": object{"promptTokenCount": s.usage.Input}}
	if last {
		candidate["finishReason"] = f.stop(s)
		out["usageMetadata"] = object{
			"promptTokenCount": s.usage.Input, "candidatesTokenCount": s.usage.Output - s.usage.Reasoning,
			"thoughtsTokenCount": s.usage.Reasoning, "cachedContentTokenCount": s.usage.Cached,
		}
	}
	return out
}

func (fakeGemini) parts(s fakeAnswer) []object {
	var out []object
	if s.thought != "" {
		out = append(out, object{"text": s.thought, "thought": true})
	}
	for _, p := range s.pieces {
		out = append(out, object{"text": p})
	}
	for i, c := range s.calls {
		part := object{"functionCall": object{"id": c.ID, "name": c.Name, "args": json.RawMessage(c.Arguments)}}
		if i == 0 {
			part["thoughtSignature"] = "U0lH"
		}
		out = append(out, part)
	}
	return out
}

func (f fakeGemini) unary(s fakeAnswer) string {
	b, _ := json.Marshal(f.chunk(s, f.parts(s), true))
	return string(b)
}

func (f fakeGemini) events(s fakeAnswer) []string {
	var out []string
	for _, p := range f.parts(s) {
		out = append(out, event(f.chunk(s, []object{p}, false)))
	}
	return append(out, event(f.chunk(s, []object{}, true)))
}

func (fakeGemini) errorBody(status int, kind, message string) string {
	name := map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}[status]
	if kind == faultContext {
		message = cmp.Or(message, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")
	}
	b, _ := json.Marshal(object{"error": object{"code": status, "message": message, "status": name}})
	return string(b)
}

func (f fakeGemini) errorEvent(kind, message string) string {
	status := 503
	if kind == faultContext {
		status = 400
	}
	return "data: " + f.errorBody(status, kind, message) + "\n\n"
}
