package journal

import (
	"encoding/json"
	"testing"

	"weft/activities/contract"
)

// TestWeight counts what travels, from boundary to boundary, with that of agents below.
func TestWeight(t *testing.T) {
	root := New(nil, nil)
	root.Boundary(100)
	below := New(root, []contract.JournalStep{{ID: "a", Status: contract.StepDone, Result: json.RawMessage(`"12345678"`)}})
	if n := below.Weight(); n != 110 {
		t.Errorf("with a step below the weight is %d", n)
	}
	below.Boundary(30)
	if n := root.Weight(); n != 130 {
		t.Errorf("behind a boundary below the weight is %d", n)
	}
	root.Boundary(140)
	if n := root.Weight(); n != 140 || len(root.steps) != 0 {
		t.Errorf("behind a boundary the weight is %d, with %d steps", n, len(root.steps))
	}
}
