package blueprint

import (
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// Codes of the diagnostics; README.md has the list.
const (
	CodeWrongType    = "wrong-type"
	CodeMissing      = "missing-field"
	CodeUnknown      = "unknown-field"
	CodeName         = "name"
	CodeType         = "agent-type"
	CodeDisabled     = "disabled"
	CodeSchema       = "schema"
	CodeTwice        = "twice"
	CodeNoPrompt     = "no-prompt"
	CodeEncoding     = "encoding"
	CodeCapability   = "capability"
	CodeScript       = "script"
	CodeServer       = "mcp-server"
	CodeServerConfig = "mcp-config"
	CodeServerURL    = "mcp-url"
	CodeCommand      = "inline-command"
	CodeSecret       = "secret-inline"
	CodeOlder        = "older-shape"
	CodeHook         = "hook"
	CodeMode         = "input-mode"
	CodePlaceholder  = "placeholder"
	CodeNotYet       = "not-yet"
	CodeNoEffect     = "no-effect"
)

func (a *adaptation) report(s source.Severity, file string, at source.Pos, code, help, format string, args []any) {
	a.diags = append(a.diags, source.Diagnostic{File: file, Line: at.Line, Col: at.Col,
		Severity: s, Code: code, Help: help, Text: fmt.Sprintf(format, args...)})
}

func (a *adaptation) errorf(file string, at source.Pos, code, help, format string, args ...any) {
	a.report(source.Error, file, at, code, help, format, args)
}

func (a *adaptation) warnf(file string, at source.Pos, code, help, format string, args ...any) {
	a.report(source.Warning, file, at, code, help, format, args)
}

// errors counts the errors so far.
func (a *adaptation) errors() int {
	n := 0
	for i := range a.diags {
		if a.diags[i].Severity == source.Error {
			n++
		}
	}
	return n
}

// once drops what is said twice: two servers may share an entry of the registry.
func once(diags []source.Diagnostic) []source.Diagnostic {
	seen := map[source.Diagnostic]bool{}
	return slices.DeleteFunc(diags, func(d source.Diagnostic) bool {
		twice := seen[d]
		seen[d] = true
		return twice
	})
}

// object is an object of a document whose fields are being read.
type object struct {
	a     *adaptation
	file  string
	value *source.Value
	// what names it in messages.
	what string
	ok   bool
}

var howToWrite = map[source.Kind]string{
	source.String: "write a text in double quotes",
	source.Bool:   "write true or false, without quotes",
	source.Array:  "write a list of texts: [...]",
	source.Object: "write an object: {...}",
}

// object begins to read a value's fields; if it is no object, that is reported.
func (a *adaptation) object(file string, v *source.Value, what string) *object {
	o := &object{a: a, file: file, value: v, what: what, ok: v != nil && v.Kind == source.Object}
	if v != nil && !o.ok {
		a.errorf(file, v.Pos, CodeWrongType, howToWrite[source.Object], "%s is %s, want an object", what, v.Describe())
	}
	return o
}

func (o *object) errorf(at source.Pos, code, help, format string, args ...any) {
	o.a.errorf(o.file, at, code, help, format, args...)
}

func (o *object) warnf(at source.Pos, code, help, format string, args ...any) {
	o.a.warnf(o.file, at, code, help, format, args...)
}

// pos is the place of a field's value, or of the object where it is missing.
func (o *object) pos(key string) source.Pos {
	if v := o.value.Get(key); v != nil {
		return v.Pos
	}
	return o.value.Pos
}

// get is a field's value of a kind, or nil: absent, null or reported.
func (o *object) get(key string, want source.Kind) *source.Value {
	v := o.value.Get(key)
	if v == nil || v.Kind == source.Null {
		return nil
	}
	if v.Kind != want {
		o.errorf(v.Pos, CodeWrongType, howToWrite[want], "%s of %s is %s, want %s", key, o.what, v.Describe(), want)
		return nil
	}
	return v
}

// text is a field's text, or "".
func (o *object) text(key string) string {
	if v := o.get(key, source.String); v != nil {
		return v.Text
	}
	return ""
}

// required is the text of a field that must be there.
func (o *object) required(key string) string {
	v := o.value.Get(key)
	if v != nil && v.Kind != source.Null && v.Kind != source.String {
		return o.text(key) // reports it
	}
	s := o.text(key)
	if strings.TrimSpace(s) == "" {
		o.errorf(o.pos(key), CodeMissing, fmt.Sprintf("write %q", key), "%s has no %s", o.what, key)
	}
	return s
}

// word is a text with its place.
type word struct {
	text string
	at   source.Pos
}

// words are the texts of a list.
func (o *object) words(key string) []word {
	v := o.get(key, source.Array)
	if v == nil {
		return nil
	}
	var out []word
	for i, item := range v.Items {
		if item.Kind != source.String {
			o.errorf(item.Pos, CodeWrongType, howToWrite[source.String], "%s[%d] of %s is %s, want a string", key, i, o.what, item.Describe())
			continue
		}
		out = append(out, word{item.Text, item.Pos})
	}
	return out
}

// only reports all members that are none of these.
func (o *object) only(known ...string) {
	if !o.ok {
		return
	}
	var names *source.Suggester
	for _, m := range o.value.Members {
		if slices.Contains(known, m.Key) {
			continue
		}
		if names == nil {
			names = source.NewSuggester(known)
		}
		help := "it stays in the document and does nothing"
		if near := names.Nearest(m.Key); near != "" {
			help = fmt.Sprintf("did you mean %q?", near)
		}
		o.warnf(m.KeyPos, CodeUnknown, help, "%s has the field %s, which the dialect does not know", o.what, source.Quote(m.Key))
	}
}
