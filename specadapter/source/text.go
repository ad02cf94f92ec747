package source

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

func (s *scanner) text(quote byte) string {
	begin := s.at
	s.at++
	if n := s.plainText(quote); n >= 0 {
		s.at += n + 1
		return string(s.data[begin+1 : s.at-1])
	}
	var b strings.Builder
	for whole := true; s.at < len(s.data); {
		switch c := s.data[s.at]; {
		case c == quote:
			s.at++
			return b.String()
		case c == '\\':
			s.escape(&b, &whole)
		case (c == '\n' || c == '\r') && s.syntax != lenient:
			s.wrong(`use \n for line breaks in strings, or end the line with a backslash`, "line break in a string")
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

// escape reads an escape sequence. Whole is cleared at the first half of a surrogate pair.
func (s *scanner) escape(b *strings.Builder, whole *bool) {
	rest := s.data[s.at:]
	if len(rest) < 2 {
		s.at = len(s.data)
		s.wrong("", "")
	}
	c := rest[1]
	switch {
	case c == 'u':
		s.unicodeEscape(b, whole)
	case jsonEscapes[c] != "":
		b.WriteString(jsonEscapes[c])
		s.at += 2
	case s.syntax != extended || c >= '1' && c <= '9':
		s.wrong("remove the backslash", "unknown escape \\%c", c)
	case c == 'x':
		n, err := strconv.ParseUint(string(rest[2:min(4, len(rest))]), 16, 8)
		if err != nil || len(rest) < 4 {
			s.wrong(`use two hexadecimal digits after \x`, `invalid escape \x`)
		}
		b.WriteRune(rune(n))
		s.at += 4
	case c == '0' && len(rest) > 2 && rest[2] >= '0' && rest[2] <= '9':
		s.wrong(`use \x00`, `\0 followed by a digit`)
	case json5Escapes[c] != "":
		b.WriteString(json5Escapes[c])
		s.at += 2
	default:
		s.plainEscape(b)
	}
}

// plainEscape reads an escaped character that stands for itself, or an escaped line break.
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

// unicodeEscape reads \uXXXX, or the two of a surrogate pair.
func (s *scanner) unicodeEscape(b *strings.Builder, whole *bool) {
	rest := s.data[s.at:]
	r := escapedUnit(rest)
	if r < 0 {
		s.wrong(`use four hexadecimal digits after \u`, `invalid escape \u`)
	}
	n := 6
	if utf16.IsSurrogate(r) {
		pair := utf16.DecodeRune(r, escapedUnit(rest[6:]))
		if pair != utf8.RuneError {
			n = 12
		} else if *whole {
			*whole = false
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
