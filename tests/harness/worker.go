package harness

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/worker/host"
	"weft/workflows"
)

// Signal sends a signal with one argument.
func (h *Worker) Signal(t *testing.T, id, name string, arg any) {
	t.Helper()
	if err := h.Client.SignalWorkflow(context.Background(), id, "", name, arg); err != nil {
		t.Fatal(err)
	}
}

// NewConfirmingWorker starts a worker whose rules want a yes for sending mail.
func NewConfirmingWorker(t *testing.T) *Worker {
	t.Helper()
	tools, err := tool.Open(tool.Settings{Confirm: map[string]tool.ConfirmRule{"mail": {Tools: []string{"send_*"}}}})
	if err != nil {
		t.Fatal(err)
	}
	h := &Worker{Client: Dial(t, ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.Worker = RunWorker(t, h.Client, h.Queue, 0, tools)
	t.Cleanup(func() { h.Worker.Stop(); tools.Close() })
	return h
}

// OpenRequests waits for a run's open requests.
func (h *Worker) OpenRequests(t *testing.T, id string, n int) []contract.Request {
	t.Helper()
	var s contract.Status
	WaitFor(t, fmt.Sprintf("%d requests of %s", n, id), func() bool {
		v, err := h.Client.QueryWorkflow(context.Background(), id, "", contract.QueryStatus)
		if err != nil || v.Get(&s) != nil {
			return false
		}
		return len(s.Requests) == n
	})
	return s.Requests
}

// Update answers, as any client does: by name and JSON.
func (h *Worker) Update(t *testing.T, id, name string, answer any) (contract.Receipt, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out contract.Receipt
	u, err := h.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: []any{answer}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return out, err
	}
	return out, u.Get(ctx, &out)
}

// Status queries a run's status. A query that a busy machine does not answer in time is sent again.
func (h *Worker) Status(t *testing.T, id string) contract.Status {
	t.Helper()
	var s contract.Status
	var err error
	for range 6 {
		var v converter.EncodedValue
		if v, err = h.Client.QueryWorkflow(context.Background(), id, "", contract.QueryStatus); err == nil {
			err = v.Get(&s)
		}
		var late *serviceerror.DeadlineExceeded
		if !errors.As(err, &late) && !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// SealKeys seal what the runs of tests may reach: the key of [programs.SealKeys].
var SealKeys = []contract.SealKey{{ID: "test", Secret: []byte("a key of thirty-two bytes, tests")}}

// Worker is a worker in the test's own process, on a task queue of its own.
type Worker struct {
	Client client.Client
	Queue  string
	Worker worker.Worker
}

// RunWorker starts a worker. A cache of one byte makes every activity ask its run.
func RunWorker(t testing.TB, c client.Client, queue string, cacheBytes int, tools *tool.Tools) worker.Worker {
	t.Helper()
	return RunWorkerWith(t, c, queue, workflows.Settings{}, activities.Deps{Tools: tools, CacheBytes: cacheBytes})
}

// RunWorkerWith starts a worker with settings; deps are besides what all have. wrap stands between the
// activities and the worker.
func RunWorkerWith(t testing.TB, c client.Client, queue string, settings workflows.Settings, deps activities.Deps,
	wrap ...func(worker.ActivityRegistry) worker.ActivityRegistry) worker.Worker {
	t.Helper()
	if deps.Models == nil {
		models, err := llm.Open(llm.Settings{Default: "script"})
		if err != nil {
			t.Fatal(err)
		}
		deps.Models = models
	}
	w := worker.New(c, queue, worker.Options{StickyScheduleToStartTimeout: 2 * time.Second, MaxHeartbeatThrottleInterval: time.Second,
		DeadlockDetectionTimeout: time.Minute, // machines are busy
		WorkerStopTimeout:        10 * time.Second, WorkflowTaskPollerBehavior: worker.NewPollerBehaviorSimpleMaximum(worker.PollerBehaviorSimpleMaximumOptions{MaximumNumberOfPollers: 8}),
		ActivityTaskPollerBehavior: worker.NewPollerBehaviorSimpleMaximum(worker.PollerBehaviorSimpleMaximumOptions{MaximumNumberOfPollers: 8})})
	settings.Keys, settings.Scripts, settings.Models, deps.Keys = SealKeys, true, deps.Models, SealKeys
	settings.Register(w)
	deps.Source, deps.Compile, deps.Begin, deps.Attributes = activities.NewClientSource(c), Compile, host.Begin, activities.NewAttributes(c)
	var registry worker.ActivityRegistry = w
	for _, in := range wrap {
		registry = in(registry)
	}
	activities.New(deps).Register(registry)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// NewWorker starts one worker on a queue of its own.
func NewWorker(t testing.TB, cacheBytes int) *Worker {
	t.Helper()
	h := &Worker{Client: Dial(t, ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.Worker = RunWorker(t, h.Client, h.Queue, cacheBytes, nil)
	t.Cleanup(h.Worker.Stop)
	return h
}

// Start starts a run.
func (h *Worker) Start(t testing.TB, in contract.RunInput) client.WorkflowRun {
	t.Helper()
	in.V = contract.Version
	if in.Model == "" {
		in.Model = "script"
	}
	run, err := h.Client.ExecuteWorkflow(context.Background(),
		client.StartWorkflowOptions{TaskQueue: h.Queue, ID: fmt.Sprintf("run-%d", time.Now().UnixNano())}, contract.WorkflowFlow, in)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// Compile compiles a document.
func Compile(f contract.FlowRef) (*contract.CompileFlowResult, error) { return CompileWith()(f) }

// CompileWith compiles documents for a worker with functions.
func CompileWith(functions ...tool.Function) func(contract.FlowRef) (*contract.CompileFlowResult, error) {
	return func(f contract.FlowRef) (*contract.CompileFlowResult, error) {
		o := specadapter.Options{Dialect: f.Dialect, Profile: f.Profile, Host: source.Host{UnboundTools: map[string]bool{}}}
		for _, fn := range functions {
			o.UnboundTools[fn.Name()] = true
		}
		res, diags := specadapter.Load(f.Name, []byte(f.Text), o)
		if res == nil {
			fail := &contract.Failure{Class: contract.ClassInvalidFlow, Text: "the document has errors"}
			for _, d := range diags {
				fail.Diagnostics = append(fail.Diagnostics, d.String())
			}
			return nil, fail
		}
		hash, err := res.Flow.Hash()
		return &contract.CompileFlowResult{Plan: res.Flow, Source: res.Source, Hash: hash}, err
	}
}
