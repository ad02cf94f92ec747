package node

import (
	"testing"

	"weft/workflows/plan/value"
)

func TestReduce(t *testing.T) {
	tests := map[string]struct{ how, in, want string }{
		"append":                       {"append", `[1,"a"]`, `[1,"a"]`},
		"append nothing":               {"append", `[]`, `[]`},
		"sum of integers":              {"sum", `[1,2,9007199254740993]`, `9007199254740996`},
		"sum over 64 bits":             {"sum", `[9223372036854775807,9223372036854775807]`, `18446744073709551614`},
		"sum of integers over 64 bits": {"sum", `[18446744073709551614,-18446744073709551613]`, `1`},
		"sum":                          {"sum", `[1,2.5]`, `3.5`},
		"sum of nothing":               {"sum", `[]`, `0`},
		"average":                      {"average", `[1,2]`, `1.5`},
		"average of nothing":           {"average", `[]`, `none`},
		"max":                          {"max", `[1,7,3.5]`, `7`},
		"max of integers":              {"max", `[9007199254740992,9007199254740993]`, `9007199254740993`},
		"min of integers over 64 bits": {"min", `[18446744073709551616,18446744073709551615]`, `18446744073709551615`},
		"min":                          {"min", `[4,-2.5,3]`, `-2.5`},
		"not a number":                 {"max", `[1,"7"]`, `"7" is a string, expected a number`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			list, err := value.Parse([]byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			v, ok, err := reduce(tc.how, list.Items)
			got := string(v.JSON())
			switch {
			case err != nil:
				got = err.Error()
			case !ok:
				got = "none"
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
