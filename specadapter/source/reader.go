package source

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weft/specadapter/shape"
)

// Reader reads the objects of a document field by field and reports their errors. It is created
// by [NewReader]; a dialect may change its exported fields.
type Reader struct {
	Reporter
	// Codes are the codes of the reader's diagnostics.
	Codes Codes
	// Group combines all unknown fields into one warning, reported by [Reader.ReportUnknown].
	Group bool
	// UnknownHelp is the help for an unknown field that resembles no known one.
	UnknownHelp string
	// NullIsValue reports whether null is a value of the field; otherwise null means that the field is
	// absent. If KeepsNull is nil, this applies to all fields.
	NullIsValue func(key string) bool
	// Scalars defines how a number or boolean in place of a string is handled.
	Scalars Scalars

	unknown map[string]*unknownField
}

// Codes are the codes of a reader's diagnostics.
type Codes struct{ Type, Missing, Unknown string }

// The codes of most dialects.
const (
	CodeWrongType = "wrong-type"
	CodeMissing   = "missing-field"
	CodeUnknown   = "unknown-field"
	CodeDefault   = "schema-default"
)

// NewReader returns a reader with the codes of most dialects.
func NewReader() *Reader {
	return &Reader{Codes: Codes{Type: CodeWrongType, Missing: CodeMissing, Unknown: CodeUnknown}, UnknownHelp: "unknown fields have no effect", unknown: map[string]*unknownField{}}
}

// Scalars defines how a number or boolean in place of a string is handled.
type Scalars uint8

// Numbers and booleans are rejected, converted to strings with a warning, or converted silently.
const (
	ScalarsRejected Scalars = iota
	ScalarsWarned
	ScalarsAccepted
)

// TypeHelp is the help for a value of the wrong type, by the expected type.
var TypeHelp = map[Kind]string{
	String: "use a string in double quotes",
	Bool:   "use true or false, without quotes",
	Number: "use a number, without quotes",
	Array:  "use an array: [...]",
	Object: "use an object: {...}",
}

// Fields gives access to the fields of an object.
type Fields struct {
	Value *Value
	// Name is the name of the object in messages, such as: agent "a".
	Name string
	// Path is the prefix of its fields in a report of unknown fields, such as: agents[].
	Path string
	// OK reports whether the value is an object.
	OK bool
	r  *Reader
}

// Fields returns the fields of a value; it reports a value that is not an object. A nil value has
// no fields.
func (r *Reader) Fields(v *Value, name, path string) *Fields {
	return &Fields{Value: v, Name: name, Path: path, OK: v != nil && r.Expect(v, Object, TypeHelp[Object], name), r: r}
}

// Expect reports whether a value is of the expected kind, and otherwise reports an error.
func (r *Reader) Expect(v *Value, kind Kind, help, name string) bool {
	if v.Kind != kind {
		r.Errorf(v.Pos, r.Codes.Type, help, "%s is %s, expected %s", name, v.Describe(), kind)
	}
	return v.Kind == kind
}

// Get returns a field's value, or nil if the field is absent or null; see [Reader.NullIsValue].
func (f *Fields) Get(key string) *Value {
	v := f.Value.Get(key)
	if v != nil && v.Kind == Null && (f.r.NullIsValue == nil || !f.r.NullIsValue(key)) {
		return nil
	}
	return v
}

// Pos returns the position of a field's value, or of the object if the field is absent.
func (f *Fields) Pos(key string) Pos {
	if v := f.Value.Get(key); v != nil {
		return v.Pos
	}
	return f.Value.Pos
}

// Is reports whether a field is absent or of the kind.
func (f *Fields) Is(key string, kind Kind) bool {
	v := f.Get(key)
	return v == nil || v.Kind == kind
}

// Expect returns a field's value if it is of the expected kind. It reports a value of another kind.
func (f *Fields) Expect(key string, kind Kind) *Value {
	v := f.Get(key)
	if v == nil || !f.r.Expect(v, kind, TypeHelp[kind], key+" of "+f.Name) {
		return nil
	}
	return v
}

// Text returns a string field, "" if it is absent or invalid.
func (f *Fields) Text(key string) string {
	if v := f.Get(key); v != nil && v.isScalar() && f.r.Scalars != ScalarsRejected {
		text, _ := f.r.Text(v, key+" of "+f.Name, false)
		return text
	}
	if v := f.Expect(key, String); v != nil {
		return v.Text
	}
	return ""
}

// Required returns a string field. It reports an absent or blank field.
func (f *Fields) Required(key string) string {
	s := f.Text(key)
	if strings.TrimSpace(s) == "" && f.Is(key, String) {
		state := "no"
		if f.Get(key) != nil {
			state = "a blank"
		}
		f.r.Errorf(f.Pos(key), f.r.Codes.Missing, "set "+strconv.Quote(key), "%s has %s %s", f.Name, state, key)
	}
	return s
}

// Flag returns a boolean field, false if it is absent.
func (f *Fields) Flag(key string) bool {
	v := f.Expect(key, Bool)
	return v != nil && v.True
}

