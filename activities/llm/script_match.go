package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// conversation is what rules look at in a conversation.
type conversation struct {
	// model is the one that is asked.
	model string
	// turn is 1 plus the number of the assistant's messages.
	turn int
	// last is the text of the last message, after the tool whose result it is.
	last, after string
	// user is the text of the last message of the user.
	user string
	// all is every text but the system prompt's, with results and arguments of tools.
	all string
}

func newConversation(in []contract.Message) *conversation {
	t := &conversation{turn: 1}
	var all strings.Builder
	for i := range in {
		m := &in[i]
		t.last, t.after = m.Text, ""
		for _, c := range m.Calls {
			all.WriteString(c.Arguments + "\n")
		}
		all.WriteString(m.Text + "\n")
		switch m.Role {
		case contract.RoleAssistant:
			t.turn++
		case contract.RoleTool:
			t.after = m.Name
		case contract.RoleUser:
			t.user = m.Text
		}
	}
	t.all = all.String()
	return t
}

// kind is the kind of calls that a rule is for: that of its question or answer unless it is set; "" is any.
func (r *Rule) kind() string {
	switch {
	case r.Kind != "":
		return r.Kind
	case r.Question != "" || r.Yes != nil:
		return KindJudge
	case r.answers():
		return KindAgent
	}
	return ""
}

// matches reports whether all conditions of a rule hold.
func (r *Rule) matches(call *Call, t *conversation) bool {
	want := r.kind()
	switch {
	case r.At != "" && r.At != call.At && !strings.HasSuffix(call.At, "/"+r.At),
		r.Text != "" && r.Text != t.last,
		r.Node != "" && r.Node != call.Node,
		r.Model != "" && r.Model != t.model,
		want != "" && want != cmp.Or(call.Kind, KindAgent),
		r.Question != "" && r.Question != call.Question,
		r.Step != nil && *r.Step != call.Step,
		r.Turn != nil && *r.Turn != t.turn,
		r.After != "" && r.After != t.after,
		r.Contains != "" && !strings.Contains(t.all, r.Contains):
		return false
	}
	matched, _ := regexp.MatchString(r.Match, t.last) // ParseScript has checked it; an empty one matches
	return matched
}

// unscriptedSteps is after which step of a run conditions no longer hold without a script, so that loops end.
const unscriptedSteps = 20

// sampleAction is the answer without a script, labelled as such.
func sampleAction(call *Call, t *conversation) *Action {
	if call.Kind == KindJudge {
		yes := call.Step <= unscriptedSteps
		return &Action{Yes: &yes, Reason: fmt.Sprintf("[script] without a script every condition holds up to step %d", unscriptedSteps)}
	}
	label := fmt.Sprintf("[script] %s answered turn %d", cmp.Or(call.Node, "a node"), t.turn)
	if t.user != "" {
		label += fmt.Sprintf("; the last message was: %s", firstRunes(t.user, 200))
	}
	for _, tool := range call.Options.Tools {
		if call.Finish != "" && tool.Function != nil && tool.Function.Name == call.Finish {
			return &Action{Call: []ScriptCall{{Tool: call.Finish, Arguments: sampleArguments(tool.Function.Parameters, label)}}}
		}
	}
	if len(call.Schema) == 0 && !call.JSON {
		return &Action{Say: &label}
	}
	var schema any
	_ = json.Unmarshal(call.Schema, &schema) // without one it is any object
	value := sample(schema, label)
	if value == nil {
		value = map[string]any{"script": label}
	}
	raw, _ := textutil.JSON(value) // what was decoded can be encoded
	return &Action{JSON: raw}
}

// sampleArguments are arguments of the shape of a tool's schema.
func sampleArguments(parameters any, label string) json.RawMessage {
	raw, err := json.Marshal(parameters)
	var schema any
	if err == nil {
		err = json.Unmarshal(raw, &schema)
	}
	value, ok := sample(schema, label).(map[string]any)
	if err != nil || !ok {
		return json.RawMessage(`{}`)
	}
	raw, _ = textutil.JSON(value) // what was decoded can be encoded
	return raw
}

