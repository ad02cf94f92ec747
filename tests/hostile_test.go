package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// wide is a plan whose branches all lead to one deferred join.
func wide(name string, branches ...string) *plan.Flow {
	nodes := []graphNode{{ID: "join", Defer: true, Exit: true}}
	edges := []graphEdge{{Source: "join", Target: plan.End}}
	for _, id := range branches {
		nodes = append(nodes, graphNode{ID: id})
		edges = append(edges, graphEdge{Source: plan.Start, Target: id}, graphEdge{Source: id, Target: "join"})
	}
	f := graphPlan(name, nodes, edges)
	for i := range f.Nodes {
		f.Nodes[i].Agent.Builtins = plan.Builtins
	}
	return f
}

// TestEndToEndHostile runs what could wedge a run: each ends, with a result or a class.
func TestEndToEndHostile(t *testing.T) {
	h := newHand(t, 0)
	many := make([]string, 520)
	for i := range many {
		many[i] = fmt.Sprint("b", i)
	}
	badPolicy := wide("policy", "a", "b")
	badPolicy.Policy.FirstRetryMillis, badPolicy.Policy.ModelSeconds = 120_000, 1_000_000
	tooMuch := wide("policy", "a", "b")
	tooMuch.Policy.ModelSeconds = 10_000_000_000
	badEdges := wide("edges", "a", "b")
	for range 25_000 {
		badEdges.Edges = append(badEdges.Edges, plan.Edge{ID: "e", From: "a", To: "nowhere"})
	}
	tests := map[string]struct {
		in    contract.RunInput
		class string
	}{
		"node ids beyond ASCII":               {in: contract.RunInput{Flow: contract.FlowRef{Plan: wide("é", "é", "分析", "a/b#1")}, Script: script(t, `rules: [{say: done}]`)}},
		"a sub-agent of a node beyond ASCII":  {in: contract.RunInput{Flow: contract.FlowRef{Plan: wide("ä", "ä", "b")}, Script: script(t, `rules: [{node: ä, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: q, agent_def: {name: S, nodes: [{id: s, name: S, prompt: p}], edges: [{id: e1, source: START, target: s}, {id: e2, source: s, target: END}]}}}]}, {say: done}]`)}},
		"more branches than run at once":      {in: contract.RunInput{Flow: contract.FlowRef{Plan: wide("many", many...)}, Script: script(t, `rules: [{say: done}]`)}},
		"a judge's reason of 3 MB":            {in: contract.RunInput{Flow: contract.FlowRef{Text: judgedLoop, Name: "f.json"}, Script: script(t, `rules: [{question: "done?", yes: true, reason: `+strings.Repeat("r", 1<<20)+`}, {kind: judge, yes: false}, {say: ok}]`)}},
		"long reasons over many steps":        {in: contract.RunInput{Flow: contract.FlowRef{Text: judgedLoop, Name: "f.json"}, Script: script(t, `rules: [{question: "again?", yes: true, reason: `+strings.Repeat("r", 100_000)+`}, {kind: judge, yes: false}, {say: ok}]`)}, class: contract.ClassStepLimit},
		"a document of angle brackets":        {in: contract.RunInput{Flow: contract.FlowRef{Text: strings.Repeat("<", 340_000), Name: "f.json"}}, class: contract.ClassTooLarge},
		"a plan with 25,000 wrong edges":      {in: contract.RunInput{Flow: contract.FlowRef{Plan: badEdges}}, class: contract.ClassInvalidFlow},
		"a first retry beyond a minute":       {in: contract.RunInput{Flow: contract.FlowRef{Plan: badPolicy}, Script: script(t, `rules: [{say: done}]`)}},
		"a timeout beyond all bounds":         {in: contract.RunInput{Flow: contract.FlowRef{Plan: tooMuch}}, class: contract.ClassInvalidFlow},
		"a value that nests without end":      {in: contract.RunInput{Flow: contract.FlowRef{Plan: wide("deep", "a", "b")}, Script: script(t, `rules: [{node: a, turn: 1, call: [{tool: set_state, raw: '{"key": "k", "value": `+strings.Repeat("[", 4000)+strings.Repeat("]", 4000)+`}'}]}, {say: done}]`)}},
		"a result of one and a half megabyte": {in: contract.RunInput{Flow: contract.FlowRef{Text: oneNode(""), Name: "f.json"}, Script: script(t, `rules: [{say: "`+strings.Repeat("w", 1_500_000)+`"}]`)}},
		"a state of angle brackets": {in: contract.RunInput{Flow: contract.FlowRef{Plan: wide("html", "a", "b")}, State: map[string]json.RawMessage{"k": json.RawMessage(`"` + strings.Repeat("<", 150_000) + `"`)},
			Script: script(t, `rules: [{node: a, turn: 1, call: [{tool: get_state, arguments: {keys: [k]}}]}, {node: a, contains: "<<<<", say: seen}, {node: a, fail: {class: bad_request}}, {say: done}]`)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := resultOf(t, h.start(t, tc.in))
			if got := class(contract.FailureOf(err)); got != tc.class {
				t.Errorf("class is %q, want %q: %.300v", got, tc.class, err)
			}
		})
	}
}

