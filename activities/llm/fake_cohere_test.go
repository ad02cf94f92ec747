package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"weft/activities/contract"
)

// fakeCohere implements Cohere's chat API v2.
type fakeCohere struct{}

type cohereChat struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		Plan       string          `json:"tool_plan"`
		ToolCallID string          `json:"tool_call_id"`
		Calls      []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Parameters  any    `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Choice string `json:"tool_choice"`
	Format *struct {
		Type   string `json:"type"`
		Schema any    `json:"json_schema"`
	} `json:"response_format"`
	Thinking *struct {
		Type   string `json:"type"`
		Budget int    `json:"token_budget"`
	} `json:"thinking"`
	Temperature *float64 `json:"temperature"`
	P           *float64 `json:"p"`
	K           int      `json:"k"`
	Frequency   float64  `json:"frequency_penalty"`
	Presence    float64  `json:"presence_penalty"`
	Stop        []string `json:"stop_sequences"`
	Seed        *int     `json:"seed"`
	MaxTokens   int      `json:"max_tokens"`
}

func (f fakeCohere) parse(r *http.Request, body []byte) (*parsedRequest, error) {
	var q cohereChat
	switch err := decodeStrict(body, &q); {
	case err != nil:
		return nil, err
	case r.URL.Path != "/v1/chat":
		return nil, fmt.Errorf("no such path %s", r.URL.Path)
	}
	out := &parsedRequest{model: q.Model, key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), stream: q.Stream,
		temperature: q.Temperature, topP: q.P, maxTokens: q.MaxTokens, stop: q.Stop, seed: q.Seed}
	if t := q.Thinking; t != nil {
		out.effort = fmt.Sprint(t.Type, t.Budget)
	}
	for i := range q.Messages {
		if err := f.message(out, &q, i); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	for _, t := range q.Tools {
		out.tools = append(out.tools, parsedTool{t.Function.Name, t.Function.Description, t.Function.Parameters})
	}
	switch {
	case q.Choice != "" && (len(out.tools) == 0 || q.Choice != "REQUIRED" && q.Choice != "NONE"):
		return nil, fmt.Errorf("tool_choice %q with %d tools", q.Choice, len(out.tools))
	case q.Choice == "REQUIRED" && len(out.tools) == 1:
		out.choice = "tool " + out.tools[0].name // the only way to name it
	default:
		out.choice = strings.ToLower(q.Choice)
	}
	if q.Format != nil {
		if out.schema, out.json = q.Format.Schema, true; len(out.tools) > 0 || q.Format.Type != "json_object" {
			return nil, fmt.Errorf("response_format %q with %d tools", q.Format.Type, len(out.tools))
		}
	}
	return out, nil
}

func (fakeCohere) message(out *parsedRequest, q *cohereChat, i int) error {
	m := &q.Messages[i]
	turn := parsedTurn{role: m.Role}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Thinking string `json:"thinking"`
		Image    struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	switch err := json.Unmarshal(m.Content, &turn.text); {
	case len(m.Content) == 0 && len(m.Calls) > 0:
	case err == nil && turn.text != "":
	case decodeStrict(m.Content, &parts) != nil || len(parts) == 0:
		return fmt.Errorf("content %s", m.Content)
	}
	for _, p := range parts {
		turn.text += p.Text
		switch p.Type {
		case "thinking":
			turn.thoughts = append(turn.thoughts, p.Thinking)
		case "image_url":
			turn.images = append(turn.images, strings.Replace(strings.TrimPrefix(p.Image.URL, "data:"), ";base64,", " ", 1))
		}
	}
	switch m.Role {
	case "system":
		out.system += turn.text
		return nil
	case "tool":
		turn = parsedTurn{role: "user", results: []parsedResult{{id: m.ToolCallID, text: turn.text}}}
	}
	for _, c := range m.Calls {
		if !json.Valid([]byte(c.Function.Arguments)) || c.Type != "function" || c.ID == "" {
			return fmt.Errorf("call %+v", c)
		}
		turn.calls = append(turn.calls, contract.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	if len(turn.thoughts) > 0 && m.Plan != "I plan." {
		return fmt.Errorf("the plan %q", m.Plan)
	}
	out.turns = append(out.turns, turn)
	return nil
}

// noAuto marks that auto is expressed by omitting the choice.
func (fakeCohere) noAuto() {}

func (fakeCohere) stop(s fakeAnswer) string {
	return map[string]string{"stop": "COMPLETE", "length": "MAX_TOKENS", "tool_calls": "TOOL_CALL", "refused": "ERROR_TOXIC"}[s.stop]
}

func (fakeCohere) usage(s fakeAnswer) object {
	return object{"billed_units": object{"input_tokens": 1}, "tokens": object{"input_tokens": s.usage.Input, "output_tokens": s.usage.Output}, "cached_tokens": s.usage.Cached}
}

func (f fakeCohere) unary(s fakeAnswer) string {
	content := []object{}
	m := object{"role": "assistant"}
	if s.thought != "" {
		content, m["tool_plan"] = append(content, object{"type": "thinking", "thinking": s.thought}), "I plan."
	}
	m["content"] = append(content, object{"type": "text", "text": strings.Join(s.pieces, "")})
	var calls []object
	for _, c := range s.calls {
		calls = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return string(mustJSON(object{"id": "x", "message": m, "finish_reason": f.stop(s), "usage": f.usage(s)}))
}

func (f fakeCohere) events(s fakeAnswer) []string {
	named := func(kind string, index int, message object) string {
		return "event: " + kind + "\n" + event(object{"type": kind, "index": index, "delta": object{"message": message}})
	}
	out := []string{named("message-start", 0, object{"role": "assistant", "content": []any{}, "tool_plan": "", "tool_calls": []any{}, "citations": []any{}})}
	if s.thought != "" {
		half := len(s.thought) / 2
		out = append(out, named("content-start", 0, object{"content": object{"type": "thinking", "thinking": ""}}),
			named("content-delta", 0, object{"content": object{"thinking": s.thought[:half]}}), named("content-delta", 0, object{"content": object{"thinking": s.thought[half:]}}),
			named("tool-plan-delta", 0, object{"tool_plan": "I "}), named("tool-plan-delta", 0, object{"tool_plan": "plan."}))
	}
	out = append(out, named("content-start", 1, object{"content": object{"type": "text", "text": ""}}))
	for _, p := range s.pieces {
		out = append(out, named("content-delta", 1, object{"content": object{"text": p}}))
	}
	out = append(out, event(object{"type": "content-end", "index": 1}))
	for i, c := range s.calls {
		half := len(c.Arguments) / 2
		piece := func(args string) object {
			return object{"tool_calls": object{"function": object{"arguments": args}}}
		}
		out = append(out, named("tool-call-start", i, object{"tool_calls": object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}}}),
			named("tool-call-delta", i, piece(c.Arguments[:half])), named("tool-call-delta", i, piece(c.Arguments[half:])), event(object{"type": "tool-call-end", "index": i}))
	}
	return append(out, "event: message-end\n"+event(object{"type": "message-end", "id": "x", "delta": object{"finish_reason": f.stop(s), "usage": f.usage(s)}}))
}

// noQuota marks that an exhausted quota is reported like any rate limit.
func (fakeCohere) noQuota() {}

func (fakeCohere) errorBody(_ int, kind, message string) string {
	if kind == faultContext && message == "" {
		message = "too many tokens: total number of tokens in the prompt cannot exceed 256000"
	}
	return string(mustJSON(object{"id": "x", "message": message}))
}

func (fakeCohere) errorEvent(_, message string) string {
	return "event: message-end\n" + event(object{"type": "message-end", "delta": object{"error": message, "finish_reason": "ERROR"}})
}
