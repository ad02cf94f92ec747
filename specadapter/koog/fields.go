package koog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// Codes of the diagnostics; README.md says what they mean.
const (
	CodeWrongType    = "wrong-type"
	CodeMissing      = "missing-field"
	CodeUnknown      = "unknown-field"
	CodeNoAgents     = "no-agents"
	CodeTooMany      = "too-many"
	CodeDuplicate    = "duplicate-name"
	CodeName         = "agent-name"
	CodeType         = "agent-type"
	CodeRuntime      = "unknown-runtime"
	CodeModel        = "model"
	CodeConfig       = "config"
	CodeNoEffect     = "no-effect"
	CodeTransform    = "transformation"
	CodeParallel     = "parallel"
	CodeTool         = "tool"
	CodeUnknownTool  = "unknown-tool"
	CodeSecret       = "secret-in-flow"
	CodeCommand      = "command"
	CodeUnknownAgent = "unknown-agent"
	CodeVariable     = "condition-variable"
	CodeOperation    = "unknown-operation"
	CodeValue        = "condition-value"
	CodeNever        = "never-holds"
	CodeAlways       = "always-holds"
	CodeShadowed     = "shadowed"
	CodeNotExhausted = "not-exhaustive"
	CodeUnreachable  = "unreachable-agent"
	CodeNoFinish     = "finish-unreachable"
)

// howToWrite is the remedy for a value of the wrong kind.
var howToWrite = map[source.Kind]string{
	source.String: "write a text in double quotes",
	source.Bool:   "write true or false, without quotes",
	source.Number: "write a number, without quotes",
	source.Array:  "write a list: [...]",
	source.Object: "write an object: {...}",
}

// object is an object of the document whose fields are being read.
type object struct {
	a     *adaptation
	value *source.Value
	// what names it in messages.
	what string
	ok   bool
}

// object begins to read a value's fields; if it is no object, that is reported.
func (a *adaptation) object(v *source.Value, what string) object {
	o := object{a: a, value: v, what: what, ok: v.Kind == source.Object}
	if !o.ok {
		a.errorf(v.Pos, CodeWrongType, howToWrite[source.Object], "%s is %s, want an object", what, v.Describe())
	}
	return o
}

// nullable are the fields that the real code takes null for as if they were absent.
var nullable = []string{"defaultModel", "model", "runtime", "config", "prompt", "params", "output", "user", "condition",
	"temperature", "topP", "maxTokens", "maxIterations", "toolChoice", "speculation", "task", "transformation"}

// get is a field's value, or nil where it is absent or null, as far as it may be.
func (o *object) get(key string) *source.Value {
	v := o.value.Get(key)
	if v != nil && v.Kind == source.Null && (o.a.mode == meant || slices.Contains(nullable, key)) {
		return nil
	}
	return v
}

// pos is the place of a field's value, or of the object where it is missing.
func (o *object) pos(key string) source.Pos {
	if v := o.value.Get(key); v != nil {
		return v.Pos
	}
	return o.value.Pos
}

// want is a field's value if it is of a kind; another kind is reported.
func (o *object) want(key string, kind source.Kind) *source.Value {
	v := o.get(key)
	if v == nil {
		return nil
	}
	if v.Kind != kind {
		o.a.errorf(v.Pos, CodeWrongType, howToWrite[kind], "%s of %s is %s, want %s", key, o.what, v.Describe(), kind)
		return nil
	}
	return v
}

// text is a string field, "" where it is absent. A number, true or false stands for its text, as
// in the protocol's first code.
func (o *object) text(key string) string {
	if v := o.get(key); v != nil && (v.Kind == source.Number || v.Kind == source.Bool) && o.a.mode != later {
		if o.a.mode == meant {
			o.a.warnf(v.Pos, CodeWrongType, howToWrite[source.String], "%s of %s is %s, %s; it is taken as that text", key, o.what, v.Describe(), v.Kind)
		}
		return literal(v)
	}
	if v := o.want(key, source.String); v != nil {
		return v.Text
	}
	return ""
}

