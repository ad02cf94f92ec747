package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/worker/codec"
	"weft/worker/host"
	"weft/worker/store"
	"weft/workflows"
	"weft/workflows/plan"
)

// storeEnv is a store in a temporary directory, for the workers and clients of a test.
type storeEnv struct {
	settings       store.Settings
	address, queue string
	model          string
	// cache and tools are passed to [activities.Deps].
	cache int
	tools *tool.Tools
}

func newStoreEnv(t *testing.T) *storeEnv {
	return &storeEnv{settings: store.Settings{Dir: filepath.Join(t.TempDir(), "store"), Threshold: store.DefaultThreshold, MaxPayload: store.DefaultMaxPayload},
		address: harness.ServerAddress(t), queue: fmt.Sprintf("storeEnv-%d", time.Now().UnixNano())}
}

// dial connects a client that uses the store.
func (v *storeEnv) dial(t *testing.T) client.Client {
	t.Helper()
	s, err := store.Open(v.settings)
	if err != nil {
		t.Fatal(err)
	}
	o := harness.Options(v.address)
	s.Apply(&o)
	c, err := client.Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	plain, err := codec.Open(codec.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return plain.Reader(c, s.Fetch, func(err error) { t.Log(err) })
}

// startWorker starts a worker for workflows, activities or both.
func (v *storeEnv) startWorker(t *testing.T, flows, calls bool) worker.Worker {
	t.Helper()
	w := v.newWorker(t, flows, calls)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// newWorker creates a worker without starting it.
func (v *storeEnv) newWorker(t *testing.T, flows, calls bool) worker.Worker {
	t.Helper()
	s, err := store.Open(v.settings)
	if err != nil {
		t.Fatal(err)
	}
	o := harness.Options(v.address)
	s.Apply(&o)
	c, err := client.Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	models, err := llm.Open(llm.Settings{Default: "script", Providers: map[string]llm.ProviderSettings{"large": {Kind: "compatible", BaseURL: v.model}}})
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(c, v.queue, worker.Options{StickyScheduleToStartTimeout: time.Second, MaxHeartbeatThrottleInterval: time.Second,
		DisableWorkflowWorker: !flows, LocalActivityWorkerOnly: !calls, DeadlockDetectionTimeout: time.Minute})
	if flows {
		workflows.Settings{MaxPayload: v.settings.PayloadLimit(), Scripts: true}.Register(w)
	}
	activities.New(activities.Deps{Models: models, Source: activities.NewClientSource(c), Compile: harness.Compile, Begin: host.Begin, MaxPayload: v.settings.PayloadLimit(), CacheBytes: v.cache, Tools: v.tools}).Register(w)
	return w
}

// start starts a run with a client.
func (v *storeEnv) start(t *testing.T, c client.Client, in contract.RunInput) client.WorkflowRun {
	t.Helper()
	in.V = contract.Version
	if in.Model == "" {
		in.Model = "script"
	}
	run, err := c.ExecuteWorkflow(context.Background(),
		client.StartWorkflowOptions{TaskQueue: v.queue, ID: fmt.Sprintf("storeEnv-%d", time.Now().UnixNano())}, contract.WorkflowFlow, in)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// files lists the files of the payloads in the store.
func (v *storeEnv) files(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(v.settings.Dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && len(e.Name()) == 64 {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// largeModel returns the URL of a model that responds with n bytes to nodes whose prompt is b1, b2 and so on, and to join
// with the number of their responses that the request contains in full.
func largeModel(t *testing.T, n int) string { return blockingLargeModel(t, n, func(string) {}) }

// blockingLargeModel is like largeModel, but calls wait before each response to a node.
func blockingLargeModel(t *testing.T, n int, wait func(node string)) string {
	response := func(node string) string { return "<" + node + ">" + strings.Repeat("w", n) + "</" + node + ">" }
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		node, text := in.Messages[0].Content, ""
		for _, m := range in.Messages[1:] {
			text += m.Content
		}
		reply := response(node)
		if node == "join" {
			complete := 0
			for i := 1; strings.Contains(text, response(fmt.Sprint("b", i))); i++ {
				complete++
			}
			reply = fmt.Sprintf("%d answers", complete)
		}
		wait(node)
		raw, _ := json.Marshal(map[string]any{"model": "m", "choices": []any{map[string]any{"delta": map[string]any{"content": reply}, "finish_reason": "stop"}}})
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", raw)
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// TestEndToEndStoreWideJoin runs 200 branches that return 200 KB each. It checks that the join gets all of it, and that
// the history does not contain it.
func TestEndToEndStoreWideJoin(t *testing.T) {
	t.Parallel()
	const branches, bytes = 200, 200_000
	v := newStoreEnv(t)
	v.model = largeModel(t, bytes)
	v.startWorker(t, true, true)
	names := make([]string, branches)
	for i := range names {
		names[i] = fmt.Sprint("b", i+1)
	}
	c := v.dial(t)
	flow := harness.FanIn("wide", names...)
	for i := range flow.Nodes {
		flow.Nodes[i].Agent.Builtins = nil
	}
	run := v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: flow}, Model: "large/m"})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the machine may be busy
	defer cancel()
	var out contract.RunResult
	if err := run.Get(ctx, &out); err != nil {
		t.Fatal(err)
	}
	if out.ResultText == nil || *out.ResultText != fmt.Sprint(branches, " answers") || out.Usage.Calls != branches+1 {
		t.Errorf("result = %v after %d calls", out.ResultText, out.Usage.Calls)
	}
	if n := historyBytes(t, c, run.GetID(), run.GetRunID()); n > 4<<20 {
		t.Errorf("history has %d bytes", n)
	}
	if n := len(v.files(t)); n < branches {
		t.Errorf("store has %d payloads, want at least %d", n, branches)
	}
	// A client without the store can read results.
	plain := harness.Dial(t, v.address)
	out = contract.RunResult{}
	if err := plain.GetWorkflow(ctx, run.GetID(), "").Get(ctx, &out); err != nil || *out.ResultText != fmt.Sprint(branches, " answers") {
		t.Errorf("without the store, result = %+v, %v", out, err)
	}
}

// TestEndToEndStoreLargeAnswers has a node whose model response exceeds Temporal's limit, and checks that it is
// available to later nodes, continued runs and queries.
func TestEndToEndStoreLargeAnswers(t *testing.T) {
	t.Parallel()
	const bytes = 5_000_000
	v := newStoreEnv(t)
	v.model = largeModel(t, bytes)
	v.startWorker(t, true, true)
	c := v.dial(t)
	plain := harness.Dial(t, v.address)
	chain := harness.GraphPlan("chain", []harness.GraphNode{{ID: "b1"}, {ID: "between"}, {ID: "join", Exit: true}},
		[]harness.GraphEdge{{Source: plan.Start, Target: "b1"}, {Source: "b1", Target: "between"}, {Source: "between", Target: "join"}, {Source: "join", Target: plan.End}})
	for _, events := range []int{0, 1} {
		t.Run(fmt.Sprintf("max events %d", events), func(t *testing.T) {
			run := v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: chain}, Model: "large/m", MaxEvents: events})
			out, err := harness.Result(t, run)
			if err != nil {
				t.Fatal(err)
			}
			if *out.ResultText != "1 answers" {
				t.Errorf("result = %q", *out.ResultText)
			}
			if n := harness.RunCount(t, c, run); events == 1 && n < 3 {
				t.Errorf("%d runs, want at least 3", n)
			}
			v.checkReplay(t, run)
			if events == 1 {
				return
			}
			// Results of queries are readable without the store, even if a message exceeds the limit of
			// a result.
			var page contract.TranscriptPage
			q, err := plain.QueryWorkflow(context.Background(), run.GetID(), run.GetRunID(), contract.QueryTranscript, contract.TranscriptQuery{Thread: "b1#1", From: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Get(&page); err != nil || len(page.Messages) != 1 || len(page.Long) != 1 || page.Long[0].Bytes < bytes {
				t.Fatalf("page = %.500s, %v", fmt.Sprint(page), err)
			}
			m, err := contract.DecodeMessage(page.Messages[0])
			if err != nil || m.Role != contract.RoleAssistant || len(m.Parts) != 1 || m.Parts[0].Ref.SHA != page.Long[0].SHA {
				t.Errorf("long message = %s, %v", page.Messages[0], err)
			}
			var raw []byte
			for total := 1; len(raw) < total; {
				var piece contract.ContentPage
				q, err := plain.QueryWorkflow(context.Background(), run.GetID(), run.GetRunID(), contract.QueryContent, contract.ContentQuery{SHA: page.Long[0].SHA, Offset: len(raw)})
				if err != nil {
					t.Fatal(err)
				}
				if err := q.Get(&piece); err != nil || len(piece.Data) == 0 {
					t.Fatalf("piece at %d of %d: %v", len(raw), total, err)
				}
				raw, total = append(raw, piece.Data...), piece.Total
			}
			if contract.SHA(raw) != page.Long[0].SHA {
				t.Error("the pieces do not add up to the message")
			}
		})
	}
	t.Run("large result", func(t *testing.T) {
		run := v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: harness.GraphPlan("one", []harness.GraphNode{{ID: "b1", Exit: true}},
			[]harness.GraphEdge{{Source: plan.Start, Target: "b1"}, {Source: "b1", Target: plan.End}})}, Model: "large/m"})
		out, err := harness.Result(t, run)
		if err != nil || len(*out.ResultText) < bytes {
			t.Fatalf("result = %.200s, %v", fmt.Sprint(out), err)
		}
		if len(out.ExitOutputs) != 1 || out.ExitOutputs[0].OmittedBytes < bytes {
			t.Errorf("exit outputs = %.200s", fmt.Sprint(out.ExitOutputs))
		}
	})
}

