package node

import (
	"testing"

	"weft/workflows/plan/value"
)

func TestReduce(t *testing.T) {
	tests := map[string]struct{ how, in, want string }{
		"all":                    {"append", `[1,"a"]`, `[1,"a"]`},
		"all of nothing":         {"append", `[]`, `[]`},
		"a sum of integers":      {"sum", `[1,2,9007199254740993]`, `9007199254740996`},
		"a sum beyond 64 bits":   {"sum", `[9223372036854775807,9223372036854775807]`, `18446744073709551614`},
		"a sum of long integers": {"sum", `[18446744073709551614,-18446744073709551613]`, `1`},
		"a sum":                  {"sum", `[1,2.5]`, `3.5`},
		"a sum of nothing":       {"sum", `[]`, `0`},
		"an average":             {"average", `[1,2]`, `1.5`},
		"an average of nothing":  {"average", `[]`, `none`},
		"the highest":            {"max", `[1,7,3.5]`, `7`},
		"the highest integer":    {"max", `[9007199254740992,9007199254740993]`, `9007199254740993`},
		"the lowest long one":    {"min", `[18446744073709551616,18446744073709551615]`, `18446744073709551615`},
		"the lowest":             {"min", `[4,-2.5,3]`, `-2.5`},
		"no number":              {"max", `[1,"7"]`, `"7" is a string, expected a number`},
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
