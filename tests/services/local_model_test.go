package services

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/tests/harness"
)

// TestEndToEndLoadingModel calls a llama.cpp server, which rejects requests until its model is loaded. It checks that the pending
// activity shows what it waits for, and that no attempt fails.
func TestEndToEndLoadingModel(t *testing.T) {
	t.Parallel()
	var loaded atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !loaded.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`)
		case r.URL.Path == "/props":
			_, _ = io.WriteString(w, `{"default_generation_settings":{"n_ctx":8192},"total_slots":1}`)
		default:
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"loaded"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":1}}`)
		}
	}))
	t.Cleanup(srv.Close)
	s := harness.StartServer(t, "-db", t.TempDir()+"/loading.db", "-port=0")
	harness.StartWorker(t, s.Address, "WEFT_PROVIDERS_LOCAL_KIND=llamacpp", "WEFT_PROVIDERS_LOCAL_BASE_URL="+srv.URL+"/v1")
	h := &harness.Worker{Client: harness.Dial(t, s.Address), Queue: contract.TaskQueue}
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"}, Model: "local/m", Input: "go", OnError: contract.OnErrorFail})
	waiting, attempt := "", int32(0)
	for end := time.Now().Add(2 * time.Minute); waiting == "" && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		d, err := h.Client.DescribeWorkflowExecution(context.Background(), run.GetID(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range d.GetPendingActivities() {
			waiting, attempt = history.Waiting(p), p.GetAttempt()
		}
	}
	if want := "waiting for provider local to load the model m"; waiting != want || attempt != 1 {
		t.Errorf("attempt %d: %q, want %q in attempt 1", attempt, waiting, want)
	}
	loaded.Store(true)
	var out contract.RunResult
	if err := run.Get(context.Background(), &out); err != nil || out.Usage.Calls != 1 || out.Usage.Cut != 0 || !strings.Contains(fmt.Sprint(out), "loaded") {
		t.Errorf("%+v, %v", out, err)
	}
	recorded := h.Client.GetWorkflowHistory(context.Background(), run.GetID(), "", false, 0)
	for recorded.HasNext() {
		e, err := recorded.Next()
		if err != nil {
			t.Fatal(err)
		}
		if a := e.GetActivityTaskStartedEventAttributes(); a != nil && a.GetAttempt() != 1 {
			t.Errorf("attempt = %d, want 1: %v", a.GetAttempt(), a.GetLastFailure())
		}
	}
}
