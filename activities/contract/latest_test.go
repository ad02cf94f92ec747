package contract

import (
	"encoding/json"
	"strings"
	"testing"
)

// A conversation that has no room loses its beginning, and no result of a call stands without the call.
func TestLatest(t *testing.T) {
	var said []ThreadMessage
	for _, m := range []Message{{Role: RoleUser, Text: "a"}, {Role: RoleAssistant, Calls: []ToolCall{{ID: "1", Name: "f"}}}, {Role: RoleTool, CallID: "1", Text: "b"}, {Role: RoleAssistant, Text: "c"}} {
		raw, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, ThreadMessage{Raw: raw})
	}
	size := func(from int) (n int) {
		for _, m := range said[from:] {
			n += len(m.Raw)
		}
		return n
	}
	for bytes, want := range map[int]int{size(0): 4, size(0) - 1: 3, size(1): 3, size(2): 1, size(3): 1, size(3) - 1: 0} {
		if got := len(latest(said, bytes)); got != want {
			t.Errorf("%d messages in %d bytes, want %d", got, bytes, want)
		}
	}
	said[0].Raw = json.RawMessage(`{"role":"user","text":"` + strings.Repeat("a", maxFailureSaid) + `"}`)
	if f := (&Failure{Messages: said}).Bounded(); len(f.Messages) != 3 {
		t.Errorf("a failure holds %d messages, want 3", len(f.Messages))
	}
}
