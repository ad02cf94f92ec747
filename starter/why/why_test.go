package why

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/workflows/plan"
)

// testFlow returns a flow with a node that takes the first edge whose condition is met, a node with branches, and a join.
func testFlow() *plan.Flow {
	node := func(id string) plan.Node { return plan.Node{ID: id, Name: "The " + id} }
	f := &plan.Flow{Name: "Desks", Nodes: []plan.Node{node("sort"), node("a"), node("b"), node("c"), node("join"), node("lone")}}
	f.Nodes[0].Choice = plan.ChooseFirst
	f.Nodes[4].Deferred = true
	f.Edges = []plan.Edge{
		{ID: "in", From: plan.Start, To: "sort"}, {ID: "also", From: plan.Start, To: "b"},
		{ID: "sa", From: "sort", To: "a", Question: "Is it a?"}, {ID: "sb", From: "sort", To: "c"},
		{ID: "ac", From: "a", To: "c", Branch: "left"}, {ID: "aj", From: "a", To: "join", Branch: "right"}, {ID: "bj", From: "b", To: "join"},
	}
	return f
}

func testFacts() *Facts {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	yes := []contract.Answer{{Execution: "sort#1", Edge: "sa", Question: "Is it a?", Yes: true, Reason: "it\nsays so"}}
	return &Facts{
		Workflow: &runtree.Workflow{ID: "r", Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, Flow: testFlow(),
			Source: plan.Source{File: "d.json", Positions: []plan.Position{{Path: "nodes/a", Line: 7}}}},
		Now: now,
		Status: contract.Status{Status: contract.StatusRunning, Running: []string{"b#1"}, Entry: &contract.Execution{Node: plan.Start, Taken: []string{"in", "also"}},
			Executions: []contract.Execution{{Node: "a", Step: 2, Branch: "right", Taken: []string{"aj"}}, {Node: "sort", Step: 1, Taken: []string{"sa"}, Answers: yes}},
			Waits:      []contract.Wait{{Execution: "join#3", For: []string{"b#1"}}}},
		Calls: map[string][]PendingCall{"b#1": {
			{ID: "b#1/model/2", Kind: contract.ActivityCallModel, Attempt: 3, Failed: "unavailable: 503", Next: now.Add(4 * time.Second)},
			{ID: "b#1/model/3", Kind: contract.ActivityCallModel, Attempt: 1, Started: true, Waiting: "requests per minute of openai"},
			{ID: "b#1/tool/1.1", Kind: contract.ActivityCallTool, Attempt: 1},
			{ID: "b#1/model/4", Kind: contract.ActivityCallModel, Attempt: 2, Failed: "unavailable: 503", Next: now.Add(time.Hour), Paused: "it is paused in Temporal by kim"},
		}},
		Requests: []runs.Request{{Request: contract.Request{ID: "q", Kind: contract.RequestConfirm, Text: "may it?", Execution: "b#1"},
			Commands: []string{"starter confirm r q -yes"}}},
		SubAgents: []*runtree.Workflow{{ID: "r/b#1:x", Place: "b#1:x › ", Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}},
	}
}

func TestRunningRun(t *testing.T) {
	zone := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = zone })
	f := testFacts()
	f.Settle()
	r := f.Report()
	want := `run r of Desks: running

sort ran (d.json)
  sort#1 ran
    came by edge in from START: it has no condition
    refused edge sb, sort#1 → c: only the first edge that holds is taken, and that was sa

a ran (d.json:7)
  a#2 ran
    came by edge sa from sort#1: yes to "Is it a?": it says so
    refused edge ac, a#2 → c: a left by its branch "right", this edge is for "left"

b waits (d.json)
  b#1 waits
    came by edge also from START: it has no condition
    waits for model call 2: attempt 3 comes at 2026-01-02 03:04:09 (in 4 s); the previous one failed: unavailable: 503
    waits for model call 3, which has not started: requests per minute of openai
    waits for tool call 1.1, which no worker has picked up yet
    waits for model call 4: it is paused in Temporal by kim
    waits for confirm: may it?
      answer with: starter confirm r q -yes
    waits for its sub-agent b#1:x runs

c did not run (d.json)
  refused edge sb, sort#1 → c: only the first edge that holds is taken, and that was sa
  refused edge ac, a#2 → c: a left by its branch "right", this edge is for "left"

join waits (d.json)
  join#3 waits
    came by edge aj from a#2: a left by its branch "right"
    waits for a join: b#1 may still lead here

lone did not run (d.json)
  no edge leads to it
`
	if diff := cmp.Diff(want, Text(&r, false)); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// TestAbsentPredecessors checks a join that runs twice: the first time without two of its
