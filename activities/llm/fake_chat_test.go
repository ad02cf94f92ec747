package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"weft/activities/contract"
)

// fakeChat implements OpenAI's chat completions for one kind of server.
type fakeChat struct{ kind string }

// chatFields lists the request fields that a kind supports in addition to the common ones.
var chatFields = map[string]string{
	"openai":      "prompt_cache_key max_completion_tokens seed stream_options parallel_tool_calls reasoning_effort frequency_penalty presence_penalty response_format tool_choice",
	"azure":       "prompt_cache_key max_completion_tokens seed stream_options parallel_tool_calls reasoning_effort frequency_penalty presence_penalty response_format tool_choice",
	"deepseek":    "max_tokens seed stream_options frequency_penalty presence_penalty response_format tool_choice",
	"openrouter":  "max_tokens seed stream_options parallel_tool_calls reasoning frequency_penalty presence_penalty top_k response_format tool_choice cache_control",
	"mistral":     "prompt_cache_key max_tokens random_seed parallel_tool_calls frequency_penalty presence_penalty response_format tool_choice",
	"vllm":        "max_tokens seed stream_options parallel_tool_calls reasoning_effort frequency_penalty presence_penalty top_k response_format tool_choice",
	"ollama":      "max_tokens seed stream_options reasoning_effort frequency_penalty presence_penalty response_format",
	"compatible":  "max_tokens seed stream_options parallel_tool_calls reasoning_effort frequency_penalty presence_penalty top_k tool_choice",
	"dashscope":   "max_tokens seed stream_options parallel_tool_calls presence_penalty top_k response_format tool_choice",
	"groq":        "max_completion_tokens seed stream_options parallel_tool_calls reasoning_effort response_format tool_choice",
	"huggingface": "max_tokens seed stream_options frequency_penalty presence_penalty tool_choice",
	"cloudflare":  "max_tokens seed stream_options frequency_penalty presence_penalty tool_choice",
	"ernie":       "max_tokens seed stream_options frequency_penalty presence_penalty tool_choice",
	"llamafile":   "max_tokens seed stream_options frequency_penalty presence_penalty top_k tool_choice",
	"llamacpp":    "max_tokens seed stream_options parallel_tool_calls reasoning_effort frequency_penalty presence_penalty top_k response_format tool_choice",
	"lmstudio":    "max_tokens seed stream_options frequency_penalty presence_penalty top_k response_format tool_choice",
	"localai":     "max_tokens seed stream_options frequency_penalty presence_penalty top_k response_format tool_choice",
	"maritaca":    "max_tokens stream_options tool_choice",
	"xai":         "max_tokens seed stream_options parallel_tool_calls reasoning_effort response_format tool_choice",
}

