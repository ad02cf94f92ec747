// Package source parses documents into values with positions, and provides the
// diagnostics about them and the validation of JSON Schemas in them.
//
// It reads JSON, JSON5 and YAML into one model. It preserves the order of members and the exact
// text of numbers, and rejects what it cannot preserve. It never executes, fetches or follows
// anything that a document refers to, and does not depend on any dialect.
//
// Start at [Parse].
package source

import (
	"bytes"
	"cmp"
	"iter"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"weft/workflows/plan/value"
)

// Limits of a document. A violation is reported with its position.
const (
	// MaxBytes is the maximum size of a document.
	MaxBytes = 16 << 20
	// MaxValueBytes is the maximum size of a JSON value that is not a document, the same as that of a stored payload.
	MaxValueBytes = 1 << 30
	// MaxDepth is the maximum nesting depth of arrays and objects.
	MaxDepth = 200
	// MaxValues is the maximum number of values in a document, with aliases expanded.
	MaxValues = 2_000_000
)

// Codes of the parser's diagnostics.
const (
	CodeSyntax       = "syntax"
	CodeEmpty        = "empty-document"
	CodeEncoding     = "invalid-utf8"
	CodeTooLarge     = "too-large"
	CodeDuplicateKey = "duplicate-key"
	CodeUnsupported  = "unsupported-yaml"
	CodeMore         = "more"
	// CodeSecretInline is the code of the error for a secret in the document.
	CodeSecretInline = "secret-inline"
)

// Pos is a position in a file. Line counts from 1; lines end at line feeds. Col counts bytes from 1,
// without a byte order mark. A zero Line means the entire file.
type Pos struct {
	File      string
	Line, Col int
}

// Compare orders positions in the same file.
func (p Pos) Compare(o Pos) int {
	return cmp.Or(cmp.Compare(p.Line, o.Line), cmp.Compare(p.Col, o.Col))
}

// Kind is the JSON type of a value.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}

// String returns the kind with its article, as in "expected a string".
func (k Kind) String() string { return kindNames[k] }

// Value is a value of a document. It is immutable after [Parse]; a YAML alias shares
// the value of its anchor, including the position.
type Value struct {
	Kind Kind
	True bool
	Pos  Pos
	// Text is the content of a String, or the JSON literal of a Number.
	Text  string
	Items []*Value
	// Members are the members of an Object in source order, without duplicate keys.
	Members []Member
}

// Member is a member of an object.
type Member struct {
	Key    string
	KeyPos Pos
	Value  *Value
}

// Get returns the value of a member, or nil. Its cost is linear in the number of members.
func (v *Value) Get(key string) *Value {
	if v == nil {
		return nil
	}
	for i := range v.Members {
		if v.Members[i].Key == key {
			return v.Members[i].Value
		}
	}
	return nil
}

// FirstOf returns the first of the keys that the object contains, or "".
func (v *Value) FirstOf(keys ...string) string {
	if i := slices.IndexFunc(keys, func(key string) bool { return v.Get(key) != nil }); i >= 0 {
		return keys[i]
	}
	return ""
}

// All yields the value and all values in it, parents first. The key of a value that is not a member is "".
func (v *Value) All() iter.Seq[Member] {
	return func(yield func(Member) bool) { Member{Value: v}.each(yield) }
}

func (m Member) each(yield func(Member) bool) bool {
	if !yield(m) {
		return false
	}
	for _, item := range m.Value.Items {
		if !(Member{Value: item}).each(yield) {
			return false
		}
	}
	return !slices.ContainsFunc(m.Value.Members, func(part Member) bool { return !part.each(yield) })
}

// Map applies a function to each element of a list. It returns nil for an empty list.
func Map[T, R any](list []T, of func(T) R) []R {
	var out []R
	for _, item := range list {
		out = append(out, of(item))
	}
	return out
}

// Elements returns the elements of an array. The value may be nil.
func (v *Value) Elements() []*Value {
	if v == nil {
		return nil
	}
	return v.Items
}

// Document is a parsed document. Root is never nil.
type Document struct {
	// Name is the file name that was passed to the parser.
	Name string
	Root *Value
	// Unquoted is the position of the first string or key without quotes that [ParseLenient] accepted;
	// zero if there is none.
	Unquoted Pos
}

