package wire

import (
	"cmp"
	"encoding/json"
	"strings"

	"weft/activities/contract"
)

// encodeClaude writes Anthropic's Messages API. The vendor's SDK is not used: it would need a transport of ours for
// limits, timeouts and errors anyway.
func encodeClaude(m *Model, q *Request) (*Outgoing, error) {
	traits := claudeTraits(m.Name)
	limit := cmp.Or(q.Options.MaxTokens, traits.maxTokens)
	b := m.parameters(q, map[string]string{"stop": "stop_sequences", "parallel_tool_calls": "", "reasoning_effort": ""})
	b["model"], b["max_tokens"] = m.Name, limit
	if !traits.sampling {
		delete(b, "temperature")
		delete(b, "top_k")
	}
	// Models that take both of them take only one at a time.
	if !traits.sampling || b["temperature"] != nil {
		delete(b, "top_p")
	}
	if err := claudeTools(b, q); err != nil {
		return nil, err
	}
	output := object{}
	if err := setClaudeThinking(b, output, q.Effort, limit, traits); err != nil {
		return nil, err
	}
	if traits.schema && len(q.Schema) > 0 && acceptedByClaude(q.Schema) {
		output["format"] = object{"type": "json_schema", "schema": q.Schema}
	}
	if len(output) > 0 {
		b["output_config"] = output
	}
	messages := turns(q.Messages, "assistant", "content", m.claudeContent, object{"type": "text", "text": emptyText})
	if strings.TrimSpace(q.System) != "" {
		b["system"] = []object{{"type": "text", "text": q.System}}
	}
	if !m.NoCache && !q.Once {
		markPrefixes(b, messages)
	}
	b["messages"] = messages
	if !m.Unary {
		b["stream"] = true
	}
	return m.send("/messages", b, q.Extra, &claudeReader{draft: draft{m: m}, slots: map[int]*claudePart{}})
}

func claudeTools(b object, q *Request) error {
	o, err := q.offer("input_schema", func(tool object) any { return tool })
	if err != nil || len(o.tools) == 0 {
		return err
	}
	b["tools"] = o.tools
	choice := object{}
	switch {
	case o.tool != "":
		choice = object{"type": "tool", "name": o.tool}
	case o.mode == choiceRequired:
		choice["type"] = "any"
	case o.mode != "":
		choice["type"] = o.mode
	}
	if q.Parallel != nil && !*q.Parallel && o.mode != choiceNone {
		choice["type"] = cmp.Or(choice["type"], any(choiceAuto))
		choice["disable_parallel_tool_use"] = true
	}
	if len(choice) > 0 {
		b["tool_choice"] = choice
	}
	return nil
}

// setClaudeThinking sets an effort where the model takes one, else a number of tokens.
func setClaudeThinking(b, output object, effort string, limit int, traits claudeModel) error {
	switch {
	case effort == "":
		return nil
	case effort == "none":
		if traits.adaptive {
			b["thinking"] = object{"type": "disabled"}
		}
		return nil
	case traits.adaptive:
		if effort == "minimal" {
			effort = "low"
		}
		b["thinking"], output["effort"] = object{"type": "adaptive"}, effort
		return nil
	case !traits.budget:
		return unsendable("reasoning_effort is %q, but this model does not think; leave it out, or choose another model", effort)
	}
	tokens, err := budget(claudeBudgets, effort)
	if err != nil {
		return err
	}
	// The thoughts count into the bound of the answer, which must leave room for the rest.
	if limit <= tokens {
		if tokens = limit / 2; tokens < 1024 {
			return unsendable("max_tokens is %d, too little for reasoning_effort %q: want 2048 or more", limit, effort)
		}
	}
	b["thinking"] = object{"type": "enabled", "budget_tokens": tokens}
	delete(b, "temperature")
	delete(b, "top_k")
	return nil
}

// claudeContent is a message's blocks: ours or, as raw JSON, the provider's.
func (m *Model) claudeContent(in *contract.Message) []any {
	if in.Role == contract.RoleAssistant {
		return m.claudeAnswer(in)
	}
	var out []any
	if strings.TrimSpace(in.Text) != "" {
		out = append(out, object{"type": "text", "text": in.Text})
	}
	for i := range in.Media {
		file := &in.Media[i]
		block := object{"type": file.Kind(), "source": object{"type": "base64", "media_type": file.MediaType, "data": file.Data}}
		if file.Name != "" {
			block["title"] = file.Name
		}
		out = append(out, block)
	}
	if in.Role != contract.RoleTool {
		return out
	}
	result := object{"type": "tool_result", "tool_use_id": m.callID(in.CallID)}
	switch {
	case len(in.Media) > 0:
		result["content"] = out
	case in.Error && len(out) == 0:
		result["content"] = emptyText // an error needs a text
	case in.Text != "":
		result["content"] = in.Text
	}
	if in.Error {
		result["is_error"] = true
	}
	return []any{result}
}

func (m *Model) claudeAnswer(in *contract.Message) []any {
	var out []any
	for _, p := range m.assistantBlocks(in) {
		switch {
		case p.raw != nil:
			out = append(out, p.raw)
		case p.call != nil:
			input := json.RawMessage(objectArguments(p.call.Arguments))
			out = append(out, object{"type": "tool_use", "id": m.callID(p.call.ID), "name": p.call.Name, "input": input})
		case strings.TrimSpace(p.text) != "":
			text := object{"type": "text", "text": p.text}
			if p.signature != "" {
				text["citations"] = json.RawMessage(p.signature)
			}
			out = append(out, text)
		}
	}
	return out
}

// markPrefixes marks what the provider caches: the tools, the system prompt and, where more turns are likely, the
// conversation up to each of its last two user messages. The earlier mark finds what the previous call stored.
func markPrefixes(b object, messages []object) {
	tools, _ := b["tools"].([]any)
	if n := len(tools); n > 0 {
		tools[n-1].(object)["cache_control"] = cacheMark
	}
	if system, ok := b["system"].([]object); ok {
		system[0]["cache_control"] = cacheMark
	}
	marks := 2
	if len(tools) == 0 && len(messages) < 2 {
		marks = 0 // the assistant has not answered yet
	}
	for i := len(messages) - 1; i >= 0 && marks > 0; i-- {
		if messages[i]["role"] != "user" {
			continue
		}
		content := messages[i]["content"].([]any)
		if last, ok := content[len(content)-1].(object); ok {
			last["cache_control"] = cacheMark
			marks--
		}
	}
}
