package pytext

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

type number = json.Number

// JSON returns json.dumps(v): spaces after commas and colons, ASCII only.
func (v *Value) JSON() string {
	var b strings.Builder
	v.dump(&b, -1, 0)
	return b.String()
}

// Indented returns json.dumps(v, indent=2).
func (v *Value) Indented() string {
	var b strings.Builder
	v.dump(&b, 2, 0)
	return b.String()
}

// dump writes JSON; a negative indent means one line.
func (v *Value) dump(b *strings.Builder, indent, level int) {
	switch v.Kind {
	case Null:
		b.WriteString("null")
	case Bool:
		b.WriteString(strconv.FormatBool(v.True))
	case Number:
		b.WriteString(jsonNumber(v.Text))
	case String:
		quoteJSON(b, v.Text)
	case Array:
		writeList(b, '[', ']', len(v.Items), indent, level, math.MaxInt, func(i int) { v.Items[i].dump(b, indent, level+1) })
	case Object:
		writeList(b, '{', '}', len(v.Members), indent, level, math.MaxInt, func(i int) {
			quoteJSON(b, v.Members[i].Key)
			b.WriteString(": ")
			v.Members[i].Value.dump(b, indent, level+1)
		})
	}
}

// writeList writes a bracketed list, and stops once b holds more than limit bytes.
func writeList(b *strings.Builder, open, closing byte, n, indent, level, limit int, item func(i int)) {
	b.WriteByte(open)
	for i := range n {
		if b.Len() > limit {
			return
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if indent >= 0 {
			b.WriteString("\n" + strings.Repeat(" ", indent*(level+1)))
		} else if i > 0 {
			b.WriteByte(' ')
		}
		item(i)
	}
	if n > 0 && indent >= 0 {
		b.WriteString("\n" + strings.Repeat(" ", indent*level))
	}
	b.WriteByte(closing)
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func quoteJSON(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch esc, ok := jsonEscapes[r]; {
		case ok:
			b.WriteString(esc)
		case r >= 0x20 && r < 0x7f:
			b.WriteRune(r)
		case r >= 0x10000:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
}

// Str returns str(v): a string as it is, anything else like [Value.Repr].
func (v *Value) Str() string {
	if v.Kind == String {
		return v.Text
	}
	return v.Repr()
}

// Repr returns repr(v).
func (v *Value) Repr() string {
	var b strings.Builder
	v.repr(&b, math.MaxInt)
	return b.String()
}

// ReprUpTo returns repr(v), or its first n bytes and "…" if it is longer. It takes no longer than that requires.
func (v *Value) ReprUpTo(n int) string {
	var b strings.Builder
	v.repr(&b, n)
	if b.Len() <= n {
		return b.String()
	}
	return strings.ToValidUTF8(b.String()[:n], "") + "…"
}

// repr writes until b holds more than limit bytes.
func (v *Value) repr(b *strings.Builder, limit int) {
	if b.Len() > limit {
		return
	}
	switch v.Kind {
	case Null:
		b.WriteString("None")
	case Bool:
		if v.True {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case Number:
		b.WriteString(pyNumber(v.Text))
	case String:
		text := v.Text
		if len(text) > limit {
			text = strings.ToValidUTF8(text[:limit], "") + "…"
		}
		b.WriteString(Quote(text))
	case Array:
		writeList(b, '[', ']', len(v.Items), -1, 0, limit, func(i int) { v.Items[i].repr(b, limit) })
	case Object:
		writeList(b, '{', '}', len(v.Members), -1, 0, limit, func(i int) {
			b.WriteString(Quote(v.Members[i].Key) + ": ")
			v.Members[i].Value.repr(b, limit)
		})
	}
}

var reprEscapes = map[rune]string{'\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// Quote returns repr of a string.
func Quote(s string) string {
	q := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	var b strings.Builder
	b.WriteRune(q)
	for _, r := range s {
		switch esc, ok := reprEscapes[r]; {
		case ok:
			b.WriteString(esc)
		case r == q:
			b.WriteString(`\` + string(q))
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(q)
	return b.String()
}

// pyNumber formats a number as Python does: an integer exactly, a float with the fewest digits.
func pyNumber(literal string) string {
	if !strings.ContainsAny(literal, ".eE") {
		if literal == "-0" {
			return "0"
		}
		return literal
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil && !math.IsInf(f, 0) {
		return literal
	}
	return pyFloat(f)
}

// jsonNumber is pyNumber, except for infinities, which JSON has no literal for.
func jsonNumber(literal string) string {
	switch s := pyNumber(literal); s {
	case "inf":
		return "Infinity"
	case "-inf":
		return "-Infinity"
	default:
		return s
	}
}

func pyFloat(f float64) string {
	if math.IsInf(f, 0) {
		if f > 0 {
			return "inf"
		}
		return "-inf"
	}
	sci := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(sci, "e")
	exp, err := strconv.Atoi(exponent)
	if err == nil && (exp < -4 || exp >= 16) {
		return fmt.Sprintf("%se%+03d", mantissa, exp)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