// predecessors, the second time without another one.
func TestAbsentPredecessors(t *testing.T) {
	f := &Facts{Workflow: &runtree.Workflow{ID: "r", Status: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, Flow: &plan.Flow{Name: "Laps",
		Nodes: []plan.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "join", Deferred: true}, {ID: "plain"}},
		Edges: []plan.Edge{{ID: "in", From: plan.Start, To: "a"}, {ID: "sj", From: plan.Start, To: "join", Question: "At once?"},
			{ID: "aj", From: "a", To: "join"}, {ID: "bj", From: "b", To: "join"}, {ID: "bj2", From: "b", To: "join", Question: "Again?"},
			{ID: "cj", From: "c", To: "join"}, {ID: "ap", From: "a", To: "plain"}, {ID: "bp", From: "b", To: "plain"}}}},
		Status: contract.Status{Status: "completed", Entry: &contract.Execution{Node: plan.Start, Taken: []string{"in"}},
			Executions: []contract.Execution{{Node: "a", Step: 1, Taken: []string{"aj", "ap"}}, {Node: "join", Step: 2}, {Node: "plain", Step: 2},
				{Node: "b", Step: 3}, {Node: "c", Step: 3, Taken: []string{"cj"}}, {Node: "join", Step: 4}}}}
	f.Settle()
	r := f.Report()
	join := r.Nodes[3].Executions
	if diff := cmp.Diff([][]string{{"b", "c"}, {"a"}}, [][]string{join[0].Absent, join[1].Absent}); diff != "" {
		t.Errorf("predecessors that did not run (-want +got):\n%s", diff)
	}
	if got := r.Nodes[4].Executions[0].Absent; got != nil {
		t.Errorf("Absent of a node that is not a join = %v", got)
	}
	if got := Text(&r, false); !strings.Contains(got, "join#2 ran\n    came by edge aj from a#1: it has no condition\n    b, c did not run before it\n") ||
		!strings.Contains(got, "join#4 ran\n    came by edge cj from c#3: it has no condition\n    a did not run between join#2 and it\n") {
		t.Errorf("text:\n%s", got)
	}
}

var errNoAnswer = errors.New("no answer")

// nodeStates returns the states of a report's nodes.
func nodeStates(r *Report) map[string]string {
	out := map[string]string{}
	for _, n := range r.Nodes {
		out[n.Node] = n.State
	}
	return out
}

// TestFailedRunFromHistory checks the states of nodes if only the recorded calls of a failed run are known.
func TestFailedRunFromHistory(t *testing.T) {
	f := testFacts()
	f.Workflow.Status, f.NoAnswer = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, errNoAnswer
	f.Status = contract.Status{Status: "failed"}
	f.Workflow.Called = []string{"sort#1", "a#2", "b#1"}
	f.Workflow.Answers = map[string][]contract.Answer{"sort#1": {{Execution: "sort#1", Edge: "sa", Question: "Is it a?", Yes: false}}}
	f.Settle()
	r := f.Report()
	want := map[string]string{"sort": Done, "a": Done, "b": Stopped, "c": NotRun, "join": NotRun, "lone": NotRun}
	if diff := cmp.Diff(want, nodeStates(&r)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	for _, e := range r.Nodes[4].Refused {
		if e.From == "b" && e.Text != "b#1 was stopped with the run" {
			t.Errorf("edge from b: %s, want that b#1 was stopped", e.Text)
		}
	}
}

// TestRunWithoutPlan checks that only the failure of a sub-agent is reported if it failed before it had a plan.
func TestRunWithoutPlan(t *testing.T) {
	f := &Facts{NoAnswer: errNoAnswer, Status: contract.Status{Status: "failed"}, Workflow: &runtree.Workflow{ID: "r/boss#1:call_1", Place: "boss › ",
		Status: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, Called: []string{"hooked"}}}
	f.Settle()
	r := f.Report()
	const want = "sub-agent boss, run r/boss#1:call_1: failed\n"
	if got := Text(&r, false); got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
}

// TestDroppedExecutions checks that executions that the status no longer lists are taken from the history.
func TestDroppedExecutions(t *testing.T) {
	f := testFacts()
	f.Workflow.Called = []string{"sort#1", "a#2", "b#1"}
	f.Workflow.Answers = map[string][]contract.Answer{"sort#1": f.Status.Executions[1].Answers}
	f.Status.Executions, f.Status.Dropped = f.Status.Executions[:1], 1
	f.Settle()
	r := f.Report()
	want := map[string]string{"sort": Done, "a": Done, "b": Waiting, "c": NotRun, "join": Waiting, "lone": NotRun}
	if diff := cmp.Diff(want, nodeStates(&r)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if got := Text(&r, false); !strings.Contains(got, `came by edge sa from sort#1: yes to "Is it a?": it says so`) {
		t.Errorf("text:\n%s", got)
	}
}
