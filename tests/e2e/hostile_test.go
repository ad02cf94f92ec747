package e2e

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
	"weft/tests/harness"
	"weft/workflows/plan"
)

// TestEndToEndHostile checks that a run with extreme or malicious input ends, with a result or a failure class.
func TestEndToEndHostile(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	many := make([]string, 520)
	for i := range many {
		many[i] = fmt.Sprint("b", i)
	}
	badPolicy := harness.FanIn("policy", "a", "b")
	badPolicy.Policy.FirstRetryMillis, badPolicy.Policy.ModelSeconds = 120_000, 1_000_000
	badTimeout := harness.FanIn("policy", "a", "b")
	badTimeout.Policy.ModelSeconds = 10_000_000_000
	badEdges := harness.FanIn("edges", "a", "b")
	for range 25_000 {
		badEdges.Edges = append(badEdges.Edges, plan.Edge{ID: "e", From: "a", To: "nowhere"})
	}
	tests := map[string]struct {
		in    contract.RunInput
		class string
	}{
		"non-ASCII node ids":                  {in: contract.RunInput{Flow: contract.FlowRef{Plan: harness.FanIn("é", "é", "分析", "a/b#1")}, Script: harness.Script(t, `rules: [{say: done}]`)}},
		"a sub-agent of a non-ASCII node":     {in: contract.RunInput{Flow: contract.FlowRef{Plan: harness.FanIn("ä", "ä", "b")}, Script: harness.Script(t, `rules: [{node: ä, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: q, agent_def: {name: S, nodes: [{id: s, name: S, prompt: p}], edges: [{id: e1, source: START, target: s}, {id: e2, source: s, target: END}]}}}]}, {say: done}]`)}},
		"more branches than run concurrently": {in: contract.RunInput{Flow: contract.FlowRef{Plan: harness.FanIn("many", many...)}, Script: harness.Script(t, `rules: [{say: done}]`)}},
		"a judge's reason of 1 MiB":           {in: contract.RunInput{Flow: contract.FlowRef{Text: harness.JudgedLoop, Name: "f.json"}, Script: harness.Script(t, `rules: [{question: "done?", yes: true, reason: `+strings.Repeat("r", 1<<20)+`}, {kind: judge, yes: false}, {say: ok}]`)}},
		"long reasons over many steps":        {in: contract.RunInput{Flow: contract.FlowRef{Text: harness.JudgedLoop, Name: "f.json"}, Script: harness.Script(t, `rules: [{question: "again?", yes: true, reason: `+strings.Repeat("r", 100_000)+`}, {kind: judge, yes: false}, {say: ok}]`)}, class: contract.ClassStepLimit},
		"a document of angle brackets":        {in: contract.RunInput{Flow: contract.FlowRef{Text: strings.Repeat("<", 340_000), Name: "f.json"}}, class: contract.ClassTooLarge},
		"a plan with 25,000 invalid edges":    {in: contract.RunInput{Flow: contract.FlowRef{Plan: badEdges}}, class: contract.ClassInvalidFlow},
		"a first retry after two minutes":     {in: contract.RunInput{Flow: contract.FlowRef{Plan: badPolicy}, Script: harness.Script(t, `rules: [{say: done}]`)}},
		"an out-of-range timeout":             {in: contract.RunInput{Flow: contract.FlowRef{Plan: badTimeout}}, class: contract.ClassInvalidFlow},
		"a deeply nested value":               {in: contract.RunInput{Flow: contract.FlowRef{Plan: harness.FanIn("deep", "a", "b")}, Script: harness.Script(t, `rules: [{node: a, turn: 1, call: [{tool: set_state, raw: '{"key": "k", "value": `+strings.Repeat("[", 4000)+strings.Repeat("]", 4000)+`}'}]}, {say: done}]`)}},
		"a result of 1.5 MB":                  {in: contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(""), Name: "f.json"}, Script: harness.Script(t, `rules: [{say: "`+strings.Repeat("w", 1_500_000)+`"}]`)}},
		"a state of angle brackets": {in: contract.RunInput{Flow: contract.FlowRef{Plan: harness.FanIn("html", "a", "b")}, State: map[string]json.RawMessage{"k": json.RawMessage(`"` + strings.Repeat("<", 150_000) + `"`)},
			Script: harness.Script(t, `rules: [{node: a, turn: 1, call: [{tool: get_state, arguments: {keys: [k]}}]}, {node: a, contains: "<<<<", say: seen}, {node: a, fail: {class: bad_request}}, {say: done}]`)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := harness.Result(t, h.Start(t, tc.in))
			if got := harness.FailureClass(contract.FailureOf(err)); got != tc.class {
				t.Errorf("class = %q, want %q: %.300v", got, tc.class, err)
			}
		})
	}
}

