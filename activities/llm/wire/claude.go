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

// claudeModel says what a family of Anthropic's models does differently.
type claudeModel struct {
	prefix string
	// maxTokens is the bound of an answer where nobody sets one: the API requires it.
	maxTokens int
	// sampling: it takes temperature, top_p and top_k. Newer ones refuse them.
	sampling bool
	// adaptive: it takes an effort; budget: it takes a number of tokens for thoughts.
	adaptive, budget bool
	// schema: it takes a JSON Schema of its answer.
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

// claudeBudgets are efforts as tokens, for models that know no effort.
var claudeBudgets = map[string]int{"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 30_000}

// claudeTraits finds a model's family. Gateways put words before the name.
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

// acceptedByClaude reports whether the API enforces a schema; it refuses others.
func acceptedByClaude(raw json.RawMessage) bool {
	return onlySupported(raw, claudeKeywords, 16, false)
}

// claudeKeywords are the keywords that the API enforces or ignores.
var claudeKeywords = map[string]bool{
	"type": true, "properties": true, "required": true, "additionalProperties": true, "items": true, "enum": true, "const": true,
	"anyOf": true, "allOf": true, "title": true, "description": true, "$schema": true, "default": true,
}
