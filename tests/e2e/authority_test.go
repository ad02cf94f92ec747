package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/workflows"
	"weft/workflows/plan"
)

// payment is a tool of the operator's connection crm, which counts its calls.
type payment struct {
	*harness.Worker
	calls atomic.Int64
}

func newPayment(t *testing.T) *payment {
	t.Helper()
	p := &payment{}
	tools, err := tool.Open(tool.Settings{
		AllowLoopback: true,
		Connections:   map[string]tool.Connection{"crm": {Transport: tool.TransportLocal}},
		Functions: []tool.Function{tool.Func("pay", "pays", func(context.Context, struct{}) (string, error) {
			p.calls.Add(1)
			return "paid", nil
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Worker = &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	p.Worker.Worker = harness.RunWorker(t, p.Client, p.Queue, 0, tools)
	t.Cleanup(func() { p.Worker.Worker.Stop(); tools.Close() })
	return p
}

// TestEndToEndAgentsThatModelsDefine have what the node binds that defines them, and nothing else.
func TestEndToEndAgentsThatModelsDefine(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "no", http.StatusTeapot)
	}))
	t.Cleanup(other.Close)
	const pay = `,"tools":[{"name":"pay","data_connection_id":"crm"}]`
	inner := `"id": "s", "name": "S", "prompt": "p", "tools": [{"name": "pay", "data_connection_id": "crm"}]`
	tests := map[string]struct {
		node, agent, above string
		calls              int64
	}{
		"a tool that the node does not have": {agent: inner},
		"a tool that the node has":           {node: pay, agent: inner, calls: 1},
		"a function by its name":             {agent: `"id": "s", "name": "S", "prompt": "p", "tools": [{"name": "pay"}]`},
		"another tool of its connection":     {node: pay, agent: strings.ReplaceAll(inner, `"pay"`, `"refund"`)},
		"a URL of its own": {node: pay, agent: strings.ReplaceAll(inner, `"crm"`, `"own"`),
			above: `"data_connections": [{"id": "own", "type": 1, "name": "own", "config": {"url": "` + other.URL + `/mcp"}}],`},
		"its connection's id with a URL of its own": {node: pay, agent: inner,
			above: `"data_connections": [{"id": "crm", "type": 1, "name": "crm", "config": {"url": "` + other.URL + `/mcp"}}],`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPayment(t)
			run := p.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(tc.node), Name: "flow.json"}, OnError: contract.OnErrorFail,
				Script: harness.Script(t, `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: q, agent_def: {name: S, `+tc.above+` nodes: [{`+tc.agent+`}], edges: [{id: e1, source: START, target: s}, {id: e2, source: s, target: END}]}}}]}
- {node: s, turn: 1, call: [{tool: pay}]}
- {node: s, turn: 2, say: paid}
- {node: a, turn: 2, contains: "paid", say: paid}
- {node: a, turn: 2, say: refused}`)})
			out, err := harness.Result(t, run)
			if err != nil {
				t.Fatal(err)
			}
			want := "refused"
			if tc.calls > 0 {
				want = "paid"
			}
			if *out.ResultText != want || p.calls.Load() != tc.calls || asked.Load() != 0 {
				t.Errorf("the result is %q after %d payments and %d requests, want %q after %d", *out.ResultText, p.calls.Load(), asked.Load(), want, tc.calls)
			}
		})
	}
}

// stolen is the grant of an open run, as anyone reads it in its history who may read the namespace.
func (p *payment) stolen(t *testing.T) (client.WorkflowRun, *contract.Grant) {
	t.Helper()
	run := p.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(`,"tools":[{"name":"pay","data_connection_id":"crm"}]`), Name: "flow.json"},
		Script: harness.Script(t, `rules: [{delay: 10m, say: late}]`)})
	var g contract.Grant
	harness.WaitFor(t, "the grant in the history", func() bool {
		for _, e := range harness.Events(t, p.Client, run.GetID(), run.GetRunID()) {
			a := e.GetActivityTaskScheduledEventAttributes()
			if a != nil && len(a.GetInput().GetPayloads()) == 2 {
				return converter.GetDefaultDataConverter().FromPayload(a.GetInput().GetPayloads()[1], &g) == nil && g.Seal != ""
			}
		}
		return false
	})
	t.Cleanup(func() { _ = p.Client.TerminateWorkflow(context.Background(), run.GetID(), "", "") })
	return run, &g
}

