package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"weft/activities/contract"
)

// fakeConverse implements Amazon Bedrock's Converse API for Claude models.
type fakeConverse struct{}

type converseRequest struct {
	System   []converseBlock `json:"system"`
	Messages []struct {
		Role    string          `json:"role"`
		Content []converseBlock `json:"content"`
	} `json:"messages"`
	Config struct {
		MaxTokens   int      `json:"maxTokens"`
		Temperature *float64 `json:"temperature"`
		TopP        *float64 `json:"topP"`
		Stop        []string `json:"stopSequences"`
	} `json:"inferenceConfig"`
	Tools *struct {
		Tools []struct {
			Spec *struct {
				Name        string `json:"name"`
				Description string `json:"description"`
				Schema      struct {
					JSON object `json:"json"`
				} `json:"inputSchema"`
			} `json:"toolSpec"`
			Cache *object `json:"cachePoint"`
		} `json:"tools"`
		Choice *struct {
			Any  *object `json:"any"`
			Tool *struct {
				Name string `json:"name"`
			} `json:"tool"`
		} `json:"toolChoice"`
	} `json:"toolConfig"`
	Fields struct {
		Thinking *struct {
			Type   string `json:"type"`
			Budget int    `json:"budget_tokens"`
		} `json:"thinking"`
	} `json:"additionalModelRequestFields"`
	Output *struct {
		Format struct {
			Type      string `json:"type"`
			Structure struct {
				Schema struct {
					Name   string `json:"name"`
					Schema string `json:"schema"`
				} `json:"jsonSchema"`
			} `json:"structure"`
		} `json:"textFormat"`
	} `json:"outputConfig"`
}

type converseBlock struct {
	Text  *string `json:"text"`
	Image *struct {
		Format string `json:"format"`
		Source struct {
			Bytes string `json:"bytes"`
		} `json:"source"`
	} `json:"image"`
	Call *struct {
		ID    string          `json:"toolUseId"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"toolUse"`
	Result *struct {
		ID      string          `json:"toolUseId"`
		Content []converseBlock `json:"content"`
		Status  string          `json:"status"`
	} `json:"toolResult"`
	Reasoning *struct {
		Text struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
		} `json:"reasoningText"`
	} `json:"reasoningContent"`
	Cache *object `json:"cachePoint"`
}

func (f fakeConverse) parse(r *http.Request, body []byte) (*parsedRequest, error) {
	var q converseRequest
	path := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/v1/model/"), "/")
	switch err := decodeStrict(body, &q); {
	case err != nil:
		return nil, err
	case len(path) != 2 || path[1] != "converse" && path[1] != "converse-stream" || strings.Contains(path[0], ":"):
		return nil, fmt.Errorf("no such path %s", r.URL.EscapedPath())
	case len(q.Messages) == 0 || q.Messages[0].Role != "user":
		return nil, fmt.Errorf("a conversation must start with a user message")
	case strings.Count(string(body), `"cachePoint"`) > 4:
		return nil, fmt.Errorf("more than 4 cache points")
	case q.Config.Temperature != nil && (q.Config.TopP != nil || q.Fields.Thinking != nil):
		return nil, fmt.Errorf("`temperature` and `top_p` cannot both be specified for this model")
	}
	model, _ := url.PathUnescape(path[0])
	out := &parsedRequest{model: model, key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), stream: path[1] == "converse-stream",
		temperature: q.Config.Temperature, topP: q.Config.TopP, maxTokens: q.Config.MaxTokens, stop: q.Config.Stop}
	for _, b := range q.System {
		if b.Text != nil {
			out.system += *b.Text
		}
	}
	if t := q.Fields.Thinking; t != nil {
		out.effort = fmt.Sprint(t.Budget)
	}
	if o := q.Output; o != nil {
		if o.Format.Type != "json_schema" || json.Unmarshal([]byte(o.Format.Structure.Schema.Schema), &out.schema) != nil {
			return nil, fmt.Errorf("outputConfig.textFormat: %+v", o.Format)
		}
	}
	for i, m := range q.Messages {
		turn := parsedTurn{role: m.Role}
		for _, b := range m.Content {
			if err := f.block(&turn, b); err != nil {
				return nil, fmt.Errorf("messages.%d: %w", i, err)
			}
		}
		if len(m.Content) == 0 || i > 0 && q.Messages[i-1].Role == m.Role {
			return nil, fmt.Errorf("messages.%d: %d blocks of role %q", i, len(m.Content), m.Role)
		}
		if (len(turn.calls) > 0 || len(turn.results) > 0) && q.Tools == nil {
			return nil, fmt.Errorf("the toolConfig field must be defined when using toolUse and toolResult content blocks")
		}
		out.turns = append(out.turns, turn)
	}
	if q.Tools != nil {
		f.tools(out, &q)
	}
	return out, answered(out.turns)
}

func (fakeConverse) tools(out *parsedRequest, q *converseRequest) {
	for _, t := range q.Tools.Tools {
		if t.Spec != nil {
			out.tools = append(out.tools, parsedTool{t.Spec.Name, t.Spec.Description, t.Spec.Schema.JSON})
		}
	}
	switch c := q.Tools.Choice; {
	case c == nil:
	case c.Tool != nil:
		out.choice = "tool " + c.Tool.Name
	case c.Any != nil:
		out.choice = "required"
	}
}

