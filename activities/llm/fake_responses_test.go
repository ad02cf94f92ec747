package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"weft/activities/contract"
)

// fakeResponses implements OpenAI's Responses API without stored state.
type fakeResponses struct{}

type responsesRequest struct {
	Model        string            `json:"model"`
	Instructions string            `json:"instructions"`
	Input        []json.RawMessage `json:"input"`
	Store        *bool             `json:"store"`
	Include      []string          `json:"include"`
	Tools        []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"tools"`
	ToolChoice  json.RawMessage `json:"tool_choice"`
	Parallel    *bool           `json:"parallel_tool_calls"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	MaxTokens   int             `json:"max_output_tokens"`
	Reasoning   *struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`
	Text *struct {
		Format struct {
			Type   string `json:"type"`
			Name   string `json:"name"`
			Schema any    `json:"schema"`
			Strict bool   `json:"strict"`
		} `json:"format"`
	} `json:"text"`
	Stream bool `json:"stream"`
}

// responsesInput is an input item of any type.
type responsesInput struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Phase     string          `json:"phase"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Summary   []any           `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
	Status    string          `json:"status"`
	Action    any             `json:"action"`
}

func (f fakeResponses) parse(r *http.Request, body []byte) (*parsedRequest, error) {
	var q responsesRequest
	switch err := decodeStrict(body, &q); {
	case err != nil:
		return nil, err
	case r.URL.Path != "/v1/responses":
		return nil, fmt.Errorf("no such path %s", r.URL.Path)
	case q.Store == nil || *q.Store:
		return nil, fmt.Errorf("store: this server keeps nothing")
	case q.MaxTokens != 0 && q.MaxTokens < 16:
		return nil, fmt.Errorf("max_output_tokens is %d, less than 16", q.MaxTokens)
	case strings.HasPrefix(q.Model, "gpt-4") && len(q.Include) > 0:
		return nil, fmt.Errorf("encrypted content is not supported with this model")
	}
	out := &parsedRequest{model: q.Model, key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), system: q.Instructions, stream: q.Stream,
		temperature: q.Temperature, topP: q.TopP, maxTokens: q.MaxTokens}
	if q.Reasoning != nil {
		out.effort = q.Reasoning.Effort
	}
	for i, raw := range q.Input {
		if err := f.item(out, raw); err != nil {
			return nil, fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	if err := f.tools(out, &q); err != nil || q.Text == nil {
		return out, err
	}
	switch format := q.Text.Format; format.Type {
	case "json_schema":
		if format.Name == "" {
			return nil, fmt.Errorf("missing required parameter: 'text.format.name'")
		}
		out.schema, out.strict = format.Schema, format.Strict
		return out, fakeChat{kind: "openai"}.checkSchema(format.Schema, format.Strict)
	case "json_object":
		if out.json = strings.Contains(string(mustJSON(q.Input)), "JSON"); !out.json {
			return nil, fmt.Errorf("response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'")
		}
		return out, nil
	default:
		return nil, fmt.Errorf("text.format.type %q", format.Type)
	}
}

func (fakeResponses) tools(out *parsedRequest, q *responsesRequest) error {
	for _, t := range q.Tools {
		var schema object
		if t.Type != "function" || t.Strict == nil || *t.Strict || json.Unmarshal(t.Parameters, &schema) != nil {
			return fmt.Errorf("tool %q is none, or strict", t.Name)
		}
		out.tools = append(out.tools, parsedTool{t.Name, t.Description, schema})
	}
	if len(q.ToolChoice) == 0 {
		return nil
	}
	var named struct{ Type, Name string }
	if json.Unmarshal(q.ToolChoice, &out.choice) != nil {
		if err := decodeStrict(q.ToolChoice, &named); err != nil || named.Type != "function" {
			return fmt.Errorf("tool_choice is %s", q.ToolChoice)
		}
		out.choice = "tool " + named.Name
	}
	return nil
}

// item parses an input item. The items of one answer form one turn.
func (f fakeResponses) item(out *parsedRequest, raw json.RawMessage) error {
	var in responsesInput
	if err := decodeStrict(raw, &in); err != nil {
		return err
	}
	answer := func() *parsedTurn {
		if n := len(out.turns); n == 0 || out.turns[n-1].role != "assistant" {
			out.turns = append(out.turns, parsedTurn{role: "assistant"})
		}
		return &out.turns[len(out.turns)-1]
	}
	switch cmp.Or(in.Type, "message") {
	case "message":
		turn := &parsedTurn{role: in.Role}
		if in.Role == "assistant" {
			if turn = answer(); len(turn.thoughts) > 0 && in.Phase != "commentary" {
				return fmt.Errorf("phase %q", in.Phase)
			}
		}
		if err := f.content(turn, in.Content); err != nil {
			return err
		}
		if in.Role == "user" {
			out.turns = append(out.turns, *turn)
		}
	case "reasoning":
		if in.Encrypted != "U0lH" || in.ID == "" {
			return fmt.Errorf("the encrypted content of item %q could not be verified", in.ID)
		}
		turn := answer()
		turn.thoughts = append(turn.thoughts, in.Encrypted)
	case "function_call":
		if in.CallID == "" || len(in.CallID) > 64 || in.ID != "" {
			return fmt.Errorf("call_id %q, id %q: items are not persisted", in.CallID, in.ID)
		}
		turn := answer()
		turn.calls = append(turn.calls, contract.ToolCall{ID: in.CallID, Name: in.Name, Arguments: in.Arguments})
	case "function_call_output":
		turn := &parsedTurn{role: "user"}
		if err := f.content(turn, in.Output); err != nil {
			return err
		}
		out.turns = append(out.turns, parsedTurn{role: "user", results: []parsedResult{{id: in.CallID, text: turn.text, images: turn.images}}})
	case "web_search_call":
		turn := answer()
		turn.thoughts = append(turn.thoughts, in.ID)
	default:
		return fmt.Errorf("type %q", in.Type)
	}
	return nil
}

func (fakeResponses) content(turn *parsedTurn, raw json.RawMessage) error {
	var parts []struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image string `json:"image_url"`
	}
	if json.Unmarshal(raw, &turn.text) == nil {
		return nil
	}
	if err := decodeStrict(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		switch {
		case p.Type == "input_text" && turn.role == "user", p.Type == "output_text" && turn.role == "assistant":
			turn.text += p.Text
		case p.Type == "input_image":
			turn.images = append(turn.images, strings.Replace(strings.TrimPrefix(p.Image, "data:"), ";base64,", " ", 1))
		default:
			return fmt.Errorf("content of type %q of the role %q", p.Type, turn.role)
		}
	}
	return nil
}

func (f fakeResponses) response(s fakeAnswer, output []object) object {
	out := object{"id": "resp_1", "object": "response", "model": "gpt-x-2026", "status": "completed", "error": nil, "incomplete_details": nil, "output": output,
		"usage": object{"input_tokens": s.usage.Input, "input_tokens_details": object{"cached_tokens": s.usage.Cached, "cache_write_tokens": s.usage.CacheWrite},
			"output_tokens": s.usage.Output, "output_tokens_details": object{"reasoning_tokens": s.usage.Reasoning}, "total_tokens": s.usage.Input + s.usage.Output}}
	if s.stop == "length" {
		out["status"], out["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	}
	return out
}

func (fakeResponses) items(s fakeAnswer) []object {
	var out []object
	if s.thought != "" {
		out = append(out, object{"type": "reasoning", "id": "rs_1", "summary": []object{{"type": "summary_text", "text": s.thought}}, "encrypted_content": "U0lH"})
	}
	part := object{"type": "output_text", "text": strings.Join(s.pieces, ""), "annotations": []any{}}
	if s.stop == "refused" {
		part = object{"type": "refusal", "refusal": "I will not."}
	}
	out = append(out, object{"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": []object{part}})
	if s.thought != "" {
		out[1]["phase"] = "commentary"
	}
	for i, c := range s.calls {
		out = append(out, object{"type": "function_call", "id": fmt.Sprint("fc_", i), "status": "completed", "call_id": c.ID, "name": c.Name, "arguments": c.Arguments})
	}
	return out
}

func (f fakeResponses) unary(s fakeAnswer) string {
	return string(mustJSON(f.response(s, f.items(s))))
}

func (f fakeResponses) events(s fakeAnswer) []string {
	named := func(kind string, v object) string {
		v["type"] = kind
		return "event: " + kind + "\n" + event(v)
	}
	out := []string{named("response.created", object{"response": object{"id": "resp_1", "status": "in_progress", "output": []any{}}})}
	for i, item := range f.items(s) {
		out = append(out, named("response.output_item.added", object{"output_index": i, "item": object{"type": item["type"]}}))
		switch item["type"] {
		case "message":
			for _, p := range s.pieces {
				out = append(out, named("response.output_text.delta", object{"output_index": i, "delta": p}))
			}
		case "function_call":
			args := item["arguments"].(string)
			out = append(out, named("response.function_call_arguments.delta", object{"output_index": i, "delta": args[:len(args)/2]}), ": keep alive\n\n",
				named("response.function_call_arguments.delta", object{"output_index": i, "delta": args[len(args)/2:]}))
		}
		out = append(out, named("response.output_item.done", object{"output_index": i, "item": item}))
	}
	last := f.response(s, f.items(s))
	return append(out, named("response."+last["status"].(string), object{"response": last}))
}

func (fakeResponses) errorBody(status int, kind, message string) string {
	return fakeChat{kind: "openai"}.errorBody(status, kind, message)
}

func (fakeResponses) errorEvent(kind, message string) string {
	code := "server_error"
	if kind == faultContext {
		code = "context_length_exceeded"
	}
	return "event: error\n" + event(object{"type": "error", "code": code, "message": message, "param": nil, "sequence_number": 3})
}

// noStop marks that the Responses API has no stop sequences.
func (fakeResponses) noStop() {}
