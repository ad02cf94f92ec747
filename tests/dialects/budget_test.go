package dialects

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows"
	"weft/workflows/plan"
)

// runWithUsage runs a plan whose model calls each have the given usage, and counts them.
func runWithUsage(t *testing.T, s workflows.Settings, f *plan.Flow, b *contract.Budget, usage contract.Usage) (*contract.RunResult, contract.Status, int, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(harness.NoLog)
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(harness.EnvOptions)
	env.SetTestTimeout(4 * time.Minute)
	s.Register(env)
	var made atomic.Int32
	env.RegisterActivityWithOptions(func(ctx context.Context, in contract.ModelInput) (*contract.ModelResult, error) {
		made.Add(1)
		res, err := harness.AnswerModel(ctx, in)
		res.Usage = usage
		return res, err
	}, activity.RegisterOptions{Name: contract.ActivityCallModel})
	env.ExecuteWorkflow(contract.WorkflowFlow, contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: f}, Input: "input", Model: "script", Budget: b})
	var status contract.Status
	if f := contract.FailureOf(env.GetWorkflowError()); f != nil && f.Class == contract.ClassBadRequest {
		return nil, status, int(made.Load()), f
	}
	v, err := env.QueryWorkflow(contract.QueryStatus)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Get(&status); err != nil {
		t.Fatal(err)
	}
	if err := env.GetWorkflowError(); err != nil {
		return nil, status, int(made.Load()), err
	}
	var out contract.RunResult
	if err := env.GetWorkflowResult(&out); err != nil {
		t.Fatal(err)
	}
	return &out, status, int(made.Load()), nil
}

// chain returns a flow of n consecutive nodes.
func chain(n int) *plan.Flow {
	nodes, edges := []harness.GraphNode{}, []harness.GraphEdge{}
	last := plan.Start
	for i := range n {
		id := fmt.Sprintf("n%d", i+1)
		nodes = append(nodes, harness.GraphNode{ID: id, Exit: i == n-1})
		edges = append(edges, harness.GraphEdge{Source: last, Target: id})
		last = id
	}
	return harness.GraphPlan("line", nodes, append(edges, harness.GraphEdge{Source: last, Target: plan.End}))
}

// fan returns a flow of a node, n parallel nodes and a node that joins them.
func fan(n int) *plan.Flow {
	nodes := []harness.GraphNode{{ID: "first"}, {ID: "last", Exit: true, Defer: true}}
	edges := []harness.GraphEdge{{Source: plan.Start, Target: "first"}, {Source: "last", Target: plan.End}}
	for i := range n {
		id := fmt.Sprintf("n%d", i+1)
		nodes = append(nodes, harness.GraphNode{ID: id})
		edges = append(edges, harness.GraphEdge{Source: "first", Target: id}, harness.GraphEdge{Source: id, Target: "last"})
	}
	return harness.GraphPlan("fan", nodes, edges)
}

// atMost is the value of made that allows up to n calls.
func atMost(n int) int { return -n }

