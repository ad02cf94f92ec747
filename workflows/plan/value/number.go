package value

import (
	"cmp"
	"math"
	"math/big"
	"strings"
)

// isBigInt reports whether a number is an integer of more than 64 bits, whose digits are kept.
func (v Value) isBigInt() bool {
	return v.Kind == Double && v.literal != "" && !strings.ContainsAny(v.literal, ".eE") && !math.IsInf(v.Float, 0)
}

// bigFloat returns a number without rounding. It must not be NaN.
func (v Value) bigFloat() *big.Float {
	switch {
	case v.Kind == Int:
		return new(big.Float).SetInt64(v.Int)
	case v.isBigInt():
		if n, ok := new(big.Int).SetString(v.literal, 10); ok {
			return new(big.Float).SetInt(n)
		}
	}
	return new(big.Float).SetFloat64(v.Float)
}

// compareNumbers compares two numbers by value. It reports false if either is NaN.
func compareNumbers(a, b Value) (int, bool) {
	switch {
	case math.IsNaN(a.Float) || math.IsNaN(b.Float):
		return 0, false
	case a.Kind == Int && b.Kind == Int:
		return cmp.Compare(a.Int, b.Int), true
	}
	return a.bigFloat().Cmp(b.bigFloat()), true
}

// outOfRange returns the first number in a value that is out of the range of a double.
func outOfRange(v Value) (Value, bool) {
	if v.Kind == Double && v.literal != "" && math.IsInf(v.Float, 0) {
		return v, true
	}
	for _, item := range v.Items {
		if n, ok := outOfRange(item); ok {
			return n, true
		}
	}
	for _, m := range v.Members {
		if n, ok := outOfRange(m.Value); ok {
			return n, true
		}
	}
	return Value{}, false
}

// short returns a number's original notation, truncated if it is long.
func (v Value) short() string {
	if len(v.literal) > 40 {
		return v.literal[:40] + "..."
	}
	return v.literal
}