// TestEndToEndStoreColdWorker has a worker with an empty cache query the run for a message that exceeds the limit of a
// query result.
func TestEndToEndStoreColdWorker(t *testing.T) {
	t.Parallel()
	v := newStoreEnv(t)
	v.model, v.cache = largeModel(t, 2_500_000), 1
	v.startWorker(t, true, true)
	f := harness.OneAgent()
	f.Nodes[0].Agent.Builtins = plan.Builtins
	// The first response has a tool call and 2.5 MB of text, so that the next call of the same thread
	// includes that text.
	run := v.start(t, v.dial(t), contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: harness.Script(t, fmt.Sprintf(`rules:
- {turn: 1, call: [{tool: list_state_keys}], say: "%s"}
- {contains: "%s", say: read}
- {say: not read}`, strings.Repeat("w", 2_500_000), strings.Repeat("w", 100_000)))})
	out, err := harness.Result(t, run)
	if err != nil || *out.ResultText != "read" {
		t.Errorf("result = %.300s, %v", fmt.Sprint(out), err)
	}
}

// startUntilStored starts a flow with one model call and stops its workers when the response of 300 KB is in the store
// and the call has completed, but the run has not processed it.
func (v *storeEnv) startUntilStored(t *testing.T, c client.Client) client.WorkflowRun {
	t.Helper()
	respond := make(chan struct{})
	v.model = blockingLargeModel(t, 300_000, func(string) { <-respond })
	release := sync.OnceFunc(func() { close(respond) })
	t.Cleanup(release)
	flowWorker, callWorker := v.startWorker(t, true, false), v.startWorker(t, false, true)
	run := v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: harness.OneAgent()}, Model: "large/m"})
	v.waitEvent(t, c, run, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
	flowWorker.Stop()
	release()
	v.waitEvent(t, c, run, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
	callWorker.Stop()
	if n := len(v.files(t)); n != 1 {
		t.Fatalf("store has %d payloads, want 1", n)
	}
	return run
}

// checkReplay replays a run and those that it continues, with the store, but with settings that start new runs without
// one: whether a run uses a store is part of its history.
func (v *storeEnv) checkReplay(t *testing.T, run client.WorkflowRun) {
	t.Helper()
	s, err := store.Open(v.settings)
	if err != nil {
		t.Fatal(err)
	}
	var o client.Options
	s.Apply(&o)
	for id := run.GetRunID(); id != ""; {
		r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DataConverter: o.DataConverter, FailureConverter: o.FailureConverter, ExternalStorage: o.ExternalStorage,
			DisableDeadlockDetection: true}) // the machine may be busy
		if err != nil {
			t.Fatal(err)
		}
		workflows.Register(r)
		events := harness.Events(t, harness.Dial(t, v.address), run.GetID(), id)
		if err := r.ReplayWorkflowHistoryWithOptions(harness.NoLog, &historypb.History{Events: events},
			worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: run.GetID(), RunID: id}}); err != nil {
			t.Errorf("replay of run %s: %v", id, err)
		}
		id = events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
	}
}

