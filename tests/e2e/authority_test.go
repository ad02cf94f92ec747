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

// payWorker is a worker whose operator has configured the connection crm with the tool pay. calls counts its calls.
type payWorker struct {
	*harness.Worker
	calls atomic.Int64
}

func newPayWorker(t *testing.T) *payWorker {
	t.Helper()
	p := &payWorker{}
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

// TestEndToEndModelDefinedAgents checks that an agent defined by a model has only the tools that its node binds.
func TestEndToEndModelDefinedAgents(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		http.Error(w, "no", http.StatusTeapot)
	}))
	t.Cleanup(other.Close)
	const pay = `,"tools":[{"name":"pay","data_connection_id":"crm"}]`
	inner := `"id": "s", "name": "S", "prompt": "p", "tools": [{"name": "pay", "data_connection_id": "crm"}]`
	tests := map[string]struct {
		node, agent, connections string
		calls                    int64
	}{
		"a tool that the node does not have": {agent: inner},
		"a tool that the node has":           {node: pay, agent: inner, calls: 1},
		"a function by its name":             {agent: `"id": "s", "name": "S", "prompt": "p", "tools": [{"name": "pay"}]`},
		"another tool of its connection":     {node: pay, agent: strings.ReplaceAll(inner, `"pay"`, `"refund"`)},
		"a new connection with another URL": {node: pay, agent: strings.ReplaceAll(inner, `"crm"`, `"own"`),
			connections: `"data_connections": [{"id": "own", "type": 1, "name": "own", "config": {"url": "` + other.URL + `/mcp"}}],`},
		"the connection's id with another URL": {node: pay, agent: inner,
			connections: `"data_connections": [{"id": "crm", "type": 1, "name": "crm", "config": {"url": "` + other.URL + `/mcp"}}],`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPayWorker(t)
			run := p.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(tc.node), Name: "flow.json"}, OnError: contract.OnErrorFail,
				Script: harness.Script(t, `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: q, agent_def: {name: S, `+tc.connections+` nodes: [{`+tc.agent+`}], edges: [{id: e1, source: START, target: s}, {id: e2, source: s, target: END}]}}}]}
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
			if *out.ResultText != want || p.calls.Load() != tc.calls || requests.Load() != 0 {
				t.Errorf("result %q with %d payments and %d requests to the other URL, want %q with %d payments", *out.ResultText, p.calls.Load(), requests.Load(), want, tc.calls)
			}
		})
	}
}

// stolenGrant returns the grant of an open run, from its history. Any client of the namespace can read it there.
func (p *payWorker) stolenGrant(t *testing.T) (client.WorkflowRun, *contract.Grant) {
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

// TestEndToEndUnauthorizedActivities checks that activities reject calls from clients, even with a run's grant.
func TestEndToEndUnauthorizedActivities(t *testing.T) {
	t.Parallel()
	p := newPayWorker(t)
	_, g := p.stolenGrant(t)
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
			t.Errorf("got %v, want a refused call", err)
		}
	}
	// An attacker's workflow, on the attacker's task queue, may have any type.
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
			t.Errorf("%d payments, want none", n)
		}
	})
}

// TestEndToEndUnauthorizedRuns checks that runs of internal types or with internal fields fail if a client starts them.
func TestEndToEndUnauthorizedRuns(t *testing.T) {
	t.Parallel()
	p := newPayWorker(t)
	run, g := p.stolenGrant(t)
	f := harness.FanIn("x", "a")
	shared := &contract.Shared{Model: "script", FirstRun: g.Root.Run, Owner: run.GetID(), Grant: g}
	for name, tc := range map[string]struct {
		kind string
		in   any
	}{
		"a branch with a stolen grant":   {contract.WorkflowBranch, contract.BranchInput{V: 1, Node: "a", Plan: f, Order: []int{0, 1}, Edges: []int{0, 1, 2}, Shared: *shared, Step: 1, Occurrence: 1}},
		"a branch without a grant":       {contract.WorkflowBranch, contract.BranchInput{V: 1, Node: "a", Plan: f, Order: []int{0, 1}, Edges: []int{0, 1, 2}, Step: 1, Occurrence: 1}},
		"a delivery with a stolen grant": {contract.WorkflowWebhookDelivery, contract.WebhookDeliveryInput{ID: "evt_1", Names: []string{"x"}, Grant: g}},
		"a delivery without a grant":     {contract.WorkflowWebhookDelivery, contract.WebhookDeliveryInput{ID: "evt_1", Names: []string{"x"}}},
		"a flow with a stolen grant":     {contract.WorkflowFlow, contract.RunInput{V: 1, Flow: contract.FlowRef{Plan: f}, Model: "script", Grant: g}},
		"a flow with a forged depth":     {contract.WorkflowFlow, contract.RunInput{V: 1, Flow: contract.FlowRef{Plan: f}, Model: "script", Depth: 1, Grant: g}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, err := p.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: p.Queue}, tc.kind, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Get(context.Background(), nil); contract.FailureOf(err).Class != contract.ClassBadRequest {
				t.Errorf("run ended with %v, want %s", err, contract.ClassBadRequest)
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
			t.Errorf("run with the reserved id %q ended with %v", id, err)
		}
	}
	// A parent that is an attacker's workflow does not authorize its children.
	other := worker.New(p.Client, p.Queue+"-parent", worker.Options{})
	other.RegisterWorkflowWithOptions(func(ctx workflow.Context, kind string, in contract.RunInput) error {
		return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{TaskQueue: p.Queue}), kind, in).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "Parent"})
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Stop)
	for name, in := range map[string]contract.RunInput{
		"a child with a stolen grant":    {V: 1, Flow: contract.FlowRef{Plan: f}, Model: "script", Depth: 1, Owner: run.GetID(), FirstRun: g.Root.Run, Grant: g},
		"a child without a grant":        {V: 1, Flow: contract.FlowRef{Plan: f}, Model: "script", Depth: 1, Owner: run.GetID()},
		"a snapshot with a stolen grant": {V: 1, Model: "script", Depth: 1, Snapshot: &contract.RunSnapshot{Plan: f, Shared: *shared, Entry: &contract.EntryState{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, err := p.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: p.Queue + "-parent"}, "Parent", contract.WorkflowFlow, in)
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Get(context.Background(), nil); contract.FailureOf(err).Class != contract.ClassBadRequest {
				t.Errorf("run ended with %v, want %s", err, contract.ClassBadRequest)
			}
		})
	}
}

// bomb returns a run whose agents each define twenty more agents, recursively.
func bomb(t *testing.T, delay string) contract.RunInput {
	t.Helper()
	agent := `{name: S, nodes: [{id: a, name: S, prompt: p}], edges: [{id: e1, source: START, target: a}, {id: e2, source: a, target: END}]}`
	calls := strings.Repeat(`{tool: call_sub_agent, arguments: {user_question: q, agent_def: `+agent+`}}, `, 20)
	return contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"}, OnError: contract.OnErrorFail,
		Script: harness.Script(t, `rules: [{node: a, turn: 1, call: [`+strings.TrimSuffix(calls, ", ")+`]}, {delay: `+delay+`, say: done}]`)}
}

// countDescendants counts the descendants of a run; with open, only those that are still running.
func countDescendants(t *testing.T, c client.Client, id string, open bool) int {
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

// TestEndToEndAgentBudget checks that agents that define agents endlessly are stopped at the budget for runs.
func TestEndToEndAgentBudget(t *testing.T) {
	t.Parallel()
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorkerWith(t, h.Client, h.Queue, workflows.Settings{BudgetLimits: &contract.BudgetLimits{Most: contract.Budget{Runs: 100, AtOnce: 5}}}, activities.Deps{})
	t.Cleanup(h.Worker.Stop)
	run := h.Start(t, bomb(t, "1ms"))
	if _, err := harness.Result(t, run); contract.FailureOf(err).Class != contract.ClassToolErrors {
		t.Errorf("run ended with %v, want %s", err, contract.ClassToolErrors)
	}
	harness.WaitFor(t, "all runs to close", func() bool { return countDescendants(t, h.Client, run.GetID(), true) == 0 })
	if n := countDescendants(t, h.Client, run.GetID(), false); n < 20 || n > 100 {
		t.Errorf("models started %d runs, want 20 to 100", n)
	}
}

// TestEndToEndTerminateDescendants checks that terminating a run closes its descendants, and that none starts later.
func TestEndToEndTerminateDescendants(t *testing.T) {
	t.Parallel()
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorkerWith(t, h.Client, h.Queue, workflows.Settings{BudgetLimits: &contract.BudgetLimits{Most: contract.Budget{Runs: 500, AtOnce: 50}}}, activities.Deps{})
	t.Cleanup(h.Worker.Stop)
	run := h.Start(t, bomb(t, "10m"))
	harness.WaitFor(t, "many runs", func() bool { return countDescendants(t, h.Client, run.GetID(), true) >= 20 })
	if err := h.Client.TerminateWorkflow(context.Background(), run.GetID(), "", "test"); err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "all runs to close", func() bool { return countDescendants(t, h.Client, run.GetID(), true) == 0 })
	all := countDescendants(t, h.Client, run.GetID(), false)
	time.Sleep(2 * time.Second)
	if n, open := countDescendants(t, h.Client, run.GetID(), false), countDescendants(t, h.Client, run.GetID(), true); n != all || open != 0 {
		t.Errorf("%d runs started after the termination, %d are open", n-all, open)
	}
}
