package observe

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows"
	"weft/workflows/limiter"
	"weft/workflows/watch"
)

// Recorded runs, whatever they do, are told of by nobody again: a replay has no spans, no ends
// of nodes and no histories. They replay with all interceptors as without.
func TestReplaysTellNothing(t *testing.T) {
	files, err := filepath.Glob("../../tests/testdata/history/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	m, err := NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	exp := tracetest.NewInMemoryExporter()
	traces, _ := newTraces(sdktrace.WithSyncer(exp)).Interceptor().(interceptor.WorkerInterceptor)
	seen := &visits{}
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true, // machines are busy
		Interceptors: []interceptor.WorkerInterceptor{m.runs, traces, seen}})
	if err != nil {
		t.Fatal(err)
	}
	workflows.Register(replayer)
	limiter.Register(replayer)
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		history, err := client.HistoryFromJSON(bytes.NewReader(raw), client.HistoryJSONOptions{})
		if err != nil {
			t.Fatal(err)
		}
		first := history.Events[0].GetWorkflowExecutionStartedEventAttributes()
		if err := replayer.ReplayWorkflowHistoryWithOptions(quiet, history, worker.ReplayWorkflowHistoryOptions{
			OriginalExecution: workflow.Execution{ID: first.GetWorkflowId(), RunID: first.GetOriginalExecutionRunId()}}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if seen.n == 0 {
		t.Error("no replayed run has run a node")
	}
	if spans := exp.GetSpans(); len(spans) > 0 {
		t.Errorf("%d spans are told again, one of them %s", len(spans), spans[0].Name)
	}
	page := scrape(t, m)
	for _, name := range []string{"weft_nodes_total{", "weft_node_duration_seconds_count{", "weft_run_history_bytes_count{", "weft_request_wait_seconds_count{"} {
		if strings.Contains(page, name) {
			t.Errorf("%s counts what was replayed:\n%s", name, page)
		}
	}
	if strings.Contains(page, "weft_requests_waiting{") && len(m.runs.waiting.open) > 0 {
		t.Errorf("requests of runs that are not in memory are open: %v", m.runs.waiting.open)
	}
}

// visits counts what watchers are told.
type visits struct {
	interceptor.InterceptorBase
	n int
}

func (v *visits) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &counted{interceptor.WorkflowInboundInterceptorBase{Next: next}, v}
}

type counted struct {
	interceptor.WorkflowInboundInterceptorBase
	visits *visits
}

func (c *counted) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	return c.Next.ExecuteWorkflow(watch.With(ctx, c), in)
}

func (c *counted) Enter(ctx workflow.Context, _ watch.Visit) (workflow.Context, func(workflow.Context, bool, error)) {
	c.visits.n++
	return ctx, func(workflow.Context, bool, error) {}
}

func (c *counted) Open(workflow.Context, *contract.Request) {}

func (c *counted) Close(workflow.Context, *contract.Request, bool) {}