// TestEndToEndBranchInput starts the inner workflow type with inputs that no run makes.
func TestEndToEndBranchInput(t *testing.T) {
	h := newHand(t, 0)
	f := wide("x", "a")
	for name, in := range map[string]contract.BranchInput{
		"nothing":         {},
		"no plan":         {V: 1, Node: "a"},
		"another version": {V: 2, Node: "a", Plan: f, Order: []int{0, 1}, Edges: []int{0, 1, 2}},
		"no such node":    {V: 1, Node: "zzz", Plan: f, Order: []int{0, 1}, Edges: []int{0, 1, 2}},
		"a short order":   {V: 1, Node: "a", Plan: f, Edges: []int{0, 1, 2}},
	} {
		run, err := h.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.queue}, contract.WorkflowBranch, in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := resultOf(t, run); class(contract.FailureOf(err)) != contract.ClassBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEndToEndCancelBeforeContinueAsNew cancels a run that is about to continue as new.
func TestEndToEndCancelBeforeContinueAsNew(t *testing.T) {
	h := newHand(t, 0)
	run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: judgedLoop, Name: "f.json"}, MaxEvents: 1, MaxSteps: 1000,
		Script: script(t, `rules: [{question: "again?", yes: true}, {kind: judge, yes: false}, {delay: 300ms, say: ok}]`)})
	time.Sleep(2 * time.Second)
	if err := h.client.CancelWorkflow(context.Background(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := resultOf(t, run); !temporal.IsCanceledError(err) {
		t.Errorf("the run ended with %v", err)
	}
}

// TestEndToEndFailedBranchKeepsWhatWasDone looks at a run of which one branch failed.
func TestEndToEndFailedBranchKeepsWhatWasDone(t *testing.T) {
	h := newHand(t, 0)
	f := graphPlan("partial", []graphNode{{ID: "a"}, {ID: "a2"}, {ID: "b", Exit: true}}, []graphEdge{{Source: plan.Start, Target: "a"}, {Source: "a", Target: "a2"},
		{Source: plan.Start, Target: "b"}, {Source: "a2", Target: plan.End}, {Source: "b", Target: plan.End}})
	run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, OnError: contract.OnErrorFail,
		Script: script(t, `rules: [{node: a2, fail: {class: denied, text: no key}}, {node: b, delay: 30s, say: late}, {say: ok}]`)})
	if _, err := resultOf(t, run); class(contract.FailureOf(err)) != contract.ClassDenied {
		t.Fatal(err)
	}
	v, err := h.client.QueryWorkflow(context.Background(), run.GetID(), "", contract.QueryStatus)
	if err != nil {
		t.Fatal(err)
	}
	var status contract.Status
	if err := v.Get(&status); err != nil {
		t.Fatal(err)
	}
	if got := executions(status); len(got) != 1 || got[0] != "a#1" || status.Usage.Calls != 1 {
		t.Errorf("executions %v, %d calls", got, status.Usage.Calls)
	}
}

// TestEndToEndSameIDAgain starts a run with the id of one that was terminated while its
// branches still ran.
func TestEndToEndSameIDAgain(t *testing.T) {
	h := newHand(t, 0)
	start := func(delay string) client.WorkflowRun {
		run, err := h.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.queue, ID: "same-id-" + h.queue}, contract.WorkflowFlow,
			contract.RunInput{V: 1, Model: "script", Flow: contract.FlowRef{Plan: wide("same", "a", "b")}, Script: script(t, `rules: [{delay: `+delay+`, say: done}]`)})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	first := start("20s")
	waitFor(t, "the branches", func() bool {
		d, err := h.client.DescribeWorkflowExecution(context.Background(), first.GetID()+"/b#1", "")
		return err == nil && len(d.PendingActivities) == 1 && d.PendingActivities[0].State == enumspb.PENDING_ACTIVITY_STATE_STARTED
	})
	if err := h.client.TerminateWorkflow(context.Background(), first.GetID(), "", "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := resultOf(t, start("1ms")); err != nil {
		t.Error(err)
	}
}

// TestEndToEndSameIDAgainBelow starts a run with the id of one that was terminated while its sub-agent
// still ran.
func TestEndToEndSameIDAgainBelow(t *testing.T) {
	h := newHand(t, 0)
	start := func(delay string) client.WorkflowRun {
		run, err := h.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.queue, ID: "same-below-" + h.queue}, contract.WorkflowFlow,
			contract.RunInput{V: 1, Model: "script", Flow: contract.FlowRef{Plan: deepFork(nil)}, Script: script(t, `rules:
- {node: m, turn: 1, call: [{id: one, tool: call_sub_agent, arguments: {user_question: go}}]}
- {kind: judge, question: "enough?", yes: true}
- {kind: judge, yes: false}
- {node: a, delay: `+delay+`, say: done}
- {say: done}`)})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	first := start("20s")
	waitFor(t, "the sub-agent", func() bool {
		d, err := h.client.DescribeWorkflowExecution(context.Background(), first.GetID()+"/m#1:one/a#1", "")
		return err == nil && len(d.PendingActivities) == 1 && d.PendingActivities[0].State == enumspb.PENDING_ACTIVITY_STATE_STARTED
	})
	if err := h.client.TerminateWorkflow(context.Background(), first.GetID(), "", "test"); err != nil {
		t.Fatal(err)
	}
	if out, err := resultOf(t, start("1ms")); err != nil || *out.ResultText != "done" {
		t.Errorf("%+v, %v", out, err)
	}
}