// waitEvent waits for the first event of a type in the history of a run, and returns it.
func (v *storeEnv) waitEvent(t *testing.T, c client.Client, run client.WorkflowRun, kind enumspb.EventType) *historypb.HistoryEvent {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, e := range harness.Events(t, c, run.GetID(), run.GetRunID()) {
			if e.GetEventType() == kind {
				return e
			}
		}
	}
	t.Fatalf("no %s in the history", kind)
	return nil
}

// TestEndToEndStorePayloadLost removes or damages payloads before they are read. It checks that the run fails as
// payload_lost, and that no task is retried forever.
func TestEndToEndStorePayloadLost(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		damage func(file string) error
		want   string
	}{
		"missing":   {os.Remove, "is no longer in directory "},
		"damaged":   {func(file string) error { return os.WriteFile(file, []byte("something else"), 0o600) }, "is corrupt in directory "},
		"truncated": {func(file string) error { return os.Truncate(file, 100) }, "its 100 bytes have a different SHA-256"},
	}
	for name, tc := range tests {
		damage := func(t *testing.T, v *storeEnv) {
			t.Helper()
			for _, file := range v.files(t) {
				if err := tc.damage(file); err != nil {
					t.Fatal(err)
				}
			}
		}
		check := func(t *testing.T, v *storeEnv, run client.WorkflowRun) {
			t.Helper()
			_, err := harness.Result(t, run)
			f := contract.FailureOf(err)
			if f == nil || f.Class != contract.ClassPayloadLost || !strings.Contains(f.Text, tc.want) || !strings.Contains(f.Text, v.settings.Dir) || f.Remedy == "" {
				t.Errorf("run ended with %v", err)
			}
			for _, e := range harness.Events(t, harness.Dial(t, v.address), run.GetID(), run.GetRunID()) {
				if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED {
					t.Errorf("a workflow task failed: %s", e.GetWorkflowTaskFailedEventAttributes().GetFailure().GetMessage())
				}
			}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("result", func(t *testing.T) {
				t.Parallel()
				v := newStoreEnv(t)
				run := v.startUntilStored(t, v.dial(t))
				damage(t, v)
				v.startWorker(t, true, true)
				check(t, v, run)
			})
			t.Run("input", func(t *testing.T) {
				t.Parallel()
				v := newStoreEnv(t)
				run := v.start(t, v.dial(t), contract.RunInput{Flow: contract.FlowRef{Plan: harness.OneAgent()}, Input: strings.Repeat("long ", 500_000)})
				damage(t, v)
				v.startWorker(t, true, true)
				check(t, v, run)
			})
		})
	}
}

