package wire

import (
	"cmp"
	"encoding/json"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// cohereParams are the names of parameters. The effort is set separately.
var cohereParams = map[string]string{"top_p": "p", "top_k": "k", "stop": "stop_sequences", "reasoning_effort": ""}

func encodeCohere(m *Model, q *Request) (*Outgoing, error) {
	b := m.parameters(q, cohereParams)
	b["model"], b["messages"] = m.Name, m.cohereMessages(q)
	form := cohereFields{choice: "tool_choice", budget: "token_budget", format: "response_format", schema: "json_schema", convertCase: strings.ToLower}
	if _, err := form.encode(b, q); err != nil {
		return nil, err
	}
	if !m.Unary {
		b["stream"] = true
	}
	return m.send("/chat", b, q.Extra, &cohereReader{chatReader{draft: draft{m: m}}})
}

// cohereFields are names of fields that differ between Cohere and OCI. convertCase converts constants, which are in upper
// case at OCI.
type cohereFields struct {
	choice, budget, format, schema string
	convertCase                    func(string) string
}

// encode sets the tools, the thinking budget and the answer's format. It reports whether there are tools. A tool that must
// be called is the only one sent, because the tool choice cannot name it.
func (f cohereFields) encode(b object, q *Request) (tools bool, err error) {
	o, err := q.offer("parameters", func(tool object) any { return object{"type": f.convertCase("function"), "function": tool} })
	if err != nil {
		return false, err
	}
	if o.tool != "" {
		o.mode = choiceRequired
		o.keepRequired()
	}
	if tools = len(o.tools) > 0; tools {
		b["tools"] = o.tools
		if o.mode == choiceRequired || o.mode == choiceNone {
			b[f.choice] = strings.ToUpper(o.mode)
		}
	}
	if q.Effort != "" {
		tokens, err := tokenBudget(geminiBudgets, q.Effort)
		if err != nil {
			return false, err
		}
		if limit := q.Options.MaxTokens; limit > 0 {
			tokens = min(tokens, max(1, limit/2)) // leave room for the answer
		}
		b["thinking"] = object{"type": f.convertCase("enabled"), f.budget: tokens}
		if tokens == 0 {
			b["thinking"] = object{"type": f.convertCase("disabled")}
		}
	}
	if !tools && q.wantsObject() {
		format := object{"type": f.convertCase("json_object")}
		if len(q.Schema) > 0 {
			format[f.schema] = q.Schema
		}
		b[f.format] = format
	}
	return tools, nil
}

func (m *Model) cohereMessages(q *Request) []any {
	out := m.chatMessages(q)
	for i := range q.Messages {
		msg := out[len(out)-len(q.Messages)+i].(object)
		if msg["content"] == "" {
			msg["content"] = emptyText
		}
		if in := &q.Messages[i]; in.Role == contract.RoleAssistant {
			m.cohereAnswer(msg, in)
		}
	}
	return out
}

// cohereAnswer adds an assistant message's reasoning and plan.
func (m *Model) cohereAnswer(out object, in *contract.Message) {
	delete(out, m.Reasoning)
	if out["content"] == nil {
		delete(out, "content")
	}
	own := m.ownState(in.Provider)
	if own == nil {
		return
	}
	if own.Plan != "" {
		out["tool_plan"] = own.Plan
	}
	if in.Reasoning != "" {
		content := []any{object{"type": "thinking", "thinking": in.Reasoning}}
		if in.Text != "" {
			content = append(content, object{"type": "text", "text": in.Text})
		}
		out["content"] = content
	}
}

// cohereReader reads an answer of Cohere's chat: messages like those of chat completions, in typed events.
type cohereReader struct{ chatReader }

// cohereEvent is a response, or an event of a stream.
type cohereEvent struct {
	cohereAnswer
	Type  string       `json:"type"`
	Index LooseText    `json:"index"`
	Delta cohereAnswer `json:"delta"`
}

type cohereAnswer struct {
	Finish LooseText `json:"finish_reason"`
	// Message is an object, or a string in errors. In a piece of a message, its lists are replaced by single objects.
	Message json.RawMessage `json:"message"`
	Error   LooseText       `json:"error"`
	Usage   *struct {
		Tokens struct {
			Input  looseCount `json:"input_tokens"`
			Output looseCount `json:"output_tokens"`
		} `json:"tokens"`
		Cached looseCount `json:"cached_tokens"`
	} `json:"usage"`
}

func (r *cohereReader) Read(raw []byte, streamed bool) (bool, error) {
	var e cohereEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return false, Invalidf("invalid response of Cohere's chat API (%v): %s", err, excerpt(raw))
	}
	a := &e.cohereAnswer
	if streamed {
		a = &e.Delta
	}
	switch {
	case a.Error != "":
		return false, reportedText(a.Error)
	case e.Type == "" && len(e.Message) > 0 && e.Message[0] == '"', e.Type == "" && streamed:
		return false, &Error{Reported: raw}
	case !streamed && a.Finish == "":
		return false, Invalidf("the response has no finish_reason: %s", excerpt(raw))
	}
	if u := a.Usage; u != nil {
		r.usage = contract.Usage{Input: int(u.Tokens.Input), Output: int(u.Tokens.Output), Cached: int(u.Cached)}
	}
	r.finish = cmp.Or(string(a.Finish), r.finish)
	return e.Type == "message-end", r.addMessage(a.Message, e.Index, streamed)
}

// reportedText returns the error for a message reported by the provider as a string.
func reportedText(text LooseText) error {
	raw, _ := textutil.JSON(map[string]string{"message": string(text)}) // a map of strings always encodes
	return &Error{Reported: raw}
}
