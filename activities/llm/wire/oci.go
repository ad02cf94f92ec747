package wire

import (
	"encoding/json"
	"maps"
	"net/url"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// Models of Oracle's Generative AI service have one of two formats, and agents belong to another service. The model's name
// determines which; authors add a prefix to an OCID.
const (
	// ociAgentPrefix precedes the endpoint of an agent, see [Model.encodeOCIAgent].
	ociAgentPrefix = "agent/"
	// ociCohereName and ociCoherePrefix are prefixes of Cohere's models, whose format is COHEREV2; others have GENERIC.
	ociCohereName   = "cohere."
	ociCoherePrefix = "cohere/"
	// ociOpenAI is the path of the service's OpenAI API.
	ociOpenAI = "/openai/v1"
	// ociEndpoint is the prefix of the ids of endpoints of dedicated clusters.
	ociEndpoint = "ocid1.generativeaiendpoint."
)

var ociParams = map[string]string{
	"top_p": "topP", "top_k": "topK", "max_tokens": "maxTokens", "presence_penalty": "presencePenalty",
	"frequency_penalty": "frequencyPenalty", "parallel_tool_calls": "", "reasoning_effort": "",
}

func encodeOCI(m *Model, q *Request) (*Outgoing, error) {
	switch {
	case m.hasPrefix(ociAgentPrefix):
		return m.encodeOCIAgent(q)
	case m.hasPrefix(ociCohereName, ociCoherePrefix):
		return m.encodeOCICohere(q)
	}
	names := maps.Clone(ociParams)
	if m.hasPrefix("openai.") {
		names["max_tokens"] = "maxCompletionTokens"
	}
	b := m.parameters(q, names)
	if q.Effort != "" {
		b["reasoningEffort"] = strings.ToUpper(q.Effort)
	}
	messages := q.Messages
	if m.hasPrefix("google.") {
		messages = pairResults(messages)
	}
	b["messages"] = m.ociMessages(q.System, messages, false)
	calls, err := ociTools(b, q)
	if err != nil {
		return nil, err
	}
	switch {
	case calls:
	case len(q.Schema) > 0:
		b["responseFormat"] = object{"type": "JSON_SCHEMA", "jsonSchema": object{"name": "answer", "schema": q.Schema, "isStrict": false}}
	case q.JSON:
		b["responseFormat"] = object{"type": "JSON_OBJECT"}
	}
	return m.sendOCI("GENERIC", m.Name, b, q.Extra, !m.Unary)
}

// sendOCI returns an encoded request with the model and the compartment. extra is merged into the inner request.
func (m *Model) sendOCI(format, model string, b object, extra json.RawMessage, stream bool) (*Outgoing, error) {
	b["apiFormat"], b["isStream"] = format, stream
	if stream {
		b["streamOptions"] = object{"isIncludeUsage": true}
	}
	inner, err := marshal(b, extra)
	if err != nil {
		return nil, err
	}
	serving := object{"servingType": "ON_DEMAND", "modelId": model}
	if strings.HasPrefix(model, ociEndpoint) {
		serving = object{"servingType": "DEDICATED", "endpointId": model}
	}
	out, err := m.send("/20231130/actions/chat", object{"compartmentId": m.Compartment, "servingMode": serving, "chatRequest": inner}, nil,
		&ociReader{chatReader: chatReader{draft: draft{m: m}}, repeats: format == "COHEREV2"})
	out.Stream = stream
	return out, err
}

// ociTools sets the tools and the tool choice. It reports whether any tool may be called.
func ociTools(b object, q *Request) (bool, error) {
	o, err := q.offer("parameters", func(tool object) any {
		tool["type"] = "FUNCTION"
		return tool
	})
	if err != nil || len(o.tools) == 0 {
		return false, err
	}
	b["tools"] = o.tools
	if q.Parallel != nil {
		b["isParallelToolCalls"] = *q.Parallel
	}
	if o.tool != "" {
		b["toolChoice"] = object{"type": "FUNCTION", "name": o.tool}
	} else if o.mode != "" {
		b["toolChoice"] = object{"type": strings.ToUpper(o.mode)}
	}
	return o.mode != choiceNone, nil
}

func (m *Model) encodeOCICohere(q *Request) (*Outgoing, error) {
	if q.Parallel != nil {
		return nil, unsendable("Cohere's models on OCI do not support parallel_tool_calls; remove it, or choose another model")
	}
	names := maps.Clone(ociParams)
	names["stop"] = "stopSequences"
	b := m.parameters(q, names)
	b["messages"] = m.ociMessages(q.System, q.Messages, true)
	tools, err := cohereFields{choice: "toolsChoice", budget: "tokenBudget", format: "responseFormat", schema: "schema", convertCase: strings.ToUpper}.encode(b, q)
	if err != nil {
		return nil, err
	}
	// The form of a call's pieces in a stream is not documented.
	return m.sendOCI("COHEREV2", strings.TrimPrefix(m.Name, ociCoherePrefix), b, q.Extra, !m.Unary && !tools)
}

func ociText(s string) object { return object{"type": "TEXT", "text": s} }

func (m *Model) ociMessages(system string, in []contract.Message, cohere bool) []any {
	out := []any{}
	if system != "" {
		out = append(out, object{"role": "SYSTEM", "content": []any{ociText(system)}})
	}
	for i := range in {
		out = append(out, m.ociMessage(&in[i], cohere))
	}
	return out
}

func (m *Model) ociMessage(in *contract.Message, cohere bool) object {
	out := object{"role": strings.ToUpper(in.Role)}
	if in.Role == contract.RoleTool {
		out["content"], out["toolCallId"] = []any{ociText(in.Text)}, m.callID(in.CallID)
		return out
	}
	content := []any{}
	if in.Reasoning != "" && m.ownState(in.Provider) != nil {
		if cohere {
			content = append(content, object{"type": "THINKING", "thinking": in.Reasoning})
		} else {
			out["reasoningContent"] = in.Reasoning
		}
	}
	switch { // the service rejects empty content
	case in.Text != "":
		content = append(content, ociText(in.Text))
	case len(in.Media) > 0:
	case in.Role == contract.RoleAssistant:
		content = append(content, ociText("."))
	default:
		content = append(content, ociText(emptyText))
	}
	for i := range in.Media {
		kind := in.Media[i].Kind()
		name := strings.ToUpper(kind)
		if cohere {
			name += "_URL"
		}
		content = append(content, object{"type": name, kind + "Url": object{"url": dataURL(&in.Media[i])}})
	}
	out["content"] = content
	var calls []any
	for _, c := range in.Calls {
		call, function := object{"type": "FUNCTION", "id": m.callID(c.ID)}, object{"name": c.Name, "arguments": objectArguments(c.Arguments)}
		if cohere {
			call["function"] = function
		} else {
			maps.Copy(call, function)
		}
		calls = append(calls, call)
	}
	if calls != nil {
		out["toolCalls"] = calls
	}
	return out
}

// pairResults splits answers with several calls, so that each result follows its call: Google's models on OCI require it.
func pairResults(in []contract.Message) []contract.Message {
	var out []contract.Message
	for i := 0; i < len(in); i++ {
		calls := in[i].Calls
		if len(calls) < 2 || i+len(calls) >= len(in) {
			out = append(out, in[i])
			continue
		}
		for j := range calls {
			m := contract.Message{Role: contract.RoleAssistant}
			if j == 0 {
				m = in[i]
			}
			m.Calls = calls[j : j+1]
			out = append(out, m, in[i+1+j])
		}
		i += len(calls)
	}
	return out
}

// encodeOCIAgent encodes a request to an agent of the service Generative AI Agents, in the session of the conversation,
// which the first request creates. It sends the text that users wrote since the agent's last message.
func (m *Model) encodeOCIAgent(q *Request) (*Outgoing, error) {
	session := ""
	text, _ := contract.WrittenSince(q.Messages, func(in *contract.Message) bool {
		if own := m.ownState(in.Provider); own != nil {
			session = own.Session
		}
		return session != ""
	})
	agent := *m
	// The agents' address in the provider's region. A configured base URL applies to both services.
	agent.Base = strings.Replace(m.Base, "https://inference.generativeai.", "https://agent-runtime.generativeai.", 1) +
		"/20240531/agentEndpoints/" + url.PathEscape(strings.TrimPrefix(m.Name, ociAgentPrefix))
	ask := func(session string) (*Outgoing, error) {
		return agent.send("/actions/chat", object{"userMessage": text, "sessionId": session, "shouldStream": false}, nil,
			&ociAgentReader{draft{m: m, state: providerState{Session: session}}})
	}
	if session != "" {
		return ask(session)
	}
	out, err := agent.send("/sessions", object{}, nil, nil)
	out.Then = func(body []byte) (*Outgoing, error) {
		var created struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(body, &created) != nil || created.ID == "" {
			return nil, Invalidf("the response for a new session has no id: %s", excerpt(body))
		}
		return ask(created.ID)
	}
	return out, err
}

type ociAgentReader struct{ draft }

func (r *ociAgentReader) Read(raw []byte, _ bool) (bool, error) {
	var a struct {
		Message *struct {
			Content struct {
				Text LooseText `json:"text"`
			} `json:"content"`
		} `json:"message"`
		Required []json.RawMessage `json:"requiredActions"`
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return false, &Error{Reported: raw}
	}
	if len(a.Required) > 0 {
		return false, unsendable("the agent requires an action of its client (requiredActions), which is not supported: %s", textutil.Truncate(string(a.Required[0]), 200))
	}
	if a.Message == nil {
		return false, Invalidf("the response has no message: %s", excerpt(raw))
	}
	r.finish = "stop"
	r.text.WriteString(string(a.Message.Content.Text))
	return true, nil
}

func (r *ociAgentReader) Result() (*Answer, error) { return r.result("message") }