func (f fakeConverse) block(turn *parsedTurn, b converseBlock) error {
	switch {
	case b.Text != nil:
		if strings.TrimSpace(*b.Text) == "" {
			return fmt.Errorf("the text field in the ContentBlock object is blank")
		}
		turn.text += *b.Text
	case b.Image != nil:
		turn.images = append(turn.images, "image/"+b.Image.Format+" "+b.Image.Source.Bytes)
	case b.Call != nil:
		if !anthropicID.MatchString(b.Call.ID) || !strings.HasPrefix(string(b.Call.Input), "{") {
			return fmt.Errorf("toolUse %q: %s", b.Call.ID, b.Call.Input)
		}
		turn.calls = append(turn.calls, contract.ToolCall{ID: b.Call.ID, Name: b.Call.Name, Arguments: string(b.Call.Input)})
	case b.Result != nil:
		inner := parsedTurn{}
		for _, part := range b.Result.Content {
			if err := f.block(&inner, part); err != nil {
				return err
			}
		}
		turn.results = append(turn.results, parsedResult{id: b.Result.ID, text: inner.text, images: inner.images, failed: b.Result.Status == "error"})
	case b.Reasoning != nil:
		if b.Reasoning.Text.Signature != "U0lH" {
			return fmt.Errorf("invalid signature in thinking block")
		}
		turn.thoughts = append(turn.thoughts, b.Reasoning.Text.Text+"/"+b.Reasoning.Text.Signature)
	}
	return nil
}

func (fakeConverse) stop(s fakeAnswer) string {
	return map[string]string{"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "refused": "guardrail_intervened"}[s.stop]
}

func (fakeConverse) usage(s fakeAnswer) object {
	return object{"inputTokens": s.usage.Input - s.usage.Cached - s.usage.CacheWrite, "outputTokens": s.usage.Output,
		"cacheReadInputTokens": s.usage.Cached, "cacheWriteInputTokens": s.usage.CacheWrite}
}

func (f fakeConverse) unary(s fakeAnswer) string {
	content := []object{}
	if s.thought != "" {
		content = append(content, object{"reasoningContent": object{"reasoningText": object{"text": s.thought, "signature": "U0lH"}}})
	}
	content = append(content, object{"text": strings.Join(s.pieces, "")})
	for _, c := range s.calls {
		content = append(content, object{"toolUse": object{"toolUseId": c.ID, "name": c.Name, "input": json.RawMessage(c.Arguments)}})
	}
	return string(mustJSON(object{"output": object{"message": object{"role": "assistant", "content": content}}, "stopReason": f.stop(s), "usage": f.usage(s), "metrics": object{"latencyMs": 1}}))
}

// frame encodes an event of the binary stream.
func frame(kind, name string, v object) string {
	m := eventstream.Message{Payload: mustJSON(v)}
	m.Headers.Set(":"+kind+"-type", eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	var out bytes.Buffer
	_ = eventstream.NewEncoder().Encode(&out, m)
	return out.String()
}

func (f fakeConverse) events(s fakeAnswer) []string {
	out := []string{frame("event", "messageStart", object{"role": "assistant", "p": "abcd"})}
	n := 0
	block := func(start object, deltas ...object) {
		if start != nil {
			out = append(out, frame("event", "contentBlockStart", object{"contentBlockIndex": n, "start": start}))
		}
		for _, d := range deltas {
			out = append(out, frame("event", "contentBlockDelta", object{"contentBlockIndex": n, "delta": d, "p": "abc"}))
		}
		out = append(out, frame("event", "contentBlockStop", object{"contentBlockIndex": n}))
		n++
	}
	if s.thought != "" {
		half := len(s.thought) / 2
		piece := func(name, text string) object { return object{"reasoningContent": object{name: text}} }
		block(nil, piece("text", s.thought[:half]), piece("text", s.thought[half:]), piece("signature", "U0lH"))
	}
	var deltas []object
	for _, p := range s.pieces {
		deltas = append(deltas, object{"text": p})
	}
	block(nil, deltas...)
	for _, c := range s.calls {
		half := len(c.Arguments) / 2
		piece := func(text string) object { return object{"toolUse": object{"input": text}} }
		block(object{"toolUse": object{"toolUseId": c.ID, "name": c.Name}}, piece(c.Arguments[:half]), piece(c.Arguments[half:]))
	}
	return append(out, frame("event", "messageStop", object{"stopReason": f.stop(s)}), frame("event", "metadata", object{"usage": f.usage(s), "metrics": object{"latencyMs": 1}}))
}

// noQuota marks that Bedrock has no error for exhausted credit.
func (fakeConverse) noQuota() {}

// noAuto and noNone mark that toolChoice has neither auto nor none.
func (fakeConverse) noAuto() {}
func (fakeConverse) noNone() {}

func (fakeConverse) errorBody(_ int, kind, message string) string {
	if kind == faultContext && message == "" {
		message = "Input is too long for requested model."
	}
	return string(mustJSON(object{"message": message}))
}

func (fakeConverse) errorEvent(kind, message string) string {
	if kind == faultContext {
		return frame("exception", "validationException", object{"message": message})
	}
	return frame("exception", "modelStreamErrorException", object{"message": message, "originalStatusCode": 500})
}