// Parse parses a document. The extension of the name determines the format (.json, .json5, .yaml,
// .yml). With any other, text that begins with a bracket is JSON, text that begins with // or /* is
// JSON5, and all other text is YAML. The document is nil if and only if a diagnostic is an error.
func Parse(name string, data []byte) (*Document, []Diagnostic) {
	read, _ := formatOf(name, data)
	return parse(MaxBytes, name, data, read, false)
}

// ParseValue is like [Parse] for JSON that is the input of a run, which may be larger than a document.
func ParseValue(data []byte) (*Document, []Diagnostic) {
	return parse(MaxValueBytes, "value.json", data, (*parser).json, false)
}

// ParseJSON5 is like [Parse] for JSON5, regardless of the extension of the name.
func ParseJSON5(name string, data []byte) (*Document, []Diagnostic) {
	return parse(MaxBytes, name, data, scan(extended), false)
}

// ParseLoose is like [Parse], but only warns of duplicate keys; the last one takes effect.
func ParseLoose(name string, data []byte) (*Document, []Diagnostic) {
	read, _ := formatOf(name, data)
	return parse(MaxBytes, name, data, read, true)
}

// CodeUnquoted is the code of the warning about unquoted strings or keys.
const CodeUnquoted = "unquoted"

// ParseLenient parses JSON in which strings and keys may be unquoted: an unquoted string ends at
// white space, a comma, a colon, a quote or a bracket. Quoted strings may contain line breaks, and
// the last of duplicate keys takes effect. Each is a warning. For a document in another format it
// returns neither a document nor diagnostics.
func ParseLenient(name string, data []byte) (*Document, []Diagnostic) {
	if _, isJSON := formatOf(name, data); !isJSON {
		return nil, nil
	}
	return parse(MaxBytes, name, data, scan(lenient), true)
}

