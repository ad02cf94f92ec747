package wire

import (
	"slices"
	"strings"

	"weft/activities/contract"
)

// encodeChat encodes a request for OpenAI's chat completions, adapted to the server.
func encodeChat(m *Model, q *Request) (*Outgoing, error) {
	b := m.parameters(q, m.ParamNames)
	messages := m.chatMessages(q)
	b["model"], b["messages"] = m.Name, messages
	calls, err := m.chatTools(b, q)
	if err != nil {
		return nil, err
	}
	if !calls || m.FormatWithTools {
		m.chatFormat(b, q)
	}
	if !m.Unary && !(m.UnaryTools && b["tools"] != nil) {
		b["stream"] = true
		if m.StreamUsage {
			b["stream_options"] = object{"include_usage": true}
		}
	}
	if !m.NoCache && !q.Once {
		m.markChat(b, messages, calls)
	}
	answer := &chatReader{draft: draft{m: m}}
	if m.TextCalls && calls {
		answer.offered = q.Options.Tools
	}
	key := m.cacheKey(b, q)
	out, err := m.send("/chat/completions", b, q.Extra, answer)
	if err == nil && m.CacheHeader != "" && key != "" {
		out.Header = map[string]string{m.CacheHeader: key}
	}
	return out, err
}

// chatTools sets the tools and the tool choice. It reports whether any tool may be called. If the server ignores
// tool_choice, the tools are omitted for "none".
func (m *Model) chatTools(b object, q *Request) (bool, error) {
	o, err := q.offer("parameters", func(tool object) any { return object{"type": "function", "function": tool} })
	if len(o.tools) == 0 || !m.ToolChoice && o.mode == choiceNone {
		delete(b, "parallel_tool_calls")
		return false, err
	}
	switch {
	case m.ToolChoiceModeOnly && o.tool != "":
		o.keepRequired()
		b["tool_choice"] = choiceRequired
	case m.ToolChoice && q.Options.ToolChoice != nil:
		b["tool_choice"] = q.Options.ToolChoice
	}
	b["tools"] = o.tools
	return o.mode != choiceNone, err
}

// chatFormat sets the answer's format.
func (m *Model) chatFormat(b object, q *Request) {
	switch f := m.format(q); {
	case f == nil:
	case f["type"] == formatSchema:
		delete(f, "type")
		format := object{"type": formatSchema, formatSchema: f}
		if m.PlainSchema {
			format["schema"] = f["schema"]
		}
		b["response_format"] = format
	default:
		b["response_format"] = f
	}
}

const formatSchema = "json_schema"

// format returns the answer's format, in the form of the Responses API; nil if none is needed or supported.
func (m *Model) format(q *Request) object {
	switch {
	case len(q.Schema) > 0 && m.Schema && (!m.StrictSchema || rootOf(q.Schema).Type == "object"):
		return object{"type": formatSchema, "name": "answer", "schema": q.Schema, "strict": m.StrictSchema && acceptedByStrict(q.Schema)}
	case q.wantsObject() && m.JSON && q.mentionsJSON():
		return object{"type": "json_object"}
	}
	return nil
}

// mentionsJSON reports whether a message without files contains the word JSON: json_object is rejected without it.
func (q *Request) mentionsJSON() bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), "json") }
	return has(q.System) || slices.ContainsFunc(q.Messages, func(m contract.Message) bool { return len(m.Media) == 0 && has(m.Text) })
}

func (m *Model) chatMessages(q *Request) []any {
	out := []any{}
	if q.System != "" {
		out = append(out, object{"role": "system", "content": q.System})
	}
	for i := range q.Messages {
		msg := &q.Messages[i]
		if m.BridgeResults && i > 0 && msg.Role == contract.RoleUser && q.Messages[i-1].Role == contract.RoleTool {
			out = append(out, object{"role": "assistant", "content": "I have the results."})
		}
		out = append(out, m.chatMessage(msg))
	}
	return out
}

func (m *Model) chatMessage(in *contract.Message) object {
	out := object{"role": in.Role, "content": in.Text}
	if len(in.Media) > 0 {
		parts := []any{object{"type": "text", "text": in.Text}}
		for i := range in.Media {
			parts = append(parts, m.chatPart(&in.Media[i]))
		}
		out["content"] = parts
	}
	switch in.Role {
	case contract.RoleTool:
		out["tool_call_id"] = m.callID(in.CallID)
		if m.ToolName && in.Name != "" {
			out["name"] = in.Name
		}
	case contract.RoleAssistant:
		m.chatAssistant(out, in)
	}
	return out
}

// chatAssistant adds an assistant message's calls, and the data to send back to its provider. Arguments that are not a JSON
// object are wrapped unless the server accepts them.
func (m *Model) chatAssistant(out object, in *contract.Message) {
	own := m.ownState(in.Provider)
	var calls []object
	for _, c := range in.Calls {
		args := c.Arguments
		if !m.RawArguments || strings.TrimSpace(args) == "" {
			args = objectArguments(args)
		}
		calls = append(calls, object{"id": m.callID(c.ID), "type": "function", "function": object{"name": c.Name, "arguments": args}})
	}
	if own != nil {
		for _, c := range own.Calls {
			if c.Index >= 0 && c.Index < len(calls) {
				calls[c.Index]["extra_content"] = c.Extra
			}
		}
	}
	if len(calls) > 0 {
		out["tool_calls"] = calls
		if in.Text == "" {
			out["content"] = nil
		}
	}
	if own != nil {
		m.chatReasoning(out, own, in)
	}
}

// chatReasoning adds a message's reasoning in the form that its provider accepts.
func (m *Model) chatReasoning(out object, own *providerState, in *contract.Message) {
	if own.Details != nil && m.Reasoning == "reasoning" {
		out["reasoning_details"] = own.Details
	}
	if in.Reasoning == "" {
		return
	}
	if field := m.reasoningField(own); field != "" {
		out[field] = in.Reasoning
	}
	if m.Reasoning == InContent {
		parts := []any{object{"type": "thinking", "thinking": []any{object{"type": "text", "text": in.Reasoning}}}}
		if in.Text != "" {
			parts = append(parts, object{"type": "text", "text": in.Text})
		}
		out["content"] = parts
	}
}

// reasoningField returns the field in which reasoning is sent back, "" if none.
func (m *Model) reasoningField(own *providerState) string {
	switch m.Reasoning {
	case SameField:
		return own.Field
	case InContent:
		return ""
	}
	return m.Reasoning
}
