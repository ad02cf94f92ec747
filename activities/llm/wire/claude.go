package wire

import (
	"cmp"
	"encoding/json"
	"strings"

	"weft/activities/contract"
)

// encodeClaude encodes a request for Anthropic's Messages API. The vendor's SDK is not used: it would need our transport
// for limits, timeouts and errors anyway.
func encodeClaude(m *Model, q *Request) (*Outgoing, error) {
	traits := claudeTraits(m.Name)
	limit := cmp.Or(q.Options.MaxTokens, traits.maxTokens)
	b := m.parameters(q, map[string]string{"stop": "stop_sequences", "parallel_tool_calls": "", "reasoning_effort": ""})
	b["model"], b["max_tokens"] = m.Name, limit
	if !traits.sampling {
		delete(b, "temperature")
		delete(b, "top_k")
	}
	// Models that accept both of them accept only one at a time.
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

// setClaudeThinking sets the effort or, for models without effort levels, a number of tokens.
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
		return unsendable("reasoning_effort is %q, but this model does not support reasoning; remove it, or choose another model", effort)
	}
	tokens, err := tokenBudget(claudeBudgets, effort)
	if err != nil {
		return err
	}
	// Thinking tokens count towards the limit, which must leave room for the answer.
	if limit <= tokens {
		if tokens = limit / 2; tokens < 1024 {
			return unsendable("max_tokens is %d, too low for reasoning_effort %q; set 2048 or more", limit, effort)
		}
	}
	b["thinking"] = object{"type": "enabled", "budget_tokens": tokens}
	delete(b, "temperature")
	delete(b, "top_k")
	return nil
}

// claudeContent returns a message's blocks: ours or, as raw JSON, the provider's.
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
		result["content"] = emptyText // an error requires content
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

// markPrefixes sets cache markers after the tools, the system prompt and, if more turns are likely, the last two user
// messages. The earlier one of them matches the prefix that the previous call stored.
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

// claudeModel describes a family of Anthropic's models.
type claudeModel struct {
	prefix string
	// maxTokens is the default token limit, which the API requires.
	maxTokens int
	// sampling: it accepts temperature, top_p and top_k. Newer models reject them.
	sampling bool
	// adaptive: it accepts an effort; budget: it accepts a number of tokens for thinking.
	adaptive, budget bool
	// schema: it accepts a JSON Schema for its answer.
	schema bool
}

// claudeModels are the known families; the first matching prefix wins. The last row is for newer models.
var claudeModels = []claudeModel{
	{prefix: "claude-2", maxTokens: 4_096, sampling: true},
	{prefix: "claude-3-7", maxTokens: 32_000, sampling: true, budget: true},
	{prefix: "claude-3-5", maxTokens: 8_192, sampling: true},
	{prefix: "claude-3", maxTokens: 4_096, sampling: true},
	{prefix: "claude-opus-4-5", maxTokens: 32_000, sampling: true, budget: true, schema: true},
	{prefix: "claude-opus-4-6", maxTokens: 32_000, sampling: true, adaptive: true, schema: true},
	{prefix: "claude-opus-4-7", maxTokens: 32_000, adaptive: true, schema: true},
	{prefix: "claude-opus-4-8", maxTokens: 32_000, adaptive: true, schema: true},
	{prefix: "claude-opus-4", maxTokens: 32_000, sampling: true, budget: true},
	{prefix: "claude-sonnet-4-5", maxTokens: 32_000, sampling: true, budget: true, schema: true},
	{prefix: "claude-sonnet-4-6", maxTokens: 32_000, sampling: true, adaptive: true, schema: true},
	{prefix: "claude-sonnet-4", maxTokens: 32_000, sampling: true, budget: true},
	{prefix: "claude-haiku-4", maxTokens: 32_000, sampling: true, budget: true, schema: true},
	{prefix: "", maxTokens: 32_000, adaptive: true},
}

// claudeBudgets maps efforts to tokens, for models without effort levels.
var claudeBudgets = map[string]int{"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 30_000}

// claudeTraits returns a model's family. Prefixes that gateways add to the name are ignored.
func claudeTraits(model string) claudeModel {
	if i := strings.Index(model, "claude-"); i > 0 {
		model = model[i:]
	}
	for _, m := range claudeModels {
		if strings.HasPrefix(model, m.prefix) {
			return m
		}
	}
	return claudeModels[len(claudeModels)-1]
}

// acceptedByClaude reports whether the API accepts a schema.
func acceptedByClaude(raw json.RawMessage) bool {
	return onlySupported(raw, claudeKeywords, 16, false)
}

// claudeKeywords are the keywords that the API enforces or ignores.
var claudeKeywords = map[string]bool{
	"type": true, "properties": true, "required": true, "additionalProperties": true, "items": true, "enum": true, "const": true,
	"anyOf": true, "allOf": true, "title": true, "description": true, "$schema": true, "default": true,
}
