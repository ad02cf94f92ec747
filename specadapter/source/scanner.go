package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

type syntax uint8

const (
	// strict is JSON that the standard library has already validated.
	strict syntax = iota
	// extended is JSON5: comments, trailing commas, single quotes, unquoted keys and more forms of
	// numbers. Values that JSON cannot represent, such as Infinity, are rejected.
	extended
	// lenient is JSON with unquoted strings and keys, and with line breaks in strings.
	lenient
)

// scanner parses JSON or a similar syntax. A method that reports an error panics with [stopped] to end the parsing.
type scanner struct {
	*parser
	syntax syntax
	at     int // byte offset of the next token
	// unquoted describes the unquoted strings and keys in the lenient syntax.
	unquoted struct {
		count int
		pos   Pos
		text  string
	}
}

// stopped is the panic that ends the parsing of a document with an error.
type stopped struct{}

func scan(accepted syntax) func(*parser) *Value {
	return func(p *parser) (v *Value) {
		defer func() {
			if r := recover(); r != nil && r != (stopped{}) {
				panic(r)
			}
		}()
		s := &scanner{parser: p, syntax: accepted}
		s.space()
		root := s.value(1)
		if s.space(); s.at < len(s.data) {
			s.syntaxError("remove it, or use one document per file", "unexpected %s after the value", s.found())
		}
		if u := s.unquoted; u.count > 0 {
			s.firstUnquoted = u.pos
			s.diags = append(s.diags, Warning.At(u.pos, CodeUnquoted, "use double quotes around strings and keys; other JSON parsers require them",
				"%d unquoted strings or keys, first %s", u.count, Quote(u.text)))
		}
		return root
	}
}

func (s *scanner) syntaxError(help, format string, args ...any) {
	if s.at >= len(s.data) {
		help, format, args = "close every { [ ' and \"; the text may be truncated", "unexpected end of text", nil
	}
	s.fail(s.pos(min(s.at, len(s.data))), CodeSyntax, help, "not JSON5: "+format, args...)
	panic(stopped{})
}

// count counts values and bytes of text; see [parser.grow].
func (s *scanner) count(at Pos, values, text int) {
	if !s.grow(at, values, text) {
		panic(stopped{})
	}
}

// found returns the first character of the next token, for messages.
func (s *scanner) found() string {
	if s.at >= len(s.data) {
		return "end of text"
	}
	r, _ := utf8.DecodeRune(s.data[s.at:])
	return strconv.QuoteRune(r)
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.data) {
		return s.data[s.at]
	}
	return 0
}

// space skips white space, and comments if the syntax has them.
func (s *scanner) space() {
	for s.at < len(s.data) {
		c := s.data[s.at]
		switch {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			s.at++
		case s.syntax != extended || c > ' ' && c != '/' && c < utf8.RuneSelf || !s.extendedSpace():
			return
		}
	}
}

// extendedSpace skips a comment or a white space character that only JSON5 has, and reports whether there was one.
func (s *scanner) extendedSpace() bool {
	rest := s.data[s.at:]
	r, n := utf8.DecodeRune(rest)
	switch {
	case strings.ContainsRune("\v\f\u2028\u2029\ufeff", r) || unicode.Is(unicode.Zs, r):
	case bytes.HasPrefix(rest, []byte("//")):
		if n = bytes.IndexAny(rest, "\n\r\u2028\u2029"); n < 0 {
			n = len(rest)
		}
	case bytes.HasPrefix(rest, []byte("/*")):
		end := bytes.Index(rest[2:], []byte("*/"))
		if end < 0 {
			s.syntaxError("close it with */", "unterminated comment")
		}
		n = end + 4
	default:
		return false
	}
	s.at += n
	return true
}

func (s *scanner) value(depth int) *Value {
	v := &Value{Pos: s.pos(s.at)}
	switch c := s.peek(); {
	case c == '{' || c == '[':
		if s.tooDeep(v.Pos, depth) {
			panic(stopped{})
		}
		s.count(v.Pos, 1, 0)
		s.at++
		if c == '{' {
			return s.object(v.Pos, depth)
		}
		v.Kind = Array
		for s.more(']', len(v.Items) == 0) {
			v.Items = append(v.Items, s.value(depth+1))
		}
		return v
	case s.quotes(c):
		v.Kind, v.Text = String, s.text(c)
	default:
		s.word(v)
	}
	s.count(v.Pos, 1, len(v.Text))
	return v
}

