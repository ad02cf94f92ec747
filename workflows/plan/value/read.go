package value

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The ways to read a value that was written as JSON.
const (
	// Literal uses JSON's types: "42" is a string. Any value except null is valid.
	Literal = "literal"
	// Bare accepts a string, a number, a boolean, an array of one of these, or a critique result with all three members.
	// null is the string "null".
	Bare = "bare"
	// Tagged accepts {"type": ..., "data": ...}, or a bare value whose type is inferred from its text: "42" is an
	// integer.
	Tagged = "tagged"
)

// Read parses JSON and converts it with [Reread].
func Read(way string, raw []byte) (Value, error) {
	v, err := Parse(raw)
	if err != nil {
		return Value{}, err
	}
	return Reread(way, v)
}

// Reread converts a parsed value in one of the ways.
func Reread(way string, v Value) (Value, error) {
	switch way {
	case Bare:
		return bare(v)
	case Tagged:
		return tagged(v)
	}
	if v.Kind == Null {
		return Value{}, fmt.Errorf("the value is null")
	}
	if n, ok := outOfRange(v); ok {
		return Value{}, fmt.Errorf("the number %s is out of the range of a double", n.short())
	}
	return v, nil
}

func bare(v Value) (Value, error) {
	switch v.Kind {
	case Null:
		return Of("null"), nil
	case Int, Double:
		return narrow(v), nil
	case Array:
		return uniform(v, v.Items)
	case Object:
		input, _ := v.Get("input")
		if !v.IsCritique() {
			return Value{}, fmt.Errorf("Unable to deserialize FlowAgentInput from JSON object: %s", v.JSON())
		}
		inner, err := bare(input)
		if err != nil {
			return Value{}, err
		}
		success, _ := v.Get("success")
		feedback, _ := v.Get("feedback")
		return Critique(success.True, feedback.Text, inner), nil
	}
	return v, nil
}

// narrow converts a number to an integer if it is one of 32 bits, otherwise to a double.
func narrow(v Value) Value {
	if n, ok := kotlinInt(v.original()); ok {
		return n
	}
	return Of(v.Float)
}

// textParsers holds the conversions from a primitive's text, in the order in which arrays try them.
var textParsers = []func(string) (Value, bool){kotlinBool, kotlinInt, func(s string) (Value, bool) { f, ok := kotlinDouble(s); return Of(f), ok }}

// uniform converts an array to one type: strings, or else booleans, integers or doubles by their texts.
func uniform(v Value, items []Value) (Value, error) {
	if all(items, func(i Value) bool { return i.Kind == String }) {
		return v, nil
	}
	if all(items, func(i Value) bool { return i.Kind != Array && i.Kind != Object && i.Kind != Null }) {
		for _, read := range textParsers {
			if out, ok := each(items, read); ok {
				return Of(out), nil
			}
		}
	}
	return Value{}, fmt.Errorf("Expected an array of uniform primitive types, but got: %s", v.JSON())
}

func all(items []Value, is func(Value) bool) bool {
	return !slices.ContainsFunc(items, func(v Value) bool { return !is(v) })
}

