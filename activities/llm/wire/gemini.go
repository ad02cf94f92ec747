package wire

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"weft/activities/contract"
)

// geminiParams are the names of parameters. The effort is set separately.
var geminiParams = map[string]string{
	"top_p": "topP", "top_k": "topK", "max_tokens": "maxOutputTokens", "stop": "stopSequences", "presence_penalty": "presencePenalty",
	"frequency_penalty": "frequencyPenalty", "reasoning_effort": "", "parallel_tool_calls": "",
}

// encodeGemini encodes a request for Google's generateContent. The vendor's SDK is not used: it drops the headers of errors
// and decodes numbers in arguments to floats, which changes large integers.
func encodeGemini(m *Model, q *Request) (*Outgoing, error) {
	config := m.parameters(q, geminiParams)
	b := object{"contents": m.geminiContents(q), "generationConfig": config}
	if q.System != "" {
		b["systemInstruction"] = object{"parts": []any{object{"text": q.System}}}
	}
	if err := geminiTools(b, q); err != nil {
		return nil, err
	}
	if (b["tools"] == nil || q.Options.ToolChoice == choiceNone) && (q.JSON || len(q.Schema) > 0) {
		// The format is rejected if there are tools; tools that must not be called need not be sent.
		if !slices.ContainsFunc(q.Messages, func(m contract.Message) bool { return len(m.Calls) > 0 }) {
			delete(b, "tools")
			delete(b, "toolConfig")
		}
		if b["tools"] == nil {
			config["responseMimeType"] = "application/json"
			if len(q.Schema) > 0 {
				config["responseJsonSchema"] = q.Schema
			}
		}
	}
	if err := m.setGeminiThinking(config, q.Effort); err != nil {
		return nil, err
	}
	path := "/models/" + url.PathEscape(m.Name)
	if kind, name, _ := strings.Cut(m.Name, "/"); kind == "models" || kind == "tunedModels" {
		path = "/" + kind + "/" + url.PathEscape(name)
	}
	method := ":streamGenerateContent?alt=sse"
	if m.Unary {
		method = ":generateContent"
	}
	out, err := m.send(path+method, b, q.Extra, &geminiReader{draft: draft{m: m}})
	out.Stream = !m.Unary
	return out, err
}

func geminiTools(b object, q *Request) error {
	o, err := q.offer("parametersJsonSchema", func(tool object) any { return tool })
	if err != nil || len(o.tools) == 0 {
		return err
	}
	b["tools"] = []any{object{"functionDeclarations": o.tools}}
	calling := object{"mode": strings.ToUpper(o.mode)}
	switch {
	case o.tool != "":
		calling = object{"mode": "ANY", "allowedFunctionNames": []string{o.tool}}
	case o.mode == "":
		return nil
	case o.mode == choiceRequired:
		calling["mode"] = "ANY"
	}
	b["toolConfig"] = object{"functionCallingConfig": calling}
	return nil
}

// geminiBudgets maps efforts to tokens, for models without levels.
var geminiBudgets = map[string]int{"none": 0, "minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576, "xhigh": 24_576, "max": 24_576}

var geminiLevels = map[string]string{"none": "minimal", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}

func (m *Model) setGeminiThinking(config object, effort string) error {
	if effort == "" {
		return nil
	}
	tokens, err := tokenBudget(geminiBudgets, effort)
	config["thinkingConfig"] = object{"thinkingLevel": geminiLevels[effort]}
	if m.hasPrefix("gemini-2.5") {
		config["thinkingConfig"] = object{"thinkingBudget": tokens}
	}
	return err
}

// geminiContents returns the messages. Their parts are ours or, as raw JSON, the provider's.
func (m *Model) geminiContents(q *Request) []object {
	names := map[string]string{} // of called tools, by the call's id
	out := turns(q.Messages, "model", "parts", func(in *contract.Message) []any {
		if in.Role == contract.RoleAssistant {
			return m.geminiAnswer(in, names)
		}
		return geminiParts(in, names)
	}, object{"text": emptyText})
	if !m.hasPrefix("gemini-1", "gemini-2") {
		signCalls(out)
	}
	return out
}

func geminiParts(in *contract.Message, names map[string]string) []any {
	if in.Role == contract.RoleTool {
		key := "output"
		if in.Error {
			key = "error"
		}
		return []any{object{"functionResponse": object{
			"id": in.CallID, "name": cmp.Or(in.Name, names[in.CallID], in.CallID), "response": object{key: in.Text}}}}
	}
	var out []any
	if in.Text != "" {
		out = append(out, object{"text": in.Text})
	}
	for _, file := range in.Media {
		media := file.MediaType
		if file.Kind() == contract.KindAudio {
			media = "audio/" + file.Format() // audio/mp3 instead of audio/mpeg
		}
		out = append(out, object{"inlineData": object{"mimeType": media, "data": file.Data}})
	}
	return out
}

func (m *Model) geminiAnswer(in *contract.Message, names map[string]string) []any {
	var out []any
	for _, p := range m.assistantBlocks(in) {
		part := object{}
		switch {
		case p.raw != nil:
			out = append(out, p.raw)
			continue
		case p.call != nil:
			names[p.call.ID] = p.call.Name
			call := object{"name": p.call.Name, "args": json.RawMessage(objectArguments(p.call.Arguments))}
			if p.call.ID != "" {
				call["id"] = p.call.ID
			}
			part["functionCall"] = call
		case p.text == "" && p.signature == "":
			continue
		default:
			part["text"] = p.text
		}
		if p.signature != "" {
			part["thoughtSignature"] = p.signature
		}
		out = append(out, part)
	}
	return out
}

// noSignature is Google's documented placeholder for the signature of a call that another model made.
const noSignature = "skip_thought_signature_validator"

// signCalls adds the placeholder to the first call of each answer if another model made it, without a signature.
func signCalls(contents []object) {
	for _, c := range contents {
		for _, p := range c["parts"].([]any) {
			if part, ours := p.(object); ours && part["functionCall"] != nil {
				part["thoughtSignature"] = cmp.Or(part["thoughtSignature"], any(noSignature))
				break // only the first call of an answer has a signature
			}
		}
	}
}
