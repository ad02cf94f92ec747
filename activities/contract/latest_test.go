package contract

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestLatest checks that a conversation that does not fit is truncated at its start, and never keeps a tool result without its call.
func TestLatest(t *testing.T) {
	var messages []ThreadMessage
	for _, m := range []Message{{Role: RoleUser, Text: "a"}, {Role: RoleAssistant, Calls: []ToolCall{{ID: "1", Name: "f"}}}, {Role: RoleTool, CallID: "1", Text: "b"}, {Role: RoleAssistant, Text: "c"}} {
		raw, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, ThreadMessage{Raw: raw})
	}
	size := func(from int) (n int) {
		for _, m := range messages[from:] {
			n += len(m.Raw)
		}
		return n
	}
	for bytes, want := range map[int]int{size(0): 4, size(0) - 1: 3, size(1): 3, size(2): 1, size(3): 1, size(3) - 1: 0} {
		if got := len(latest(messages, bytes)); got != want {
			t.Errorf("%d messages in %d bytes, want %d", got, bytes, want)
		}
	}
	messages[0].Raw = json.RawMessage(`{"role":"user","text":"` + strings.Repeat("a", maxFailureSaid) + `"}`)
	if f := (&Failure{Messages: messages}).Bounded(); len(f.Messages) != 3 {
		t.Errorf("a failure holds %d messages, want 3", len(f.Messages))
	}
}
