package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/specadapter/drawing"
)

func TestStatesOfARun(t *testing.T) {
	execution := func(node string) contract.Execution { return contract.Execution{Node: node, Step: 1} }
	tests := map[string]struct {
		status contract.Status
		kept   *archive
		failed string
		want   drawing.States
	}{
		"under way": {
			status: contract.Status{Status: "running", Executions: []contract.Execution{execution("a"), execution("a"), execution("b")},
				Running: []string{"b#2", "c%2Fd#2~2"}, Waiting: []string{"e#3"}, Armed: []string{"j#2"}},
			want: drawing.States{"a": {State: drawing.Done, Runs: 2}, "b": {State: drawing.Running, Runs: 2}, "c/d": {State: drawing.Running, Runs: 1},
				"e": {State: drawing.Waiting}, "j": {State: drawing.Waiting}},
		},
		"failed": {
			status: contract.Status{Status: "failed", Executions: []contract.Execution{execution("a")}, Running: []string{"b#2", "c#2"}, Armed: []string{"j#2"}}, failed: "b",
			want: drawing.States{"a": {State: drawing.Done, Runs: 1}, "b": {State: drawing.Failed, Runs: 1}, "c": {State: drawing.Stopped, Runs: 1}},
		},
		"completed, from history": {
			status: contract.Status{Status: "completed", Executions: []contract.Execution{execution("a")}},
			kept:   &archive{threads: []*conversation{{name: "a#1", exec: "a#1"}}},
			want:   drawing.States{"a": {State: drawing.Done, Runs: 1}},
		},
		"terminated, from history": {
			status: contract.Status{Status: "terminated", Executions: []contract.Execution{execution("a")}},
			kept:   &archive{threads: []*conversation{{name: "a#1", exec: "a#1"}, {name: "s#1 › b#1"}}},
			want:   drawing.States{"a": {State: drawing.Stopped, Runs: 1}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, statesOf(&tc.status, tc.kept, tc.failed)); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}

// A recorded history has the plan and says how far the run came.
func TestGraphFromHistory(t *testing.T) {
	kept := archiveOf(t, "fork-plain-join", "a#1", "b#1")
	if kept.flow == nil {
		t.Fatal("the history gave no plan")
	}
	st := kept.status()
	st.Status = "completed"
	want := "flowchart TD\n    START([START])\n    a[\"A<br/>(done)\"]\n"
	if got := drawing.Mermaid(kept.flow, statesOf(st, kept, "")); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("the drawing begins %q, want %q", got[:min(len(got), 100)], want)
	}
}
