package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"weft/activities/contract"
)

// fakeOCICohere is OCI with a Cohere model. Its errors are those of fakeOCI.
type fakeOCICohere struct{ fakeOCI }

// noAuto marks that auto is expressed by omitting the choice.
func (fakeOCICohere) noAuto() {}

type cohereRequest struct {
	Compartment string            `json:"compartmentId"`
	Serving     map[string]string `json:"servingMode"`
	Request     struct {
		Format   string `json:"apiFormat"`
		Messages []struct {
			Role    string `json:"role"`
			Content []struct {
				Type     string               `json:"type"`
				Text     string               `json:"text"`
				Thinking string               `json:"thinking"`
				Image    struct{ URL string } `json:"imageUrl"`
			} `json:"content"`
			ToolCalls []struct {
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"toolCalls"`
			ToolCallID string `json:"toolCallId"`
		} `json:"messages"`
		Tools []struct {
			Type     string
			Function struct {
				Name, Description string
				Parameters        any
			}
		} `json:"tools"`
		Choice   string `json:"toolsChoice"`
		Response *struct {
			Type   string
			Schema any
		} `json:"responseFormat"`
		Thinking *struct {
			Type   string
			Budget int `json:"tokenBudget"`
		} `json:"thinking"`
		Temperature *float64         `json:"temperature"`
		TopP        *float64         `json:"topP"`
		TopK        int              `json:"topK"`
		Frequency   float64          `json:"frequencyPenalty"`
		Presence    float64          `json:"presencePenalty"`
		Stop        []string         `json:"stopSequences"`
		Seed        *int             `json:"seed"`
		MaxTokens   int              `json:"maxTokens"`
		Stream      bool             `json:"isStream"`
		Options     *map[string]bool `json:"streamOptions"`
	} `json:"chatRequest"`
}

func (f fakeOCICohere) parse(r *http.Request, body []byte) (*parsedRequest, error) {
	var q cohereRequest
	if err := decodeStrict(body, &q); err != nil {
		return nil, err
	}
	key, err := f.signed(r, body)
	g := &q.Request
	switch {
	case err != nil:
		return nil, err
	case !strings.HasSuffix(r.URL.Path, "/20231130/actions/chat") || q.Compartment == "" || g.Format != "COHEREV2":
		return nil, fmt.Errorf("path %s, compartment %q, format %q", r.URL.Path, q.Compartment, g.Format)
	case g.Stream && len(g.Tools) > 0:
		return nil, fmt.Errorf("a stream with tools")
	}
	out := &parsedRequest{
		model: q.Serving["modelId"] + q.Serving["endpointId"], key: key, stream: g.Stream, temperature: g.Temperature, topP: g.TopP,
		maxTokens: g.MaxTokens, stop: g.Stop, seed: g.Seed,
	}
	if t := g.Thinking; t != nil {
		out.effort = fmt.Sprintf("%s %d", t.Type, t.Budget)
	}
	for i := range g.Messages {
		if err := f.message(out, &q, i); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	return out, f.tools(out, &q)
}

func (fakeOCICohere) message(out *parsedRequest, q *cohereRequest, i int) error {
	m := &q.Request.Messages[i]
	if len(m.Content) == 0 {
		return fmt.Errorf("no content")
	}
	turn := parsedTurn{role: map[string]string{"USER": "user", "ASSISTANT": "assistant"}[m.Role]}
	for _, c := range m.Content {
		switch c.Type {
		case "TEXT":
			turn.text += c.Text
		case "THINKING":
			turn.thoughts = append(turn.thoughts, c.Thinking)
		case "IMAGE_URL":
			turn.images = append(turn.images, strings.Replace(strings.TrimPrefix(c.Image.URL, "data:"), ";base64,", " ", 1))
		default:
			return fmt.Errorf("content of type %q", c.Type)
		}
	}
	switch m.Role {
	case "SYSTEM":
		out.system += turn.text
		return nil
	case "TOOL":
		turn = parsedTurn{role: "user", results: []parsedResult{{id: m.ToolCallID, text: turn.text}}}
	}
	for _, c := range m.ToolCalls {
		if !json.Valid([]byte(c.Function.Arguments)) || c.Type != "FUNCTION" || c.ID == "" {
			return fmt.Errorf("call %+v", c)
		}
		turn.calls = append(turn.calls, contract.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	out.turns = append(out.turns, turn)
	return nil
}

func (fakeOCICohere) tools(out *parsedRequest, q *cohereRequest) error {
	g := &q.Request
	for _, t := range g.Tools {
		if t.Type != "FUNCTION" {
			return fmt.Errorf("tool of type %q", t.Type)
		}
		out.tools = append(out.tools, parsedTool{t.Function.Name, t.Function.Description, t.Function.Parameters})
	}
	switch {
	case g.Choice != "" && len(out.tools) == 0, g.Choice != "" && g.Choice != "REQUIRED" && g.Choice != "NONE":
		return fmt.Errorf("toolsChoice %q with %d tools", g.Choice, len(out.tools))
	case g.Choice == "REQUIRED" && len(out.tools) == 1:
		out.choice = "tool " + out.tools[0].name // the only way to name it
	default:
		out.choice = strings.ToLower(g.Choice)
	}
	if g.Response != nil {
		if out.schema, out.json = g.Response.Schema, true; len(out.tools) > 0 || g.Response.Type != "JSON_OBJECT" {
			return fmt.Errorf("responseFormat %q with %d tools", g.Response.Type, len(out.tools))
		}
	}
	return nil
}

func (fakeOCICohere) stop(s fakeAnswer) string {
	return map[string]string{"stop": "COMPLETE", "length": "MAX_TOKENS", "tool_calls": "TOOL_CALL", "refused": "ERROR_TOXIC"}[s.stop]
}

func (fakeOCICohere) text(s string) []object { return []object{{"type": "TEXT", "text": s}} }

func (f fakeOCICohere) answer(s fakeAnswer) object {
	content := f.text(strings.Join(s.pieces, ""))
	if s.thought != "" {
		content = append([]object{{"type": "THINKING", "thinking": s.thought}}, content...)
	}
	m := object{"role": "ASSISTANT", "content": content}
	var calls []object
	for _, c := range s.calls {
		calls = append(calls, object{"id": c.ID, "type": "FUNCTION", "function": object{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		m["toolCalls"] = calls
	}
	return object{"apiFormat": "COHEREV2", "id": "x", "message": m, "finishReason": f.stop(s), "usage": f.usage(s)}
}

func (f fakeOCICohere) unary(s fakeAnswer) string {
	b, _ := json.Marshal(object{"modelId": "m-1", "modelVersion": "1.0", "chatResponse": f.answer(s)})
	return string(b)
}

// events ends with an event that repeats the complete answer.
func (f fakeOCICohere) events(s fakeAnswer) []string {
	var out []string
	if s.thought != "" {
		out = append(out, event(object{"apiFormat": "COHEREV2", "message": object{"role": "ASSISTANT", "content": []object{{"type": "THINKING", "thinking": s.thought}}}}))
	}
	for _, p := range s.pieces {
		out = append(out, event(object{"apiFormat": "COHEREV2", "message": object{"role": "ASSISTANT", "content": f.text(p)}, "pad": "aaaa"}))
	}
	return append(out, event(f.answer(s)), "data: [DONE]\n\n")
}
