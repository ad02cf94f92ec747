package workflows

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"weft/workflows/workflowtest"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// forkInput returns the input of a fork of two ask nodes: the first has a recorded answer, and the second,
// where the fork starts, is executed again.
func forkInput(taken string) contract.RunInput {
	flow := &plan.Flow{Version: plan.Version, Name: "F", Dialect: "continuum", Limits: plan.DefaultLimits, Policy: plan.DefaultPolicy,
		Nodes: []plan.Node{{ID: "one", Name: "One", Kind: plan.KindAsk, Ask: &plan.Ask{Text: "1?"}}, {ID: "two", Name: "Two", Kind: plan.KindAsk, Exit: true, Ask: &plan.Ask{Text: "2?"}}},
		Edges: []plan.Edge{{ID: "in", From: plan.Start, To: "one"}, {ID: "on", From: "one", To: "two"}, {ID: "out", From: "two", To: plan.End}}}
	raw, _ := (&contract.Message{Role: contract.RoleAssistant, Text: "first"}).Encode()
	return contract.RunInput{V: contract.Version, Model: contract.ScriptModel, Flow: contract.FlowRef{Plan: flow}, Fork: &contract.ForkedFrom{
		From: contract.Run{Workflow: "old", Run: "r"}, Node: "two", Step: 2, Entry: contract.Execution{Node: plan.Start, Taken: []string{"in"}},
		Executions: []contract.ExecutionRecord{{Execution: contract.Execution{Node: "one", Step: 1, Taken: []string{taken}}, SHA: contract.SHA(raw)}},
		Content:    []json.RawMessage{raw}, Set: map[string]json.RawMessage{"k": json.RawMessage(`"v"`)}}}
}

func TestFork(t *testing.T) {
	tests := map[string]struct {
		settings Settings
		in       contract.RunInput
		want     string
	}{
		"valid":            {in: forkInput("on")},
		"removed edge":     {in: forkInput("off"), want: "fork: the flow has no edge off, which one took"},
		"named flows only": {settings: Settings{Named: true}, in: forkInput("on"), want: "flows.accept: named"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			tc.settings.Register(env)
			open := []contract.Request{}
			env.RegisterDelayedCallback(func() {
				var st contract.Status
				if v, err := env.QueryWorkflow(contract.QueryStatus); err == nil && v.Get(&st) == nil {
					open = st.Requests
				}
				env.SignalWorkflow(contract.RequestMessage, contract.MessageAnswer{Text: "second"})
			}, time.Hour)
			env.ExecuteWorkflow(contract.WorkflowFlow, tc.in)
			err := env.GetWorkflowError()
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("got error %v, want %q", err, tc.want)
				}
				return
			}
			var out contract.RunResult
			if err != nil || env.GetWorkflowResult(&out) != nil || out.ResultText == nil || *out.ResultText != "second" {
				t.Fatalf("got %+v, %v", out, err)
			}
			if len(open) != 1 || open[0].Node != "two" {
				t.Errorf("open requests = %+v, want only the second question", open)
			}
			var page contract.ExecutionsPage
			if v, err := env.QueryWorkflow(contract.QueryExecutions, contract.ExecutionsQuery{}); err != nil || v.Get(&page) != nil || len(page.Executions) != 2 {
				t.Fatalf("executions = %+v, %v", page, err)
			}
			if p := page.Executions; !p[0].Recorded || p[1].Recorded || p[1].Node != "two" {
				t.Errorf("executions = %+v", p)
			}
		})
	}
}

// TestForkContinuesAsNewAtOnce checks that a fork that continues as new before it has applied the recorded
// executions applies them in the next run, which then asks only the second question.
func TestForkContinuesAsNewAtOnce(t *testing.T) {
	env := workflowtest.Env()
	Register(env)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.SignalYield, nil) }, 0)
	env.ExecuteWorkflow(contract.WorkflowFlow, forkInput("on"))
	var next *workflow.ContinueAsNewError
	if err := env.GetWorkflowError(); !errors.As(err, &next) {
		t.Fatalf("got error %v", err)
	}
	var in contract.RunInput
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
		t.Fatal(err)
	}
	again := workflowtest.Env()
	again.SetContinuedExecutionRunID("before")
	Register(again)
	var open contract.Status
	again.RegisterDelayedCallback(func() {
		if v, err := again.QueryWorkflow(contract.QueryStatus); err != nil || v.Get(&open) != nil {
			t.Errorf("query: %v", err)
		}
		again.SignalWorkflow(contract.RequestMessage, contract.MessageAnswer{Text: "second"})
	}, time.Hour)
	again.ExecuteWorkflow(contract.WorkflowFlow, in)
	var out contract.RunResult
	if err := again.GetWorkflowError(); err != nil || again.GetWorkflowResult(&out) != nil || out.ResultText == nil || *out.ResultText != "second" {
		t.Fatalf("next run: got %+v, %v", out, err)
	}
	if len(open.Requests) != 1 || open.Requests[0].Node != "two" || len(open.Executions) != 1 || !open.Executions[0].Recorded {
		t.Errorf("next run: open requests = %+v, executions = %+v", open.Requests, open.Executions)
	}
}
