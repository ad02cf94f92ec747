package source

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Int is the value of a number that is a whole one between 1 and the largest int32,
// however it is written (10, 10.0, 1e1).
func (v *Value) Int() (int, bool) {
	if v.Kind != Number || len(v.Text) > 64 {
		return 0, false
	}
	// The rough value bounds the exponent before the exact one is computed.
	f, err := strconv.ParseFloat(v.Text, 64)
	if err != nil || f < 1 || f > math.MaxInt32 {
		return 0, false
	}
	r, ok := new(big.Rat).SetString(v.Text)
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return int(r.Num().Int64()), true
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
		return "", fmt.Errorf("unexpected %s, want a value", Quote(word))
	}
	return sign + text, nil
}
