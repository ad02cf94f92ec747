package wire

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// textParser parses tool calls in the text of an answer. Servers of open models have a parser for each model's form; if it
// is not enabled, or is for another model, they leave the calls in the text.
type textParser struct {
	// text is the entire text, and rest the unread part.
	text, rest string
	tools      map[string]*llms.FunctionDefinition
	calls      []contract.ToolCall
}

// callMarks matches the beginning of one or several calls.
var callMarks = regexp.MustCompile(`<tool_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call\|>|<｜tool▁calls▁begin｜>|<｜tool▁call▁begin｜>`)

// endMarks matches tokens at the end of an answer that the server should have removed.
var endMarks = regexp.MustCompile(`(?:\s|<\|eom_id\|>|<\|eot_id\|>|<\|im_end\|>|</s>|<｜end▁of▁sentence｜>)+$`)

// callsInText returns the tool calls in a text, in the form of one of the usual models, and the text without them. If one of
// the calls cannot be parsed, it returns no calls and the text unchanged.
func callsInText(text string, tools []llms.Tool) (calls []contract.ToolCall, rest string) {
	p := &textParser{text: endMarks.ReplaceAllString(text, ""), tools: map[string]*llms.FunctionDefinition{}}
	for _, t := range tools {
		if t.Function != nil {
			p.tools[t.Function.Name] = t.Function
		}
	}
	if p.rest = strings.TrimSpace(p.text); p.rest != "" && (p.rest[0] == '{' || p.rest[0] == '[') {
		if p.objects(true) && p.rest == "" {
			return p.calls, ""
		}
		p.calls = nil
	}
	var around strings.Builder
	p.rest = p.text
	for {
		at := callMarks.FindStringIndex(p.rest)
		if at == nil {
			break
		}
		around.WriteString(p.rest[:at[0]])
		mark := p.rest[at[0]:at[1]]
		p.rest = p.rest[at[1]:]
		if !p.parseMarked(mark) {
			return nil, text
		}
	}
	if len(p.calls) == 0 {
		return nil, text
	}
	around.WriteString(p.rest)
	return p.calls, strings.TrimSpace(around.String())
}

// parseMarked parses the calls after a mark. It reports whether they are valid.
func (p *textParser) parseMarked(mark string) bool {
	switch mark {
	case "<tool_call>": // Hermes, Qwen, Granite: JSON; Qwen3-Coder: elements
		ok := p.skip("<function=") && p.function() || p.values(false)
		return ok && (p.skip("</tool_call>") || p.rest == "")
	case "<function=": // Qwen3-Coder: elements; Functionary, Llama 3: JSON
		return p.function()
	case "[TOOL_CALLS]": // Mistral: JSON, or since version 11 a name and arguments for each mark
		return p.values(false) || p.mistralCall()
	case "<|python_tag|>":
		return p.objects(false)
	case "<|tool_call|>": // Granite
		return p.values(false)
	case "<｜tool▁calls▁begin｜>": // DeepSeek: several calls
		for p.skip("<｜tool▁call▁begin｜>") {
			if !p.deepSeek() {
				return false
			}
		}
		return p.skip("<｜tool▁calls▁end｜>") || p.rest == ""
	}
	return p.deepSeek()
}

// skip skips white space and then text; it reports whether text follows.
func (p *textParser) skip(text string) bool {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	after, found := strings.CutPrefix(p.rest, text)
	p.rest = after
	return found
}

// until returns the text before a mark, and skips both. It reports whether there is a mark.
func (p *textParser) until(mark string) (string, bool) {
	before, after, found := strings.Cut(p.rest, mark)
	if found {
		p.rest = after
	}
	return before, found
}

// value reads a JSON value; it returns nil if none follows.
func (p *textParser) value() json.RawMessage {
	d := json.NewDecoder(strings.NewReader(p.rest))
	var raw json.RawMessage
	if d.Decode(&raw) != nil {
		return nil
	}
	p.rest = strings.TrimLeft(p.rest[d.InputOffset():], " \t\r\n")
	return raw
}

// values parses an object that describes a call, or a list of them. unmarked is as in object.
func (p *textParser) values(unmarked bool) bool {
	before := p.rest
	raw := p.value()
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	for _, one := range list {
		if !p.object(one, unmarked) {
			p.rest = before
			return false
		}
	}
	return len(list) > 0
}

