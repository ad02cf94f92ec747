package journal

import (
	"encoding/json"
	"testing"

	"weft/activities/contract"
)

// TestWeight checks the size of a snapshot between boundaries, including the steps of nested agents.
func TestWeight(t *testing.T) {
	root := New(nil, nil)
	root.Boundary(100)
	nested := New(root, []contract.JournalStep{{ID: "a", Status: contract.StepDone, Result: json.RawMessage(`"12345678"`)}})
	if n := nested.Weight(); n != 110 {
		t.Errorf("weight with a nested step = %d", n)
	}
	nested.Boundary(30)
	if n := root.Weight(); n != 130 {
		t.Errorf("weight after a nested boundary = %d", n)
	}
	root.Boundary(140)
	if n := root.Weight(); n != 140 || len(root.steps) != 0 {
		t.Errorf("weight after a boundary = %d, with %d steps", n, len(root.steps))
	}
}
