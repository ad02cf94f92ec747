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

// The values of [Request.API] and [Model.API], for servers of chat completions and OCI, which has a chat of its own.
const (
	APIChat      = "chat"
	APIResponses = "responses"
)

// responsesWords are the names of the parameters that Responses take.
var responsesWords = map[string]string{
	"temperature": "temperature", "top_p": "top_p", "max_tokens": "max_output_tokens",
	"parallel_tool_calls": "parallel_tool_calls", "reasoning_effort": "reasoning.effort",
}

// reasoners are OpenAI's models that reason, behind what gateways put before their names. They take no sampling
// parameters, and what they thought comes and goes encrypted.
var reasoners = regexp.MustCompile(`(^|[/.])(o[134]|gpt-5|codex)`)

func (m *Model) reasons() bool {
	return reasoners.MatchString(m.Name) && !strings.Contains(m.Name, "-chat")
}

// byResponses reports whether a request goes by OpenAI's Responses: by what is set, else if the model is one of
// [Server.Responses] and the request has nothing that only chat completions take.
func (m *Model) byResponses(q *Request) bool {
	switch api := cmp.Or(q.API, m.API); {
	case m.Protocol == OCI:
		return api == APIResponses && !m.begins(ociAgentPrefix)
	case m.Protocol != Chat:
		return false
	case api != "":
		return api == APIResponses
	case q.Options.MaxTokens > 0 && q.Options.MaxTokens < 16, len(q.onlyChat()) > 0: // 16 are the least that Responses take
		return false
	}
	return m.begins(m.Responses...) && !slices.ContainsFunc(chatModels, m.named)
}

// onlyChat are the parameters and extra fields of a request that Responses do not take.
func (q *Request) onlyChat() []string {
	out := slices.DeleteFunc(slices.Sorted(maps.Keys(q.Parameters())), func(name string) bool { return responsesWords[name] != "" })
	var extra map[string]json.RawMessage
	_ = json.Unmarshal(q.Extra, &extra) // what is no object is refused when it is merged
	for _, name := range chatFields {
		if extra[name] != nil {
			out = append(out, name)
		}
	}
	return out
}

// chatFields are fields of chat completions that Responses have not, or under another name.
var chatFields = []string{
	"audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "modalities", "n",
	"prediction", "presence_penalty", "reasoning_effort", "response_format", "seed", "stop", "verbosity", "web_search_options",
}

// chatModels are in the names of models that only chat completions have.
var chatModels = []string{"-audio", "-search", "o1-mini", "o1-preview"}

// encodeResponses writes OpenAI's Responses. The server keeps nothing: what it wants back of an answer is in its message.
func encodeResponses(m *Model, q *Request) (*Outgoing, error) {
	if names := q.onlyChat(); len(names) > 0 {
		return nil, unsendable("OpenAI's Responses API takes no %s; leave it out, or ask by chat completions (providers.%s.api, or api_type of the document)", strings.Join(names, ", "), m.Provider)
	}
	b := m.parameters(q, responsesWords)
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
		input.System = "" // the word JSON counts in messages alone
		if format := m.format(&input); format != nil {
			b["text"] = object{"format": format}
		}
	}
	if !m.Unary {
		b["stream"] = true
	}
	return m.send("/responses", b, q.Extra, &responsesReader{draft: draft{m: m}})
}

// responsesInput are the items of a conversation: ours or, as raw JSON, the provider's.
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

// responsesAnswer are the items of an answer. What was thought goes back to models that reason, before what came of it.
func (m *Model) responsesAnswer(in *contract.Message) []any {
	var out []any
	size := 0 // up to the last item that is no thought
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