func TestBudget(t *testing.T) {
	t.Parallel()
	cheap := contract.Usage{Calls: 1, Input: 60, Output: 40, Cost: 1000}
	priced := &contract.BudgetLimits{Priced: true}
	tests := map[string]struct {
		budgetLimits *contract.BudgetLimits
		flow         *plan.Flow
		budget       *contract.Budget
		usage        contract.Usage
		made         int
		class        string
		node         string
		text         string
	}{
		"no budget":                         {flow: chain(3), usage: cheap, made: 3},
		"exactly enough calls":              {flow: chain(3), budget: &contract.Budget{Calls: 3}, usage: cheap, made: 3},
		"a call too few":                    {flow: chain(3), budget: &contract.Budget{Calls: 2}, usage: cheap, made: 2, class: contract.ClassBudget, node: "n3", text: "none of 2 calls is left; spent: 2 calls, 200 tokens and a cost of 0.002000; reserved: 0 calls and 0 tokens"},
		"tokens, estimated by the average":  {flow: chain(5), budget: &contract.Budget{Tokens: 350}, usage: cheap, made: 3, class: contract.ClassBudget, node: "n4", text: "50 of 350 tokens are left, and the call is estimated at 1"},
		"a cost":                            {budgetLimits: priced, flow: chain(5), budget: &contract.Budget{Cost: 2500}, usage: cheap, made: 2, class: contract.ClassBudget, node: "n3", text: "a cost of 0.000500 of 0.002500 is left"},
		"a cost without a price":            {budgetLimits: priced, flow: chain(5), budget: &contract.Budget{Cost: 2500}, usage: contract.Usage{Calls: 1, Unpriced: 1}, made: 1, class: contract.ClassBudget, node: "n2", text: "1 calls went to a model without a price"},
		"a cost without a price table":      {budgetLimits: &contract.BudgetLimits{}, flow: chain(1), budget: &contract.Budget{Cost: 2500}, usage: cheap, class: contract.ClassBadRequest, text: "the worker has no prices"},
		"the worker's limit":                {budgetLimits: &contract.BudgetLimits{Most: contract.Budget{Calls: 1}}, flow: chain(3), usage: cheap, made: 1, class: contract.ClassBudget, node: "n2", text: "none of 1 calls"},
		"a budget above the worker's limit": {budgetLimits: &contract.BudgetLimits{Most: contract.Budget{Calls: 1}}, flow: chain(3), budget: &contract.Budget{Calls: 9}, usage: cheap, made: 1, class: contract.ClassBudget, node: "n2", text: "none of 1 calls"},
		"branches with their shares":        {flow: fan(3), budget: &contract.Budget{Calls: 5}, usage: cheap, made: 5},
		"a branch with nothing left":        {flow: fan(3), budget: &contract.Budget{Calls: 3}, usage: cheap, made: atMost(3), class: contract.ClassBudget, text: "none of 0 calls is left"},
		"unused shares are returned":        {flow: fan(3), budget: &contract.Budget{Tokens: 900}, usage: cheap, made: 5},
		"a node after branches":             {flow: fan(3), budget: &contract.Budget{Calls: 4}, usage: cheap, made: 4, class: contract.ClassBudget, node: "last", text: "spent: 4 calls"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, status, made, err := runWithUsage(t, workflows.Settings{BudgetLimits: tc.budgetLimits}, tc.flow, tc.budget, tc.usage)
			if made != tc.made && made > -tc.made {
				t.Errorf("%d calls were made, want %d", made, tc.made)
			}
			if tc.class == "" {
				if err != nil || out.Usage.Calls != tc.made {
					t.Fatalf("result = %+v: %v", out, err)
				}
				return
			}
			f := contract.FailureOf(err)
			if f.Class != tc.class || tc.node != "" && f.Node != tc.node || !strings.Contains(f.Text, tc.text) || f.Remedy == "" {
				t.Errorf("failure = %+v", f)
			}
			// The last call of a branch may not be counted if another branch's failure stopped it.
			counted := status.Usage.Calls == made || tc.made < 0 && status.Usage.Calls > 0 && status.Usage.Calls < made
			if tc.class == contract.ClassBudget && (status.Budget == nil || !counted) {
				t.Errorf("budget = %+v, usage = %+v in the status", status.Budget, status.Usage)
			}
		})
	}
}

// TestInvalidBudget checks that a run with an invalid budget is rejected.
func TestInvalidBudget(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]contract.Budget{"empty": {}, "negative": {Calls: -1}} {
		_, _, made, err := runWithUsage(t, workflows.Settings{}, chain(1), &b, contract.Usage{})
		if f := contract.FailureOf(err); f.Class != contract.ClassBadRequest || !strings.Contains(f.Text, "budget") || made != 0 {
			t.Errorf("%s: failure = %+v after %d calls", name, f, made)
		}
	}
}

