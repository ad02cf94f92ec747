package continuum

import (
	"fmt"
	"sort"
	"strings"

	"weft/specadapter/source"
)

// Codes beside the dialect's own V and L rules; README.md has the list.
const (
	CodeWrongType       = "wrong-type"
	CodeMissing         = "missing-field"
	CodeUnknown         = "unknown-field"
	CodeNoNodes         = "no-nodes"
	CodeBlankCondition  = "blank-condition"
	CodeDuplicateAgent  = "duplicate-agent"
	CodeDuplicateConn   = "duplicate-connection"
	CodeDuplicateTool   = "duplicate-tool"
	CodeConnectionType  = "connection-type"
	CodeConnectionURL   = "connection-url"
	CodeRootAgent       = "root-agent"
	CodeUnusedPayload   = "unused-payload"
	CodeExitTools       = "exit-tools"
	CodeTooManyElements = "too-many"
)

func (a *adaptation) report(s source.Severity, at source.Pos, code, help, format string, args []any) {
	a.diags = append(a.diags, source.Diagnostic{File: a.file, Line: at.Line, Col: at.Col,
		Severity: s, Code: code, Help: help, Text: fmt.Sprintf(format, args...)})
}

func (a *adaptation) errorf(at source.Pos, code, help, format string, args ...any) {
	a.report(source.Error, at, code, help, format, args)
}

func (a *adaptation) warnf(at source.Pos, code, help, format string, args ...any) {
	a.report(source.Warning, at, code, help, format, args)
}

// strictf is an error in the strict profile and a warning else.
func (a *adaptation) strictf(at source.Pos, code, help, format string, args ...any) {
	s := source.Warning
	if a.strict {
		s = source.Error
	}
	a.report(s, at, code, help, format, args)
}

// object is an object of the document whose fields are being read.
type object struct {
	a     *adaptation
	value *source.Value
	// what names it in messages; where is its path for unknown fields, "" at the top.
	what, where string
	ok          bool
}

// howToWrite is the remedy for a value of the wrong kind.
var howToWrite = map[source.Kind]string{
	source.String: "write a text in double quotes",
	source.Bool:   "write true or false, without quotes",
	source.Array:  "write a list: [...]",
	source.Object: "write an object: {...}",
}

// object begins to read a value's fields; if it is no object, that is reported.
func (a *adaptation) object(v *source.Value, what, where string) object {
	o := object{a: a, value: v, what: what, where: where, ok: v.Kind == source.Object}
	if !o.ok {
		a.errorf(v.Pos, CodeWrongType, howToWrite[source.Object], "%s is %s, want an object", what, v.Describe())
	}
	return o
}

// get is a field's value, or nil.
func (o *object) get(key string) *source.Value { return o.value.Get(key) }

// pos is the place of a field's value, or of the object where it is missing.
func (o *object) pos(key string) source.Pos {
	if v := o.get(key); v != nil {
		return v.Pos
	}
	return o.value.Pos
}

// present is a field's value if it is there and not null; a value of another kind than
// want is reported and counts as absent, with bad set.
func (o *object) present(key string, want source.Kind) (v *source.Value, bad bool) {
	v = o.get(key)
	if v == nil || v.Kind == source.Null {
		return nil, false
	}
	if v.Kind != want {
		o.a.errorf(v.Pos, CodeWrongType, howToWrite[want], "%s of %s is %s, want %s", key, o.what, v.Describe(), want)
		return nil, true
	}
	return v, false
}

// text is a string field, "" where it is absent. Bad says that it is no string.
func (o *object) text(key string) (s string, bad bool) {
	v, bad := o.present(key, source.String)
	if v == nil {
		return "", bad
	}
	return v.Text, false
}

// flag is a boolean field, false where it is absent.
func (o *object) flag(key string) bool {
	v, _ := o.present(key, source.Bool)
	return v != nil && v.True
}

// list is an array field, empty where it is absent.
func (a *adaptation) list(o object, key string) []*source.Value {
	v, _ := o.present(key, source.Array)
	if v == nil {
		return nil
	}
	return v.Items
}

// required is a string field that must be there and not blank (V12).
func (o *object) required(key string) string {
	s, bad := o.text(key)
	if !bad && strings.TrimSpace(s) == "" {
		state := "no"
		if v := o.get(key); v != nil && v.Kind == source.String {
			state = "a blank"
		}
		o.a.errorf(o.pos(key), "V12", fmt.Sprintf("write %q", key), "%s has %s %s", o.what, state, key)
	}
	return s
}

// expected reports a field that the schema requires and many documents leave out.
func (o *object) expected(key, instead string) {
	v := o.get(key)
	if v == nil || v.Kind == source.Null {
		o.a.strictf(o.pos(key), CodeMissing, instead, "%s has no %s", o.what, key)
	}
}

// only notes all members that are none of these.
func (o *object) only(known ...string) {
	if !o.ok {
		return
	}
	for _, m := range o.value.Members {
		found := false
		for _, k := range known {
			found = found || m.Key == k
		}
		if !found {
			o.a.unknown.add(o.where+m.Key, m.Key, m.KeyPos, known)
		}
	}
}

// unknownFields collects the fields that have no meaning, grouped by path.
type unknownFields struct {
	groups map[string]*unknownGroup
}

type unknownGroup struct {
	path, nearest string
	first         source.Pos
	count         int
}

func newUnknown() *unknownFields { return &unknownFields{groups: map[string]*unknownGroup{}} }

func (u *unknownFields) add(path, key string, at source.Pos, known []string) {
	g := u.groups[path]
	if g == nil {
		g = &unknownGroup{path: path, first: at}
		if len(u.groups) < 100 {
			g.nearest = source.NewSuggester(known).Nearest(key)
		}
		u.groups[path] = g
	}
	g.count++
}

// listedFields is how many unknown fields the report names.
const listedFields = 20

// report makes one diagnostic of all unknown fields.
func (u *unknownFields) report(a *adaptation) {
	groups := make([]*unknownGroup, 0, len(u.groups))
	for _, g := range u.groups {
		groups = append(groups, g)
	}
	if len(groups) == 0 {
		return
	}
	sort.Slice(groups, func(i, j int) bool {
		x, y := groups[i].first, groups[j].first
		return x.Line < y.Line || x.Line == y.Line && x.Col < y.Col
	})
	var parts, hints []string
	for i, g := range groups {
		if i == listedFields {
			parts = append(parts, fmt.Sprintf("and %d more", len(groups)-i))
			break
		}
		text := fmt.Sprintf("%s (%d:%d", source.Quote(g.path), g.first.Line, g.first.Col)
		if g.count > 1 {
			text += fmt.Sprintf(" and %d more", g.count-1)
		}
		parts = append(parts, text+")")
		if g.nearest != "" {
			hints = append(hints, fmt.Sprintf("did you mean %q instead of %s?", g.nearest, source.Quote(g.path)))
		}
	}
	help := strings.Join(append(hints, "unknown fields stay in the document and do nothing"), " ")
	a.warnf(groups[0].first, CodeUnknown, help, "the dialect does not know: %s", strings.Join(parts, ", "))
}
