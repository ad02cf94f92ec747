package runs

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/starter/runtree"
	"weft/workflows/plan"
)

// TestViewsOf checks the state before and after each execution of a fork of two branches and their join.
func TestViewsOf(t *testing.T) {
	flow := &plan.Flow{Version: plan.Version, Limits: plan.Limits{MaxSteps: 10}, Nodes: []plan.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d", Deferred: true}},
		Edges: []plan.Edge{{ID: "0", From: plan.Start, To: "a"}, {ID: "ab", From: "a", To: "b"}, {ID: "ac", From: "a", To: "c"},
			{ID: "bd", From: "b", To: "d"}, {ID: "cd", From: "c", To: "d"}, {ID: "dend", From: "d", To: plan.End}}}
	write := func(key, value string) contract.StateEntry {
		return contract.StateEntry{Key: key, Value: json.RawMessage(value)}
	}
	record := func(node string, step int, taken []string, writes ...contract.StateEntry) Record {
		return Record{ExecutionRecord: contract.ExecutionRecord{Execution: contract.Execution{Node: node, Step: step, Taken: taken}, Writes: writes}}
	}
	records := []Record{record("c", 2, []string{"cd"}, write("own", `"c"`), write("both", `"c"`)), record("a", 1, []string{"ab", "ac"}, write("both", `"a"`)),
		record("b", 2, []string{"bd"}, write("both", `"b"`))}
	none := map[string]string{}
	for execution, want := range map[string][2]map[string]string{
		"a#1": {none, {"both": `"a"`}},
		"b#2": {{"both": `"a"`}, {"both": `"b"`}},
		"c#2": {{"both": `"a"`}, {"both": `"c"`, "own": `"c"`}},
		"d#3": {{"both": `"c"`, "own": `"c"`}, nil}, // it has not ended
		"d#4": {nil, nil},
	} {
		before, after, err := viewsOf(&runtree.Workflow{Flow: flow}, &contract.Execution{Node: plan.Start, Taken: []string{"0"}}, records, execution)
		if err != nil {
			t.Fatal(err)
		}
		got := [2]map[string]string{valuesOf(before), valuesOf(after)}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", execution, d)
		}
	}
}

func valuesOf(v *contract.View) map[string]string {
	if v == nil {
		return nil
	}
	out := map[string]string{}
	for _, e := range v.State {
		out[e.Key] = string(e.Value)
	}
	return out
}
