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

// forkInput is a run that goes on behind an ask node with a recorded answer: an ask node behind
// it is what runs anew.
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

func TestForkTakesWhatIsRecorded(t *testing.T) {
	tests := map[string]struct {
		settings Settings
		in       contract.RunInput
		want     string
	}{
		"it goes on":              {in: forkInput("on")},
		"an edge that is gone":    {in: forkInput("off"), want: "fork: the flow has no edge off, which one took"},
		"flows of a folder alone": {settings: Settings{Named: true}, in: forkInput("on"), want: "flows.accept: named"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			tc.settings.Register(env)
			asked := []contract.Request{}
			env.RegisterDelayedCallback(func() {
				var st contract.Status
				if v, err := env.QueryWorkflow(contract.QueryStatus); err == nil && v.Get(&st) == nil {
					asked = st.Requests
				}
				env.SignalWorkflow(contract.RequestMessage, contract.MessageAnswer{Text: "second"})
			}, time.Hour)
			env.ExecuteWorkflow(contract.WorkflowFlow, tc.in)
			err := env.GetWorkflowError()
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("the fork ends with %v, want %q", err, tc.want)
				}
				return
			}
			var out contract.RunResult
			if err != nil || env.GetWorkflowResult(&out) != nil || out.ResultText == nil || *out.ResultText != "second" {
				t.Fatalf("the fork ends with %+v, %v", out, err)
			}
			if len(asked) != 1 || asked[0].Node != "two" {
				t.Errorf("it asked %+v, want the second question alone", asked)
			}
			var past contract.ExecutionsPage
			if v, err := env.QueryWorkflow(contract.QueryExecutions, contract.ExecutionsQuery{}); err != nil || v.Get(&past) != nil || len(past.Executions) != 2 {
				t.Fatalf("its own past is %+v, %v", past, err)
			}
			if p := past.Executions; !p[0].Recorded || p[1].Recorded || p[1].Node != "two" {
				t.Errorf("its past is %+v", p)
			}
		})
	}
}

// TestForkThatContinuesAsNewAtOnce has a fork go on in a new run before it has taken what is recorded:
// the next run takes it, and asks what is behind it alone.
func TestForkThatContinuesAsNewAtOnce(t *testing.T) {
	env := workflowtest.Env()
	Register(env)
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.SignalYield, nil) }, 0)
	env.ExecuteWorkflow(contract.WorkflowFlow, forkInput("on"))
	var next *workflow.ContinueAsNewError
	if err := env.GetWorkflowError(); !errors.As(err, &next) {
		t.Fatalf("the fork ends with %v", err)
	}
	var in contract.RunInput
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
		t.Fatal(err)
	}
	again := workflowtest.Env()
	again.SetContinuedExecutionRunID("before")
	Register(again)
	var asked contract.Status
	again.RegisterDelayedCallback(func() {
		if v, err := again.QueryWorkflow(contract.QueryStatus); err != nil || v.Get(&asked) != nil {
			t.Errorf("the query gives %v", err)
		}
		again.SignalWorkflow(contract.RequestMessage, contract.MessageAnswer{Text: "second"})
	}, time.Hour)
	again.ExecuteWorkflow(contract.WorkflowFlow, in)
	var out contract.RunResult
	if err := again.GetWorkflowError(); err != nil || again.GetWorkflowResult(&out) != nil || out.ResultText == nil || *out.ResultText != "second" {
		t.Fatalf("the next run ends with %+v, %v", out, err)
	}
	if len(asked.Requests) != 1 || asked.Requests[0].Node != "two" || len(asked.Executions) != 1 || !asked.Executions[0].Recorded {
		t.Errorf("the next run asks %+v behind %+v", asked.Requests, asked.Executions)
	}
}
