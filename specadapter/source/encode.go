package source

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

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
		return appendString(b, v.Text)
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
			b = append(appendString(b, m.Key), ':')
			b = m.Value.appendJSON(b)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

var shortEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		if esc, ok := shortEscapes[r]; ok {
			b = append(b, esc...)
		} else if r < 0x20 {
			b = fmt.Appendf(b, `\u%04x`, r)
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
