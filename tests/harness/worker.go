package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/worker/host"
	"weft/workflows"
	"weft/workflows/plan"
)

// Signal sends a signal with one argument.
func (h *Worker) Signal(t *testing.T, id, name string, arg any) {
	t.Helper()
	if err := h.Client.SignalWorkflow(context.Background(), id, "", name, arg); err != nil {
		t.Fatal(err)
	}
}

// NewConfirmingWorker starts a worker whose rules require confirmation for sending mail.
func NewConfirmingWorker(t *testing.T) *Worker {
	t.Helper()
	tools, err := tool.Open(tool.Settings{Confirm: map[string]tool.ConfirmRule{"mail": {Tools: []string{"send_*"}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	return newWorker(t, 0, tools)
}

// WaitForRequests waits until a run has open requests and returns them.
func (h *Worker) WaitForRequests(t *testing.T, id string, n int) []contract.Request {
	t.Helper()
	var s contract.Status
	WaitFor(t, fmt.Sprintf("%d requests of %s", n, id), func() bool {
		return h.query(id, contract.QueryStatus, &s) == nil && len(s.Requests) == n
	})
	return s.Requests
}

// query decodes the result of a query into out.
func (h *Worker) query(id, name string, out any) error {
	v, err := h.Client.QueryWorkflow(context.Background(), id, "", name)
	if err != nil {
		return err
	}
	return v.Get(out)
}

// update decodes the result of an Update into out.
func (h *Worker) update(ctx context.Context, id, name string, arg, out any) error {
	u, err := h.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return err
	}
	return u.Get(ctx, out)
}

// Update sends an Update like any client, by name and JSON.
func (h *Worker) Update(t *testing.T, id, name string, answer any) (contract.Receipt, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out contract.Receipt
	err := h.update(ctx, id, name, answer, &out)
	return out, err
}

// Status queries a run's status. It retries a query that times out on a busy machine.
func (h *Worker) Status(t *testing.T, id string) contract.Status {
	t.Helper()
	var s contract.Status
	var err error
	for range 6 {
		err = h.query(id, contract.QueryStatus, &s)
		var timedOut *serviceerror.DeadlineExceeded
		if !errors.As(err, &timedOut) && !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// SealKeys are the keys that seal the permissions of test runs: the key of [programs.SealKeys].
var SealKeys = []contract.SealKey{{ID: "test", Secret: []byte("a key of thirty-two bytes, tests")}}

// Worker is a worker in the test's process, on its own task queue.
type Worker struct {
	Client client.Client
	Queue  string
	Worker worker.Worker
}

// RunWorker starts a worker. With a cache of one byte, every activity queries its run.
func RunWorker(t testing.TB, c client.Client, queue string, cacheBytes int, tools *tool.Tools) worker.Worker {
	t.Helper()
	return RunWorkerWith(t, c, queue, workflows.Settings{}, activities.Deps{Tools: tools, CacheBytes: cacheBytes})
}

// RunWorkerWith starts a worker with settings and additional dependencies. wrap wraps the activities before they
// are registered.
func RunWorkerWith(t testing.TB, c client.Client, queue string, settings workflows.Settings, deps activities.Deps,
	wrap ...func(worker.ActivityRegistry) worker.ActivityRegistry) worker.Worker {
	t.Helper()
	deps.Models = modelsOrScripted(t, deps.Models)
	pollers := worker.NewPollerBehaviorSimpleMaximum(worker.PollerBehaviorSimpleMaximumOptions{MaximumNumberOfPollers: 8})
	w := worker.New(c, queue, worker.Options{StickyScheduleToStartTimeout: 2 * time.Second, MaxHeartbeatThrottleInterval: 300 * time.Millisecond,
		DeadlockDetectionTimeout: time.Minute, // machines may be busy
		WorkerStopTimeout:        10 * time.Second, WorkflowTaskPollerBehavior: pollers, ActivityTaskPollerBehavior: pollers})
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

// modelsOrScripted returns models, or the scripted model if there are none.
func modelsOrScripted(t testing.TB, models *llm.Models) *llm.Models {
	t.Helper()
	if models != nil {
		return models
	}
	models, err := llm.Open(llm.Settings{Default: "script"})
	if err != nil {
		t.Fatal(err)
	}
	return models
}

// NewWorker starts a worker on its own task queue.
func NewWorker(t testing.TB, cacheBytes int) *Worker {
	t.Helper()
	return newWorker(t, cacheBytes, nil)
}

func newWorker(t testing.TB, cacheBytes int, tools *tool.Tools) *Worker {
	t.Helper()
	h := &Worker{Client: Dial(t, ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.Worker = RunWorker(t, h.Client, h.Queue, cacheBytes, tools)
	t.Cleanup(h.Worker.Stop)
	return h
}

// Start starts a run. It raises the heartbeat timeout of a flow with the default policy, because machines may be busy.
func (h *Worker) Start(t testing.TB, in contract.RunInput) client.WorkflowRun {
	t.Helper()
	in.V = contract.Version
	if in.Flow.Plan != nil {
		flows := append([]plan.Flow{*in.Flow.Plan}, in.Flow.Plan.Agents...)
		for i := range flows {
			if p := &flows[i].Policy; p.HeartbeatSeconds == plan.DefaultPolicy.HeartbeatSeconds {
				p.HeartbeatSeconds = 20
			}
		}
		flows[0].Agents = flows[1:]
		in.Flow.Plan = &flows[0]
	}
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

// StartSession starts a session of an agent with the prompt "one".
func (h *Worker) StartSession(t *testing.T, f *plan.Flow, text string, maxEvents int) client.WorkflowRun {
	t.Helper()
	return h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Params: json.RawMessage(`{"prompt":"one"}`), Session: true,
		Script: Script(t, text), MaxEvents: maxEvents})
}

// Prompt sends a prompt to a session and waits for its turn. If the session continues as new, it sends
// the same prompt again.
func (h *Worker) Prompt(t *testing.T, id, key, prompt string, images ...contract.Media) contract.Turn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		var out contract.Turn
		err := h.update(ctx, id, contract.UpdatePrompt, contract.PromptInput{ID: key, Prompt: prompt, Media: images}, &out)
		var notFound *serviceerror.NotFound
		if errors.As(err, &notFound) {
			// The parent session is continuing as new, and so is this one.
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatalf("prompt %s: %v", key, err)
		}
		if out.Done() {
			return out
		}
	}
	t.Fatalf("turn %s did not end", key)
	return contract.Turn{}
}

// WaitForTurns waits until a session has the number of completed turns.
func (h *Worker) WaitForTurns(t *testing.T, id string, n int) []contract.Turn {
	t.Helper()
	var out []contract.Turn
	WaitFor(t, fmt.Sprintf("%d turns of %s", n, id), func() bool {
		out = nil
		return h.query(id, contract.QueryTurns, &out) == nil && len(out) >= n && out[len(out)-1].Done()
	})
	return out
}

// CloseSession closes a session by Update and returns its result.
func (h *Worker) CloseSession(t *testing.T, run client.WorkflowRun) *contract.RunResult {
	t.Helper()
	if _, err := h.Update(t, run.GetID(), contract.UpdateCloseSession, map[string]any{"reason": "enough"}); err != nil {
		t.Fatal(err)
	}
	out, err := Result(t, run)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// AgentFlow is a flow of one agent that accepts a prompt.
func AgentFlow(name string, starts ...plan.Startable) *plan.Flow {
	a := &plan.Agent{System: name, Prompt: name, MaxCalls: 50, MaxErrors: 5, Starts: starts}
	if starts != nil {
		a.Builtins = plan.SessionTools
	}
	return &plan.Flow{Version: plan.Version, ID: name, Name: name, Dialect: "blueprint", Inputs: &plan.Inputs{Mode: plan.InputsMerged},
		Nodes:  []plan.Node{{ID: name, Name: name, Kind: plan.KindAgent, Exit: true, Agent: a}},
		Edges:  []plan.Edge{{ID: "in", From: plan.Start, To: name}, {ID: "out", From: name, To: plan.End}},
		Limits: plan.DefaultLimits, Policy: plan.DefaultPolicy}
}

// Orchestrator is an agent "boss" that may start "helper", and that agent.
func Orchestrator() *plan.Flow {
	helper := plan.Startable{Agent: "helper", Type: "autonomous", Tags: []string{"external"}}
	f := AgentFlow("boss", helper, plan.Startable{Agent: "lead", Type: "autonomous", Hidden: true})
	f.Agents = []plan.Flow{*AgentFlow("helper"), *AgentFlow("lead", helper)}
	return f
}