// element is a text in a list, or under a name of the author's own: as [object.text] takes it.
// What may be a secret is not shown.
func (a *adaptation) element(v *source.Value, what string, secret bool) (text string, ok bool) {
	is := v.Describe() + ", " + v.Kind.String()
	if secret {
		is = v.Kind.String()
	}
	switch {
	case v.Kind == source.String:
		return v.Text, true
	case v.Kind != source.Number && v.Kind != source.Bool || a.mode == later:
		a.errorf(v.Pos, CodeWrongType, howToWrite[source.String], "%s is %s; want a string", what, is)
		return "", false
	case a.mode == meant:
		a.warnf(v.Pos, CodeWrongType, howToWrite[source.String], "%s is %s; it is taken as that text", what, is)
	}
	return literal(v), true
}

// literal is a number, true or false as it is written.
func literal(v *source.Value) string {
	if v.Kind == source.Number {
		return v.Text
	}
	return v.Describe()
}

// number is a field's value; a number in quotes is that number, as in the real code.
func (o *object) number(key string) *source.Value {
	v := o.get(key)
	if v == nil || v.Kind != source.String || !json.Valid([]byte(v.Text)) || strings.Trim(v.Text, "0123456789+-.eE") != "" {
		return v
	}
	if o.a.mode == meant {
		o.a.warnf(v.Pos, CodeWrongType, howToWrite[source.Number], "%s of %s is %s, a string; it is taken as that number", key, o.what, v.Describe())
	}
	return &source.Value{Kind: source.Number, Pos: v.Pos, Text: v.Text}
}

// required is a string field that must be there and not blank.
func (o *object) required(key string) string {
	s := o.text(key)
	if strings.TrimSpace(s) == "" && (o.get(key) == nil || o.get(key).Kind == source.String) {
		o.a.errorf(o.pos(key), CodeMissing, fmt.Sprintf("write %q", key), "%s has no %s", o.what, key)
	}
	return s
}

// list is an array field, empty where it is absent.
func (o *object) list(key string) []*source.Value {
	if v := o.want(key, source.Array); v != nil {
		return v.Items
	}
	return nil
}

// inner begins to read a field that is an object; absent, it has no members.
func (o *object) inner(key, what string) object {
	v := o.want(key, source.Object)
	if v == nil {
		v = &source.Value{Kind: source.Object, Pos: o.pos(key)}
	}
	return object{a: o.a, value: v, what: what, ok: true}
}

// unknownField is a field without meaning, wherever it stands.
type unknownField struct {
	path, nearest string
	first         source.Pos
	count         int
}

// only notes all members that are none of these.
func (o *object) only(where string, known ...string) {
	for _, m := range o.value.Members {
		if slices.Contains(known, m.Key) {
			continue
		}
		path := where + m.Key
		u := o.a.unknown[path]
		if u == nil {
			u = &unknownField{path: path, first: m.KeyPos}
			if len(o.a.order) < 100 {
				u.nearest = source.NewSuggester(known).Nearest(m.Key)
			}
			o.a.unknown[path] = u
			o.a.order = append(o.a.order, path)
		}
		u.count++
	}
}

// listedNames is how many names a message repeats.
const listedNames = 12

// reportUnknown makes one warning of all fields without meaning.
func (a *adaptation) reportUnknown() {
	if len(a.order) == 0 {
		return
	}
	var parts, hints []string
	for i, path := range a.order {
		if i == listedNames {
			parts = append(parts, fmt.Sprintf("and %d more", len(a.order)-i))
			break
		}
		u := a.unknown[path]
		text := fmt.Sprintf("%s (%d:%d", source.Quote(u.path), u.first.Line, u.first.Col)
		if u.count > 1 {
			text += fmt.Sprintf(" and %d more", u.count-1)
		}
		parts = append(parts, text+")")
		if u.nearest != "" {
			hints = append(hints, fmt.Sprintf("did you mean %q instead of %s?", u.nearest, source.Quote(u.path)))
		}
	}
	a.warnf(a.unknown[a.order[0]].first, CodeUnknown, strings.Join(append(hints, "unknown fields do nothing"), " "),
		"the dialect does not know: %s", strings.Join(parts, ", "))
}

// didYouMean is the remedy for a name that is none of those known. What is known under one
// heading stays the same, so that it is prepared once.
func (a *adaptation) didYouMean(wrong string, known []string, what string) string {
	s := a.suggest[what]
	if s == nil {
		s = source.NewSuggester(known)
		a.suggest[what] = s
	}
	if near := s.Nearest(wrong); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return what + ": " + source.Listed(known, listedNames)
}