func parse(maxBytes int, name string, data []byte, read func(*parser) *Value, allowDuplicates bool) (*Document, []Diagnostic) {
	if len(data) > maxBytes {
		return nil, []Diagnostic{Error.At(Pos{File: name}, CodeTooLarge, "split the document or move long texts out of it",
			"the document exceeds the limit of %d bytes", maxBytes)}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	p := &parser{name: name, data: data, maxBytes: maxBytes, lines: lineStarts(data), allowDuplicates: allowDuplicates}
	if !p.checkText() {
		return nil, p.diags
	}
	root := read(p)
	SortDiagnostics(p.diags)
	if HasErrors(p.diags) {
		return nil, LimitDiagnostics(p.diags)
	}
	return &Document{Name: name, Root: root, Unquoted: p.firstUnquoted}, p.diags
}

// formatOf selects the parser by the name of a document or else by its first bytes.
func formatOf(name string, data []byte) (read func(*parser) *Value, isJSON bool) {
	text := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n")
	hasPrefix := func(prefix string) bool { return bytes.HasPrefix(text, []byte(prefix)) }
	switch ext := strings.ToLower(filepath.Ext(name)); {
	case ext == ".json":
		return (*parser).json, true
	case ext == ".json5":
		return scan(extended), false
	case ext == ".yaml" || ext == ".yml":
	case hasPrefix("{") || hasPrefix("["):
		return (*parser).json, true
	case hasPrefix("//") || hasPrefix("/*"):
		return scan(extended), false
	}
	return (*parser).yaml, false
}

// parser holds the state that all formats share: the text, its lines and the limits.
type parser struct {
	name  string
	data  []byte
	lines []int // byte offsets of line starts
	diags []Diagnostic
	// maxBytes is the maximum size of the text in bytes.
	maxBytes int
	values   int
	text     int // bytes of strings and numbers, with aliases expanded
	// allowDuplicates makes duplicate keys warnings.
	allowDuplicates bool
	// firstUnquoted is the position of the first unquoted string or key.
	firstUnquoted Pos
}

func (p *parser) fail(at Pos, code, help, format string, args ...any) {
	at.File = p.name
	p.diags = append(p.diags, Error.At(at, code, help, format, args...))
}

func (p *parser) checkText() bool {
	if len(bytes.TrimSpace(p.data)) == 0 {
		p.fail(p.pos(0), CodeEmpty, "add a flow, or name another file", "the document is empty")
		return false
	}
	if utf8.Valid(p.data) {
		return true
	}
	for i := 0; i < len(p.data); {
		r, n := utf8.DecodeRune(p.data[i:])
		if r == utf8.RuneError && n == 1 {
			p.fail(p.pos(i), CodeEncoding, "save the file as UTF-8", "byte 0x%02x is not valid UTF-8", p.data[i])
			return false
		}
		i += n
	}
	return true
}

// grow counts values and bytes of text. It returns false once a limit is exceeded, which it reports once.
func (p *parser) grow(at Pos, values, text int) bool {
	if p.values > MaxValues || p.text > 2*p.maxBytes {
		return false
	}
	p.values += values
	p.text += text
	if p.values > MaxValues || p.text > 2*p.maxBytes {
		p.fail(at, CodeTooLarge, "split the document", "the document has more than %d values or, with aliases expanded, %d bytes of text",
			MaxValues, 2*p.maxBytes)
		return false
	}
	return true
}

func (p *parser) tooDeep(at Pos, depth int) bool {
	if depth <= MaxDepth {
		return false
	}
	p.fail(at, CodeTooLarge, "flatten the document", "arrays and objects are nested deeper than %d", MaxDepth)
	return true
}

// object builds an object from its members. It reports duplicate keys; the last value takes effect.
func (p *parser) object(at Pos, members []Member) *Value {
	v := &Value{Kind: Object, Pos: at, Members: members[:0]}
	severity, help := Error, "remove one of the two"
	if p.allowDuplicates {
		severity, help = Warning, "remove one of the two; the last one takes effect"
	}
	index := make(map[string]int, len(members))
	for _, m := range members {
		i, repeated := index[m.Key]
		if !repeated {
			index[m.Key] = len(v.Members)
			v.Members = append(v.Members, m)
			continue
		}
		p.diags = append(p.diags, severity.At(m.KeyPos, CodeDuplicateKey, help, "duplicate key %s, first used at line %d", Quote(m.Key), v.Members[i].KeyPos.Line))
		v.Members[i].Value = m.Value
	}
	return v
}

// JSON returns the value as compact JSON, with members in source order, numbers as
// written and strings with the fewest escapes. The result does not depend on the format of the
// document.
func (v *Value) JSON() []byte { return v.appendJSON(nil) }

func (v *Value) appendJSON(b []byte) []byte {
	switch v.Kind {
	case Bool:
		return strconv.AppendBool(b, v.True)
	case Number:
		return append(b, v.Text...)
	case String:
		return value.AppendString(b, v.Text)
	case Array:
		b = append(b, '[')
		for i, item := range v.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	case Object:
		b = append(b, '{')
		for i, m := range v.Members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(value.AppendString(b, m.Key), ':')
			b = m.Value.appendJSON(b)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

func lineStarts(data []byte) []int {
	starts := make([]int, 1, 1+bytes.Count(data, []byte{'\n'}))
	for i, b := range data {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

func (p *parser) pos(offset int) Pos {
	line := sort.SearchInts(p.lines, offset+1)
	return Pos{File: p.name, Line: line, Col: offset - p.lines[line-1] + 1}
}

// yamlStarts returns the offsets of YAML line starts. Carriage returns, U+0085, U+2028 and U+2029 end a line too.
func yamlStarts(data []byte) []int {
	starts := []int{0}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		i += n
		switch r {
		case '\r':
			if i < len(data) && data[i] == '\n' {
				i++
			}
			starts = append(starts, i)
		case '\n', 0x85, 0x2028, 0x2029:
			starts = append(starts, i)
		}
	}
	return starts
}

// yamlCursor converts YAML lines and columns, which count characters, to byte offsets. It continues
// from the previous position, because a document may be one long line.
type yamlCursor struct {
	data      []byte
	starts    []int
	line, col int
	offset    int
}

func (c *yamlCursor) at(line, col int) int {
	if line < 1 || line > len(c.starts) {
		return 0
	}
	if line != c.line || col < c.col {
		c.line, c.col, c.offset = line, 1, c.starts[line-1]
	}
	for ; c.col < col && c.offset < len(c.data); c.col++ {
		_, n := utf8.DecodeRune(c.data[c.offset:])
		c.offset += n
	}
	return c.offset
}
