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

// held is a model that answers when it is let to. It keeps the keys of the calls that have come.
type held struct {
	*httptest.Server
	free chan struct{}
	mu   sync.Mutex
	keys []string
}

func newHeld(t *testing.T) *held {
	t.Helper()
	h := &held{free: make(chan struct{})}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h.mu.Lock()
		h.keys = append(h.keys, r.Header.Get("Idempotency-Key"))
		h.mu.Unlock()
		select {
		case <-h.free:
			fmt.Fprint(w, `{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"done"}}]}`)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *held) calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.keys)
}

// TestEndToEndWorkerShutdown sends SIGTERM to a worker's process with a call under way: one that ends
// within the stop timeout is made once; a longer one fails as the worker's end and is made again,
// under its key, by another worker. Either way the process ends well.
func TestEndToEndWorkerShutdown(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, "-db", ":memory:", "-port=0")
	c := harness.Dial(t, s.Address)
	for name, patience := range map[string]string{"in time": "10m", "too long": "1s"} {
		t.Run(name, func(t *testing.T) {
			model := newHeld(t)
			queue := "stop-" + patience
			settings := []string{"WEFT_TASK_QUEUE=" + queue, "WEFT_WORKER_STOP_TIMEOUT=" + patience, "WEFT_PROVIDERS_FAKE_KIND=compatible",
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
				t.Errorf("the worker ends with %v", err)
			}
			harness.StartWorker(t, s.Address, settings...)
			if name == "too long" {
				harness.WaitFor(t, "the call again", func() bool { return len(model.calls()) == 2 })
				close(model.free)
			}
			out, err := harness.Result(t, run)
			if err != nil || *out.ResultText != "done" || out.Usage.Calls != 1 {
				t.Fatalf("%+v, %v", out, err)
			}
			for _, e := range harness.Events(t, c, run.GetID(), run.GetRunID()) {
				s := e.GetActivityTaskStartedEventAttributes()
				if name == "too long" && s.GetAttempt() > 1 && !strings.Contains(s.GetLastFailure().GetMessage(), "the worker is stopping") {
					t.Errorf("the first attempt ended with %v", s.GetLastFailure())
				}
			}
			keys := model.calls()
			if want := map[string]int{"in time": 1, "too long": 2}[name]; len(keys) != want || keys[0] == "" || keys[0] != keys[len(keys)-1] {
				t.Errorf("the calls' keys are %q, want %d of one key", keys, want)
			}
		})
	}
}

// TestEndToEndTerminatedBranch terminates a branch by hand while its node waits for an operator: its
// request closes, and the run fails as one whose branch was ended, not as one that hangs.
func TestEndToEndTerminatedBranch(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: harness.AsChildren(harness.FanIn("two", "a", "b"))},
		Script: harness.Script(t, `rules: [{node: a, fail: {class: denied, text: no key}}, {say: ok}]`)})
	q := h.OpenRequests(t, run.GetID(), 1)[0]
	if q.Run.Workflow == run.GetID() || q.Node != "a" {
		t.Fatalf("open: %+v", q)
	}
	if err := h.Client.TerminateWorkflow(context.Background(), q.Run.Workflow, "", "test"); err != nil {
		t.Fatal(err)
	}
	_, err := harness.Result(t, run)
	if f := contract.FailureOf(err); harness.FailureClass(f) != contract.ClassCancelled || f.Node != "a" {
		t.Errorf("the run ended with %v", err)
	}
	if s := h.Status(t, run.GetID()); len(s.Requests) != 0 {
		t.Errorf("open after the end: %+v", s.Requests)
	}
}