// List returns the elements of an array field.
func (f *Fields) List(key string) []*Value {
	if v := f.Expect(key, Array); v != nil {
		return v.Items
	}
	return nil
}

// Inner returns the fields of an object field. If it is absent, they are empty.
func (f *Fields) Inner(key, name string) *Fields {
	v := f.Expect(key, Object)
	if v == nil {
		v = &Value{Kind: Object, Pos: f.Pos(key)}
	}
	return f.r.Fields(v, name, f.Path+key+".")
}

// Text returns a value that is not a field, such as an element of an array, as a string; see
// [Reader.Scalars]. Messages do not contain a secret value.
func (r *Reader) Text(v *Value, name string, secret bool) (text string, ok bool) {
	is := v.Describe()
	if secret {
		is = v.Kind.String()
	}
	switch {
	case v.Kind == String:
		return v.Text, true
	case !v.isScalar() || r.Scalars == ScalarsRejected:
		r.Errorf(v.Pos, r.Codes.Type, TypeHelp[String], "%s is %s, expected a string", name, is)
		return "", false
	case r.Scalars == ScalarsWarned:
		r.Warnf(v.Pos, r.Codes.Type, TypeHelp[String], "%s is %s, expected a string; it is converted", name, is)
	}
	return v.Literal(), true
}

func (v *Value) isScalar() bool { return v.Kind == Number || v.Kind == Bool }

// Literal returns the literal of a number or boolean.
func (v *Value) Literal() string {
	if v.Kind == Bool {
		return strconv.FormatBool(v.True)
	}
	return v.Text
}

// maxUnknown is the maximum number of unknown fields that are reported by name, per object or grouped warning.
const maxUnknown = 20

// WarnUnknown warns of members whose keys are not known.
func (f *Fields) WarnUnknown(known ...string) {
	if f.r.Group {
		for _, m := range f.Others(known) {
			u := f.r.unknown[f.Path+m.Key]
			if u == nil {
				u = &unknownField{path: f.Path + m.Key, first: m.KeyPos, nearest: f.r.Near(m.Key, func() []string { return known })}
				f.r.unknown[u.path] = u
			}
			u.count++
		}
		return
	}
	f.unknown(known, Warning, f.r.Codes.Unknown, f.r.UnknownHelp, f.r.UnknownHelp, func(key string) string {
		return f.r.Near(key, func() []string { return known })
	})
}

// Check warns of members that are not fields of the shape. It returns its receiver.
func (f *Fields) Check(o *shape.Object) *Fields {
	f.WarnUnknown(o.Names()...)
	return f
}

// RejectUnknown is like WarnUnknown but reports errors.
func (f *Fields) RejectUnknown(code string, known ...string) {
	f.unknown(known, Error, code, "remove it", "remove them", func(string) string { return "" })
}

// unknown reports the first [maxUnknown] unknown members, each with a similar known name, and the number of the others.
func (f *Fields) unknown(known []string, severity Severity, code, help, helpMore string, suggest func(string) string) {
	others := f.Others(known)
	for _, m := range others[:min(len(others), maxUnknown)] {
		memberHelp := help
		if name := suggest(m.Key); name != "" {
			memberHelp = "did you mean " + strconv.Quote(name) + "?"
		}
		f.r.Report(severity.At(m.KeyPos, code, memberHelp, "unknown field %s in %s", Quote(m.Key), f.Name))
	}
	if more := len(others) - maxUnknown; more > 0 {
		f.r.Report(severity.At(others[maxUnknown].KeyPos, code, helpMore, "%d more unknown fields in %s", more, f.Name))
	}
}

// Others returns the members whose keys are not known.
func (f *Fields) Others(known []string) []Member {
	if !f.OK {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(f.Value.Members), func(m Member) bool { return m.Key == shape.Key || slices.Contains(known, m.Key) })
}

// unknownField aggregates the occurrences of an unknown field with the same path.
type unknownField struct {
	path, nearest string
	first         Pos
	count         int
}

// ReportUnknown reports all unknown fields in one warning.
func (r *Reader) ReportUnknown() {
	if len(r.unknown) == 0 {
		return
	}
	fields := slices.SortedFunc(maps.Values(r.unknown), func(x, y *unknownField) int { return x.first.Compare(y.first) })
	var parts, hints []string
	for i, u := range fields {
		if i == maxUnknown {
			parts = append(parts, fmt.Sprintf("and %d more", len(fields)-i))
			break
		}
		text := fmt.Sprintf("%s (%d:%d", Quote(u.path), u.first.Line, u.first.Col)
		if u.count > 1 {
			text += fmt.Sprintf(" and %d more", u.count-1)
		}
		parts = append(parts, text+")")
		if u.nearest != "" {
			hints = append(hints, fmt.Sprintf("did you mean %q instead of %s?", u.nearest, Quote(u.path)))
		}
	}
	r.Warnf(fields[0].first, r.Codes.Unknown, strings.Join(append(hints, r.UnknownHelp), " "), "unknown fields: %s", strings.Join(parts, ", "))
}
