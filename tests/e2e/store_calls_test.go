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

// retried waits until a call of a run is made again, and gives what it says.
func retried(t *testing.T, c client.Client, run client.WorkflowRun) *workflowpb.PendingActivityInfo {
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
	t.Fatal("no call is made again")
	return nil
}

// longPrompt is a run whose model calls carry more than the store's threshold.
func longPrompt() contract.RunInput {
	f := harness.OneAgent()
	f.Nodes[0].Agent.System = strings.Repeat("a long system prompt ", 10_000)
	return contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: []byte(`{"default": {"say": "done"}}`)}
}

// TestEndToEndStoreFull has a store that takes nothing for a while, as one that is full: a
// call is made again, and its run goes on when there is room.
func TestEndToEndStoreFull(t *testing.T) {
	t.Parallel()
	v := newStoreEnv(t)
	v.model = largeModel(t, 300_000)
	v.work(t, true, true)
	for i := range 256 { // where a folder would be made
		if err := os.WriteFile(filepath.Join(v.settings.Dir, fmt.Sprintf("%02x", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := v.dial(t)
	run := v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: harness.OneAgent()}, Model: "large/m"})
	failed := retried(t, c, run).GetLastFailure()
	if failed.GetApplicationFailureInfo().GetType() != contract.ClassUnavailable || failed.GetApplicationFailureInfo().GetNonRetryable() ||
		!strings.Contains(failed.GetMessage(), "store payload ") || !strings.Contains(failed.GetMessage(), v.settings.Dir) || !strings.Contains(failed.GetMessage(), "free space there") {
		t.Errorf("the call failed with %v", failed)
	}
	for i := range 256 {
		if err := os.Remove(filepath.Join(v.settings.Dir, fmt.Sprintf("%02x", i))); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := harness.Result(t, run); err != nil || len(*out.ResultText) < 300_000 {
		t.Errorf("%.300s, %v", fmt.Sprint(out), err)
	}
}

// TestEndToEndStoreCallInput has a worker that cannot read what a call is given: the call is
// made again until one can. What is lost fails the run at once.
func TestEndToEndStoreCallInput(t *testing.T) {
	t.Parallel()
	t.Run("on a worker without the store", func(t *testing.T) {
		v := newStoreEnv(t)
		c := v.dial(t)
		v.work(t, true, false)
		settings := v.settings
		v.settings = store.Settings{}
		blind := v.work(t, false, true)
		run := v.start(t, c, longPrompt())
		failed := retried(t, c, run).GetLastFailure()
		if failed.GetApplicationFailureInfo().GetType() != contract.ClassUnavailable || !strings.Contains(failed.GetMessage(), "this process has no store; set store.dir") {
			t.Errorf("the call failed with %v", failed)
		}
		t.Logf("the call failed with: %s", failed.GetMessage())
		blind.Stop()
		v.settings = settings
		v.work(t, false, true)
		if out, err := harness.Result(t, run); err != nil || *out.ResultText != "done" {
			t.Errorf("%+v, %v", out, err)
		}
	})
	t.Run("lost", func(t *testing.T) {
		v := newStoreEnv(t)
		c := v.dial(t)
		v.work(t, true, false)
		run := v.start(t, c, longPrompt())
		v.until(t, c, run, enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
		for _, file := range v.files(t) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		v.work(t, false, true)
		_, err := harness.Result(t, run)
		if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassPayloadLost || f.Node != "b1" {
			t.Errorf("the run ended with %v", err)
		}
		// A busy machine may let an attempt time out.
		started := v.until(t, c, run, enumspb.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes()
		if before := started.GetLastFailure().GetApplicationFailureInfo(); before != nil {
			t.Errorf("attempt %d was made after %v", started.GetAttempt(), before)
		}
	})
}

// TestEndToEndStoreReadBefore removes a payload that the run has read already: a worker that
// rebuilds the run says what is missing, and not that the code has changed; the run goes on
// when the file is back.
func TestEndToEndStoreReadBefore(t *testing.T) {
	t.Parallel()
	v := newStoreEnv(t)
	answer := make(chan struct{})
	v.model = heldModel(t, 300_000, func(node string) {
		if node == "join" {
			<-answer
		}
	})
	release := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(release)
	c := v.dial(t)
	flows, calls := v.work(t, true, false), v.work(t, false, true)
	chain := harness.GraphPlan("two", []harness.GraphNode{{ID: "b1"}, {ID: "join", Exit: true}},
		[]harness.GraphEdge{{Source: plan.Start, Target: "b1"}, {Source: "b1", Target: "join"}, {Source: "join", Target: plan.End}})
	run := v.start(t, c, contract.RunInput{Flow: contract.FlowRef{Plan: chain}, Model: "large/m"})
	v.until(t, c, run, enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED)
	harness.WaitFor(t, "the second call", func() bool {
		list := harness.Events(t, c, run.GetID(), run.GetRunID())
		return list[len(list)-1].GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
	})
	flows.Stop()
	release()
	file := v.files(t)[0]
	if err := os.Rename(file, file+".bak"); err != nil {
		t.Fatal(err)
	}
	again := v.work(t, true, false)
	failed := v.until(t, harness.Dial(t, v.address), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED).GetWorkflowTaskFailedEventAttributes().GetFailure()
	if !strings.Contains(failed.GetMessage(), "is no longer in directory "+v.settings.Dir) || strings.Contains(failed.GetMessage(), "TMPRL1100") {
		t.Errorf("the task failed with %v", failed)
	}
	again.Stop()
	if err := os.Rename(file+".bak", file); err != nil {
		t.Fatal(err)
	}
	v.work(t, true, false)
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "1 answers" {
		t.Errorf("%+v, %v", out, err)
	}
	calls.Stop()
}
