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

// TestReplayReportsNothing checks that recorded histories replay with all interceptors, and that a replay creates no
// spans and no metrics of nodes, histories and requests.
func TestReplayReportsNothing(t *testing.T) {
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
	counter := &visitCounter{}
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true, // test machines are slow
		Interceptors: []interceptor.WorkerInterceptor{m.runs, traces, counter}})
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
	if counter.n == 0 {
		t.Error("no node was entered in any replay")
	}
	if spans := exp.GetSpans(); len(spans) > 0 {
		t.Errorf("replays created %d spans, the first is %s", len(spans), spans[0].Name)
	}
	page := scrape(t, m)
	for _, name := range []string{"weft_nodes_total{", "weft_node_duration_seconds_count{", "weft_run_history_bytes_count{", "weft_request_wait_seconds_count{"} {
		if strings.Contains(page, name) {
			t.Errorf("%s counts replays:\n%s", name, page)
		}
	}
	if strings.Contains(page, "weft_requests_waiting{") && len(m.runs.waiting.open) > 0 {
		t.Errorf("requests of evicted runs are still counted: %v", m.runs.waiting.open)
	}
}

// visitCounter is an interceptor that counts the nodes that runs enter.
type visitCounter struct {
	interceptor.InterceptorBase
	n int
}

func (v *visitCounter) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &countedRun{interceptor.WorkflowInboundInterceptorBase{Next: next}, v}
}

type countedRun struct {
	interceptor.WorkflowInboundInterceptorBase
	counter *visitCounter
}

func (c *countedRun) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	return c.Next.ExecuteWorkflow(watch.With(ctx, c), in)
}

func (c *countedRun) Enter(ctx workflow.Context, _ watch.Visit) (workflow.Context, func(workflow.Context, bool, error)) {
	c.counter.n++
	return ctx, func(workflow.Context, bool, error) {}
}

func (c *countedRun) Open(workflow.Context, *contract.Request) {}

func (c *countedRun) Close(workflow.Context, *contract.Request, bool) {}
