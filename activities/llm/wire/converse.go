package wire

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"weft/activities/contract"
)

// converseParams are the names of the parameters of inferenceConfig. The effort is set separately.
var converseParams = map[string]string{"max_tokens": "maxTokens", "top_p": "topP", "stop": "stopSequences", "reasoning_effort": ""}

// encodeConverse encodes a request for Amazon Bedrock's Converse API. Some fields are sent only to the families of models
// that support them.
func encodeConverse(m *Model, q *Request) (*Outgoing, error) {
	b, config, fields := object{}, m.parameters(q, converseParams), object{}
	if m.nameContains("claude") {
		m.converseClaude(b, config, q)
	}
	if err := m.setConverseEffort(config, fields, q); err != nil {
		return nil, err
	}
	messages := turns(numberDocuments(q.Messages), "assistant", "content", m.converseContent, object{"text": emptyText})
	if strings.TrimSpace(q.System) != "" {
		b["system"] = []any{object{"text": q.System}}
	}
	if err := converseTools(b, q); err != nil {
		return nil, err
	}
	if !m.NoCache && !q.Once {
		m.cachePoints(b, messages)
	}
	b["inferenceConfig"], b["messages"] = config, messages
	if len(fields) > 0 {
		b["additionalModelRequestFields"] = fields
	}
	method := "/converse-stream"
	if m.Unary {
		method = "/converse"
	}
	// The name is escaped as the vendor's SDK does, because the address is signed.
	path := "/model/" + strings.ReplaceAll(url.PathEscape(m.Name), ":", "%3A") + method
	out, err := m.send(path, b, q.Extra, &converseReader{draft: draft{m: m}, slots: map[int]*conversePart{}})
	out.Stream = !m.Unary
	return out, err
}

// converseClaude removes parameters that Claude rejects, like [encodeClaude], and sets the schema of the answer.
func (m *Model) converseClaude(b, config object, q *Request) {
	traits := claudeTraits(m.Name)
	if !traits.sampling {
		delete(config, "temperature")
	}
	if !traits.sampling || config["temperature"] != nil {
		delete(config, "topP")
	}
	if traits.schema && len(q.Schema) > 0 && acceptedByClaude(q.Schema) {
		schema := object{"name": "answer", "schema": string(q.Schema)}
		b["outputConfig"] = object{"textFormat": object{"type": formatSchema, "structure": object{"jsonSchema": schema}}}
	}
}

// nameContains reports whether a model's name contains a family's name, which can follow a gateway or region.
func (m *Model) nameContains(family string) bool { return strings.Contains(m.Name, family) }

// setConverseEffort sets the reasoning effort in the fields of the model's family.
func (m *Model) setConverseEffort(config, fields object, q *Request) error {
	low := map[string]string{"minimal": "low", "xhigh": "high", "max": "high"}
	switch effort := q.Effort; {
	case effort == "":
	case m.nameContains("claude"):
		traits, output := claudeTraits(m.Name), object{}
		if err := setClaudeThinking(fields, output, effort, cmp.Or(q.Options.MaxTokens, traits.maxTokens), traits); err != nil {
			return err
		}
		if len(output) > 0 {
			fields["output_config"] = output
		}
		if !traits.adaptive && fields["thinking"] != nil {
			delete(config, "temperature")
		}
	case effort == "none" && (m.nameContains("nova") || m.nameContains("qwen")):
	case m.nameContains("nova"):
		fields["reasoningConfig"] = object{"type": "enabled", "maxReasoningEffort": cmp.Or(low[effort], effort)}
	case m.nameContains("qwen"):
		fields["reasoning_config"] = cmp.Or(low[effort], effort)
	case m.nameContains("gpt-oss"):
		fields["reasoning_effort"] = cmp.Or(low[effort], effort)
	default:
		return unsendable("reasoning_effort is %q, but the field of this model for it is unknown; set it in the extra parameter additionalModelRequestFields", effort)
	}
	return nil
}

// converseTools sets the tools and the tool choice. The service has no choice "none": the tools are omitted instead, unless
// the conversation has tool calls.
func converseTools(b object, q *Request) error {
	o, err := q.offer("inputSchema", func(tool object) any {
		tool["inputSchema"] = object{"json": tool["inputSchema"]}
		return object{"toolSpec": tool}
	})
	called := slices.ContainsFunc(q.Messages, func(m contract.Message) bool { return len(m.Calls) > 0 })
	if err != nil || len(o.tools) == 0 || o.mode == choiceNone && !called {
		return err
	}
	config := object{"tools": o.tools}
	if o.tool != "" {
		config["toolChoice"] = object{"tool": object{"name": o.tool}}
	} else if o.mode == choiceRequired {
		config["toolChoice"] = object{"any": object{}}
	}
	b["toolConfig"] = config
	return nil
}

// cachePoints adds cache points for models that support them, like [markPrefixes]; for Nova only after the system prompt.
func (m *Model) cachePoints(b object, messages []object) {
	traits := claudeTraits(m.Name)
	claude := m.nameContains("claude") && (traits.budget || traits.adaptive)
	if !claude && !m.nameContains("nova") {
		return
	}
	point := object{"cachePoint": object{"type": "default"}}
	config, called := b["toolConfig"].(object)
	if called && claude {
		config["tools"] = append(config["tools"].([]any), point)
	}
	if system, ok := b["system"].([]any); ok {
		b["system"] = append(system, point)
	}
	marks := 2
	if !claude || !called && len(messages) < 2 {
		marks = 0 // or the assistant has not answered yet
	}
	for i := len(messages) - 1; i >= 0 && marks > 0; i-- {
		if messages[i]["role"] == "user" {
			messages[i]["content"] = append(messages[i]["content"].([]any), point)
			marks--
		}
	}
}

// converseContent returns a message's blocks: ours or, as raw JSON, the provider's.
func (m *Model) converseContent(in *contract.Message) []any {
	if in.Role == contract.RoleAssistant {
		return m.converseAnswer(in)
	}
	var out []any
	if strings.TrimSpace(in.Text) != "" {
		out = append(out, object{"text": in.Text})
	}
	for i := range in.Media {
		file := &in.Media[i]
		block := object{"format": file.Format(), "source": object{"bytes": file.Data}}
		if file.Kind() == contract.KindDocument {
			block["name"] = file.Name
		}
		out = append(out, object{file.Kind(): block})
	}
	if in.Role != contract.RoleTool {
		return out
	}
	if len(out) == 0 {
		out = append(out, object{"text": emptyText})
	}
	result := object{"toolUseId": m.callID(in.CallID), "content": out}
	if in.Error && (m.nameContains("claude") || m.nameContains("nova")) {
		result["status"] = "error"
	}
	return []any{object{"toolResult": result}}
}

func (m *Model) converseAnswer(in *contract.Message) []any {
	var out []any
	for _, p := range m.assistantBlocks(in) {
		switch {
		case p.raw != nil:
			var b converseBlock
			if json.Unmarshal(p.raw, &b) == nil && b.Reasoning != nil && !m.nameContains("claude") {
				continue // other models reject reasoning
			}
			out = append(out, p.raw)
		case p.call != nil:
			input := json.RawMessage(objectArguments(p.call.Arguments))
			out = append(out, object{"toolUse": object{"toolUseId": m.callID(p.call.ID), "name": p.call.Name, "input": input}})
		case strings.TrimSpace(p.text) != "":
			out = append(out, object{"text": p.text})
		}
	}
	return out
}