func each(items []Value, read func(string) (Value, bool)) ([]Value, bool) {
	var out []Value
	for _, i := range items {
		v, ok := read(i.original())
		if !ok {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}

func tagged(v Value) (Value, error) {
	switch v.Kind {
	case Null:
		return Value{}, fmt.Errorf("the value is null")
	case Array:
		return sameAsFirst(v)
	case Object:
		return untag(v)
	}
	return inferType(v.original()), nil
}

// inferType infers a type from a text; the default is a string.
func inferType(text string) Value {
	for _, read := range textParsers {
		if v, ok := read(text); ok {
			return v
		}
	}
	return Of(text)
}

// sameAsFirst converts an array to the type of its first item.
func sameAsFirst(v Value) (Value, error) {
	if len(v.Items) == 0 {
		return v, nil
	}
	first := v.Items[0]
	if first.Kind == String {
		if all(v.Items, func(i Value) bool { return i.Kind == String }) {
			return v, nil
		}
	} else if all(v.Items, func(i Value) bool { return i.Kind != Array && i.Kind != Object && i.Kind != Null }) {
		for _, read := range textParsers {
			if _, ok := read(first.original()); !ok {
				continue
			}
			if out, ok := each(v.Items, read); ok {
				return Of(out), nil
			}
			break
		}
	}
	return Value{}, fmt.Errorf("the items of %s do not all have the type of the first", v.JSON())
}

// tags are the types that an object can declare for its data.
var tags = []string{"int", "double", "string", "boolean", "array_int", "array_double", "array_string", "array_boolean"}

// IsTagged reports whether a value has the form {"type": ..., "data": ...}.
func (v Value) IsTagged() bool {
	tag, _ := v.Get("type")
	_, data := v.Get("data")
	return data && len(v.Members) == 2 && slices.Contains(tags, tag.Text)
}

// IsTaggedCritique reports whether a value is a verification's result with a type member.
func (v Value) IsTaggedCritique() bool {
	tag, _ := v.Get("type")
	_, ok, _ := untagCritique(v)
	return ok && len(v.Members) == 4 && tag.Text == "critique"
}

// untag converts {"type": ..., "data": ...} and {"type": "critique", ...}.
func untag(v Value) (Value, error) {
	tag, _ := v.Get("type")
	data, _ := v.Get("data")
	invalid := fmt.Errorf(`expected {"type": "int|double|string|boolean|array_...|critique", "data": ...}, got %s`, v.JSON())
	switch tag.Text {
	case "int":
		if n, ok := kotlinInt(data.original()); ok && data.Kind != Null {
			return n, nil
		}
	case "double":
		if f, ok := kotlinDouble(data.original()); ok {
			return Of(f), nil
		}
	case "string":
		if data.Kind == String {
			return data, nil
		}
	case "boolean":
		if b, ok := kotlinBool(data.original()); ok {
			return b, nil
		}
	case "critique":
		if c, ok, err := untagCritique(v); ok {
			return c, err
		}
	default:
		if strings.HasPrefix(tag.Text, "array_") && data.Kind == Array {
			return sameAsFirst(data)
		}
	}
	return Value{}, invalid
}

func untagCritique(v Value) (out Value, ok bool, err error) {
	success, _ := v.Get("success")
	feedback, _ := v.Get("feedback")
	input, ok := v.Get("input")
	if !ok || success.Kind != Bool || feedback.Kind != String {
		return Value{}, false, nil
	}
	inner, err := tagged(input)
	return Critique(success.True, feedback.Text, inner), true, err
}

// Constant converts the constant of a condition, a JSON primitive, quoted or not. Bare tries a double first, then a
// boolean, an integer, a string; Tagged a boolean, an integer, a double, a string. Literal uses JSON's type.
func Constant(way string, v Value) (Value, error) {
	switch v.Kind {
	case Null:
		return Value{}, fmt.Errorf("Unsupported primitive type: null")
	case Array, Object:
		return Value{}, fmt.Errorf("%s is not a primitive", v.Kind)
	}
	switch way {
	case Bare:
		if f, ok := kotlinDouble(v.original()); ok {
			return Of(f), nil
		}
		return inferType(v.original()), nil
	case Tagged:
		return inferType(v.original()), nil
	}
	if n, ok := outOfRange(v); ok {
		return Value{}, fmt.Errorf("the number %s is out of the range of a double", n.short())
	}
	return v, nil
}

func kotlinBool(s string) (Value, bool) {
	if strings.EqualFold(s, "true") || strings.EqualFold(s, "false") {
		return Of(strings.EqualFold(s, "true")), true
	}
	return Value{}, false
}

var intLiteral = regexp.MustCompile(`^(-?\d{1,20})(?:[eE]\+?(\d{1,2}))?$`)

// kotlinInt parses an integer of 32 bits, with or without an exponent.
func kotlinInt(s string) (Value, bool) {
	m := intLiteral.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return Value{}, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return Value{}, false
	}
	exp, _ := strconv.Atoi(m[2]) // "" is 0
	for ; exp > 0 && n != 0; exp-- {
		if n *= 10; n < math.MinInt32 || n > math.MaxInt32 {
			return Value{}, false
		}
	}
	if n < math.MinInt32 || n > math.MaxInt32 {
		return Value{}, false
	}
	return Of(n), true
}

var doubleLiteral = regexp.MustCompile(`^[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?|0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?)$`)

// kotlinDouble parses a double as Java does, with NaN, Infinity, suffixes and hexadecimal floats.
func kotlinDouble(s string) (float64, bool) {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	if !doubleLiteral.MatchString(s) {
		return 0, false
	}
	switch strings.TrimLeft(s, "+-") {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		if s[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	}
	if hex := strings.ContainsAny(s, "xX"); !hex || strings.ContainsAny(s, "pP") {
		s = strings.TrimRight(s, "fFdD")
	}
	f, _ := strconv.ParseFloat(s, 64) // infinite if out of range, as in Java
	return f, true
}