// TestEndToEndBudget checks that a budget spans runs that continue as new, and that judges are charged to it.
func TestEndToEndBudget(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.JudgedLoop, Name: "flow.json"}, MaxSteps: 100, MaxEvents: 1, Budget: &contract.Budget{Calls: 10},
		Script: harness.Script(t, "rules:\n- {question: \"again?\", yes: true}\n- {question: \"done?\", yes: false}\n- {say: round}\n")})
	id := run.GetRunID()
	_, err := harness.Result(t, run)
	if f := contract.FailureOf(err); f.Class != contract.ClassBudget || !strings.Contains(f.Text, "spent: 10 calls") {
		t.Fatalf("failure = %+v", f)
	}
	first, err := h.Client.DescribeWorkflowExecution(context.Background(), run.GetID(), id)
	if err != nil || first.GetWorkflowExecutionInfo().GetStatus().String() != "ContinuedAsNew" {
		t.Errorf("the run did not continue as new: %v %v", first.GetWorkflowExecutionInfo().GetStatus(), err)
	}
}

// TestFailedCallsCount checks that the usage of a call is counted if it fails after the model answered.
func TestFailedCallsCount(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(harness.NoLog)
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(harness.EnvOptions)
	env.SetTestTimeout(4 * time.Minute)
	workflows.Settings{}.Register(env)
	env.RegisterActivityWithOptions(func(context.Context, contract.ModelInput) (*contract.ModelResult, error) {
		return nil, contract.Spent(&contract.Failure{Class: contract.ClassRefused, Text: "I will not"}, contract.Usage{Calls: 1, Input: 60, Output: 40, Cost: 1000}).ApplicationError()
	}, activity.RegisterOptions{Name: contract.ActivityCallModel})
	env.ExecuteWorkflow(contract.WorkflowFlow, contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: fan(1)}, Input: "input", Model: "script", Budget: &contract.Budget{Calls: 5}})
	f := contract.FailureOf(env.GetWorkflowError())
	if f == nil || f.Class != contract.ClassRefused || f.Usage == nil || f.Usage.Calls != 1 || f.Usage.Input != 60 || f.Usage.Cost != 1000 {
		t.Fatalf("failure = %+v", f)
	}
	var status contract.Status
	harness.Query(t, env, contract.QueryStatus, &status)
	if status.Usage.Calls != 1 || status.Usage.Output != 40 {
		t.Errorf("usage = %+v in the status", status.Usage)
	}
}

// TestJudgesStayWithinTheBudget checks that a judge with an unparsable answer is called again only as long as the budget allows.
func TestJudgesStayWithinTheBudget(t *testing.T) {
	t.Parallel()
	doc := `{"name":"judged","nodes":[{"id":"a","name":"A","prompt":"p"},{"id":"b","name":"B","prompt":"p","is_exit_node":true},{"id":"c","name":"C","prompt":"p","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"b","condition_prompt":"one?"},{"id":"e3","source":"a","target":"c","condition_prompt":"two?"},
{"id":"e4","source":"b","target":"END"},{"id":"e5","source":"c","target":"END"}]}`
	for calls, want := range map[int]string{
		2: contract.ClassBudget,              // no call for the second question
		3: contract.ClassConditionUnparsable, // one call for each question, no retry
		9: "",
	} {
		t.Run(fmt.Sprint(calls), func(t *testing.T) {
			p := harness.TestRun{Document: doc, Input: "Go.", Script: "rules:\n- {kind: judge, turn: 1, say: perhaps}\n- {kind: judge, turn: 2, yes: true}\n- {say: done}\n",
				SetInput: func(in *contract.RunInput) { in.Budget = &contract.Budget{Calls: calls} }}.Execute(t)
			class := ""
			if p.Err != nil {
				class = p.Err.Class
			}
			if class != want || p.Status.Usage.Made() > calls {
				t.Errorf("class = %q, usage = %+v, want %q within %d calls: %v", class, p.Status.Usage, want, calls, p.Err)
			}
		})
	}
}
