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

// Servers of open models have a parser for each model's form of tool calls. Where it is not switched on, or is another model's, the
// calls are left in the text. See [Model.TextCalls].

type textParser struct {
	// text is the whole, and rest what of it is not read yet.
	text, rest string
	tools      map[string]*llms.FunctionDefinition
	calls      []contract.ToolCall
}

// callMarks begin one or several calls.
var callMarks = regexp.MustCompile(`<tool_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call\|>|<｜tool▁calls▁begin｜>|<｜tool▁call▁begin｜>`)

// endMarks are tokens that end an answer and that servers should have removed.
var endMarks = regexp.MustCompile(`(?:\s|<\|eom_id\|>|<\|eot_id\|>|<\|im_end\|>|</s>|<｜end▁of▁sentence｜>)+$`)

// callsInText are the calls in a text that has calls of tools in a form of one of the usual models, and the text without them. It is
// all or nothing: where one of them cannot be read, there are none.
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
		if !p.marked(mark) {
			return nil, text
		}
	}
	if len(p.calls) == 0 {
		return nil, text
	}
	around.WriteString(p.rest)
	return p.calls, strings.TrimSpace(around.String())
}

// marked reads what follows on a mark. It reports whether it could.
func (p *textParser) marked(mark string) bool {
	switch mark {
	case "<tool_call>": // Hermes, Qwen, Granite: JSON; Qwen3-Coder: elements
		ok := p.skip("<function=") && p.function() || p.values(false)
		return ok && (p.skip("</tool_call>") || p.rest == "")
	case "<function=": // Qwen3-Coder: elements; Functionary, Llama 3: JSON
		return p.function()
	case "[TOOL_CALLS]": // Mistral: JSON, or from version 11 on a name and arguments for each mark
		return p.values(false) || p.named()
	case "<|python_tag|>":
		return p.objects(false)
	case "<|tool_call|>": // Granite
		return p.values(false)
	case "<｜tool▁calls▁begin｜>": // DeepSeek's, of several
		for p.skip("<｜tool▁call▁begin｜>") {
			if !p.deepSeek() {
				return false
			}
		}
		return p.skip("<｜tool▁calls▁end｜>") || p.rest == ""
	}
	return p.deepSeek()
}

// skip drops white space and, if it follows, a text; it reports whether it does.
func (p *textParser) skip(text string) bool {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	after, found := strings.CutPrefix(p.rest, text)
	p.rest = after
	return found
}

// until takes the text before a mark, and drops the mark; it reports whether there is one.
func (p *textParser) until(mark string) (string, bool) {
	before, after, found := strings.Cut(p.rest, mark)
	if found {
		p.rest = after
	}
	return before, found
}

// value takes a JSON value; nil if none follows.
func (p *textParser) value() json.RawMessage {
	d := json.NewDecoder(strings.NewReader(p.rest))
	var raw json.RawMessage
	if d.Decode(&raw) != nil {
		return nil
	}
	p.rest = strings.TrimLeft(p.rest[d.InputOffset():], " \t\r\n")
	return raw
}

// values takes an object of a call, or a list of them.
func (p *textParser) values(bare bool) bool {
	before := p.rest
	raw := p.value()
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	for _, one := range list {
		if !p.object(one, bare) {
			p.rest = before
			return false
		}
	}
	return len(list) > 0
}

// objects takes Llama's objects, which semicolons separate.
func (p *textParser) objects(bare bool) bool {
	for {
		if !p.values(bare) {
			return false
		}
		if !p.skip(";") {
			return true
		}
	}
}

// object adds the call that an object describes. One that nothing marks as a call must be of a tool that is offered, and have no
// other members.
func (p *textParser) object(raw json.RawMessage, bare bool) bool {
	var members map[string]json.RawMessage
	var name, kind string
	if json.Unmarshal(raw, &members) != nil || json.Unmarshal(members["name"], &name) != nil {
		return false
	}
	arguments, found := members["arguments"]
	if !found {
		arguments, found = members["parameters"]
	}
	if bare {
		_ = json.Unmarshal(members["type"], &kind)
		known := 2
		if kind == "function" {
			known++
		}
		if p.tools[name] == nil || !found || len(members) != known {
			return false
		}
	}
	return p.add(name, arguments)
}

// add adds a call. Arguments are an object, or a text that is one; nil means none.
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

// toolName is a name that a tool can have.
var toolName = regexp.MustCompile(`^[^\s<>{}\[\]|"]{1,200}$`)

// named takes Mistral's name and arguments, with marks between them or not.
func (p *textParser) named() bool {
	at := strings.IndexByte(p.rest, '{')
	if at < 0 {
		return false
	}
	name, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(p.rest[:at]), "[ARGS]"), "[CALL_ID]")
	p.rest = p.rest[at:]
	return p.addNext(name)
}

func (p *textParser) addNext(name string) bool {
	raw := p.value()
	return raw != nil && p.add(name, raw)
}

// deepSeek takes a call between DeepSeek's marks: the word function, a name and a block of JSON or, from version 3.1 on, a name and JSON.
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
	if !p.addNext(name) {
		return false
	}
	p.skip("```")
	return p.skip("<｜tool▁call▁end｜>")
}

// function takes what follows on <function=: a name and an object, or a name and an element for each argument.
func (p *textParser) function() bool {
	name, found := p.until(">")
	if !found {
		return false
	}
	if p.skip("{") {
		p.rest = "{" + p.rest
		return p.addNext(name) && p.skip("</function>")
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

// typed is an argument that was written as plain text, as JSON of the type that the tool's schema gives it. Whoever calls the tool
// checks it.
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
