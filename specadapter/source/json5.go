package source

import (
	"bytes"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// json5 reads the text as JSON5: JSON with comments, trailing commas, single quotes, bare
// keys and more forms of numbers. What JSON cannot hold, such as Infinity, is refused.
func (p *parser) json5() *Value {
	j := &json5Reader{parser: p}
	if !j.space() {
		return nil
	}
	v := j.value(1)
	if v == nil || !j.space() {
		return nil
	}
	if j.at < len(j.data) {
		j.wrong("remove it, or keep one document per file", "%s follows after the value", j.here())
		return nil
	}
	return v
}

// json5Reader is a cursor over the text. A method that reports an error returns nil or
// false, and nothing is read after that.
type json5Reader struct {
	*parser
	at int
}

// wrong reports a syntax error at the cursor.
func (j *json5Reader) wrong(help, format string, args ...any) {
	if j.at >= len(j.data) {
		help, format, args = "close every { [ ' and \"; the text may have been cut off", "the text ends in the middle of a value", nil
	}
	j.fail(j.pos(j.at), CodeSyntax, help, "not JSON5: "+format, args...)
}

// here names the character at the cursor.
func (j *json5Reader) here() string {
	r, _ := utf8.DecodeRune(j.data[j.at:])
	return strconv.QuoteRune(r)
}

func (j *json5Reader) peek() byte {
	if j.at < len(j.data) {
		return j.data[j.at]
	}
	return 0
}

// space skips blanks and comments.
func (j *json5Reader) space() bool {
	for j.at < len(j.data) {
		rest := j.data[j.at:]
		r, n := utf8.DecodeRune(rest)
		switch {
		case strings.ContainsRune("\t\n\v\f\r \u00a0\u2028\u2029\ufeff", r) || unicode.Is(unicode.Zs, r):
			j.at += n
		case r == '/' && len(rest) > 1 && rest[1] == '/':
			end := bytes.IndexAny(rest, "\n\r\u2028\u2029")
			if end < 0 {
				end = len(rest)
			}
			j.at += end
		case r == '/' && len(rest) > 1 && rest[1] == '*':
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				j.wrong("close it by */", "the comment does not end")
				return false
			}
			j.at += end + 4
		default:
			return true
		}
	}
	return true
}

// value reads one value that nests depth deep.
func (j *json5Reader) value(depth int) *Value {
	v := &Value{Pos: j.pos(j.at)}
	switch c := j.peek(); {
	case c == '{' || c == '[':
		if j.tooDeep(v.Pos, depth) || !j.grow(v.Pos, 1, 0) {
			return nil
		}
		j.at++
		if c == '[' {
			return j.array(v, depth)
		}
		return j.members(v.Pos, depth)
	case c == '"' || c == '\'':
		text, ok := j.text(c)
		if !ok {
			return nil
		}
		v.Kind, v.Text = String, text
	default:
		if !j.word(v) {
			return nil
		}
	}
	if !j.grow(v.Pos, 1, len(v.Text)) {
		return nil
	}
	return v
}

func (j *json5Reader) array(v *Value, depth int) *Value {
	v.Kind = Array
	for {
		if !j.space() {
			return nil
		}
		if j.peek() == ']' {
			j.at++
			return v
		}
		item := j.value(depth + 1)
		if item == nil {
			return nil
		}
		v.Items = append(v.Items, item)
		if !j.comma(']') {
			return nil
		}
	}
}

func (j *json5Reader) members(pos Pos, depth int) *Value {
	var members []Member
	for {
		if !j.space() {
			return nil
		}
		if j.peek() == '}' {
			j.at++
			return j.object(pos, members)
		}
		m := Member{KeyPos: j.pos(j.at)}
		var ok bool
		if m.Key, ok = j.key(); !ok || !j.grow(m.KeyPos, 0, len(m.Key)) || !j.space() {
			return nil
		}
		if j.peek() != ':' {
			j.wrong("write a colon between key and value", "%s follows the key %s", j.here(), Quote(m.Key))
			return nil
		}
		j.at++
		if !j.space() {
			return nil
		}
		if m.Value = j.value(depth + 1); m.Value == nil {
			return nil
		}
		members = append(members, m)
		if !j.comma('}') {
			return nil
		}
	}
}

// comma reads what may stand behind an item: a comma, or nothing before the end.
func (j *json5Reader) comma(end byte) bool {
	if !j.space() {
		return false
	}
	switch j.peek() {
	case ',':
		j.at++
		return true
	case end:
		return true
	}
	j.wrong("a comma may be missing before it", "%s stands where a comma or %q should", j.here(), end)
	return false
}

// key reads a quoted key or a bare name.
func (j *json5Reader) key() (string, bool) {
	if c := j.peek(); c == '"' || c == '\'' {
		return j.text(c)
	}
	var b strings.Builder
	for j.at < len(j.data) {
		r, n := utf8.DecodeRune(j.data[j.at:])
		if r == '\\' {
			if r = hexUnit(j.data[j.at:]); r < 0 {
				j.wrong("put the key in quotes", "the escape in a key is no \\uXXXX")
				return "", false
			}
			n = 6
		}
		start := unicode.IsLetter(r) || r == '$' || r == '_' || unicode.Is(unicode.Nl, r)
		if !start && (b.Len() == 0 || !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc) && r != '\u200c' && r != '\u200d') {
			break
		}
		b.WriteRune(r)
		j.at += n
	}
	if b.Len() == 0 {
		j.wrong("put the key in quotes", "%s begins no key", j.hereOrEnd())
		return "", false
	}
	return b.String(), true
}