// objects parses Llama's objects, which are separated by semicolons.
func (p *textParser) objects(unmarked bool) bool {
	for {
		if !p.values(unmarked) {
			return false
		}
		if !p.skip(";") {
			return true
		}
	}
}

// object adds the call that an object describes. An unmarked object is a call only if its tool is offered and it has no
// other members.
func (p *textParser) object(raw json.RawMessage, unmarked bool) bool {
	var members map[string]json.RawMessage
	var name, kind string
	if json.Unmarshal(raw, &members) != nil || json.Unmarshal(members["name"], &name) != nil {
		return false
	}
	arguments, found := members["arguments"]
	if !found {
		arguments, found = members["parameters"]
	}
	if unmarked {
		_ = json.Unmarshal(members["type"], &kind)
		expected := 2
		if kind == "function" {
			expected++
		}
		if p.tools[name] == nil || !found || len(members) != expected {
			return false
		}
	}
	return p.add(name, arguments)
}

// add adds a call. Arguments are an object, or a string that contains one; nil means none.
func (p *textParser) add(name string, arguments json.RawMessage) bool {
	var text string
	if json.Unmarshal(arguments, &text) == nil && text != "" {
		arguments = json.RawMessage(text)
	}
	if arguments = bytes.TrimSpace(arguments); len(arguments) == 0 || string(arguments) == "null" {
		arguments = json.RawMessage("{}")
	}
	if name = strings.TrimSpace(name); !toolName.MatchString(name) || arguments[0] != '{' || !json.Valid(arguments) {
		return false
	}
	p.calls = append(p.calls, contract.ToolCall{Name: name, Arguments: string(arguments)})
	return true
}

// toolName matches names that a tool can have.
var toolName = regexp.MustCompile(`^[^\s<>{}\[\]|"]{1,200}$`)

// mistralCall parses Mistral's name and arguments, with or without marks between them.
func (p *textParser) mistralCall() bool {
	at := strings.IndexByte(p.rest, '{')
	if at < 0 {
		return false
	}
	name, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(p.rest[:at]), "[ARGS]"), "[CALL_ID]")
	p.rest = p.rest[at:]
	return p.addNextCall(name)
}

func (p *textParser) addNextCall(name string) bool {
	raw := p.value()
	return raw != nil && p.add(name, raw)
}

// deepSeek parses a call between DeepSeek's marks: the word function, a name and a block of JSON or, since version 3.1, a
// name and JSON.
func (p *textParser) deepSeek() bool {
	name, found := p.until("<｜tool▁sep｜>")
	if !found {
		return false
	}
	if strings.TrimSpace(name) == "function" {
		if name, found = p.until("```json"); !found {
			return false
		}
	}
	if !p.addNextCall(name) {
		return false
	}
	p.skip("```")
	return p.skip("<｜tool▁call▁end｜>")
}

// function parses the text after <function=: a name and an object, or a name and an element for each argument.
func (p *textParser) function() bool {
	name, found := p.until(">")
	if !found {
		return false
	}
	if p.skip("{") {
		p.rest = "{" + p.rest
		return p.addNextCall(name) && p.skip("</function>")
	}
	arguments := map[string]json.RawMessage{}
	for p.skip("<parameter=") {
		key, named := p.until(">")
		value, closed := p.until("</parameter>")
		if !named || !closed || key == "" {
			return false
		}
		arguments[key] = p.typed(name, key, value)
	}
	raw, _ := textutil.JSON(arguments) // its values are JSON
	return p.skip("</function>") && p.add(name, raw)
}

// typed converts an argument in plain text to JSON of the type in the tool's schema. The caller of the tool validates it.
func (p *textParser) typed(tool, key, value string) json.RawMessage {
	value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
	raw, _ := textutil.JSON(value) // a string always encodes
	t := p.tools[tool]
	if t == nil {
		return raw
	}
	var schema struct {
		Properties map[string]struct{ Type any }
	}
	described, err := json.Marshal(t.Parameters)
	if err != nil || json.Unmarshal(described, &schema) != nil || schema.Properties[key].Type == "string" || !json.Valid([]byte(value)) {
		return raw
	}
	return json.RawMessage(strings.TrimSpace(value))
}