func (s *scanner) quotes(c byte) bool { return c == '"' || c == '\'' && s.syntax == extended }

func (s *scanner) object(pos Pos, depth int) *Value {
	var members []Member
	for s.more('}', len(members) == 0) {
		m := Member{KeyPos: s.pos(s.at), Key: s.key()}
		s.count(m.KeyPos, 0, len(m.Key))
		if s.space(); s.peek() != ':' {
			s.syntaxError("add a colon between key and value", "unexpected %s after the key %s", s.found(), Quote(m.Key))
		}
		s.at++
		s.space()
		m.Value = s.value(depth + 1)
		members = append(members, m)
	}
	return s.parser.object(pos, members)
}

// more moves past a comma to the next element, or past the closing bracket. It reports whether there is another element.
func (s *scanner) more(end byte, first bool) bool {
	s.space()
	c := s.peek()
	if c == ',' && !first {
		s.at++
		s.space()
		if c = s.peek(); c != end || s.syntax != extended {
			return true
		}
	}
	if c == end {
		s.at++
		return false
	}
	if !first {
		s.syntaxError("a comma may be missing before it", "unexpected %s, expected a comma or %q", s.found(), end)
	}
	return true
}

// key reads a key, which may be unquoted unless the syntax is strict.
func (s *scanner) key() string {
	c := s.peek()
	switch {
	case s.quotes(c):
		return s.text(c)
	case s.syntax == extended:
		return s.name()
	}
	text := string(s.bare())
	s.countUnquoted(s.at-len(text), text)
	return text
}

// name reads an unquoted key, which is an ECMAScript identifier.
func (s *scanner) name() string {
	var b strings.Builder
	for s.at < len(s.data) {
		r, n := utf8.DecodeRune(s.data[s.at:])
		if r == '\\' {
			if r = escapedUnit(s.data[s.at:]); r < 0 {
				s.syntaxError("put the key in quotes", "invalid escape in a key, expected \\uXXXX")
			}
			n = 6
		}
		start := unicode.IsLetter(r) || r == '$' || r == '_' || unicode.Is(unicode.Nl, r)
		if !start && (b.Len() == 0 || !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc) && r != '\u200c' && r != '\u200d') {
			break
		}
		b.WriteRune(r)
		s.at += n
	}
	if b.Len() == 0 {
		s.syntaxError("put the key in quotes", "unexpected %s, expected a key", s.found())
	}
	return b.String()
}

// word reads null, true, false, a number or, in the lenient syntax, an unquoted string.
func (s *scanner) word(v *Value) {
	begin := s.at
	raw := s.bare()
	switch word := string(raw); {
	case word == "null":
	case word == "true" || word == "false":
		v.Kind, v.True = Bool, word == "true"
	case s.syntax == strict || s.syntax == lenient && json.Valid(raw):
		v.Kind, v.Text = Number, word
	case s.syntax == lenient:
		v.Kind, v.Text = String, word
		s.countUnquoted(begin, word)
	default:
		text, err := json5Number(word)
		if err != nil {
			s.at = begin
			s.syntaxError("use a number, true, false or null, or quote the text", "%v", err)
		}
		v.Kind, v.Text = Number, text
	}
}

// bare reads text without quotes; it reports an error if there is none.
func (s *scanner) bare() []byte {
	begin := s.at
	for s.at < len(s.data) && s.isBare(s.data[s.at]) {
		s.at++
	}
	if s.at == begin || s.data[begin] == '\'' {
		s.at = begin
		s.syntaxError("add a value", "unexpected %s, expected a value", s.found())
	}
	return s.data[begin:s.at]
}