// TestEndToEndStoreUnavailable has workers that cannot read the store. It checks that their workflow tasks fail with
// what is missing, and that the run continues when the store is available.
func TestEndToEndStoreUnavailable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// setup creates a worker that cannot read the store. The returned function restores the settings.
		setup func(t *testing.T, v *storeEnv) (w worker.Worker, restore func())
		want  string
	}{
		"an unmounted directory": {func(t *testing.T, v *storeEnv) (worker.Worker, func()) {
			dir, w := v.settings.Dir, v.newWorker(t, true, false)
			if err := os.Rename(dir, dir+".away"); err != nil {
				t.Fatal(err)
			}
			return w, func() { _ = os.Rename(dir+".away", dir) }
		}, "has no store.id: is it mounted?"},
		"a different store": {func(t *testing.T, v *storeEnv) (worker.Worker, func()) {
			dir := v.settings.Dir
			v.settings.Dir = filepath.Join(t.TempDir(), "other")
			return v.newWorker(t, true, false), func() { v.settings.Dir = dir }
		}, "is in the store"},
		"no store": {func(t *testing.T, v *storeEnv) (worker.Worker, func()) {
			settings := v.settings
			v.settings = store.Settings{}
			return v.newWorker(t, true, false), func() { v.settings = settings }
		}, "this process has no store; set store.dir (WEFT_STORE_DIR)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newStoreEnv(t)
			c := v.dial(t)
			run := v.startUntilStored(t, c)
			w, restore := tc.setup(t, v)
			if err := w.Start(); err != nil {
				t.Fatal(err)
			}
			failed := v.waitEvent(t, harness.Dial(t, v.address), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED).GetWorkflowTaskFailedEventAttributes().GetFailure()
			if !strings.Contains(failed.GetMessage(), tc.want) || failed.GetApplicationFailureInfo().GetType() != contract.ClassUnavailable {
				t.Errorf("workflow task failed with %v", failed)
			}
			t.Logf("workflow task failed with: %s", failed.GetMessage())
			w.Stop()
			restore()
			v.startWorker(t, true, true)
			out, err := harness.Result(t, run)
			if err != nil || len(*out.ResultText) < 300_000 {
				t.Errorf("result = %.300s, %v", fmt.Sprint(out), err)
			}
		})
	}
}
