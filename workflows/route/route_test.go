package route

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/workflows/schedule"
)

func TestJudgedState(t *testing.T) {
	v := &contract.View{}
	if got, long := judgedState(v); got != nil || long != nil {
		t.Errorf("judgedState() of an empty state = %s, %v", got, long)
	}
	schedule.SetEntry(v, contract.StateEntry{Key: "short", Value: json.RawMessage(`{"a":1}`)})
	schedule.SetEntry(v, contract.StateEntry{Key: "long", SHA: "abc", Size: 5000})
	raw, long := judgedState(v)
	if string(raw) != `{"short":{"a":1}}` || len(long) != 1 || long[0] != (contract.LongValue{Key: "long", SHA: "abc"}) {
		t.Errorf("judgedState() = %s, %v", raw, long)
	}
	for i := range 200 {
		schedule.SetEntry(v, contract.StateEntry{Key: fmt.Sprintf("key%03d", i), Value: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)})
	}
	raw, _ = judgedState(v)
	if len(raw) > maxJudgedState+2000 || !strings.Contains(string(raw), "more keys are left out") || !json.Valid(raw) {
		t.Errorf("%d bytes: %.100s", len(raw), raw)
	}
}
