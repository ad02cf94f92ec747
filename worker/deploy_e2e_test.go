package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/programs"
)

// slowScript delays its answers, so that runs are in progress during a deploy.
const slowScript = `{"rules": [{"node": "first", "delay": "2s", "say": "one"}, {"node": "second", "delay": "1s", "say": "two"}]}`

// openRuns is the number of runs that are open during a deploy.
const openRuns = 100

// TestEndToEndDeploys replaces the workers of 100 open runs, one by one, with a build whose
// interpreter has a change behind GetVersion. The runs move to the new build, or stay pinned to
// the old one. It checks that no run fails, that no call is made twice, and that new runs
// behave as in the new build.
func TestEndToEndDeploys(t *testing.T) {
	srv := startServer(t)
	builds := map[string]string{"v1": programs.Path(t, "WEFT_WORKER"), "v2": filepath.Join(t.TempDir(), "v2")}
	if out, err := exec.Command("go", "build", "-o", builds["v2"], "-ldflags", "-X weft/workflows.revision=2", ".").CombinedOutput(); err != nil {
		t.Fatalf("build v2: %v: %s", err, out)
	}
	c, err := client.Dial(client.Options{HostPort: srv.address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, behavior := range []string{"auto_upgrade", "pinned"} {
		t.Run(behavior, func(t *testing.T) { testDeploy(t, c, srv.address, builds, behavior) })
	}
}

// fleet manages the worker processes of a deployment.
type fleet struct {
	t                              *testing.T
	address, name, queue, versions string
	programs                       map[string]string
}

func (f *fleet) command(build string, args ...string) *exec.Cmd {
	cmd := exec.Command(f.programs[build], args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.t.TempDir(), "TEMPORAL_ADDRESS=" + f.address, "TEMPORAL_DEPLOYMENT_NAME=" + f.name,
		"TEMPORAL_WORKER_BUILD_ID=" + build, "WEFT_WORKER_VERSIONING=" + f.versions, "WEFT_TASK_QUEUE=" + f.queue, "WEFT_WORKER_STOP_TIMEOUT=10s",
		"WEFT_SEAL_KEYS=" + programs.SealKeys, "WEFT_FLOWS_SCRIPTS=true"}
	cmd.Dir = f.t.TempDir()
	return cmd
}

// start starts a worker, which is killed at the end of the test.
func (f *fleet) start(build string) *exec.Cmd {
	cmd := f.command(build)
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// stop stops a worker gracefully, as a deploy does.
func (f *fleet) stop(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
}

func (f *fleet) deployment(build string, args ...string) string {
	out, err := f.command(build, append([]string{"deployment"}, args...)...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("worker deployment: %v: %s", err, out)
	}
	return string(out)
}

func testDeploy(t *testing.T, c client.Client, address string, programs map[string]string, behavior string) {
	f := &fleet{t: t, address: address, name: "d-" + strings.ReplaceAll(behavior, "_", "-"), queue: behavior, versions: behavior, programs: programs}
	old := []*exec.Cmd{f.start("v1"), f.start("v1")}
	f.deployment("v1", "-current", "-wait", "60s")
	startRun := func(id string) client.WorkflowRun {
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: f.queue}, contract.WorkflowFlow,
			contract.RunInput{V: contract.Version, Input: "x", Model: contract.ScriptModel, Script: json.RawMessage(slowScript), OnError: contract.OnErrorFail,
				Flow: contract.FlowRef{Text: pair, Name: "pair.json"}})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	var runs []client.WorkflowRun
	for i := range openRuns {
		runs = append(runs, startRun(fmt.Sprintf("%s-%d", behavior, i)))
	}
	awaitFirstCalls(t, c, runs)
	f.start("v2")
	f.deployment("v2", "-current", "-wait", "60s")
	if behavior == "auto_upgrade" {
		f.stop(old[0])
		f.start("v2")
		f.stop(old[1])
	} else if list := f.deployment("v2"); !strings.Contains(list, "v1     draining: open runs are pinned to it") {
		t.Errorf("versions while runs are pinned:\n%s", list)
	}
	newRun := startRun(behavior + "-fresh")
	for _, run := range append(runs, newRun) {
		var out contract.RunResult
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		err := run.Get(ctx, &out)
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", run.GetID(), err)
		}
	}
	timers := 0
	for _, run := range runs {
		calls, timer := recordedCalls(t, c, run)
		if calls != 2 {
			t.Errorf("history of %s has %d model calls, want 2", run.GetID(), calls)
		}
		timers += timer
	}
	if timers > 0 {
		t.Errorf("%d of %d runs that started with the old build behave as in the new one", timers, len(runs))
	}
	if _, timer := recordedCalls(t, c, newRun); timer != 1 {
		t.Errorf("a run that started with the new build does not behave as in it")
	}
}

// awaitFirstCalls waits until all runs are in their first call.
func awaitFirstCalls(t *testing.T, c client.Client, runs []client.WorkflowRun) {
	t.Helper()
	for _, run := range runs {
		for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			d, err := c.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
			if err == nil && (len(d.GetPendingActivities()) > 0 && strings.HasPrefix(d.GetPendingActivities()[0].GetActivityId(), "first#1/") ||
				d.GetWorkflowExecutionInfo().GetHistoryLength() > 12) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s has not reached its first call: %v, %v", run.GetID(), d.GetPendingActivities(), err)
			}
		}
	}
}

// recordedCalls counts the completed model calls and the timers in the history of a run.
func recordedCalls(t *testing.T, c client.Client, run client.WorkflowRun) (calls, timers int) {
	t.Helper()
	scheduled := map[int64]string{}
	events := c.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		if s := e.GetActivityTaskScheduledEventAttributes(); s != nil {
			scheduled[e.GetEventId()] = s.GetActivityType().GetName()
		}
		if s := e.GetActivityTaskCompletedEventAttributes(); s != nil && scheduled[s.GetScheduledEventId()] == contract.ActivityCallModel {
			calls++
		}
		if e.GetTimerStartedEventAttributes() != nil {
			timers++
		}
	}
	return calls, timers
}
