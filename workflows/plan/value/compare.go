package value

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
)

// The rules for comparing values and selecting parts of them.
const (
	// ByValue compares numbers by their value: 42 equals 42.0.
	ByValue = "value"
	// ByType requires equal values to have the same type, and selects fields only from critique results. Its errors are
	// those of the framework that defines these rules.
	ByType = "typed"
	// Exact is ByValue, except that equal numbers must have the same type: 42 is not 42.0.
	Exact = "exact"
)

// The operations of a comparison.
const (
	Equals      = "equals"
	NotEquals   = "not_equals"
	More        = "more"
	Less        = "less"
	MoreOrEqual = "more_or_equal"
	LessOrEqual = "less_or_equal"
	Not         = "not"
	And         = "and"
	Or          = "or"
)

// Operations lists all operations.
var Operations = []string{Equals, NotEquals, More, Less, MoreOrEqual, LessOrEqual, Not, And, Or}

// Known reports whether op is one of [Operations].
func Known(op string) bool { return slices.Contains(Operations, op) }

// Holds evaluates a comparison. Order operations require two numbers, or two strings, which are compared
// case-insensitively; Not, And and Or require two booleans. For other types it reports false.
func Holds(rules, op string, a, b Value) bool {
	switch op {
	case Equals:
		return Equal(rules, a, b)
	case NotEquals:
		return !Equal(rules, a, b)
	case More, Less, MoreOrEqual, LessOrEqual:
		return ordered(rules, op, a, b)
	}
	if a.Kind != Bool || b.Kind != Bool {
		return false
	}
	switch op {
	case Not:
		return a.True != b.True
	case And:
		return a.True && b.True
	case Or:
		return a.True || b.True
	}
	return false
}

// Equal reports whether two values are equal by the rules. Strings are compared case-sensitively.
func Equal(rules string, a, b Value) bool {
	if a.IsNumber() && b.IsNumber() {
		return equalNumbers(rules, a, b)
	}
	if a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case Bool:
		return a.True == b.True
	case String:
		return a.Text == b.Text
	case Array:
		return slices.EqualFunc(a.Items, b.Items, func(x, y Value) bool { return Equal(rules, x, y) })
	case Object:
		return len(a.Members) == len(b.Members) && sameMembers(a, b, rules)
	}
	return true
}

func equalNumbers(rules string, a, b Value) bool {
	switch {
	case a.Kind == Int && b.Kind == Int:
		return a.Int == b.Int
	case rules == Exact && a.Kind != b.Kind:
		return false
	case rules == ByType:
		return a.Kind == b.Kind && javaBits(a.Float) == javaBits(b.Float)
	}
	c, ok := compareNumbers(a, b)
	return ok && c == 0
}

func sameMembers(a, b Value, rules string) bool {
	return !slices.ContainsFunc(a.Members, func(m Member) bool {
		other, ok := b.Get(m.Key)
		return !ok || !Equal(rules, m.Value, other)
	})
}

// javaBits returns bits that distinguish doubles as Java's Double does: NaN equals itself, 0.0 differs from -0.0.
func javaBits(f float64) uint64 {
	if math.IsNaN(f) {
		return math.Float64bits(math.NaN())
	}
	return math.Float64bits(f)
}

// IsNumber reports whether the value is an integer or a double.
func (v Value) IsNumber() bool { return v.Kind == Int || v.Kind == Double }

func ordered(rules, op string, a, b Value) bool {
	var c int
	switch {
	case a.IsNumber() && b.IsNumber() && rules != ByType:
		var ok bool
		if c, ok = compareNumbers(a, b); !ok {
			return false
		}
	case a.IsNumber() && b.IsNumber():
		if math.IsNaN(a.Float) || math.IsNaN(b.Float) {
			return false
		}
		c = map[bool]int{true: -1}[a.Float < b.Float] + map[bool]int{true: 1}[a.Float > b.Float]
	case a.Kind == String && b.Kind == String:
		c = compareIgnoringCase(a.Text, b.Text)
	default:
		return false
	}
	switch op {
	case More:
		return c > 0
	case Less:
		return c < 0
	case MoreOrEqual:
		return c >= 0
	}
	return c <= 0
}

// compareIgnoringCase compares as Java's compareToIgnoreCase does, by UTF-16 units.
func compareIgnoringCase(a, b string) int {
	x, y := utf16.Encode([]rune(a)), utf16.Encode([]rune(b))
	for i := 0; i < len(x) && i < len(y); i++ {
		if x[i] == y[i] {
			continue
		}
		p, q := folded(x[i]), folded(y[i])
		if p != q {
			return int(p) - int(q)
		}
	}
	return len(x) - len(y)
}

func folded(u uint16) rune { return unicode.ToLower(unicode.ToUpper(rune(u))) }

// Operand returns the part of a value that a comparison applies to. By type, the path applies only to critique results;
// by value, a path of a single name selects the value itself if that is not an object.
func Operand(rules string, path []string, v Value) (Value, error) {
	if rules == ByType {
		return typedOperand(last(path), v)
	}
	return walk(path, v)
}

func last(path []string) string {
	if len(path) == 0 {
		return ""
	}
	return path[len(path)-1]
}

func typedOperand(name string, v Value) (Value, error) {
	switch {
	case v.Kind == Array || v.Kind == Object && !v.IsCritique():
		return Value{}, fmt.Errorf("Not primitive types are not yet supported")
	case v.Kind == Object && name != "success" && name != "feedback":
		return Value{}, fmt.Errorf("Unsupported condition variable: %s", name)
	case v.Kind == Object:
		v, _ = v.Get(name)
	}
	return v, nil
}

// walk follows a path into objects. A final "data" selects the value itself if there is no such field.
func walk(path []string, v Value) (Value, error) {
	for i, name := range path {
		next, ok := v.Get(name)
		switch {
		case ok:
			v = next
		case name == "data" && i == len(path)-1, v.Kind != Object && len(path) == 1:
			return v, nil
		default:
			return Value{}, fmt.Errorf("the value %s has no %s", v.Brief(), strings.Join(path[:i+1], "."))
		}
	}
	return v, nil
}

// Selected returns the part of a value that a transformation selects.
func Selected(rules string, path []string, v Value) (Value, error) {
	name := last(path)
	if rules != ByType {
		if v.Kind != Object && len(path) == 1 && name != "data" {
			return Value{}, fmt.Errorf("the value %s has no %s", v.Brief(), name)
		}
		return walk(path, v)
	}
	switch {
	case strings.TrimSpace(name) == "":
		return v, nil
	case name != "success" && name != "feedback":
		return Value{}, fmt.Errorf("Not primitive types are not yet supported")
	case !v.IsCritique():
		return Value{}, fmt.Errorf("Unexpected value string: %s", strings.Join(path, "."))
	}
	v, _ = v.Get(name)
	return v, nil
}

// maxBrief is how many bytes of a value a message repeats.
const maxBrief = 200

// Brief returns the value's JSON for a message, truncated if it is long.
func (v Value) Brief() string {
	if b := v.JSON(); len(b) > maxBrief {
		return strings.ToValidUTF8(string(bytes.TrimSpace(b[:maxBrief])), "") + "…"
	}
	return string(v.JSON())
}
