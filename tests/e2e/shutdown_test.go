package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
)

// blockingModel is a model that responds when free is closed. It records the idempotency keys of its calls.
type blockingModel struct {
	*httptest.Server
	free chan struct{}
	mu   sync.Mutex
	keys []string
}

func newBlockingModel(t *testing.T) *blockingModel {
	t.Helper()
	m := &blockingModel{free: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		m.mu.Lock()
		m.keys = append(m.keys, r.Header.Get("Idempotency-Key"))
		m.mu.Unlock()
		select {
		case <-m.free:
			fmt.Fprint(w, `{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"done"}}]}`)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *blockingModel) calls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.keys)
}

// TestEndToEndWorkerShutdown sends SIGTERM to a worker process during a model call. It checks that a call that
// completes within the stop timeout is made once, that a longer one is interrupted and retried with the same
// idempotency key by another worker, and that the process exits with status 0 in both cases.
func TestEndToEndWorkerShutdown(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "-db", ":memory:", "-port=0")
	c := harness.Dial(t, s.Address)
	for name, stopTimeout := range map[string]string{"in time": "10m", "too long": "1s"} {
		t.Run(name, func(t *testing.T) {
			model := newBlockingModel(t)
			queue := "stop-" + stopTimeout
			settings := []string{"WEFT_TASK_QUEUE=" + queue, "WEFT_WORKER_STOP_TIMEOUT=" + stopTimeout, "WEFT_PROVIDERS_FAKE_KIND=compatible",
				"WEFT_PROVIDERS_FAKE_STREAM=false", "WEFT_PROVIDERS_FAKE_BASE_URL=" + model.URL, "WEFT_TIMEOUTS_HEARTBEAT=60s"} // the machine may be busy
			first := harness.StartWorker(t, s.Address, settings...)
			h := &harness.Worker{Client: c, Queue: queue}
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"}, Model: "fake/m", Input: "go"})
			harness.WaitFor(t, "the call", func() bool { return len(model.calls()) == 1 })
			if err := first.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if name == "in time" {
				close(model.free)
			}
			if err := first.Wait(); err != nil {
				t.Errorf("worker exited: %v", err)
			}
			harness.StartWorker(t, s.Address, settings...)
			if name == "too long" {
				harness.WaitFor(t, "the second call", func() bool { return len(model.calls()) == 2 })
				close(model.free)
			}
			out, err := harness.Result(t, run)
			if err != nil || *out.ResultText != "done" || out.Usage.Calls != 1 {
				t.Fatalf("result = %+v, %v", out, err)
			}
			for _, e := range harness.Events(t, c, run.GetID(), run.GetRunID()) {
				s := e.GetActivityTaskStartedEventAttributes()
				if name == "too long" && s.GetAttempt() > 1 && !strings.Contains(s.GetLastFailure().GetMessage(), "the worker is stopping") {
					t.Errorf("first attempt failed with %v", s.GetLastFailure())
				}
			}
			keys := model.calls()
			if want := map[string]int{"in time": 1, "too long": 2}[name]; len(keys) != want || keys[0] == "" || keys[0] != keys[len(keys)-1] {
				t.Errorf("idempotency keys = %q, want %d equal ones", keys, want)
			}
		})
	}
}

// TestEndToEndTerminatedBranch terminates a branch while its node waits for an operator. It checks that the request is
// closed, and that the run fails as cancelled instead of waiting forever.
func TestEndToEndTerminatedBranch(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: harness.WithChildBranches(harness.FanIn("two", "a", "b"))},
		Script: harness.Script(t, `rules: [{node: a, fail: {class: denied, text: no key}}, {say: ok}]`)})
	q := h.WaitForRequests(t, run.GetID(), 1)[0]
	if q.Run.Workflow == run.GetID() || q.Node != "a" {
		t.Fatalf("open request = %+v", q)
	}
	if err := h.Client.TerminateWorkflow(context.Background(), q.Run.Workflow, "", "test"); err != nil {
		t.Fatal(err)
	}
	_, err := harness.Result(t, run)
	if f := contract.FailureOf(err); harness.FailureClass(f) != contract.ClassCancelled || f.Node != "a" {
		t.Errorf("run ended with %v", err)
	}
	if s := h.Status(t, run.GetID()); len(s.Requests) != 0 {
		t.Errorf("open requests of the closed run = %+v", s.Requests)
	}
}
