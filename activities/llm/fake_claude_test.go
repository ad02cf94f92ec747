package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"weft/activities/contract"
)

// fakeClaude implements Anthropic's Messages API.
type fakeClaude struct{}

type anthropicRequest struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	System    []struct {
		Type, Text string
		Cache      *object `json:"cache_control"`
	} `json:"system"`
	Messages []struct {
		Role    string            `json:"role"`
		Content []json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"input_schema"`
		Cache       *object         `json:"cache_control"`
	} `json:"tools"`
	Choice *struct {
		Type, Name string
		Disable    bool `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	TopK        *int     `json:"top_k"`
	Stop        []string `json:"stop_sequences"`
	Thinking    *struct {
		Type   string
		Budget int `json:"budget_tokens"`
	} `json:"thinking"`
	Output *struct {
		Effort string
		Format *struct {
			Type   string
			Schema any
		}
	} `json:"output_config"`
	Stream bool `json:"stream"`
}

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	Cache     *object         `json:"cache_control"`
	Citations []object        `json:"citations"`
	Source    *struct {
		Type, URL, Data string
		MediaType       string `json:"media_type"`
	} `json:"source"`
}

func (f fakeClaude) parse(r *http.Request, body []byte) (*parsedRequest, error) {
	var q anthropicRequest
	switch err := decodeStrict(body, &q); {
	case err != nil:
		return nil, err
	case r.URL.Path != "/v1/messages":
		return nil, fmt.Errorf("no such path %s", r.URL.Path)
	case r.Header.Get("Anthropic-Version") != "2023-06-01" || r.Header.Get("Authorization") != "":
		return nil, fmt.Errorf("headers %v", r.Header)
	case q.MaxTokens < 1 || len(q.Messages) == 0 || q.Messages[0].Role != "user":
		return nil, fmt.Errorf("max_tokens %d, %d messages", q.MaxTokens, len(q.Messages))
	case strings.Count(string(body), `"cache_control"`) > 4:
		return nil, fmt.Errorf("more than 4 cache_control")
	case q.Temperature != nil && q.TopP != nil:
		return nil, fmt.Errorf("temperature and top_p cannot both be specified")
	case strings.Contains(q.Model, "opus-4-7") && (q.Temperature != nil || q.TopP != nil || q.TopK != nil || q.Thinking != nil && q.Thinking.Budget > 0):
		return nil, fmt.Errorf("temperature is deprecated for this model")
	case q.Thinking != nil && q.Thinking.Type == "enabled" && (q.Thinking.Budget < 1024 || q.Thinking.Budget >= q.MaxTokens || q.Temperature != nil):
		return nil, fmt.Errorf("thinking %+v with max_tokens %d", *q.Thinking, q.MaxTokens)
	}
	out := &parsedRequest{model: q.Model, key: r.Header.Get("X-Api-Key"), stream: q.Stream, temperature: q.Temperature, topP: q.TopP, maxTokens: q.MaxTokens, stop: q.Stop}
	for _, s := range q.System {
		if strings.TrimSpace(s.Text) == "" || s.Type != "text" {
			return nil, fmt.Errorf("system: text content blocks must be non-empty")
		}
		out.system += s.Text
	}
	for i, m := range q.Messages {
		turn, err := f.turn(m.Role, m.Content)
		if err != nil {
			return nil, fmt.Errorf("messages.%d: %w", i, err)
		}
		out.turns = append(out.turns, *turn)
	}
	if err := answered(out.turns); err != nil {
		return nil, err
	}
	return out, f.options(out, &q)
}

