package source

import (
	"encoding/json"
	"strings"
)

// CodeUnquoted is the code of the warning that texts or keys stand without quotes.
const CodeUnquoted = "unquoted"

// ParseLenient reads a document in JSON as readers do that take texts and keys without quotes:
// such a text ends at a blank, a comma, a colon, a quote or a bracket. Line breaks may stand in
// quoted texts as they are; of keys that are repeated the last one counts. Each is warned of. A
// name or a text of another format gives no document and no diagnostic.
func ParseLenient(name string, data []byte) (*Document, []Diagnostic) {
	if !isJSON(name, data) {
		return nil, nil
	}
	l := &lenient{}
	doc, diags := parse(name, data, func(p *parser) *Value {
		l.parser = p
		root := l.value(1)
		if l.skip(); root != nil && l.at < len(p.data) {
			l.wrong("the text goes on after its value")
		}
		if l.bare > 0 && !HasErrors(p.diags) {
			l.warn()
		}
		return root
	}, true)
	if doc != nil {
		doc.Unquoted = l.first
	}
	return doc, diags
}

// lenient reads JSON in which quotes may be missing.
type lenient struct {
	*parser
	at int
	// bare counts the texts and keys without quotes; first is where the first stands.
	bare  int
	first Pos
	text  string
}

func (l *lenient) warn() {
	l.diags = append(l.diags, Diagnostic{File: l.name, Line: l.first.Line, Col: l.first.Col, Severity: Warning, Code: CodeUnquoted,
		Help: "write texts and keys in double quotes; other readers of JSON refuse them without",
		Text: sprintf("%d texts or keys stand without quotes, the first is %s", l.bare, Quote(l.text))})
}

// wrong reports what cannot be read, unless something has been reported.
func (l *lenient) wrong(text string) *Value {
	if !HasErrors(l.diags) {
		l.fail(l.pos(min(l.at, len(l.data))), CodeSyntax, "", "%s", text)
	}
	return nil
}

// skip passes over blanks and returns what comes next, 0 at the end.
func (l *lenient) skip() byte {
	for l.at < len(l.data) {
		if c := l.data[l.at]; strings.IndexByte(" \t\r\n", c) < 0 {
			return c
		}
		l.at++
	}
	return 0
}

// value reads one value that nests depth deep, or returns nil after a report.
func (l *lenient) value(depth int) *Value {
	c := l.skip()
	at := l.pos(l.at)
	switch c {
	case '{', '[':
		if l.tooDeep(at, depth) || !l.grow(at, 1, 0) {
			return nil
		}
		l.at++
		if c == '[' {
			return l.array(at, depth)
		}
		return l.members(at, depth)
	}
	text, quoted, ok := l.word()
	if !ok || !l.grow(at, 1, len(text)) {
		return nil
	}
	v := &Value{Kind: String, Text: text, Pos: at}
	switch {
	case quoted:
	case text == "null":
		v.Kind, v.Text = Null, ""
	case text == "true" || text == "false":
		v.Kind, v.True, v.Text = Bool, text == "true", ""
	case json.Valid([]byte(text)):
		v.Kind = Number
	default:
		l.unquoted(at, text)
	}
	return v
}

func (l *lenient) unquoted(at Pos, text string) {
	if l.bare++; l.bare == 1 {
		l.first, l.text = at, text
	}
}

// word reads a text with or without quotes.
func (l *lenient) word() (text string, quoted, ok bool) {
	begin := l.at
	if l.skip() != '"' {
		for l.at < len(l.data) && l.data[l.at] > ' ' && strings.IndexByte(`,:{}[]"\`, l.data[l.at]) < 0 {
			l.at++
		}
		if text = string(l.data[begin:l.at]); text == "" || text[0] == '\'' {
			l.wrong("a value is missing")
			return "", false, false
		}
		return text, false, true
	}
	for l.at++; l.at < len(l.data) && l.data[l.at] != '"'; l.at++ {
		if l.data[l.at] == '\\' {
			l.at++
		}
	}
	if l.at >= len(l.data) {
		l.wrong("the text ends in the middle of a value")
		return "", true, false
	}
	l.at++
	if err := json.Unmarshal([]byte(escaped(l.data[begin:l.at])), &text); err != nil || strings.ContainsRune(text, '\uFFFD') {
		l.at = begin
		l.wrong("the text cannot be read")
		return "", true, false
	}
	return text, true, true
}

// escaped writes control characters in a text as JSON does.
func escaped(raw []byte) string {
	var b strings.Builder
	for _, c := range raw {
		if c < ' ' {
			b.WriteString(sprintf(`\u%04x`, c))
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

func (l *lenient) array(at Pos, depth int) *Value {
	v := &Value{Kind: Array, Pos: at}
	if l.skip() == ']' {
		l.at++
		return v
	}
	for {
		item := l.value(depth + 1)
		if item == nil {
			return nil
		}
		v.Items = append(v.Items, item)
		if done, ok := l.next(']'); done || !ok {
			return orNil(v, ok)
		}
	}
}

func (l *lenient) members(at Pos, depth int) *Value {
	var members []Member
	for first := true; ; first = false {
		if l.skip() == '}' && first {
			l.at++
			break
		}
		keyAt := l.pos(l.at)
		key, quoted, ok := l.word()
		if !ok || !l.grow(keyAt, 0, len(key)) {
			return nil
		}
		if !quoted {
			l.unquoted(keyAt, key)
		}
		if l.skip() != ':' {
			return l.wrong("a colon is missing")
		}
		l.at++
		v := l.value(depth + 1)
		if v == nil {
			return nil
		}
		members = append(members, Member{Key: key, KeyPos: keyAt, Value: v})
		if done, ok := l.next('}'); !ok {
			return nil
		} else if done {
			break
		}
	}
	return l.object(at, members)
}

// next reads a comma, or the bracket that ends what is being read.
func (l *lenient) next(closing byte) (done, ok bool) {
	switch l.skip() {
	case closing:
		l.at++
		return true, true
	case ',':
		l.at++
		return false, true
	}
	l.wrong("a comma is missing")
	return false, false
}

func orNil(v *Value, ok bool) *Value {
	if ok {
		return v
	}
	return nil
}
