package compare

import (
	"strings"
	"testing"
)

// TestCopiedExecutions checks that an execution that a fork copied counts as run by the original, even if its node makes no calls
// and therefore left nothing in the original's history.
func TestCopiedExecutions(t *testing.T) {
	rows := func() []Row {
		return []Row{
			{Execution: "start#1", Sides: [2]*Side{nil, {Recorded: true}}},
			{Execution: "a#2", Sides: [2]*Side{{Text: "hello"}, {Recorded: true}}},
			{Execution: "b#3", Sides: [2]*Side{nil, {Text: "anew"}}},
		}
	}
	v := &Table{Runs: [2]string{"old", "new"}, Nodes: rows()}
	v.addReused([2]string{"", "old"})
	text := Text(v)
	if strings.Count(text, "did not run") != 1 || !strings.Contains(text, "b#3\n  old  did not run\n") || !strings.Contains(text, "start#1\n  old       0 +     0 tokens") {
		t.Errorf("table:\n%s", text)
	}
	v = &Table{Runs: [2]string{"another", "new"}, Nodes: rows()}
	v.addReused([2]string{"", "old"})
	if text := Text(v); strings.Count(text, "did not run") != 2 {
		t.Errorf("table with a run that was not forked:\n%s", text)
	}
}