func (f fakeClaude) options(out *parsedRequest, q *anthropicRequest) error {
	for _, t := range q.Tools {
		var schema object
		if err := json.Unmarshal(t.Schema, &schema); err != nil || schema["type"] != "object" {
			return fmt.Errorf("tools: input_schema of %s", t.Name)
		}
		out.tools = append(out.tools, parsedTool{t.Name, t.Description, schema})
	}
	if q.Choice != nil {
		if len(q.Tools) == 0 {
			return fmt.Errorf("tool_choice may only be specified while providing tools")
		}
		out.choice = map[string]string{"auto": "auto", "none": "none", "any": "required", "tool": "tool " + q.Choice.Name}[q.Choice.Type]
	}
	if q.Thinking != nil {
		out.effort = fmt.Sprint(q.Thinking.Budget)
	}
	if q.Output != nil {
		out.effort += q.Output.Effort
		if format := q.Output.Format; format != nil {
			if format.Type != "json_schema" || format.Schema.(object)["additionalProperties"] != false {
				return fmt.Errorf("output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false")
			}
			out.schema = format.Schema
		}
	}
	return nil
}

var anthropicID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func (fakeClaude) turn(role string, content []json.RawMessage) (*parsedTurn, error) {
	turn := &parsedTurn{role: role}
	if len(content) == 0 || role != "user" && role != "assistant" {
		return nil, fmt.Errorf("role %q with %d blocks", role, len(content))
	}
	for i, raw := range content {
		var b anthropicBlock
		if err := decodeStrict(raw, &b); err != nil {
			return nil, fmt.Errorf("content.%d: %w", i, err)
		}
		switch b.Type {
		case "text":
			if strings.TrimSpace(b.Text) == "" {
				return nil, fmt.Errorf("text content blocks must be non-empty")
			}
			turn.text += b.Text
		case "image":
			turn.images = append(turn.images, strings.TrimSpace(b.Source.URL+b.Source.MediaType+" "+b.Source.Data))
		case "thinking":
			if b.Signature != "U0lH" {
				return nil, fmt.Errorf("invalid `signature` in `thinking` block")
			}
			turn.thoughts = append(turn.thoughts, b.Thinking+"/"+b.Signature)
		case "server_tool_use":
			if !strings.HasPrefix(string(b.Input), "{") {
				return nil, fmt.Errorf("server_tool_use %q: %s", b.ID, b.Input)
			}
		case "compaction":
			if !strings.HasPrefix(string(b.Content), `"`) {
				return nil, fmt.Errorf("compaction: %s", b.Content)
			}
		case "redacted_thinking":
			turn.thoughts = append(turn.thoughts, b.Data)
		case "tool_use":
			if !anthropicID.MatchString(b.ID) || !strings.HasPrefix(string(b.Input), "{") {
				return nil, fmt.Errorf("tool_use %q: %s", b.ID, b.Input)
			}
			turn.calls = append(turn.calls, contract.ToolCall{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
		case "tool_result":
			if turn.text != "" {
				return nil, fmt.Errorf("tool_result blocks must come first")
			}
			result := parsedResult{id: b.ToolUseID, failed: b.IsError}
			if len(b.Content) > 0 && json.Unmarshal(b.Content, &result.text) != nil {
				var blocks []anthropicBlock
				if err := decodeStrict(b.Content, &blocks); err != nil {
					return nil, fmt.Errorf("tool_result: %w", err)
				}
				for _, inner := range blocks {
					switch {
					case inner.Type == "text" && strings.TrimSpace(inner.Text) != "":
						result.text += inner.Text
					case inner.Type == "image":
						result.images = append(result.images, strings.TrimSpace(inner.Source.URL+inner.Source.MediaType+" "+inner.Source.Data))
					default:
						return nil, fmt.Errorf("tool_result: content of type %q", inner.Type)
					}
				}
			}
			turn.results = append(turn.results, result)
		default:
			return nil, fmt.Errorf("content.%d: type %q", i, b.Type)
		}
	}
	return turn, nil
}

// answered checks that all calls of a turn have results in the next turn.
func answered(turns []parsedTurn) error {
	for i, turn := range turns {
		for j, c := range turn.calls {
			if i+1 >= len(turns) || j >= len(turns[i+1].results) || turns[i+1].results[j].id != c.ID {
				return fmt.Errorf("`tool_use` ids were found without `tool_result` blocks immediately after: %s", c.ID)
			}
		}
		if i > 0 && len(turn.results) != len(turns[i-1].calls) {
			return fmt.Errorf("%d results for %d calls", len(turn.results), len(turns[i-1].calls))
		}
	}
	return nil
}

func (fakeClaude) stop(s fakeAnswer) string {
	return map[string]string{"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "refused": "refusal"}[s.stop]
}

func (fakeClaude) usage(s fakeAnswer) object {
	return object{
		"input_tokens": s.usage.Input - s.usage.Cached - s.usage.CacheWrite, "output_tokens": s.usage.Output,
		"cache_read_input_tokens": s.usage.Cached, "cache_creation_input_tokens": s.usage.CacheWrite,
		"output_tokens_details": object{"thinking_tokens": s.usage.Reasoning},
	}
}

func (f fakeClaude) unary(s fakeAnswer) string {
	content := []any{}
	if s.thought != "" {
		content = append(content, object{"type": "thinking", "thinking": s.thought, "signature": "U0lH"})
	}
	content = append(content, object{"type": "text", "text": strings.Join(s.pieces, "")})
	for _, c := range s.calls {
		content = append(content, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.Arguments)})
	}
	b, _ := json.Marshal(object{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x-2026", "content": content, "stop_reason": f.stop(s), "usage": f.usage(s)})
	return string(b)
}

func (f fakeClaude) events(s fakeAnswer) []string {
	named := func(kind string, v object) string {
		v["type"] = kind
		return "event: " + kind + "\n" + event(v)
	}
	n := 0
	var out []string
	block := func(start object, deltas ...object) {
		out = append(out, named("content_block_start", object{"index": n, "content_block": start}))
		for _, d := range deltas {
			out = append(out, named("content_block_delta", object{"index": n, "delta": d}))
		}
		out = append(out, named("content_block_stop", object{"index": n}))
		n++
	}
	first := f.usage(s)
	first["output_tokens"] = 1
	out = append(out, named("message_start", object{"message": object{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x-2026", "content": []any{}, "stop_reason": nil, "usage": first}}),
		named("ping", object{}))
	if s.thought != "" {
		half := len(s.thought) / 2
		block(object{"type": "thinking", "thinking": "", "signature": ""}, object{"type": "thinking_delta", "thinking": s.thought[:half]},
			object{"type": "thinking_delta", "thinking": s.thought[half:]}, object{"type": "signature_delta", "signature": "U0lH"})
	}
	var deltas []object
	for _, p := range s.pieces {
		deltas = append(deltas, object{"type": "text_delta", "text": p})
	}
	block(object{"type": "text", "text": ""}, deltas...)
	for _, c := range s.calls {
		half := len(c.Arguments) / 2
		start := object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}}
		block(start, object{"type": "input_json_delta", "partial_json": ""}, object{"type": "input_json_delta", "partial_json": c.Arguments[:half]}, object{"type": "input_json_delta", "partial_json": c.Arguments[half:]})
	}
	return append(out, named("message_delta", object{"delta": object{"stop_reason": f.stop(s), "stop_sequence": nil}, "usage": f.usage(s)}), named("message_stop", object{}))
}

func (fakeClaude) errorBody(status int, kind, message string) string {
	name := map[int]string{400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}[status]
	switch kind {
	case faultQuota:
		name, message = "billing_error", "Your credit balance is too low to access the Anthropic API."
	case faultContext:
		name, message = "invalid_request_error", cmp.Or(message, "prompt is too long: 210000 tokens > 200000 maximum")
	}
	b, _ := json.Marshal(object{"type": "error", "error": object{"type": cmp.Or(name, "api_error"), "message": message}, "request_id": "req_1"})
	return string(b)
}

func (f fakeClaude) errorEvent(kind, message string) string {
	status := 529
	if kind == faultContext {
		status = 400
	}
	return "event: error\ndata: " + f.errorBody(status, kind, message) + "\n\n"
}
