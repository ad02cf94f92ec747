package source

import (
	"math"
	"math/big"
	"strconv"
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
