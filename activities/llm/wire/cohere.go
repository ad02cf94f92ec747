package wire

import (
	"cmp"
	"encoding/json"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// cohereWords are the names of parameters; an effort has a field of its own.
var cohereWords = map[string]string{"top_p": "p", "top_k": "k", "stop": "stop_sequences", "reasoning_effort": ""}

func encodeCohere(m *Model, q *Request) (*Outgoing, error) {
	b := m.parameters(q, cohereWords)
	b["model"], b["messages"] = m.Name, m.cohereMessages(q)
	calls, err := cohereTools(b, "tool_choice", q, func(tool object) any { return object{"type": "function", "function": tool} })
	if err != nil {
		return nil, err
	}
	if !calls && q.wantsObject() {
		format := object{"type": "json_object"}
		if len(q.Schema) > 0 {
			format["json_schema"] = q.Schema
		}
		b["response_format"] = format
	}
	if q.Effort != "" {
		tokens, err := cohereBudget(q)
		if err != nil {
			return nil, err
		}
		b["thinking"] = object{"type": "enabled", "token_budget": tokens}
		if tokens == 0 {
			b["thinking"] = object{"type": "disabled"}
		}
	}
	if !m.Unary {
		b["stream"] = true
	}
	return m.send("/chat", b, q.Extra, &cohereReader{chatReader: chatReader{draft: draft{m: m}}})
}

// cohereBudget is an effort as a number of tokens, which has to leave room for the answer.
func cohereBudget(q *Request) (int, error) {
	tokens, err := budget(geminiBudgets, q.Effort)
	if limit := q.Options.MaxTokens; limit > 0 {
		tokens = min(tokens, max(1, limit/2))
	}
	return tokens, err
}

// cohereTools lists the tools and reports whether there are any. A tool that must be called is the only one sent: the
// service cannot name it.
func cohereTools(b object, choice string, q *Request, wrap func(tool object) any) (bool, error) {
	o, err := q.offer("parameters", wrap)
	if o.tool != "" {
		o.mode = choiceRequired
		o.only()
	}
	if err != nil || len(o.tools) == 0 {
		return false, err
	}
	b["tools"] = o.tools
	if o.mode == choiceRequired || o.mode == choiceNone {
		b[choice] = strings.ToUpper(o.mode)
	}
	return true, nil
}

func (m *Model) cohereMessages(q *Request) []any {
	out := []any{}
	if q.System != "" {
		out = append(out, object{"role": "system", "content": q.System})
	}
	for i := range q.Messages {
		msg := m.chatMessage(&q.Messages[i])
		if msg["content"] == "" {
			msg["content"] = emptyText
		}
		if in := &q.Messages[i]; in.Role == contract.RoleAssistant {
			m.cohereAnswer(msg, in)
		}
		out = append(out, msg)
	}
	return out
}

// cohereAnswer adds what the model thought, and said of its calls.
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

// cohereReader reads an answer of Cohere's chat: chat completions with events of types.
type cohereReader struct{ chatReader }

// cohereEvent is an answer, or an event of a stream.
type cohereEvent struct {
	cohereAnswer
	Type  string       `json:"type"`
	Index LooseText    `json:"index"`
	Delta cohereAnswer `json:"delta"`
}

type cohereAnswer struct {
	Finish LooseText `json:"finish_reason"`
	// Message is an object in answers, and a text in errors. Its lists are objects where it is a piece of a message.
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
		return false, Invalidf("the answer is not Cohere's (%v): %s", err, excerpt(raw))
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
		return false, Invalidf("the answer has no finish_reason: %s", excerpt(raw))
	}
	if u := a.Usage; u != nil {
		r.usage = contract.Usage{Input: int(u.Tokens.Input), Output: int(u.Tokens.Output), Cached: int(u.Cached)}
	}
	r.finish = cmp.Or(string(a.Finish), r.finish)
	return e.Type == "message-end", r.addMessage(a.Message, e.Index, streamed)
}

// reportedText is an error that the provider reports as a text.
func reportedText(text LooseText) error {
	raw, _ := textutil.JSON(map[string]string{"message": string(text)}) // a map of strings always encodes
	return &Error{Reported: raw}
}
