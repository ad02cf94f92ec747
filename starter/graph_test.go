package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/specadapter/drawing"
	"weft/starter/history"
	"weft/starter/history/historytest"
	"weft/starter/runs"
	"weft/starter/transcript"
)

func TestStatesOf(t *testing.T) {
	execution := func(node string) contract.Execution { return contract.Execution{Node: node, Step: 1} }
	model := func(h *historytest.History, exec string) {
		h.Scheduled(exec+"/model/1", contract.ActivityCallModel, contract.ModelInput{Base: contract.Head{Thread: exec}})
	}
	one, two, child := historytest.New(t), historytest.New(t), historytest.New(t)
	model(one, "a#1")
	model(two, "a#1")
	two.Child("root/s#1:call_1", contract.WorkflowFlow)
	model(child, "b#1")
	single := transcriptOf(t, historytest.Source(map[string]*historytest.History{"r": one}))
	withChild := transcriptOf(t, historytest.Source(map[string]*historytest.History{"r": two, "run of root/s#1:call_1": child}))
	tests := map[string]struct {
		status     contract.Status
		transcript *transcript.Transcript
		failed     string
		want       drawing.States
	}{
		"running": {
			status: contract.Status{Status: "running", Executions: []contract.Execution{execution("a"), execution("a"), execution("b")},
				Running: []string{"b#2", "c%2Fd#2~2"}, Waiting: []string{"e#3"}, PendingJoins: []string{"j#2"}},
			want: drawing.States{"a": {State: drawing.Done, Runs: 2}, "b": {State: drawing.Running, Runs: 2}, "c/d": {State: drawing.Running, Runs: 1},
				"e": {State: drawing.Waiting}, "j": {State: drawing.Waiting}},
		},
		"failed": {
			status: contract.Status{Status: "failed", Executions: []contract.Execution{execution("a")}, Running: []string{"b#2", "c#2"}, PendingJoins: []string{"j#2"}}, failed: "b",
			want: drawing.States{"a": {State: drawing.Done, Runs: 1}, "b": {State: drawing.Failed, Runs: 1}, "c": {State: drawing.Stopped, Runs: 1}},
		},
		"completed, from history": {
			status:     contract.Status{Status: "completed", Executions: []contract.Execution{execution("a")}},
			transcript: single,
			want:       drawing.States{"a": {State: drawing.Done, Runs: 1}},
		},
		"terminated, from history": {
			status:     contract.Status{Status: "terminated", Executions: []contract.Execution{execution("a")}},
			transcript: withChild,
			want:       drawing.States{"a": {State: drawing.Stopped, Runs: 1}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, runs.StatesOf(&tc.status, tc.transcript, tc.failed)); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGraphFromHistory checks that the graph can be drawn from a recorded history, without a worker.
func TestGraphFromHistory(t *testing.T) {
	read := transcriptOf(t, historytest.RecordedTree(t, "../tests", "children-join", "a#1", "b#1"))
	if read.Root().Flow == nil {
		t.Fatal("no plan in the history")
	}
	st := read.Status()
	st.Status = "completed"
	want := "flowchart TD\n    START([START])\n    a[\"A<br/>(done)\"]\n"
	if got := drawing.Mermaid(read.Root().Flow, runs.StatesOf(st, read, "")); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("drawing = %q, want prefix %q", got[:min(len(got), 100)], want)
	}
}

// transcriptOf reads the transcript of the run "root".
func transcriptOf(t *testing.T, from history.Source) *transcript.Transcript {
	t.Helper()
	out, err := transcript.Read(t.Context(), from, "root", "r")
	if err != nil {
		t.Fatal(err)
	}
	return out
}