// TestEndToEndCallsOfOthers are made by clients of the namespace without a run, or with the grant of another's run.
func TestEndToEndCallsOfOthers(t *testing.T) {
	t.Parallel()
	p := newPayment(t)
	_, g := p.stolen(t)
	forged := *g
	forged.Connections = []plan.Reach{{ID: "crm"}, {ID: "admin"}}
	pay := contract.ToolInput{Connection: plan.Connection{ID: "crm", Kind: plan.ConnectionLocal}, Name: "pay", CallID: "c", As: "pay"}
	calls := map[string]any{
		contract.ActivityCallTool:    pay,
		contract.ActivityListTools:   contract.CatalogueInput{Connection: pay.Connection, Names: []string{"pay"}},
		contract.ActivityCallModel:   contract.ModelInput{},
		contract.ActivityRunProgram:  contract.ProgramInput{},
		contract.ActivityCallWebhook: contract.WebhookInput{Name: "x"},
		contract.ActivityFetchResult: contract.HeldResult{},
	}
	grants := map[string]*contract.Grant{"none": nil, "stolen": g, "forged": &forged, "without a seal": {Root: g.Root, Connections: g.Connections}}
	check := func(t *testing.T, err error) {
		t.Helper()
		if got := contract.FailureOf(err); err == nil || got.Class != contract.ClassBadRequest || !strings.Contains(got.Text, "the call is refused") {
			t.Errorf("the call ended with %v", err)
		}
	}
	// An attacker's own workflow, on a task queue of its own, has any type and any id that is free.
	other := worker.New(p.Client, p.Queue+"-other", worker.Options{})
	other.RegisterWorkflowWithOptions(func(ctx workflow.Context, name string, in any, g *contract.Grant) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: p.Queue, StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, name, in, g).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: contract.WorkflowFlow})
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Stop)
	for activityName, in := range calls {
		for grantName, g := range grants {
			t.Run(activityName+" with the grant "+grantName, func(t *testing.T) {
				t.Parallel()
				h, err := p.Client.ExecuteActivity(context.Background(), client.StartActivityOptions{ID: fmt.Sprint("a-", time.Now().UnixNano()), TaskQueue: p.Queue, StartToCloseTimeout: time.Minute}, activityName, in, g)
				if err != nil {
					t.Fatal(err)
				}
				check(t, h.Get(context.Background(), nil))
				run, err := p.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: p.Queue + "-other"}, contract.WorkflowFlow, activityName, in, g)
				if err != nil {
					t.Fatal(err)
				}
				check(t, run.Get(context.Background(), nil))
			})
		}
	}
	t.Cleanup(func() {
		if n := p.calls.Load(); n > 0 {
			t.Errorf("%d payments", n)
		}
	})
}

