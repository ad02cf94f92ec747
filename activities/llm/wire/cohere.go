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
	form := cohereForm{choice: "tool_choice", budget: "token_budget", format: "response_format", schema: "json_schema", word: strings.ToLower}
	if _, err := form.encode(b, q); err != nil {
		return nil, err
	}
	if !m.Unary {
		b["stream"] = true
	}
	return m.send("/chat", b, q.Extra, &cohereReader{chatReader{draft: draft{m: m}}})
}

// cohereForm has the names of fields of a request, which are others at OCI. There, words have capitals.
type cohereForm struct {
	choice, budget, format, schema string
	word                           func(string) string
}

// encode sets the tools, how much the model thinks, and the answer's format. It reports whether there are tools. A tool that
// must be called is the only one sent: the service cannot name it.
func (f cohereForm) encode(b object, q *Request) (tools bool, err error) {
	o, err := q.offer("parameters", func(tool object) any { return object{"type": f.word("function"), "function": tool} })
	if err != nil {
		return false, err
	}
	if o.tool != "" {
		o.mode = choiceRequired
		o.only()
	}
	if tools = len(o.tools) > 0; tools {
		b["tools"] = o.tools
		if o.mode == choiceRequired || o.mode == choiceNone {
			b[f.choice] = strings.ToUpper(o.mode)
		}
	}
	if q.Effort != "" {
		tokens, err := budget(geminiBudgets, q.Effort)
		if err != nil {
			return false, err
		}
		if limit := q.Options.MaxTokens; limit > 0 {
			tokens = min(tokens, max(1, limit/2)) // which leaves room for the answer
		}
		b["thinking"] = object{"type": f.word("enabled"), f.budget: tokens}
		if tokens == 0 {
			b["thinking"] = object{"type": f.word("disabled")}
		}
	}
	if !tools && q.wantsObject() {
		format := object{"type": f.word("json_object")}
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
