package services

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/tests/programs"
)

// TestEndToEndRateLimitIsWaiting starts runs on a worker with a limit of one call per minute. It checks that calls that wait
// for their turn show that in status and why, do not fail, do not occupy the worker's only slot, and can be cancelled.
func TestEndToEndRateLimitIsWaiting(t *testing.T) {
	t.Parallel()
	srv := harness.StartServer(t, "-db", ":memory:", "-port=0")
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(model.Close)
	harness.StartWorker(t, srv.Address, "WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL="+model.URL+"/v1", "WEFT_PROVIDERS_FAKE_REQUESTS_PER_MINUTE=1",
		"WEFT_PROVIDERS_OTHER_KIND=compatible", "WEFT_PROVIDERS_OTHER_BASE_URL="+model.URL+"/other/v1", "WEFT_WORKER_ACTIVITIES=1")
	c := harness.Dial(t, srv.Address)
	ids := []string{"one", "two", "three", "four", "five"}
	start := func(id, model string) {
		in := map[string]any{"v": 1, "input": "go", "model": model, "flow": map[string]any{"name": "one.json", "text": harness.OneNode("")}}
		if _, err := c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.TaskQueue}, contract.WorkflowFlow, in); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		start(id, "fake/m")
	}
	starter := filepath.Join(filepath.Dir(programs.Path(t, "WEFT_WORKER")), "starter")
	runStarter := func(command, id string) string {
		cmd := exec.Command(starter, command, id)
		cmd.Dir, cmd.Env = t.TempDir(), append(programs.CleanEnv(), "TEMPORAL_ADDRESS="+srv.Address)
		out, _ := cmd.CombinedOutput() // the output is checked
		return string(out)
	}
	const turn = "waiting for its turn: calls with the key of provider fake are rate limited on all workers (providers.fake.requests_per_minute, tokens_per_minute) until "
	shown := false
	for end := time.Now().Add(3 * time.Minute); !shown && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		for _, id := range ids {
			status, why := runStarter("status", id), runStarter("why", id)
			shown = shown || strings.Contains(status, "call      a#1/model/1: waiting") && strings.Contains(status, turn) && strings.Contains(why, turn)
			if strings.Contains(status, "fail") {
				t.Errorf("status of a waiting run:\n%s", status)
			}
		}
	}
	if !shown {
		t.Errorf("no run shows that it waits for its turn; one shows %s%s", runStarter("status", ids[1]), runStarter("why", ids[1]))
	}
	start("other", "other/m")
	other, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	defer stop()
	if err := c.GetWorkflow(other, "other", "").Get(other, nil); err != nil {
		t.Errorf("a run with a different key: %v", err)
	}
	cancelled := 0
	for _, id := range ids {
		_ = c.CancelWorkflow(context.Background(), id, "") // it fails for the first, which has ended
	}
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	defer stop()
	for _, id := range ids {
		err := c.GetWorkflow(ctx, id, "").Get(ctx, nil)
		if temporal.IsCanceledError(err) {
			cancelled++
		} else if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if cancelled == 0 {
		t.Error("no waiting run was cancelled")
	}
}