// TestEndToEndRunsOfOthers are runs of the inner types that a client starts, with the grant of another's run.
func TestEndToEndRunsOfOthers(t *testing.T) {
	t.Parallel()
	p := newPayment(t)
	run, g := p.stolen(t)
	f := harness.FanIn("x", "a")
	pay := &contract.Shared{Model: "script", FirstRun: g.Root.Run, Owner: run.GetID(), Grant: g}
	for name, tc := range map[string]struct {
		kind string
		in   any
	}{
		"a branch":            {contract.WorkflowBranch, contract.BranchInput{V: 1, Node: "a", Plan: f, Order: []int{0, 1}, Edges: []int{0, 1, 2}, Shared: *pay, Step: 1, Occurrence: 1}},
		"a branch without":    {contract.WorkflowBranch, contract.BranchInput{V: 1, Node: "a", Plan: f, Order: []int{0, 1}, Edges: []int{0, 1, 2}, Step: 1, Occurrence: 1}},
		"a delivery":          {contract.WorkflowWebhookDelivery, contract.WebhookDeliveryInput{ID: "evt_1", Names: []string{"x"}, Grant: g}},
		"a delivery without":  {contract.WorkflowWebhookDelivery, contract.WebhookDeliveryInput{ID: "evt_1", Names: []string{"x"}}},
		"a flow with a grant": {contract.WorkflowFlow, contract.RunInput{V: 1, Flow: contract.FlowRef{Plan: f}, Model: "script", Grant: g}},
		"a flow below":        {contract.WorkflowFlow, contract.RunInput{V: 1, Flow: contract.FlowRef{Plan: f}, Model: "script", Depth: 1, Grant: g}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, err := p.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: p.Queue}, tc.kind, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Get(context.Background(), nil); contract.FailureOf(err).Class != contract.ClassBadRequest {
				t.Errorf("it ended with %v", err)
			}
		})
	}
	for _, id := range []string{run.GetID() + "/a#1", "victim/hook:on_run_start", "a~2", "temporal-sys-scheduler:x"} {
		run, err := p.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id, TaskQueue: p.Queue}, contract.WorkflowFlow,
			contract.RunInput{V: 1, Flow: contract.FlowRef{Plan: f}, Model: "script"})
		if err == nil {
			err = run.Get(context.Background(), nil)
		}
		if f := contract.FailureOf(err); err == nil || !strings.Contains(f.Error(), id) {
			t.Errorf("the run %q ended with %v", id, err)
		}
	}
	// Another's workflow as the parent proves nothing.
	other := worker.New(p.Client, p.Queue+"-parent", worker.Options{})
	other.RegisterWorkflowWithOptions(func(ctx workflow.Context, kind string, in contract.RunInput) error {
		return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{TaskQueue: p.Queue}), kind, in).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "Parent"})
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Stop)
	for name, in := range map[string]contract.RunInput{
		"below with the grant":    {V: 1, Flow: contract.FlowRef{Plan: f}, Model: "script", Depth: 1, Owner: run.GetID(), FirstRun: g.Root.Run, Grant: g},
		"below without a grant":   {V: 1, Flow: contract.FlowRef{Plan: f}, Model: "script", Depth: 1, Owner: run.GetID()},
		"a snapshot with a grant": {V: 1, Model: "script", Depth: 1, Snapshot: &contract.RunSnapshot{Plan: f, Shared: *pay, Entry: &contract.EntryState{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, err := p.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: p.Queue + "-parent"}, "Parent", contract.WorkflowFlow, in)
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Get(context.Background(), nil); contract.FailureOf(err).Class != contract.ClassBadRequest {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// bomb is a run whose model defines agents that define agents, twenty with each answer.
func bomb(t *testing.T, delay string) contract.RunInput {
	t.Helper()
	agent := `{name: S, nodes: [{id: a, name: S, prompt: p}], edges: [{id: e1, source: START, target: a}, {id: e2, source: a, target: END}]}`
	calls := strings.Repeat(`{tool: call_sub_agent, arguments: {user_question: q, agent_def: `+agent+`}}, `, 20)
	return contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"}, OnError: contract.OnErrorFail,
		Script: harness.Script(t, `rules: [{node: a, turn: 1, call: [`+strings.TrimSuffix(calls, ", ")+`]}, {delay: `+delay+`, say: done}]`)}
}

// below counts the runs below a run, those under way with open.
func below(t *testing.T, c client.Client, id string, open bool) int {
	t.Helper()
	query := fmt.Sprintf("WorkflowId STARTS_WITH '%s/'", id)
	if open {
		query += " AND ExecutionStatus = 'Running'"
	}
	out, err := c.CountWorkflow(context.Background(), &workflowservice.CountWorkflowExecutionsRequest{Query: query})
	if err != nil {
		t.Fatal(err)
	}
	return int(out.GetCount())
}

// TestEndToEndAgentsAreCounted lets models start agents without end: there are as many as the budget has.
func TestEndToEndAgentsAreCounted(t *testing.T) {
	t.Parallel()
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorkerWith(t, h.Client, h.Queue, workflows.Settings{BudgetLimits: &contract.BudgetLimits{Most: contract.Budget{Runs: 100, AtOnce: 5}}}, activities.Deps{})
	t.Cleanup(h.Worker.Stop)
	run := h.Start(t, bomb(t, "1ms"))
	if _, err := harness.Result(t, run); contract.FailureOf(err).Class != contract.ClassToolErrors {
		t.Errorf("the run ended with %v, want the errors of its calls", err)
	}
	harness.WaitFor(t, "the end of all runs", func() bool { return below(t, h.Client, run.GetID(), true) == 0 })
	if n := below(t, h.Client, run.GetID(), false); n < 20 || n > 100 {
		t.Errorf("models started %d runs, want at most 100", n)
	}
}

// TestEndToEndTerminatedWithAllBelow ends what is below a run that is terminated, and nothing starts later.
func TestEndToEndTerminatedWithAllBelow(t *testing.T) {
	t.Parallel()
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorkerWith(t, h.Client, h.Queue, workflows.Settings{BudgetLimits: &contract.BudgetLimits{Most: contract.Budget{Runs: 500, AtOnce: 50}}}, activities.Deps{})
	t.Cleanup(h.Worker.Stop)
	run := h.Start(t, bomb(t, "10m"))
	harness.WaitFor(t, "many runs", func() bool { return below(t, h.Client, run.GetID(), true) >= 20 })
	if err := h.Client.TerminateWorkflow(context.Background(), run.GetID(), "", "test"); err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "the end of all runs", func() bool { return below(t, h.Client, run.GetID(), true) == 0 })
	all := below(t, h.Client, run.GetID(), false)
	time.Sleep(2 * time.Second)
	if n, open := below(t, h.Client, run.GetID(), false), below(t, h.Client, run.GetID(), true); n != all || open != 0 {
		t.Errorf("%d runs started later, %d are open", n-all, open)
	}
}