func (j *json5Reader) hereOrEnd() string {
	if j.at >= len(j.data) {
		return "the end"
	}
	return j.here()
}

// word reads null, true, false or a number.
func (j *json5Reader) word(v *Value) bool {
	end := j.at
	for end < len(j.data) && (strings.IndexByte("+-._$", j.data[end]) >= 0 || isWordByte(j.data[end])) {
		end++
	}
	word := string(j.data[j.at:end])
	switch word {
	case "null":
	case "true", "false":
		v.Kind, v.True = Bool, word == "true"
	case "":
		j.wrong("write a value", "%s begins no value", j.hereOrEnd())
		return false
	default:
		text, err := json5Number(word)
		if err != nil {
			j.wrong("write a number, true, false or null, or put a text in quotes", "%v", err)
			return false
		}
		v.Kind, v.Text = Number, text
	}
	j.at = end
	return true
}

func isWordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// json5Number gives a number in JSON's grammar, with the digits that were written.
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
		return "", fmt.Errorf("%s is no hexadecimal number of at most 64 digits", Quote(word))
	}
	if text == "Infinity" || text == "NaN" {
		return "", fmt.Errorf("JSON has no number %s", Quote(word))
	}
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	// 5. and 5.e3 are numbers; JSON wants a digit behind the point.
	if i := strings.IndexByte(text, '.'); i > 0 && (i+1 == len(text) || text[i+1]|0x20 == 'e') {
		text = text[:i] + text[i+1:]
	}
	if !jsonNumber.MatchString(sign + text) {
		return "", fmt.Errorf("%s is no value", Quote(word))
	}
	return sign + text, nil
}

// text reads a string in either kind of quotes.
func (j *json5Reader) text(quote byte) (string, bool) {
	begin := j.at
	j.at++
	var b strings.Builder
	for j.at < len(j.data) {
		r, n := utf8.DecodeRune(j.data[j.at:])
		switch {
		case r == rune(quote):
			j.at++
			return b.String(), true
		case r == '\\':
			if !j.escape(&b) {
				return "", false
			}
			continue
		case r == '\n' || r == '\r':
			j.wrong(`write line breaks in strings as \n, or end the line with a backslash`, "a string goes over the end of its line")
			return "", false
		}
		b.WriteRune(r)
		j.at += n
	}
	j.fail(j.pos(begin), CodeSyntax, "close it by "+string(quote), "not JSON5: the string does not end")
	return "", false
}

var json5Escapes = map[byte]string{'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '0': "\x00"}

// escape reads what a backslash begins.
func (j *json5Reader) escape(b *strings.Builder) bool {
	rest := j.data[j.at:]
	if len(rest) < 2 {
		j.at = len(j.data)
		j.wrong("", "")
		return false
	}
	c := rest[1]
	switch {
	case c == 'u':
		return j.unicodeEscape(b)
	case c == 'x':
		return j.byteEscape(b)
	case c >= '1' && c <= '9':
		j.wrong("remove the backslash", "the escape \\%c has no meaning", c)
		return false
	case c == '0' && len(rest) > 2 && rest[2] >= '0' && rest[2] <= '9':
		j.wrong(`write \x00`, `a digit follows \0`)
		return false
	case json5Escapes[c] != "":
		b.WriteString(json5Escapes[c])
		j.at += 2
		return true
	}
	j.plainEscape(b)
	return true
}

// byteEscape reads \xXX.
func (j *json5Reader) byteEscape(b *strings.Builder) bool {
	rest := j.data[j.at+2:]
	n, err := strconv.ParseUint(string(rest[:min(2, len(rest))]), 16, 8)
	if err != nil || len(rest) < 2 {
		j.wrong(`write two hexadecimal digits behind \x`, `an escape \x has no two digits`)
		return false
	}
	b.WriteRune(rune(n))
	j.at += 4
	return true
}

// plainEscape reads a character that stands for itself, or the end of a line that goes on.
func (j *json5Reader) plainEscape(b *strings.Builder) {
	r, n := utf8.DecodeRune(j.data[j.at+1:])
	j.at += 1 + n
	switch {
	case r == '\r' && j.peek() == '\n':
		j.at++
	case r != '\r' && r != '\n' && r != 0x2028 && r != 0x2029:
		b.WriteRune(r)
	}
}

// hexUnit reads \uXXXX at the start of b, or returns -1.
func hexUnit(b []byte) rune {
	for i := 2; i < 6; i++ {
		if i >= len(b) || !isWordByte(b[i]) {
			return -1
		}
	}
	return escapedUnit(b)
}

// unicodeEscape reads \uXXXX, or two of them that make one character.
func (j *json5Reader) unicodeEscape(b *strings.Builder) bool {
	rest := j.data[j.at:]
	r := hexUnit(rest)
	if r < 0 {
		j.wrong(`write four hexadecimal digits behind \u`, `an escape \u has no four digits`)
		return false
	}
	n := 6
	if r >= 0xd800 && r <= 0xdfff {
		low := hexUnit(rest[6:])
		if r >= 0xdc00 || low < 0xdc00 || low > 0xdfff {
			j.fail(j.pos(j.at), CodeEncoding, "write the whole character", "the escape %s stands for half a character", rest[:6])
			return false
		}
		r, n = (r-0xd800)<<10|(low-0xdc00)+0x10000, 12
	}
	b.WriteRune(r)
	j.at += n
	return true
}
