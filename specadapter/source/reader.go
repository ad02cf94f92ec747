package source

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weft/specadapter/shape"
)

// Reader reads the objects of a document field by field and reports all that is wrong with them.
// [NewReader] makes one; a dialect sets what it does differently.
type Reader struct {
	Reporter
	// Codes are those of the reader's diagnostics.
	Codes Codes
	// Group combines all unknown fields in one warning, reported by [Reader.ReportUnknown].
	Group bool
	// UnknownHelp is the help for an unknown field that resembles no known one.
	UnknownHelp string
	// KeepsNull reports whether null in a field is a value; nil means that it stands for an
	// absent field everywhere.
	KeepsNull func(key string) bool
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

// Numbers and booleans are refused, taken as their text with a warning, or taken silently.
const (
	ScalarsRefused Scalars = iota
	ScalarsWarned
	ScalarsTaken
)

// HowToWrite is the help for a value of the wrong type, by the type that is wanted.
var HowToWrite = map[Kind]string{
	String: "use a string in double quotes",
	Bool:   "use true or false, without quotes",
	Number: "use a number, without quotes",
	Array:  "use an array: [...]",
	Object: "use an object: {...}",
}

// Fields are the fields of one object while they are read.
type Fields struct {
	Value *Value
	// Name is what messages call it, such as: agent "a".
	Name string
	// Path is what stands before its fields in a report of unknown ones, such as: agents[].
	Path string
	// OK reports whether the value is an object at all.
	OK bool
	r  *Reader
}

// Fields begins to read a value's fields; it reports a value that is not an object. Nil has no
// fields.
func (r *Reader) Fields(v *Value, name, path string) *Fields {
	return &Fields{Value: v, Name: name, Path: path, OK: v != nil && r.Wants(v, Object, HowToWrite[Object], name), r: r}
}

// Wants reports a value that is not of a kind, with a remedy, and whether it is.
func (r *Reader) Wants(v *Value, kind Kind, help, name string) bool {
	if v.Kind != kind {
		r.Errorf(v.Pos, r.Codes.Type, help, "%s is %s, want %s", name, v.Describe(), kind)
	}
	return v.Kind == kind
}

// Get returns a field's value, nil where it is absent, or null and null is not a value.
func (f *Fields) Get(key string) *Value {
	v := f.Value.Get(key)
	if v != nil && v.Kind == Null && (f.r.KeepsNull == nil || !f.r.KeepsNull(key)) {
		return nil
	}
	return v
}

// Pos returns the place of a field's value, or of the object where it is missing.
func (f *Fields) Pos(key string) Pos {
	if v := f.Value.Get(key); v != nil {
		return v.Pos
	}
	return f.Value.Pos
}

// Is reports whether a field is absent or of a kind.
func (f *Fields) Is(key string, kind Kind) bool {
	v := f.Get(key)
	return v == nil || v.Kind == kind
}

// Want returns a field's value if it is of a kind; it reports any other.
func (f *Fields) Want(key string, kind Kind) *Value {
	v := f.Get(key)
	if v == nil || !f.r.Wants(v, kind, HowToWrite[kind], key+" of "+f.Name) {
		return nil
	}
	return v
}

// Text returns a string field, "" where it is absent or wrong.
func (f *Fields) Text(key string) string {
	if v := f.Get(key); v != nil && v.isScalar() && f.r.Scalars != ScalarsRefused {
		text, _ := f.r.Text(v, key+" of "+f.Name, false)
		return text
	}
	if v := f.Want(key, String); v != nil {
		return v.Text
	}
	return ""
}

// Required returns a string field and reports one that is absent or blank.
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

// Flag returns a boolean field, false where it is absent.
func (f *Fields) Flag(key string) bool {
	v := f.Want(key, Bool)
	return v != nil && v.True
}

// List returns the elements of an array field.
func (f *Fields) List(key string) []*Value {
	if v := f.Want(key, Array); v != nil {
		return v.Items
	}
	return nil
}

// Inner begins to read an object field. Absent, it has no members.
func (f *Fields) Inner(key, name string) *Fields {
	v := f.Want(key, Object)
	if v == nil {
		v = &Value{Kind: Object, Pos: f.Pos(key)}
	}
	return f.r.Fields(v, name, f.Path+key+".")
}

// Text returns an element of an array, or a member whose key is the author's, as a string; see
// [Reader.Scalars]. A value that may be secret is not shown.
func (r *Reader) Text(v *Value, name string, secret bool) (text string, ok bool) {
	is := v.Describe()
	if secret {
		is = v.Kind.String()
	}
	switch {
	case v.Kind == String:
		return v.Text, true
	case !v.isScalar() || r.Scalars == ScalarsRefused:
		r.Errorf(v.Pos, r.Codes.Type, HowToWrite[String], "%s is %s, want a string", name, is)
		return "", false
	case r.Scalars == ScalarsWarned:
		r.Warnf(v.Pos, r.Codes.Type, HowToWrite[String], "%s is %s, want a string; it is converted", name, is)
	}
	return v.Literal(), true
}

func (v *Value) isScalar() bool { return v.Kind == Number || v.Kind == Bool }

// Literal returns a number or boolean as it is written.
func (v *Value) Literal() string {
	if v.Kind == Bool {
		return strconv.FormatBool(v.True)
	}
	return v.Text
}

// maxUnknown is how many unknown fields of one object, or of a document, are named.
const maxUnknown = 20

// Only reports the members that are not known.
func (f *Fields) Only(known ...string) {
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

// Of reports the members that are not those of an object of a shape. It returns the fields.
func (f *Fields) Of(o *shape.Object) *Fields {
	f.Only(o.Names()...)
	return f
}

// Closed reports the members that are not known as errors.
func (f *Fields) Closed(code string, known ...string) {
	f.unknown(known, Error, code, "remove it", "remove them", func(string) string { return "" })
}

// unknown reports unknown members: the first ones each, with a similar name, and the number of others.
func (f *Fields) unknown(known []string, severity Severity, code, help, helpMore string, near func(string) string) {
	others := f.Others(known)
	for _, m := range others[:min(len(others), maxUnknown)] {
		own := help
		if name := near(m.Key); name != "" {
			own = "did you mean " + strconv.Quote(name) + "?"
		}
		f.r.Report(severity.At(m.KeyPos, code, own, "unknown field %s in %s", Quote(m.Key), f.Name))
	}
	if more := len(others) - maxUnknown; more > 0 {
		f.r.Report(severity.At(others[maxUnknown].KeyPos, code, helpMore, "%d more unknown fields in %s", more, f.Name))
	}
}

// Others returns the members that are not known.
func (f *Fields) Others(known []string) []Member {
	if !f.OK {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(f.Value.Members), func(m Member) bool { return m.Key == shape.Key || slices.Contains(known, m.Key) })
}

// unknownField is an unknown field, wherever its path occurs.
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
