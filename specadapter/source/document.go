// Package source parses documents into nodes with their positions, and provides the
// diagnostics about them and the validation of JSON Schemas in them.
//
// It reads JSON, JSON5 and YAML into one model. It preserves the order of members and the exact
// text of numbers, and rejects what it cannot preserve. It never executes, fetches or follows
// anything that a document refers to, and it knows no dialect.
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

// Bounds of a document. Each is refused with a position.
const (
	// MaxBytes is the most that a document's text may have.
	MaxBytes = 16 << 20
	// MaxValueBytes is the most that a JSON value may have that is no document: as much as a store may take.
	MaxValueBytes = 1 << 30
	// MaxDepth is how deep arrays and objects may nest.
	MaxDepth = 200
	// MaxValues is how many values a document may have, aliases expanded.
	MaxValues = 2_000_000
)

// Codes of the diagnostics that parsing makes.
const (
	CodeSyntax       = "syntax"
	CodeEmpty        = "empty-document"
	CodeEncoding     = "invalid-utf8"
	CodeTooLarge     = "too-large"
	CodeDuplicateKey = "duplicate-key"
	CodeUnsupported  = "unsupported-yaml"
	CodeMore         = "more"
	// CodeSecretInline is an error: a secret is in the document.
	CodeSecretInline = "secret-inline"
)

// Pos is a place in a file. Line counts from 1 and ends at a line feed. Col counts bytes from 1;
// a byte order mark is not counted. Without a line it means the whole file.
type Pos struct {
	File      string
	Line, Col int
}

// Compare orders the places of one file.
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

// String names the kind with its article, as in "want a string".
func (k Kind) String() string { return kindNames[k] }

// Value is one value of a document. It is not changed after [Parse]; a YAML alias shares
// the value of its anchor, position included.
type Value struct {
	Kind Kind
	True bool
	Pos  Pos
	// Text is the value of a String, and of a Number a literal in JSON's grammar.
	Text  string
	Items []*Value
	// Members are those of an Object, in the author's order, without duplicate keys.
	Members []Member
}

// Member is one member of an object.
type Member struct {
	Key    string
	KeyPos Pos
	Value  *Value
}

// Get returns the value of a member, or nil. It takes time linear in the members.
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

// FirstOf returns the first of some keys that the value has a member of, or "".
func (v *Value) FirstOf(keys ...string) string {
	if i := slices.IndexFunc(keys, func(key string) bool { return v.Get(key) != nil }); i >= 0 {
		return keys[i]
	}
	return ""
}

// All yields the value and those in it, each before its parts. The key of what is no member is "".
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

// Map returns what a function makes of each element of a list; nil of none.
func Map[T, R any](list []T, of func(T) R) []R {
	var out []R
	for _, item := range list {
		out = append(out, of(item))
	}
	return out
}

// Elements returns the elements of an array; nil has none.
func (v *Value) Elements() []*Value {
	if v == nil {
		return nil
	}
	return v.Items
}

// Document is a parsed document. Root is never nil.
type Document struct {
	// Name is the file name under which the document was given.
	Name string
	Root *Value
	// Unquoted is where the first text or key without quotes stands that [ParseLenient] took;
	// zero where there is none.
	Unquoted Pos
}

// Parse reads a document. The format follows from the name's extension (.json, .json5,
// .yaml, .yml) and else from the first bytes: a bracket begins JSON, a comment of JSON5's
// begins JSON5, all else is YAML. The document is nil if and only if a diagnostic is an
// error.
func Parse(name string, data []byte) (*Document, []Diagnostic) {
	read, _ := formatOf(name, data)
	return parse(MaxBytes, name, data, read, false)
}

// ParseValue is [Parse] for JSON that a run is given: it may be larger than documents.
func ParseValue(data []byte) (*Document, []Diagnostic) {
	return parse(MaxValueBytes, "value.json", data, (*parser).json, false)
}

// ParseJSON5 is [Parse] for a text in JSON5, whatever the name's extension.
func ParseJSON5(name string, data []byte) (*Document, []Diagnostic) {
	return parse(MaxBytes, name, data, scan(extended), false)
}

