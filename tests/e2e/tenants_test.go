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

// modestFlows is the number of flows of the tenant that is not greedy.
const modestFlows = 5

// TestTenantFairness has one tenant start many flows before another starts a few, on one task queue whose worker makes
// two calls at a time. It counts how many of the greedy tenant's flows have ended when the other's last one ends, with
// two fairness keys and, for comparison, with one. WEFT_TENANT_FLOWS sets the number of the greedy tenant's flows.
func TestTenantFairness(t *testing.T) {
	greedy := 200
	if n, err := strconv.Atoi(os.Getenv("WEFT_TENANT_FLOWS")); err == nil && n > 0 {
		greedy = n
	}
	programs.Path(t, "WEFT_DEVSERVER")
	address := harness.StartServer(t, "-db", ":memory:", "-port=0").Address
	c := harness.Dial(t, address)
	together := endedBefore(t, c, "together", greedy, "all", "all")
	apart := endedBefore(t, c, "apart", greedy, "greedy", "modest")
	t.Logf("when the last of %d flows ended, of %d flows started before them had ended: %d with one fairness key, %d with two", modestFlows, greedy, together, apart)
	if 2*apart > together {
		t.Errorf("%d of %d flows of the greedy tenant ended before %d of the other's, want at most half of the %d with one fairness key", apart, greedy, modestFlows, together)
	}
}

// endedBefore starts the flows of both tenants, then a worker, and returns how many of the greedy tenant's flows have
// ended when those of the modest tenant have.
func endedBefore(t *testing.T, c client.Client, queue string, flows int, greedy, modest string) int {
	t.Helper()
	start := func(name, tenant string) client.WorkflowRun {
		run, err := c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{
			ID: queue + "-" + name, TaskQueue: queue, Priority: temporal.Priority{FairnessKey: tenant},
		}, contract.WorkflowFlow, contract.RunInput{V: contract.Version, Input: "go", Model: "script",
			Flow: contract.FlowRef{Plan: relayFlow()}, Script: harness.Script(t, "default: {say: done, delay: 20ms}")})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	for i := range flows {
		start(fmt.Sprintf("greedy-%d", i), greedy)
	}
	var modestRuns []client.WorkflowRun
	for i := range modestFlows {
		modestRuns = append(modestRuns, start(fmt.Sprintf("modest-%d", i), modest))
	}
	startNarrowWorker(t, c, queue)
	began := time.Now()
	// With one fairness key, the modest tenant's flows wait for all others.
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute+time.Duration(flows)*time.Second)
	defer cancel()
	for _, run := range modestRuns {
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
	t.Logf("%s: the modest tenant's flows took %v", queue, took.Round(time.Millisecond))
	return max(0, int(done.GetCount())-modestFlows)
}

// startNarrowWorker starts a worker that makes two calls at a time.
func startNarrowWorker(t *testing.T, c client.Client, queue string) {
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

// relayFlow returns a flow of three agents in sequence.
func relayFlow() *plan.Flow {
	f := &plan.Flow{Version: plan.Version, Name: "Relay", Dialect: "test",
		Limits: plan.Limits{MaxSteps: 25, MaxStateBytes: 100_000, MaxDepth: 3, FilterBytes: 1000},
		Policy: plan.Policy{ModelSeconds: 60, ToolSeconds: 60, HeartbeatSeconds: 30, RetrySeconds: 600, FirstRetryMillis: 100}}
	previous := plan.Start
	for _, id := range []string{"a", "b", "c"} {
		f.Nodes = append(f.Nodes, plan.Node{ID: id, Name: id, Kind: plan.KindAgent, Exit: id == "c",
			Agent: &plan.Agent{Prompt: id, System: id, MaxCalls: 5, MaxErrors: 3}})
		f.Edges = append(f.Edges, plan.Edge{ID: "to-" + id, From: previous, To: id})
		previous = id
	}
	f.Edges = append(f.Edges, plan.Edge{ID: "out", From: previous, To: plan.End})
	return f
}

// TestTenantDuringAgentBomb runs twenty flows of one step, first alone and then while models of another tenant start
// agents endlessly. It logs how long the flows take, and checks that the default budget limits the started runs.
func TestTenantDuringAgentBomb(t *testing.T) {
	address := harness.ServerAddress(t)
	c := harness.Dial(t, address)
	cfg, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness.Worker{Client: c, Queue: fmt.Sprintf("bomb-%d", time.Now().UnixNano())}
	w := harness.RunWorkerWith(t, c, h.Queue, workflows.Settings{BudgetLimits: cfg.BudgetLimits()}, activities.Deps{})
	t.Cleanup(w.Stop)
	runSmall := func(name string) {
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
		t.Logf("%s: median of twenty flows %v, 95th percentile %v", name, took[9].Round(time.Millisecond), took[18].Round(time.Millisecond))
	}
	runSmall("alone")
	in := bomb(t, "1ms")
	in.V, in.Model, in.Input = contract.Version, "script", "go"
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: h.Queue, Priority: temporal.Priority{FairnessKey: "greedy"}}, contract.WorkflowFlow, in)
	if err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "some runs", func() bool { return countDescendants(t, c, run.GetID(), false) > 20 })
	runSmall("loaded")
	if n := countDescendants(t, c, run.GetID(), false); n > cfg.Budget.Runs {
		t.Errorf("models started %d runs, want at most %d", n, cfg.Budget.Runs)
	} else {
		t.Logf("models started %d runs", n)
	}
	if err := c.TerminateWorkflow(context.Background(), run.GetID(), "", "test"); err != nil {
		t.Log(err)
	}
}