// firstRunes is s, or its first n characters and three dots.
func firstRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "..."
		}
	}
	return s
}

// maxSample bounds how deep a sample goes: schemas can be recursive.
const maxSample = 8

// sampler makes values of the shape of a JSON Schema.
type sampler struct {
	// root is the schema that references point into.
	root  any
	label string
}

// sample makes a value of the shape of a schema.
func sample(schema any, label string) any {
	p := &sampler{schema, label}
	return p.value(schema, 0)
}

func (p *sampler) value(schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok || depth > maxSample {
		return nil
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if to, ok := s["$ref"].(string); ok {
		return p.value(p.target(to), depth+1)
	}
	for i, list := range []string{"enum", "examples", "anyOf", "oneOf", "allOf"} {
		l, _ := s[list].([]any)
		switch {
		case len(l) == 0:
		case i < 2:
			return l[0]
		default:
			return p.value(l[0], depth+1)
		}
	}
	return p.typed(s, depth)
}

// typed makes a value of a schema's type.
func (p *sampler) typed(s map[string]any, depth int) any {
	switch typeOf(s) {
	case "object":
		out := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		for name, property := range properties {
			out[name] = p.value(property, depth+1)
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			if name, ok := name.(string); ok && properties[name] == nil {
				out[name] = p.label
			}
		}
		return out
	case "array":
		n := min(max(1, number(s["minItems"])), 10)
		return slices.Repeat([]any{p.value(s["items"], depth+1)}, n)
	case "string":
		return p.text(s)
	case "integer", "number":
		return least(s)
	case "boolean":
		return true
	case "":
		return p.label // any value will do
	}
	return nil
}

// target is what a reference inside the schema points to, or nil.
func (p *sampler) target(ref string) any {
	at := p.root
	path, inside := strings.CutPrefix(ref, "#")
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step); step != "" {
			o, _ := at.(map[string]any)
			at = o[step]
		}
	}
	if !inside {
		return nil
	}
	return at
}

// text is the label, within the schema's bounds.
func (p *sampler) text(s map[string]any) string {
	if pattern, ok := s["pattern"].(string); ok {
		if parsed, err := syntax.Parse(pattern, syntax.Perl); err == nil {
			return matching(parsed.Simplify())
		}
	}
	text := p.label + strings.Repeat(".", max(0, min(number(s["minLength"]), 1000)-utf8.RuneCountInString(p.label)))
	if _, ok := s["maxLength"]; ok {
		text = string([]rune(text)[:min(number(s["maxLength"]), utf8.RuneCountInString(text))])
	}
	return text
}

// matching is a short text that a regular expression matches.
func matching(r *syntax.Regexp) string {
	text := ""
	switch r.Op {
	case syntax.OpLiteral:
		return string(r.Rune)
	case syntax.OpCharClass:
		if len(r.Rune) > 0 {
			return string(r.Rune[len(r.Rune)-2]) // the last range: letters after digits
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpCapture, syntax.OpPlus, syntax.OpAlternate:
		return matching(r.Sub[0])
	case syntax.OpRepeat:
		return strings.Repeat(matching(r.Sub[0]), min(r.Min, 1000))
	case syntax.OpConcat:
		for _, part := range r.Sub {
			text += matching(part)
		}
	}
	return text
}

// typeOf is a schema's type, the first one where it lists several.
func typeOf(s map[string]any) string {
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		if len(t) > 0 {
			first, _ := t[0].(string)
			return first
		}
	}
	if s["properties"] != nil {
		return "object"
	}
	return ""
}

// least is the least number from 0 on that a schema takes, or the greatest below.
func least(s map[string]any) any {
	if most, ok := s["maximum"].(float64); ok && most < 0 {
		return most
	}
	n := number(s["minimum"])
	if above, ok := s["exclusiveMinimum"].(float64); ok && above >= float64(n) {
		n = number(math.Floor(above) + 1)
	}
	return n
}

func number(v any) int {
	n, _ := v.(float64)
	return int(min(max(0, n), math.MaxInt32))
}
