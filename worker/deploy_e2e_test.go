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

// slowScript takes its time, so that a deploy finds runs in their middle.
const slowScript = `{"rules": [{"node": "first", "delay": "2s", "say": "one"}, {"node": "second", "delay": "1s", "say": "two"}]}`

// deploys is how many runs are in flight at a deploy.
const deploys = 100

// TestEndToEndDeploys replaces the workers under 100 runs, one by one, by a build whose
// interpreter does something else behind GetVersion: runs that move to the new build, and runs
// that stay pinned to the old one. None fails and no call is made twice; new runs do what the
// new build does.
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
		t.Run(behavior, func(t *testing.T) { deployed(t, c, srv.address, builds, behavior) })
	}
}

// fleet are the worker processes of a deployment.
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

// start starts a worker; the test's end kills it.
func (f *fleet) start(build string) *exec.Cmd {
	cmd := f.command(build)
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// stop ends a worker as a deploy does.
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

func deployed(t *testing.T, c client.Client, address string, programs map[string]string, behavior string) {
	f := &fleet{t: t, address: address, name: "d-" + strings.ReplaceAll(behavior, "_", "-"), queue: behavior, versions: behavior, programs: programs}
	old := []*exec.Cmd{f.start("v1"), f.start("v1")}
	f.deployment("v1", "-current", "-wait", "60s")
	begin := func(id string) client.WorkflowRun {
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: f.queue}, contract.WorkflowFlow,
			contract.RunInput{V: contract.Version, Input: "x", Model: contract.ScriptModel, Script: json.RawMessage(slowScript), OnError: contract.OnErrorFail,
				Flow: contract.FlowRef{Text: pair, Name: "pair.json"}})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	var runs []client.WorkflowRun
	for i := range deploys {
		runs = append(runs, begin(fmt.Sprintf("%s-%d", behavior, i)))
	}
	under := begun(t, c, runs)
	f.start("v2")
	f.deployment("v2", "-current", "-wait", "60s")
	if behavior == "auto_upgrade" {
		f.stop(old[0])
		f.start("v2")
		f.stop(old[1])
	} else if list := f.deployment("v2"); !strings.Contains(list, "v1     draining: open runs are pinned to it") {
		t.Errorf("while runs are pinned, the versions are:\n%s", list)
	}
	fresh := begin(behavior + "-fresh")
	for _, run := range append(runs, fresh) {
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
			t.Errorf("%s has %d model calls in its history, want 2", run.GetID(), calls)
		}
		timers += timer
	}
	if timers > 0 {
		t.Errorf("%d of %d runs that began under the old build do what the new one does", timers, under)
	}
	if _, timer := recordedCalls(t, c, fresh); timer != 1 {
		t.Errorf("a run that began under the new build does not do what it does")
	}
}

// begun waits until all runs are in their first call.
func begun(t *testing.T, c client.Client, runs []client.WorkflowRun) int {
	t.Helper()
	for _, run := range runs {
		for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			d, err := c.DescribeWorkflowExecution(t.Context(), run.GetID(), "")
			if err == nil && (len(d.GetPendingActivities()) > 0 && strings.HasPrefix(d.GetPendingActivities()[0].GetActivityId(), "first#1/") ||
				d.GetWorkflowExecutionInfo().GetHistoryLength() > 12) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s has not begun: %v, %v", run.GetID(), d.GetPendingActivities(), err)
			}
		}
	}
	return len(runs)
}

// recordedCalls counts the model calls that a history has as done, each once by its id, and timers.
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
