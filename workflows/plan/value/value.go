// Package value implements the typed values that are passed between nodes: parsing, comparing, selecting and formatting.
//
// A value is JSON in which the notation of a number determines its type: 42 is an integer, 42.0 a double. A run's state
// preserves the notation, so no other type information is needed. The package is pure and imports only the standard
// library, so that adapters and workflow code can share it.
//
// Start at [Parse], then [Holds].
package value

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is the type of a value.
type Kind uint8

// The kinds. Object is any object; see [Value.Critique].
const (
	Null Kind = iota
	Bool
	Int
	Double
	String
	Array
	Object
)

var kinds = [...]string{"null", "a boolean", "an integer", "a double", "a string", "an array", "an object"}

// String returns the kind with its article.
func (k Kind) String() string { return kinds[k] }

// Value is one value. The zero value is null.
type Value struct {
	Kind Kind
	True bool
	// Int is set for an Int; Float for both kinds of number.
	Int   int64
	Float float64
	// Text is the value of a String.
	Text    string
	Items   []Value
	Members []Member
	// literal is a number's original notation.
	literal string
}

// Member is one member of an object.
type Member struct {
	Key   string
	Value Value
}

// Of converts a Go value. It returns null for unsupported types.
func Of(v any) Value {
	switch v := v.(type) {
	case bool:
		return Value{Kind: Bool, True: v}
	case int:
		return Value{Kind: Int, Int: int64(v), Float: float64(v)}
	case int64:
		return Value{Kind: Int, Int: v, Float: float64(v)}
	case float64:
		return Value{Kind: Double, Float: v}
	case string:
		return Value{Kind: String, Text: v}
	case []Value:
		return Value{Kind: Array, Items: v}
	}
	return Value{}
}

// ObjectOf returns an object with one member.
func ObjectOf(key string, v Value) Value { return Value{Kind: Object, Members: []Member{{key, v}}} }

// Critique returns the result of a verification.
func Critique(success bool, feedback string, input Value) Value {
	return Value{Kind: Object, Members: []Member{{"success", Of(success)}, {"feedback", Of(feedback)}, {"input", input}}}
}

// Get returns a member's value.
func (v Value) Get(key string) (Value, bool) {
	for _, m := range v.Members {
		if m.Key == key {
			return m.Value, true
		}
	}
	return Value{}, false
}

// IsCritique reports whether the value has exactly the members of a verification's result.
func (v Value) IsCritique() bool {
	s, hasSuccess := v.Get("success")
	f, hasFeedback := v.Get("feedback")
	_, hasInput := v.Get("input")
	return v.Kind == Object && len(v.Members) == 3 && hasSuccess && s.Kind == Bool && hasFeedback && f.Kind == String && hasInput
}

// doubleKey marks a double that has no JSON literal.
const doubleKey = "$double"

// maxDepth limits the nesting of a value.
const maxDepth = 100

// Parse parses a value written by [Value.JSON], or any other JSON. Numbers with a point or an exponent are doubles, and
// so are integers of more than 64 bits, which keep their digits.
func Parse(raw []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := read(d, 0)
	if err != nil {
		return Value{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return Value{}, fmt.Errorf("unexpected data after the value")
	}
	return v, nil
}

func read(d *json.Decoder, depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, fmt.Errorf("value is nested deeper than %d levels", maxDepth)
	}
	t, err := d.Token()
	if err == io.EOF {
		return Value{}, io.ErrUnexpectedEOF
	}
	if err != nil {
		return Value{}, err
	}
	switch t := t.(type) {
	case bool:
		return Of(t), nil
	case string:
		return Of(t), nil
	case json.Number:
		return number(t.String()), nil
	case json.Delim:
		if t == '[' {
			return readArray(d, depth)
		}
		return readObject(d, depth)
	}
	return Value{}, nil
}

func readArray(d *json.Decoder, depth int) (Value, error) {
	out := Value{Kind: Array}
	for d.More() {
		item, err := read(d, depth+1)
		if err != nil {
			return Value{}, err
		}
		out.Items = append(out.Items, item)
	}
	_, err := d.Token()
	return out, err
}

