package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/tests/harness"
	"weft/tests/programs"
	"weft/worker/config"
	"weft/worker/host"
	"weft/workflows"
	"weft/workflows/plan"
)

// modestFlows is how many flows the tenant has that is not greedy.
const modestFlows = 5

// TestTenantFairness lets one tenant start many flows before another starts a few, on
// one task queue whose worker makes two calls at a time. It counts how many of the greedy one's
// flows have ended when the last of the other's has: with a tenant for each, and, to compare, with
// one for all. WEFT_TENANT_FLOWS is how many flows the greedy tenant has.
func TestTenantFairness(t *testing.T) {
	greedy := 200
	if n, err := strconv.Atoi(os.Getenv("WEFT_TENANT_FLOWS")); err == nil && n > 0 {
		greedy = n
	}
	programs.Path(t, "WEFT_DEVSERVER")
	address := harness.StartServer(t, "-db", ":memory:", "-port=0").Address
	c := harness.Dial(t, address)
	together := overtaken(t, c, "together", greedy, "all", "all")
	apart := overtaken(t, c, "apart", greedy, "greedy", "modest")
	t.Logf("when the last of %d flows ended, of %d flows that were started before them had ended: %d with one tenant for all, %d with two tenants", modestFlows, greedy, together, apart)
	if 2*apart > together {
		t.Errorf("%d of %d flows of the greedy tenant ended before %d of the other's; with one tenant for all %d did", apart, greedy, modestFlows, together)
	}
}

// overtaken starts the flows of both tenants, then a worker, and counts the greedy one's that have
// ended when the modest one's have.
func overtaken(t *testing.T, c client.Client, queue string, flows int, greedy, modest string) int {
	t.Helper()
	start := func(name, tenant string) client.WorkflowRun {
		run, err := c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{
			ID: queue + "-" + name, TaskQueue: queue, Priority: temporal.Priority{FairnessKey: tenant},
		}, contract.WorkflowFlow, contract.RunInput{V: contract.Version, Input: "go", Model: "script",
			Flow: contract.FlowRef{Plan: pass()}, Script: harness.Script(t, "default: {say: done, delay: 20ms}")})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	for i := range flows {
		start(fmt.Sprintf("greedy-%d", i), greedy)
	}
	var few []client.WorkflowRun
	for i := range modestFlows {
		few = append(few, start(fmt.Sprintf("modest-%d", i), modest))
	}
	narrow(t, c, queue)
	began := time.Now()
	// With one tenant for all, the few wait for all of the many.
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute+time.Duration(flows)*time.Second)
	defer cancel()
	for _, run := range few {
		if err := run.Get(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	done, err := c.CountWorkflow(context.Background(), &workflowservice.CountWorkflowExecutionsRequest{
		Query: fmt.Sprintf("TaskQueue = %q AND ExecutionStatus = 'Completed'", queue)})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: the few took %v", queue, took.Round(time.Millisecond))
	return max(0, int(done.GetCount())-modestFlows)
}

// narrow starts a worker that makes two calls at a time.
func narrow(t *testing.T, c client.Client, queue string) {
	t.Helper()
	models, err := llm.Open(llm.Settings{Default: "script"})
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(c, queue, worker.Options{MaxConcurrentActivityExecutionSize: 2, MaxConcurrentWorkflowTaskExecutionSize: 2,
		DeadlockDetectionTimeout: time.Minute, DisableEagerActivities: true})
	workflows.Register(w)
	activities.New(activities.Deps{Models: models, Source: activities.NewClientSource(c), Compile: harness.Compile, Begin: host.Begin,
		Attributes: activities.NewAttributes(c)}).Register(w)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
}

// pass is a flow of three agents, one behind the other.
func pass() *plan.Flow {
	f := &plan.Flow{Version: plan.Version, Name: "Relay", Dialect: "test",
		Limits: plan.Limits{MaxSteps: 25, MaxStateBytes: 100_000, MaxDepth: 3, FilterBytes: 1000},
		Policy: plan.Policy{ModelSeconds: 60, ToolSeconds: 60, HeartbeatSeconds: 30, RetrySeconds: 600, FirstRetryMillis: 100}}
	before := plan.Start
	for _, id := range []string{"a", "b", "c"} {
		f.Nodes = append(f.Nodes, plan.Node{ID: id, Name: id, Kind: plan.KindAgent, Exit: id == "c",
			Agent: &plan.Agent{Prompt: id, System: id, MaxCalls: 5, MaxErrors: 3}})
		f.Edges = append(f.Edges, plan.Edge{ID: "to-" + id, From: before, To: id})
		before = id
	}
	f.Edges = append(f.Edges, plan.Edge{ID: "out", From: before, To: plan.End})
	return f
}

// TestTenantBesideBomb runs twenty flows of one step while models of another tenant start agents without end, with the bounds
// that a worker has by default. It logs how long the flows take: alone, and beside the other.
func TestTenantBesideBomb(t *testing.T) {
	address := harness.ServerAddress(t)
	c := harness.Dial(t, address)
	cfg, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness.Worker{Client: c, Queue: fmt.Sprintf("bomb-%d", time.Now().UnixNano())}
	w := harness.RunWorkerWith(t, c, h.Queue, workflows.Settings{BudgetLimits: cfg.BudgetLimits()}, activities.Deps{})
	t.Cleanup(w.Stop)
	small := func(name string) {
		var took []time.Duration
		for i := range 20 {
			began := time.Now()
			run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: fmt.Sprintf("%s-%s-%d", h.Queue, name, i), TaskQueue: h.Queue,
				Priority: temporal.Priority{FairnessKey: "modest"}}, contract.WorkflowFlow, contract.RunInput{V: contract.Version, Input: "go", Model: "script",
				Flow: contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"}, Script: harness.Script(t, "default: {say: done}")})
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Get(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		t.Logf("%s: the median of twenty flows is %v, the 95th percentile %v", name, took[9].Round(time.Millisecond), took[18].Round(time.Millisecond))
	}
	small("alone")
	in := bomb(t, "1ms")
	in.V, in.Model, in.Input = contract.Version, "script", "go"
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: h.Queue, Priority: temporal.Priority{FairnessKey: "greedy"}}, contract.WorkflowFlow, in)
	if err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "some runs", func() bool { return countDescendants(t, c, run.GetID(), false) > 20 })
	small("beside")
	if n := countDescendants(t, c, run.GetID(), false); n > cfg.Budget.Runs {
		t.Errorf("models started %d runs, want at most %d", n, cfg.Budget.Runs)
	} else {
		t.Logf("models have started %d runs", n)
	}
	if err := c.TerminateWorkflow(context.Background(), run.GetID(), "", "test"); err != nil {
		t.Log(err)
	}
}