// TestEndToEndBranchInput checks that a branch with invalid input fails as a bad request.
func TestEndToEndBranchInput(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	f := harness.FanIn("x", "a")
	for name, in := range map[string]contract.BranchInput{
		"empty":           {},
		"no plan":         {V: 1, Node: "a"},
		"another version": {V: 2, Node: "a", Plan: f, Order: []int{0, 1}, Edges: []int{0, 1, 2}},
		"no such node":    {V: 1, Node: "zzz", Plan: f, Order: []int{0, 1}, Edges: []int{0, 1, 2}},
		"no order":        {V: 1, Node: "a", Plan: f, Edges: []int{0, 1, 2}},
	} {
		run, err := h.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.Queue}, contract.WorkflowBranch, in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := harness.Result(t, run); harness.FailureClass(contract.FailureOf(err)) != contract.ClassBadRequest {
			t.Errorf("%s: run ended with %v", name, err)
		}
	}
}

// TestEndToEndCancelBeforeContinueAsNew checks that a run that is about to continue as new can be cancelled.
func TestEndToEndCancelBeforeContinueAsNew(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.JudgedLoop, Name: "f.json"}, MaxEvents: 1, MaxSteps: 1000,
		Script: harness.Script(t, `rules: [{question: "again?", yes: true}, {kind: judge, yes: false}, {delay: 300ms, say: ok}]`)})
	time.Sleep(2 * time.Second)
	if err := h.Client.CancelWorkflow(context.Background(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Result(t, run); !temporal.IsCanceledError(err) {
		t.Errorf("run ended with %v", err)
	}
}

// TestEndToEndFailedBranchKeepsOutputs checks that the status of a run with a failed branch lists the completed executions.
func TestEndToEndFailedBranchKeepsOutputs(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	f := harness.GraphPlan("partial", []harness.GraphNode{{ID: "a"}, {ID: "a2"}, {ID: "b", Exit: true}}, []harness.GraphEdge{{Source: plan.Start, Target: "a"}, {Source: "a", Target: "a2"},
		{Source: plan.Start, Target: "b"}, {Source: "a2", Target: plan.End}, {Source: "b", Target: plan.End}})
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, OnError: contract.OnErrorFail,
		Script: harness.Script(t, `rules: [{node: a2, fail: {class: denied, text: no key}}, {node: b, delay: 30s, say: late}, {say: ok}]`)})
	if _, err := harness.Result(t, run); harness.FailureClass(contract.FailureOf(err)) != contract.ClassDenied {
		t.Fatal(err)
	}
	v, err := h.Client.QueryWorkflow(context.Background(), run.GetID(), "", contract.QueryStatus)
	if err != nil {
		t.Fatal(err)
	}
	var status contract.Status
	if err := v.Get(&status); err != nil {
		t.Fatal(err)
	}
	if got := harness.Executions(status); len(got) != 1 || got[0] != "a#1" || status.Usage.Calls != 1 {
		t.Errorf("executions = %v, %d calls", got, status.Usage.Calls)
	}
}

// TestEndToEndReuseWorkflowID checks that a run can reuse the id of one that was terminated while its
// branches were running.
func TestEndToEndReuseWorkflowID(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	start := func(delay string) client.WorkflowRun {
		run, err := h.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.Queue, ID: "same-id-" + h.Queue}, contract.WorkflowFlow,
			contract.RunInput{V: 1, Model: "script", Flow: contract.FlowRef{Plan: harness.WithChildBranches(harness.FanIn("same", "a", "b"))}, Script: harness.Script(t, `rules: [{delay: `+delay+`, say: done}]`)})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	first := start("20s")
	harness.WaitFor(t, "the branches", func() bool {
		d, err := h.Client.DescribeWorkflowExecution(context.Background(), first.GetID()+"/b#1", "")
		return err == nil && len(d.PendingActivities) == 1 && d.PendingActivities[0].State == enumspb.PENDING_ACTIVITY_STATE_STARTED
	})
	if err := h.Client.TerminateWorkflow(context.Background(), first.GetID(), "", "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Result(t, start("1ms")); err != nil {
		t.Error(err)
	}
}

// TestEndToEndReuseWorkflowIDWithSubAgent checks that a run can reuse the id of one that was terminated while its
// sub-agent was running.
func TestEndToEndReuseWorkflowIDWithSubAgent(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	start := func(delay string) client.WorkflowRun {
		run, err := h.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.Queue, ID: "same-below-" + h.Queue}, contract.WorkflowFlow,
			contract.RunInput{V: 1, Model: "script", Flow: contract.FlowRef{Plan: harness.WithChildBranches(deepFork(nil))}, Script: harness.Script(t, `rules:
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
	harness.WaitFor(t, "the sub-agent", func() bool {
		d, err := h.Client.DescribeWorkflowExecution(context.Background(), first.GetID()+"/m#1:one/a#1", "")
		return err == nil && len(d.PendingActivities) == 1 && d.PendingActivities[0].State == enumspb.PENDING_ACTIVITY_STATE_STARTED
	})
	if err := h.Client.TerminateWorkflow(context.Background(), first.GetID(), "", "test"); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Result(t, start("1ms")); err != nil || *out.ResultText != "done" {
		t.Errorf("result = %+v, %v", out, err)
	}
}