func (s *scanner) isBare(c byte) bool {
	if s.syntax == lenient {
		return c > ' ' && strings.IndexByte(`,:{}[]"\`, c) < 0
	}
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("+-._$", c) >= 0
}

func (s *scanner) countUnquoted(at int, text string) {
	u := &s.unquoted
	if u.count++; u.count == 1 {
		u.pos, u.text = s.pos(at), text
	}
}

// Int returns the value of an integer between 1 and the maximum int32, in any
// notation (10, 10.0, 1e1); ok is false for any other value.
func (v *Value) Int() (n int, ok bool) {
	f, err := strconv.ParseFloat(v.Text, 64)
	if v.Kind != Number || len(v.Text) > 64 || err != nil || f < 1 || f > math.MaxInt32 {
		return 0, false
	}
	if r, ok := new(big.Rat).SetString(v.Text); !ok || !r.IsInt() {
		return 0, false
	}
	return int(f), true
}

// json5Number converts a JSON5 number to a JSON literal with the same digits.
func json5Number(word string) (string, error) {
	sign, text := "", word
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		sign, text = "-", rest
	} else {
		text = strings.TrimPrefix(text, "+")
	}
	if hex, ok := strings.CutPrefix(strings.ToLower(text), "0x"); ok {
		if n, ok := new(big.Int).SetString(hex, 16); ok && len(hex) <= 64 && hex[0] != '-' && hex[0] != '+' && !strings.Contains(hex, "_") {
			return sign + n.String(), nil
		}
		return "", fmt.Errorf("%s is not a hexadecimal number of at most 64 digits", Quote(word))
	}
	if text == "Infinity" || text == "NaN" {
		return "", fmt.Errorf("JSON has no number %s", Quote(word))
	}
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	// 5. and 5.e3 are numbers; JSON requires a digit after the point.
	if i := strings.IndexByte(text, '.'); i > 0 && (i+1 == len(text) || text[i+1]|0x20 == 'e') {
		text = text[:i] + text[i+1:]
	}
	if !jsonNumber.MatchString(sign + text) {
		return "", fmt.Errorf("unexpected %s, expected a value", Quote(word))
	}
	return sign + text, nil
}

func (s *scanner) text(quote byte) string {
	begin := s.at
	s.at++
	if n := s.plainText(quote); n >= 0 {
		s.at += n + 1
		return string(s.data[begin+1 : s.at-1])
	}
	var b strings.Builder
	for valid := true; s.at < len(s.data); {
		switch c := s.data[s.at]; {
		case c == quote:
			s.at++
			return b.String()
		case c == '\\':
			s.escape(&b, &valid)
		case (c == '\n' || c == '\r') && s.syntax != lenient:
			s.syntaxError(`use \n for line breaks in strings, or end the line with a backslash`, "line break in a string")
		default:
			b.WriteByte(c)
			s.at++
		}
	}
	s.fail(s.pos(begin), CodeSyntax, "close it with "+string(quote), "not JSON5: unterminated string")
	panic(stopped{})
}

// plainText returns the length of a string without escapes and line breaks, up to its quote, or -1.
func (s *scanner) plainText(quote byte) int {
	for i, c := range s.data[s.at:] {
		switch c {
		case quote:
			return i
		case '\\', '\n', '\r':
			return -1
		}
	}
	return -1
}

var (
	jsonEscapes  = map[byte]string{'"': `"`, '\\': `\`, '/': "/", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t"}
	json5Escapes = map[byte]string{'v': "\v", '0': "\x00"}
)

// escape reads an escape sequence. See unicodeEscape for valid.
func (s *scanner) escape(b *strings.Builder, valid *bool) {
	rest := s.data[s.at:]
	if len(rest) < 2 {
		s.at = len(s.data)
		s.syntaxError("", "")
	}
	c := rest[1]
	switch {
	case c == 'u':
		s.unicodeEscape(b, valid)
	case jsonEscapes[c] != "":
		b.WriteString(jsonEscapes[c])
		s.at += 2
	case s.syntax != extended || c >= '1' && c <= '9':
		s.syntaxError("remove the backslash", "unknown escape \\%c", c)
	case c == 'x':
		n, err := strconv.ParseUint(string(rest[2:min(4, len(rest))]), 16, 8)
		if err != nil || len(rest) < 4 {
			s.syntaxError(`use two hexadecimal digits after \x`, `invalid escape \x`)
		}
		b.WriteRune(rune(n))
		s.at += 4
	case c == '0' && len(rest) > 2 && rest[2] >= '0' && rest[2] <= '9':
		s.syntaxError(`use \x00`, `\0 followed by a digit`)
	case json5Escapes[c] != "":
		b.WriteString(json5Escapes[c])
		s.at += 2
	default:
		s.plainEscape(b)
	}
}

// plainEscape reads an escaped character that represents itself, or an escaped line break.
func (s *scanner) plainEscape(b *strings.Builder) {
	r, n := utf8.DecodeRune(s.data[s.at+1:])
	s.at += 1 + n
	switch {
	case r == '\r' && s.peek() == '\n':
		s.at++
	case r != '\r' && r != '\n' && r != 0x2028 && r != 0x2029:
		b.WriteRune(r)
	}
}

// unicodeEscape reads \uXXXX, or two for a surrogate pair. It reports the first unpaired half and then clears valid.
func (s *scanner) unicodeEscape(b *strings.Builder, valid *bool) {
	rest := s.data[s.at:]
	r := escapedUnit(rest)
	if r < 0 {
		s.syntaxError(`use four hexadecimal digits after \u`, `invalid escape \u`)
	}
	n := 6
	if utf16.IsSurrogate(r) {
		pair := utf16.DecodeRune(r, escapedUnit(rest[6:]))
		if pair != utf8.RuneError {
			n = 12
		} else if *valid {
			*valid = false
			s.fail(s.pos(s.at), CodeEncoding, "write both halves of the surrogate pair", "the escape %s is half of a surrogate pair", rest[:6])
		}
		r = pair
	}
	b.WriteRune(r)
	s.at += n
}

// escapedUnit reads \uXXXX at the start of b, or returns -1.
func escapedUnit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// json parses JSON: the standard library validates it, the scanner adds positions and order.
func (p *parser) json() *Value {
	if !json.Valid(p.data) {
		var raw json.RawMessage
		p.jsonSyntax(json.Unmarshal(p.data, &raw))
		return nil
	}
	return scan(strict)(p)
}

// jsonSyntax reports an error of the standard library at its position, with a likely cause.
func (p *parser) jsonSyntax(err error) {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		p.fail(p.pos(0), CodeSyntax, "", "%v", err)
		return
	}
	at := max(int(syntax.Offset)-1, 0)
	text := strings.TrimPrefix(syntax.Error(), "json: ")
	if strings.Contains(text, "exceeded max depth") {
		p.tooDeep(p.pos(at), MaxDepth+1)
		return
	}
	if strings.HasPrefix(text, "unexpected end") || at >= len(p.data) {
		at = len(bytes.TrimRight(p.data, " \t\r\n"))
		p.fail(p.pos(at), CodeSyntax, "close every { [ and \"; the text may be truncated", "unexpected end of text")
		return
	}
	p.fail(p.pos(at), CodeSyntax, p.jsonHelp(at), "not JSON: %s", text)
}

// jsonHelp guesses the mistake from the bytes around it.
func (p *parser) jsonHelp(at int) string {
	before := bytes.TrimRight(p.data[:at], " \t\r\n")
	previous := byte(0)
	if len(before) > 0 {
		previous = before[len(before)-1]
	}
	switch c := p.data[at]; {
	case strings.IndexByte("}]", c) >= 0 && previous == ',':
		return "remove the comma before it"
	case strings.IndexByte("/#", c) >= 0:
		return "JSON has no comments; remove it or rename the file to .json5"
	case c == '\'':
		return "use double quotes around strings and keys"
	case strings.IndexByte("\n\r\t", c) >= 0:
		return `use \n and \t for line breaks and tabs in strings`
	case c == '"' && strings.IndexByte(`"]}el0123456789`, previous) >= 0:
		return "a comma may be missing before it"
	case strings.IndexByte("{[", c) >= 0:
		return "a comma may be missing before it"
	case strings.IndexByte("NITF", c) >= 0:
		return "JSON has true, false and null in lower case, and no NaN or Infinity"
	case strings.IndexByte("{,", previous) >= 0:
		return "use double quotes around strings and keys; for YAML rename the file to .yaml"
	}
	return "check the text before it"
}
