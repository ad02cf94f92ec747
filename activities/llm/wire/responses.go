package wire

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"weft/activities/contract"
)

// The values of [Request.API] and [Model.API], for servers with chat completions and for OCI, whose chat API is its own.
const (
	APIChat      = "chat"
	APIResponses = "responses"
)

// responsesParams are the parameters that the Responses API supports, with their names.
var responsesParams = map[string]string{
	"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_output_tokens",
	"parallel_tool_calls": "parallel_tool_calls", "reasoning_effort": "reasoning.effort",
}

// reasoningModels matches OpenAI's reasoning models, also with a prefix of a gateway. They reject sampling parameters, and
// their reasoning is exchanged encrypted.
var reasoningModels = regexp.MustCompile(`(^|[/.])(o[134]|gpt-5|codex)`)

func (m *Model) reasons() bool {
	return reasoningModels.MatchString(m.Name) && !strings.Contains(m.Name, "-chat")
}

// usesResponses reports whether a request is sent to OpenAI's Responses API: if it is selected or, by default, if the model
// is in [Server.Responses] and the request has nothing that only chat completions support.
func (m *Model) usesResponses(q *Request) bool {
	switch api := cmp.Or(q.API, m.API); {
	case m.Protocol == OCI:
		return api == APIResponses && !m.hasPrefix(ociAgentPrefix)
	case m.Protocol != Chat:
		return false
	case api != "":
		return api == APIResponses
	case q.Options.MaxTokens > 0 && q.Options.MaxTokens < 16, len(q.chatOnly()) > 0: // 16 is the minimum of the Responses API
		return false
	}
	return m.hasPrefix(m.Responses...) && !slices.ContainsFunc(chatOnlyModels, m.nameContains)
}

// chatOnly returns the parameters and extra fields of a request that the Responses API does not support.
func (q *Request) chatOnly() []string {
	out := slices.DeleteFunc(slices.Sorted(maps.Keys(q.Parameters())), func(name string) bool { return responsesParams[name] != "" })
	var extra map[string]json.RawMessage
	_ = json.Unmarshal(q.Extra, &extra) // anything but an object is rejected by merge
	for _, name := range chatOnlyFields {
		if extra[name] != nil {
			out = append(out, name)
		}
	}
	return out
}

// chatOnlyFields are fields of chat completions that the Responses API lacks, or has under another name.
var chatOnlyFields = []string{
	"audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "modalities", "n",
	"prediction", "presence_penalty", "reasoning_effort", "response_format", "seed", "stop", "verbosity", "web_search_options",
}

// chatOnlyModels are substrings of the names of models that only chat completions support.
var chatOnlyModels = []string{"-audio", "-search", "o1-mini", "o1-preview"}

// encodeResponses encodes a request for OpenAI's Responses API. The server stores nothing; the data of an answer that must
// be sent back is in its message.
func encodeResponses(m *Model, q *Request) (*Outgoing, error) {
	if names := q.chatOnly(); len(names) > 0 {
		return nil, unsendable("OpenAI's Responses API does not support %s; remove it, or use chat completions (providers.%s.api, or api_type in the document)", strings.Join(names, ", "), m.Provider)
	}
	b := m.parameters(q, responsesParams)
	b["model"], b["store"], b["input"] = m.Name, false, m.responsesInput(q.Messages)
	if q.System != "" {
		b["instructions"] = q.System
	}
	if m.reasons() {
		delete(b, "temperature")
		delete(b, "top_p")
		b["include"] = []any{"reasoning.encrypted_content"}
	}
	m.cacheKey(b, q)
	o, err := q.offer("parameters", func(tool object) any {
		tool["type"], tool["strict"] = "function", false
		return tool
	})
	if err != nil {
		return nil, err
	}
	if len(o.tools) == 0 {
		delete(b, "parallel_tool_calls")
	} else {
		b["tools"] = o.tools
		if o.tool != "" {
			b["tool_choice"] = object{"type": "function", "name": o.tool}
		} else if o.mode != "" {
			b["tool_choice"] = o.mode
		}
	}
	if len(o.tools) == 0 || o.mode == choiceNone || m.FormatWithTools {
		input := *q
		input.System = "" // the word JSON must be in a message
		if format := m.format(&input); format != nil {
			b["text"] = object{"format": format}
		}
	}
	if !m.Unary {
		b["stream"] = true
	}
	return m.send("/responses", b, q.Extra, &responsesReader{draft: draft{m: m}})
}

// responsesInput returns the items of a conversation: ours or, as raw JSON, the provider's.
func (m *Model) responsesInput(in []contract.Message) []any {
	out := []any{}
	for i := range in {
		switch msg := &in[i]; msg.Role {
		case contract.RoleAssistant:
			out = append(out, m.responsesAnswer(msg)...)
		case contract.RoleTool:
			out = append(out, object{"type": "function_call_output", "call_id": m.callID(msg.CallID), "output": responsesContent(msg)})
		default:
			out = append(out, object{"role": "user", "content": responsesContent(msg)})
		}
	}
	return out
}

func responsesContent(in *contract.Message) any {
	if len(in.Media) == 0 {
		return in.Text
	}
	var out []any
	if in.Text != "" {
		out = append(out, object{"type": "input_text", "text": in.Text})
	}
	for i := range in.Media {
		if file := &in.Media[i]; file.Kind() == contract.KindDocument {
			out = append(out, object{"type": "input_file", "filename": documentName(file), "file_data": dataURL(file)})
		} else {
			out = append(out, object{"type": "input_image", "image_url": dataURL(file)})
		}
	}
	return out
}

// responsesAnswer returns the items of an answer. Reasoning is sent back only to reasoning models, and only before another
// item.
func (m *Model) responsesAnswer(in *contract.Message) []any {
	var out []any
	size := 0 // up to the last item other than reasoning
	for _, p := range m.assistantBlocks(in) {
		var item object
		switch {
		case p.raw != nil:
			thought := itemOf(p.raw).Type == itemReasoning
			if thought && m.Responses != nil && !m.reasons() {
				continue
			}
			if out = append(out, p.raw); !thought {
				size = len(out)
			}
			continue
		case p.call != nil:
			args := p.call.Arguments
			if !m.RawArguments || strings.TrimSpace(args) == "" {
				args = objectArguments(args)
			}
			item = object{"type": itemCall, "call_id": m.callID(p.call.ID), "name": p.call.Name, "arguments": args}
			if p.signature != "" {
				item["namespace"] = p.signature
			}
		case p.text == "":
			continue
		default:
			item = object{"type": itemMessage, "role": "assistant", "content": []any{object{"type": "output_text", "text": p.text}}}
			if p.signature != "" {
				item["phase"] = p.signature
			}
		}
		out = append(out, item)
		size = len(out)
	}
	return out[:size]
}