// ParseLoose reads a document as [Parse] does, but takes the last of keys that are repeated, and
// warns of them.
func ParseLoose(name string, data []byte) (*Document, []Diagnostic) {
	read, _ := formatOf(name, data)
	return parse(MaxBytes, name, data, read, true)
}

// CodeUnquoted is the code of the warning about strings or keys without quotes.
const CodeUnquoted = "unquoted"

// ParseLenient reads a JSON document as parsers do that take strings and keys without quotes:
// such a string ends at white space, a comma, a colon, a quote or a bracket. Quoted strings may
// contain line breaks, and the last of repeated keys counts. Each is a warning. A document in
// another format gives neither a document nor a diagnostic.
func ParseLenient(name string, data []byte) (*Document, []Diagnostic) {
	if _, isJSON := formatOf(name, data); !isJSON {
		return nil, nil
	}
	return parse(MaxBytes, name, data, scan(lenient), true)
}

func parse(most int, name string, data []byte, read func(*parser) *Value, loose bool) (*Document, []Diagnostic) {
	if len(data) > most {
		return nil, []Diagnostic{Error.At(Pos{File: name}, CodeTooLarge, "split the document or move long texts out of it",
			"the document exceeds the limit of %d bytes", most)}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	p := &parser{name: name, data: data, most: most, lines: lineStarts(data), loose: loose}
	if !p.checkText() {
		return nil, p.diags
	}
	root := read(p)
	SortDiagnostics(p.diags)
	if HasErrors(p.diags) {
		return nil, LimitDiagnostics(p.diags)
	}
	return &Document{Name: name, Root: root, Unquoted: p.first}, p.diags
}

// formatOf returns how a document is read, by its name or else its first bytes.
func formatOf(name string, data []byte) (read func(*parser) *Value, isJSON bool) {
	text := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n")
	begins := func(with string) bool { return bytes.HasPrefix(text, []byte(with)) }
	switch ext := strings.ToLower(filepath.Ext(name)); {
	case ext == ".json":
		return (*parser).json, true
	case ext == ".json5":
		return scan(extended), false
	case ext == ".yaml" || ext == ".yml":
	case begins("{") || begins("["):
		return (*parser).json, true
	case begins("//") || begins("/*"):
		return scan(extended), false
	}
	return (*parser).yaml, false
}

// parser is what all formats share: the text, its lines, the bounds.
type parser struct {
	name  string
	data  []byte
	lines []int // byte offset of each line's start
	diags []Diagnostic
	// most is how many bytes the text may have.
	most   int
	values int
	text   int // bytes of strings and numbers, aliases expanded
	// loose takes the last of repeated keys.
	loose bool
	// first is where the first string or key without quotes is.
	first Pos
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

// grow counts values and text. It reports once, and returns false, when a limit is exceeded.
func (p *parser) grow(at Pos, values, text int) bool {
	if p.values > MaxValues || p.text > 2*p.most {
		return false
	}
	p.values += values
	p.text += text
	if p.values > MaxValues || p.text > 2*p.most {
		p.fail(at, CodeTooLarge, "split the document", "the document has more than %d values or, with aliases expanded, %d bytes of text",
			MaxValues, 2*p.most)
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

// object builds an object from its members. A key that is repeated is reported; its last value counts.
func (p *parser) object(at Pos, members []Member) *Value {
	v := &Value{Kind: Object, Pos: at, Members: members[:0]}
	severity, help := Error, "remove one of the two"
	if p.loose {
		severity, help = Warning, "remove one of the two; the last one counts"
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

// JSON is the value as compact JSON: members in the author's order, numbers as they were
// written, strings with the fewest escapes. Two texts of the same value give the same
// bytes, whatever their format.
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

// yamlStarts lists where YAML's lines begin, also behind carriage returns, U+0085, U+2028 and U+2029.
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

// yamlCursor turns YAML's lines and columns, which count characters, into byte offsets. It
// goes on from the place before it, because a document may be one long line.
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