type chatRequest struct {
	Model          string            `json:"model"`
	Messages       []fakeChatMessage `json:"messages"`
	Stream         bool              `json:"stream"`
	Temperature    *float64          `json:"temperature"`
	TopP           *float64          `json:"top_p"`
	MaxTokens      int               `json:"max_tokens"`
	MaxCompletion  int               `json:"max_completion_tokens"`
	Stop           []string          `json:"stop"`
	Seed           *int              `json:"seed"`
	RandomSeed     *int              `json:"random_seed"`
	Effort         string            `json:"reasoning_effort"`
	Reasoning      *struct{ Effort string }
	ResponseFormat *struct {
		Type   string `json:"type"`
		Schema struct {
			Schema any `json:"schema"`
			Strict bool
		} `json:"json_schema"`
	} `json:"response_format"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		} `json:"function"`
	} `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`
}

type fakeChatMessage struct {
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"`
	Name             string          `json:"name"`
	ToolCallID       string          `json:"tool_call_id"`
	ReasoningContent string          `json:"reasoning_content"`
	Reasoning        string          `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ToolCalls        []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (f fakeChat) parse(r *http.Request, body []byte) (*parsedRequest, error) {
	if r.URL.Path != "/v1/chat/completions" {
		return nil, fmt.Errorf("no such path %s", r.URL.Path)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	known := strings.Fields("model messages tools temperature top_p stop stream " + chatFields[f.kind])
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%s knows no field %q", f.kind, name)
		}
	}
	var q chatRequest
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, err
	}
	out := &parsedRequest{
		model: q.Model, key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), stream: q.Stream,
		temperature: q.Temperature, topP: q.TopP, maxTokens: q.MaxTokens + q.MaxCompletion, stop: q.Stop, seed: q.Seed, effort: q.Effort,
	}
	if q.RandomSeed != nil {
		out.seed = q.RandomSeed
	}
	if q.Reasoning != nil {
		out.effort = q.Reasoning.Effort
	}
	for i := range q.Messages {
		if err := f.message(out, &q.Messages[i]); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	if err := f.tools(out, &q); err != nil {
		return nil, err
	}
	return out, f.format(out, &q)
}

func (f fakeChat) tools(out *parsedRequest, q *chatRequest) error {
	for _, t := range q.Tools {
		var schema object
		if t.Type != "function" || json.Unmarshal(t.Function.Parameters, &schema) != nil {
			return fmt.Errorf("tool %q is none", t.Function.Name)
		}
		out.tools = append(out.tools, parsedTool{t.Function.Name, t.Function.Description, schema})
	}
	if f.kind == "ollama" && len(out.tools) > 0 && q.Stream {
		return fmt.Errorf("streams lose calls")
	}
	if len(q.ToolChoice) == 0 {
		return nil
	}
	if len(out.tools) == 0 {
		return fmt.Errorf("tool_choice without tools")
	}
	var named struct {
		Type     string
		Function struct{ Name string }
	}
	onlyStrings := f.kind == "llamacpp" || f.kind == "lmstudio" // they accept only strings, so "required" with one tool names it
	switch isString := json.Unmarshal(q.ToolChoice, &out.choice) == nil; {
	case onlyStrings && !isString:
		return fmt.Errorf("invalid tool_choice type: 'object'")
	case onlyStrings && out.choice == "required" && len(out.tools) == 1:
		out.choice = "tool " + out.tools[0].name
	case !isString:
		if err := json.Unmarshal(q.ToolChoice, &named); err != nil || named.Type != "function" {
			return fmt.Errorf("tool_choice is %s", q.ToolChoice)
		}
		out.choice = "tool " + named.Function.Name
	}
	return nil
}

func (f fakeChat) format(out *parsedRequest, q *chatRequest) error {
	if q.ResponseFormat == nil {
		return nil
	}
	free := f.kind == "openai" || f.kind == "azure" || out.choice == "none"
	switch {
	case len(out.tools) > 0 && !free:
		return fmt.Errorf("response_format with tools")
	case q.ResponseFormat.Type == "json_schema" && slices.Contains([]string{"deepseek", "groq", "dashscope"}, f.kind):
		return fmt.Errorf("json_schema is not supported")
	case q.ResponseFormat.Type == "json_schema":
		if err := f.checkSchema(q.ResponseFormat.Schema.Schema, q.ResponseFormat.Schema.Strict); err != nil {
			return err
		}
		out.schema, out.strict = q.ResponseFormat.Schema.Schema, q.ResponseFormat.Schema.Strict
	case q.ResponseFormat.Type != "json_object":
		return fmt.Errorf("response_format %q", q.ResponseFormat.Type)
	default:
		if out.json = strings.Contains(out.system, "JSON"); !out.json {
			return fmt.Errorf("no message has the word json")
		}
	}
	return nil
}

// checkSchema returns OpenAI's error for a schema that it does not support.
func (f fakeChat) checkSchema(schema any, strict bool) error {
	s, _ := schema.(object)
	if f.kind != "openai" && f.kind != "azure" {
		return nil
	}
	if s["type"] != "object" {
		return fmt.Errorf("invalid schema for response_format 'answer': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"%v\"'", s["type"])
	}
	if strict && s["additionalProperties"] != false {
		return fmt.Errorf("invalid schema for response_format 'answer': in context=(), 'additionalProperties' is required to be supplied and to be false")
	}
	return nil
}

var mistralID = regexp.MustCompile(`^[A-Za-z0-9]{9}$`)

func (f fakeChat) checkID(id string) error {
	switch {
	case id == "", f.kind == "mistral" && !mistralID.MatchString(id), len(id) > 40 && slices.Contains([]string{"openai", "azure", "openrouter"}, f.kind):
		return fmt.Errorf("id %q", id)
	}
	return nil
}

func (f fakeChat) message(out *parsedRequest, m *fakeChatMessage) error {
	turn := parsedTurn{role: m.Role}
	if err := f.content(&turn, m.Content); err != nil {
		return err
	}
	switch m.Role {
	case "system":
		out.system += turn.text
		return nil
	case "tool":
		if f.kind == "mistral" && m.Name == "" {
			return fmt.Errorf("a result without the tool's name")
		}
		if f.kind != "mistral" && len(turn.images) > 0 {
			return fmt.Errorf("messages with role 'tool' have text content alone")
		}
		out.turns = append(out.turns, parsedTurn{role: "user", results: []parsedResult{{id: m.ToolCallID, name: m.Name, text: turn.text, images: turn.images}}})
		return f.checkID(m.ToolCallID)
	case "user", "assistant":
		if n := len(out.turns); f.kind == "mistral" && m.Role == "user" && n > 0 && len(out.turns[n-1].results) > 0 {
			return fmt.Errorf("unexpected role 'user' after role 'tool'")
		}
	default:
		return fmt.Errorf("role %q", m.Role)
	}
	for _, thought := range []string{m.ReasoningContent, m.Reasoning} {
		if thought != "" {
			turn.thoughts = append(turn.thoughts, thought)
		}
	}
	for _, c := range m.ToolCalls {
		var args object
		parses := !slices.Contains([]string{"openai", "azure", "deepseek"}, f.kind)
		if err := json.Unmarshal([]byte(c.Function.Arguments), &args); err != nil && parses {
			return fmt.Errorf("arguments %q", c.Function.Arguments)
		}
		if err := f.checkID(c.ID); err != nil {
			return err
		}
		turn.calls = append(turn.calls, contract.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	out.turns = append(out.turns, turn)
	return nil
}

func (f fakeChat) content(turn *parsedTurn, raw json.RawMessage) error {
	var parts []struct {
		Type     string
		Text     string
		Thinking []struct{ Text string }
		Image    struct{ URL string } `json:"image_url"`
	}
	if string(raw) == "null" || json.Unmarshal(raw, &turn.text) == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		switch {
		case p.Type == "text":
			turn.text += p.Text
		case p.Type == "thinking" && f.kind == "mistral" && len(p.Thinking) == 1:
			turn.thoughts = append(turn.thoughts, p.Thinking[0].Text)
		case p.Type == "image_url":
			url := strings.Replace(strings.TrimPrefix(p.Image.URL, "data:"), ";base64,", " ", 1)
			turn.images = append(turn.images, url)
		default:
			return fmt.Errorf("content of type %q", p.Type)
		}
	}
	return nil
}

func (f fakeChat) stop(s fakeAnswer) string {
	if s.stop == "refused" {
		return "content_filter"
	}
	return s.stop
}

func (f fakeChat) usage(s fakeAnswer) object {
	u := object{"prompt_tokens": s.usage.Input, "completion_tokens": s.usage.Output, "total_tokens": s.usage.Input + s.usage.Output,
		"completion_tokens_details": object{"reasoning_tokens": s.usage.Reasoning}}
	if f.kind == "xai" { // reasoning is not in completion_tokens, but in the total
		u["completion_tokens"] = s.usage.Output - s.usage.Reasoning
	}
	if f.kind == "deepseek" {
		u["prompt_cache_hit_tokens"] = s.usage.Cached
	} else {
		u["prompt_tokens_details"] = object{"cached_tokens": s.usage.Cached}
	}
	return u
}

func (f fakeChat) thought(m object, s fakeAnswer) {
	if s.thought == "" {
		return
	}
	if slices.Contains([]string{"openrouter", "vllm", "groq", "ollama"}, f.kind) {
		m["reasoning"] = s.thought
	} else {
		m["reasoning_content"] = s.thought
	}
}

func call(i int, c contract.ToolCall, args string, whole bool) object {
	out := object{"function": object{"arguments": args}}
	if whole {
		out = object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": args}}
	}
	out["index"] = i
	return out
}

func (f fakeChat) unary(s fakeAnswer) string {
	m := object{"role": "assistant", "content": strings.Join(s.pieces, "")}
	f.thought(m, s)
	var calls []object
	for i, c := range s.calls {
		calls = append(calls, call(i, c, c.Arguments, true))
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	b, _ := json.Marshal(object{"id": "x", "model": "m-1-2026", "choices": []object{{"index": 0, "message": m, "finish_reason": f.stop(s)}}, "usage": f.usage(s)})
	return string(b)
}

func (f fakeChat) events(s fakeAnswer) []string {
	delta := func(d object, finish any) string {
		return event(object{"id": "x", "model": "m-1-2026", "choices": []object{{"index": 0, "delta": d, "finish_reason": finish}}})
	}
	out := []string{delta(object{"role": "assistant", "content": ""}, nil)}
	if s.thought != "" {
		d := object{}
		f.thought(d, s)
		out = append(out, delta(d, nil))
	}
	for _, p := range s.pieces {
		out = append(out, delta(object{"content": p}, nil))
	}
	for i, c := range s.calls {
		half := len(c.Arguments) / 2
		out = append(out, delta(object{"tool_calls": []object{call(i, c, "", true)}}, nil))
		out = append(out, delta(object{"tool_calls": []object{call(i, c, c.Arguments[:half], false)}}, nil), ": keep alive\n\n",
			delta(object{"tool_calls": []object{call(i, c, c.Arguments[half:], false)}}, nil))
	}
	return append(out, delta(object{}, f.stop(s)), event(object{"id": "x", "choices": []object{}, "usage": f.usage(s)}), "data: [DONE]\n\n")
}

func (f fakeChat) errorBody(status int, kind, message string) string {
	code := ""
	switch kind {
	case faultQuota:
		code, message = "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."
	case faultContext:
		code, message = "context_length_exceeded", cmp.Or(message, "This model's maximum context length is 8192 tokens.")
	}
	e := object{"message": message, "type": "some_error", "code": code}
	v := object{"error": e}
	if f.kind == "mistral" {
		v = object{"object": "error", "message": message, "type": "some_error", "code": code}
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func (f fakeChat) errorEvent(kind, message string) string {
	return "data: " + f.errorBody(200, kind, message) + "\n\n"
}
