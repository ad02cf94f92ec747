package node

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"weft/activities/contract"
	"weft/workflows/plan/value"
	"weft/workflows/schedule"
)

func TestJudgedState(t *testing.T) {
	v := &contract.View{}
	if got, long := judgedState(v); got != nil || long != nil {
		t.Errorf("no state is %s, %v", got, long)
	}
	schedule.SetEntry(v, contract.StateEntry{Key: "short", Value: json.RawMessage(`{"a":1}`)})
	schedule.SetEntry(v, contract.StateEntry{Key: "long", SHA: "abc", Size: 5000})
	raw, long := judgedState(v)
	if string(raw) != `{"short":{"a":1}}` || len(long) != 1 || long[0] != (contract.LongValue{Key: "long", SHA: "abc"}) {
		t.Errorf("state is %s, long %v", raw, long)
	}
	for i := range 200 {
		schedule.SetEntry(v, contract.StateEntry{Key: fmt.Sprintf("key%03d", i), Value: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)})
	}
	raw, _ = judgedState(v)
	if len(raw) > maxJudgedState+2000 || !strings.Contains(string(raw), "more keys are left out") || !json.Valid(raw) {
		t.Errorf("%d bytes: %.100s", len(raw), raw)
	}
}

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
		"the lowest":             {"min", `[4,-2.5,3]`, `-2.5`},
		"no number":              {"max", `[1,"7"]`, `"7" is a string, want a number`},
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
