package observe

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/watch"
)

// fakeRuns puts a fakeRun inside the run that the metrics interceptor measures, and passes it the watcher.
type fakeRuns struct {
	interceptor.InterceptorBase
	interceptor.WorkflowInboundInterceptorBase
	runs *runs
}

func (w *fakeRuns) InterceptWorkflow(ctx workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	m, _ := w.runs.InterceptWorkflow(ctx, next).(*measuredRun)
	m.Next = &fakeRun{interceptor.WorkflowInboundInterceptorBase{Next: m.Next}, m}
	return m
}

// fakeRun reports four executions of a node and two requests to the watcher, without an interpreter.
type fakeRun struct {
	interceptor.WorkflowInboundInterceptorBase
	watcher watch.Watcher
}

func (v *fakeRun) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	for _, end := range []struct {
		yielded bool
		err     error
	}{{}, {err: errors.New("no")}, {err: temporal.NewCanceledError()}, {yielded: true}} {
		_, leave := v.watcher.Enter(ctx, watch.Visit{Node: "n", Kind: "agent", Execution: "n#1"})
		if err := workflow.Sleep(ctx, 2*time.Second); err != nil {
			return nil, err
		}
		leave(ctx, end.yielded, end.err)
	}
	req := contract.Request{ID: "a", Kind: contract.RequestConfirm, OpenedAt: workflow.Now(ctx)}
	v.watcher.Open(ctx, &req)
	if err := workflow.Sleep(ctx, 5*time.Minute); err != nil {
		return nil, err
	}
	v.watcher.Close(ctx, &req, true)
	v.watcher.Open(ctx, &contract.Request{ID: "b", Kind: contract.RequestConfirm, OpenedAt: workflow.Now(ctx)})
	return v.Next.ExecuteWorkflow(ctx, in)
}

func TestRunMetrics(t *testing.T) {
	m, err := NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	during := ""
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&fakeRuns{runs: m.runs}}, DeadlockDetectionTimeout: time.Minute})
	env.SetTestTimeout(4 * time.Minute)
	env.RegisterWorkflowWithOptions(func(workflow.Context) error {
		during = scrape(t, m)
		return nil
	}, workflow.RegisterOptions{Name: "Flow"})
	env.ExecuteWorkflow("Flow")
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	page := scrape(t, m)
	for _, want := range []string{
		`weft_nodes_total{kind="agent",outcome="completed"} 1`, `weft_nodes_total{kind="agent",outcome="failed"} 1`,
		`weft_nodes_total{kind="agent",outcome="cancelled"} 1`, `weft_node_duration_seconds_sum{kind="agent"} 6`,
		`weft_request_wait_seconds_bucket{answered="true",kind="confirm",le="60"} 0`, `weft_request_wait_seconds_sum{answered="true",kind="confirm"} 300`,
		`weft_run_history_bytes_count{workflow_type="Flow"} 1`, `weft_run_history_events_count{workflow_type="Flow"} 1`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("page does not contain %q:\n%s", want, page)
		}
	}
	// The second request counts as waiting while the run is in memory.
	const open = `weft_requests_waiting{kind="confirm",older_than="0"} `
	if !strings.Contains(during, open+"1\n") || !strings.Contains(page, open+"0\n") {
		t.Error("the open request is not counted, or is still counted after its run has closed")
	}
}

func TestRequestsAreCountedByAge(t *testing.T) {
	now := time.Unix(1e9, 0)
	w := &waiting{now: func() time.Time { return now }, open: map[requestID]contract.Request{}}
	for id, age := range map[string]time.Duration{"a": -time.Second, "b": time.Minute, "c": 2 * time.Hour, "d": 48 * time.Hour} {
		w.add(requestID{"run", id}, contract.Request{Kind: contract.RequestConfirm, OpenedAt: now.Add(-age)})
		w.add(requestID{"run", id}, contract.Request{Kind: contract.RequestConfirm, OpenedAt: now.Add(-age)}) // again, by a replay
	}
	w.add(requestID{"other", "a"}, contract.Request{Kind: contract.RequestMessage, OpenedAt: now})
	count := func() map[string]float64 {
		r := prometheus.NewRegistry()
		r.MustRegister(w)
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, m := range families[0].GetMetric() {
			out[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
		}
		return out
	}
	got := count()
	for key, want := range map[string]float64{"confirm 0": 4, "confirm 60": 3, "confirm 600": 2, "confirm 3600": 2, "confirm 86400": 1, "message 0": 1, "message 60": 0, "retry 0": 0} {
		if n, ok := got[key]; !ok || n != want {
			t.Errorf("%s: %v, want %v", key, n, want)
		}
	}
	w.remove(requestID{"run", "c"})
	w.forget("other")
	if got := count(); got["confirm 0"] != 3 || got["message 0"] != 0 {
		t.Errorf("counts after removal = %v", got)
	}
}

func TestCostIsInWholeUnits(t *testing.T) {
	m, err := NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	h := m.Handler().WithTags(map[string]string{"namespace": "n"}).WithTags(map[string]string{"model": "a/b"})
	h.Counter("weft_model_cost").Inc(2_500_000)
	h.Counter("weft_model_cost").Inc(1)
	if page := scrape(t, m); !strings.Contains(page, `weft_model_cost_total{model="a/b",namespace="n"} 2.500001`+"\n") {
		t.Errorf("cost is not in whole units:\n%s", page)
	}
}