func readObject(d *json.Decoder, depth int) (Value, error) {
	out := Value{Kind: Object}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return Value{}, err
		}
		key, _ := t.(string)
		item, err := read(d, depth+1)
		if err != nil {
			return Value{}, err
		}
		out.Members = append(out.Members, Member{key, item})
	}
	if _, err := d.Token(); err != nil {
		return Value{}, err
	}
	if special, ok := out.Get(doubleKey); ok && len(out.Members) == 1 && special.Kind == String {
		if f, ok := kotlinDouble(special.Text); ok {
			return Of(f), nil
		}
	}
	return out, nil
}

func number(literal string) Value {
	if !strings.ContainsAny(literal, ".eE") {
		if n, err := strconv.ParseInt(literal, 10, 64); err == nil {
			return Of(n)
		}
	}
	f, _ := strconv.ParseFloat(literal, 64) // infinite if out of range
	return Value{Kind: Double, Float: f, literal: literal}
}

// JSON returns the value as compact JSON, which [Parse] converts back to an equal value.
func (v Value) JSON() []byte { return v.append(nil, ",", ":") }

// append appends the value as JSON, with the given separators after elements and keys.
func (v Value) append(b []byte, comma, colon string) []byte {
	switch v.Kind {
	case Bool:
		return strconv.AppendBool(b, v.True)
	case Int:
		return strconv.AppendInt(b, v.Int, 10)
	case Double:
		if math.IsNaN(v.Float) || math.IsInf(v.Float, 0) {
			return append(b, `{"`+doubleKey+`":"`+doubleText(v.Float)+`"}`...)
		}
		if v.isBigInt() {
			return append(b, v.literal...)
		}
		return append(b, doubleText(v.Float)...)
	case String:
		return AppendString(b, v.Text)
	case Array:
		b = append(b, '[')
		for i, item := range v.Items {
			if i > 0 {
				b = append(b, comma...)
			}
			b = item.append(b, comma, colon)
		}
		return append(b, ']')
	case Object:
		b = append(b, '{')
		for i, m := range v.Members {
			if i > 0 {
				b = append(b, comma...)
			}
			b = append(AppendString(b, m.Key), colon...)
			b = m.Value.append(b, comma, colon)
		}
		return append(b, '}')
	}
	return append(b, "null"...)
}

// AppendString appends a string as JSON, with as few and as short escapes as possible.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r < 0x20 && shortEscapes[r] != 0:
			b = append(b, '\\', shortEscapes[r])
		case r < 0x20:
			b = append(b, `\u00`...)
			b = append(b, hexDigits[r>>4], hexDigits[r&15])
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// shortEscapes are the control characters with a one-letter escape.
var shortEscapes = [0x20]byte{'\n': 'n', '\r': 'r', '\t': 't', '\b': 'b', '\f': 'f'}

const hexDigits = "0123456789abcdef"

// doubleText formats a double so that it cannot be mistaken for an integer.
func doubleText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e15) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// original returns a primitive's original text.
func (v Value) original() string {
	if v.literal != "" {
		return v.literal
	}
	return v.Words()
}

// Words returns the value for display: a string itself, anything else as JSON.
func (v Value) Words() string {
	if v.Kind == String {
		return v.Text
	}
	return string(v.JSON())
}

// Placeholder matches a placeholder in a text; its group is the name. As in Agent Spec's reference implementation, which
// is in Python, names consist of letters and digits of any script and _.
var Placeholder = regexp.MustCompile(`\{\{` + space + `*([\p{L}\p{N}_]+)` + space + `*\}\}`)

// space is what Python's \s matches.
const space = `[\s\v\x1c-\x1f\x{85}\p{Z}]`

// FillIn returns a text with its placeholders replaced. Placeholders within the values are not replaced, nor are names
// without a value.
func FillIn(text string, in Value) string {
	return Placeholder.ReplaceAllStringFunc(text, func(m string) string {
		if v, ok := in.Get(Placeholder.FindStringSubmatch(m)[1]); ok {
			return v.Spaced()
		}
		return m
	})
}
