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
	CodeTooMany      = "too-many"
	CodeNoPrompt     = "no-prompt"
	CodeEncoding     = "encoding"
	CodeCapability   = "capability"
	CodeScript       = "script"
	CodeServer       = "mcp-server"
	CodeServerConfig = "mcp-config"
	CodeServerURL    = "mcp-url"
	CodeCommand      = "inline-command"
	CodeSecret       = source.CodeSecretInline
	CodeOlder        = "older-shape"
	CodeHook         = "hook"
	CodeMode         = "input-mode"
	CodePlaceholder  = "placeholder"
	CodeProgram      = "program"
	CodeNoEffect     = "no-effect"
	CodeNotStarted   = "not-started"
)

func (a *adaptation) report(s source.Severity, file string, at source.Pos, code, help, format string, args []any) {
	a.diags = append(a.diags, source.Diagnostic{File: file, Line: at.Line, Col: at.Col,
		Severity: s, Code: code, Help: help, Text: fmt.Sprintf(format, args...)})
	if s == source.Error {
		a.errors++
	}
}

func (a *adaptation) errorf(file string, at source.Pos, code, help, format string, args ...any) {
	a.report(source.Error, file, at, code, help, format, args)
}

// about names what the last diagnostic is about.
func (a *adaptation) about(server, what string) {
	a.diags[len(a.diags)-1].About = [2]string{server, what}
}

func (a *adaptation) warnf(file string, at source.Pos, code, help, format string, args ...any) {
	a.report(source.Warning, file, at, code, help, format, args)
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

// Bounds of what one agent names, so that its cost stays small whatever it holds.
const (
	maxWords   = 1000
	maxServers = 100
	maxHeaders = 100
)

// fits reports a list or object with more elements than are read.
func (o *object) fits(v *source.Value, what string, most int) bool {
	n := len(v.Items) + len(v.Members)
	if n <= most {
		return true
	}
	o.errorf(v.Pos, CodeTooMany, "leave out what is not needed", "%s has %d elements, at most %d are read", what, n, most)
	return false
}

// words are the texts of a list.
func (o *object) words(key string) []word {
	v := o.get(key, source.Array)
	if v == nil || !o.fits(v, key+" of "+o.what, maxWords) {
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

// maxUnknown is how many unknown fields of one object are named.
const maxUnknown = 20

// only reports members that are none of these.
func (o *object) only(known ...string) {
	names := source.NewSuggester(known)
	o.others(known, func(m source.Member) {
		help := "it stays in the document and does nothing"
		if near := names.Nearest(m.Key); near != "" {
			help = fmt.Sprintf("did you mean %q?", near)
		}
		o.warnf(m.KeyPos, CodeUnknown, help, "%s has the field %s, which the dialect does not know", o.what, source.Quote(m.Key))
	}, func(at source.Pos, more int) {
		o.warnf(at, CodeUnknown, "they stay in the document and do nothing", "%s has %d more fields that the dialect does not know", o.what, more)
	})
}

// others visits members that are none of these, and the first of those that are too many.
func (o *object) others(known []string, visit func(source.Member), rest func(at source.Pos, more int)) {
	if !o.ok {
		return
	}
	n, from := 0, source.Pos{}
	for _, m := range o.value.Members {
		if slices.Contains(known, m.Key) {
			continue
		}
		if n++; n <= maxUnknown {
			visit(m)
		} else if n == maxUnknown+1 {
			from = m.KeyPos
		}
	}
	if n > maxUnknown {
		rest(from, n-maxUnknown)
	}
}
