package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/worker/store"
	"weft/workflows/plan"
)

// waitRetry waits until an activity of a run is retried, and returns it.
func waitRetry(t *testing.T, c client.Client, run client.WorkflowRun) *workflowpb.PendingActivityInfo {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		d, err := c.DescribeWorkflowExecution(context.Background(), run.GetID(), run.GetRunID())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range d.GetPendingActivities() {
			if p.GetAttempt() > 1 && p.GetLastFailure() != nil {
				return p
			}
		}
	}
	t.Fatal("no activity is retried")
	return nil
}

// longPrompt returns the input of a run whose model calls exceed the store's threshold.
func longPrompt() contract.RunInput {
	f := harness.OneAgent()
	f.Nodes[0].Agent.System = strings.Repeat("a long system prompt ", 10_000)
	return contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: []byte(`{"default": {"say": "done"}}`)}
}

// TestEndToEndStoreFull has a store that temporarily accepts no payloads, as if it were full. It checks that the call
// is retried, and that the run continues when there is space.
func TestEndToEndStoreFull(t *testing.T) {
	t.Parallel()
	v := newStoreEnv(t)
	v.model = largeModel(t, 300_000)
	v.startWorker(t, true, true)
	for i := range 256 { // in place of the store's subdirectories
		if err := os.WriteFile(filepath.Join(v.settings.Dir, fmt.Sprintf("%02x", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := v.dial(t)
	run := v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: harness.OneAgent()}, Model: "large/m"})
	failed := waitRetry(t, c, run).GetLastFailure()
	if failed.GetApplicationFailureInfo().GetType() != contract.ClassUnavailable || failed.GetApplicationFailureInfo().GetNonRetryable() ||
		!strings.Contains(failed.GetMessage(), "store payload ") || !strings.Contains(failed.GetMessage(), v.settings.Dir) || !strings.Contains(failed.GetMessage(), "free space there") {
		t.Errorf("call failed with %v", failed)
	}
	for i := range 256 {
		if err := os.Remove(filepath.Join(v.settings.Dir, fmt.Sprintf("%02x", i))); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := harness.Result(t, run); err != nil || len(*out.ResultText) < 300_000 {
		t.Errorf("result = %.300s, %v", fmt.Sprint(out), err)
	}
}

// TestEndToEndStoreCallInput checks that a call whose input a worker cannot read is retried until one can, and that an
// input that is lost fails the run immediately.
func TestEndToEndStoreCallInput(t *testing.T) {
	t.Parallel()
	t.Run("on a worker without the store", func(t *testing.T) {
		v := newStoreEnv(t)
		c := v.dial(t)
		v.startWorker(t, true, false)
		settings := v.settings
		v.settings = store.Settings{}
		noStore := v.startWorker(t, false, true)
		run := v.start(t, c, longPrompt())
		failed := waitRetry(t, c, run).GetLastFailure()
		if failed.GetApplicationFailureInfo().GetType() != contract.ClassUnavailable || !strings.Contains(failed.GetMessage(), "this process has no store; set store.dir") {
			t.Errorf("call failed with %v", failed)
		}
		t.Logf("call failed with: %s", failed.GetMessage())
		noStore.Stop()
		v.settings = settings
		v.startWorker(t, false, true)
		if out, err := harness.Result(t, run); err != nil || *out.ResultText != "done" {
			t.Errorf("result = %+v, %v", out, err)
		}
	})
	t.Run("lost", func(t *testing.T) {
		v := newStoreEnv(t)
		c := v.dial(t)
		v.startWorker(t, true, false)
		run := v.start(t, c, longPrompt())
		v.waitEvent(t, c, run, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
		for _, file := range v.files(t) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		v.startWorker(t, false, true)
		_, err := harness.Result(t, run)
		if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassPayloadLost || f.Node != "b1" {
			t.Errorf("run ended with %v", err)
		}
		// On a busy machine, an earlier attempt may have timed out.
		started := v.waitEvent(t, c, run, enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes()
		if last := started.GetLastFailure().GetApplicationFailureInfo(); last != nil {
			t.Errorf("attempt %d was made after %v", started.GetAttempt(), last)
		}
	})
}

// TestEndToEndStoreReplayWithoutPayload removes a payload that the run has already read. It checks that a worker that
// replays the run reports the missing payload instead of a nondeterminism error, and that the run continues when the
// file is restored.
func TestEndToEndStoreReplayWithoutPayload(t *testing.T) {
	t.Parallel()
	v := newStoreEnv(t)
	respond := make(chan struct{})
	v.model = blockingLargeModel(t, 300_000, func(node string) {
		if node == "join" {
			<-respond
		}
	})
	release := sync.OnceFunc(func() { close(respond) })
	t.Cleanup(release)
	c := v.dial(t)
	flowWorker, callWorker := v.startWorker(t, true, false), v.startWorker(t, false, true)
	chain := harness.GraphPlan("two", []harness.GraphNode{{ID: "b1"}, {ID: "join", Exit: true}},
		[]harness.GraphEdge{{Source: plan.Start, Target: "b1"}, {Source: "b1", Target: "join"}, {Source: "join", Target: plan.End}})
	run := v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: chain}, Model: "large/m"})
	v.waitEvent(t, c, run, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
	harness.WaitFor(t, "the second call", func() bool {
		list := harness.Events(t, c, run.GetID(), run.GetRunID())
		return list[len(list)-1].GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
	})
	flowWorker.Stop()
	release()
	file := v.files(t)[0]
	if err := os.Rename(file, file+".bak"); err != nil {
		t.Fatal(err)
	}
	replaying := v.startWorker(t, true, false)
	failed := v.waitEvent(t, harness.Dial(t, v.address), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED).GetWorkflowTaskFailedEventAttributes().GetFailure()
	if !strings.Contains(failed.GetMessage(), "is no longer in directory "+v.settings.Dir) || strings.Contains(failed.GetMessage(), "TMPRL1100") {
		t.Errorf("workflow task failed with %v", failed)
	}
	replaying.Stop()
	if err := os.Rename(file+".bak", file); err != nil {
		t.Fatal(err)
	}
	v.startWorker(t, true, false)
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "1 answers" {
		t.Errorf("result = %+v, %v", out, err)
	}
	callWorker.Stop()
}
