package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"weft/starter/dev"

	"github.com/rogpeppe/go-internal/testscript"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"weft/activities/contract"
	"weft/tests/programs"
)

// TestEndToEnd runs testdata/e2e against a real server with a worker.
func TestEndToEnd(t *testing.T) { endToEnd(t, "testdata/e2e") }

// TestEndToEndRequests runs testdata/requests against a separate server, because lists in other
// scripts would include its runs.
func TestEndToEndRequests(t *testing.T) { endToEnd(t, "testdata/requests") }

// TestEndToEndWhy runs testdata/why, which is about starter why.
func TestEndToEndWhy(t *testing.T) { endToEnd(t, "testdata/why") }

// TestEndToEndSchedule runs testdata/schedule, which is about scheduled runs.
func TestEndToEndSchedule(t *testing.T) { endToEnd(t, "testdata/schedule") }

func endToEnd(t *testing.T, dir string) {
	t.Helper()
	path := programs.Path(t, "WEFT_DEVSERVER")
	address := devserver(t, path)
	namespaces(t, address)
	t.Parallel() // after the start: servers that start concurrently may take each other's ports
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		UpdateScripts:       os.Getenv("UPDATE") == "1",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TEMPORAL_ADDRESS", address)
			root, err := filepath.Abs("..")
			if err != nil {
				return err
			}
			env.Setenv("ROOT", root)
			env.Setenv("TEMPORAL_CONFIG_FILE", env.WorkDir+"/no-temporal.toml")
			env.Setenv("MAIL", filepath.Join(filepath.Dir(path), "mail"))
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			env.Setenv("PATH", env.Getenv("PATH")+string(os.PathListSeparator)+filepath.Dir(path))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "freed": freed, "asks": asks, "seen": seen, "begin": begin, "shares": shares, "eventually": eventually, "trigger": triggerSchedule, "counts": countSchedule},
	})
}

// freed waits until no process holds a lock on a file: freed FILE.
func freed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freed FILE")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	f, err := dev.Lock(ctx, ts.MkAbs(args[0]), true)
	if err != nil {
		ts.Fatalf("%s is still locked: %v", args[0], err)
	}
	f.Close()
}

// shares checks a run's priority, fairness key and weight in Temporal: shares ID "PRIORITY KEY WEIGHT".
func shares(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: shares ID TEXT")
	}
	c, err := client.Dial(client.Options{HostPort: ts.Getenv("TEMPORAL_ADDRESS"), Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	ts.Check(err)
	defer c.Close()
	d, err := c.DescribeWorkflowExecution(context.Background(), args[0], "")
	ts.Check(err)
	p := d.GetWorkflowExecutionInfo().GetPriority()
	if got := fmt.Sprint(p.GetPriorityKey(), " ", p.GetFairnessKey(), " ", p.GetFairnessWeight()); got != args[1] {
		ts.Fatalf("priority of %s = %q, want %q", args[0], got, args[1])
	}
}

// schedule returns a schedule of the script's server.
func schedule(ts *testscript.TestScript, name string) client.ScheduleHandle {
	c, err := client.Dial(client.Options{HostPort: ts.Getenv("TEMPORAL_ADDRESS"), Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	ts.Check(err)
	ts.Defer(c.Close)
	return c.ScheduleClient().GetHandle(context.Background(), name)
}

// scheduleCounts returns how many runs a schedule has started and skipped, and sets RUN to the id of the last one.
func scheduleCounts(ts *testscript.TestScript, h client.ScheduleHandle) (started, skipped int) {
	d, err := h.Describe(context.Background())
	ts.Check(err)
	if n := len(d.Info.RecentActions); n > 0 {
		ts.Setenv("RUN", d.Info.RecentActions[n-1].StartWorkflowResult.WorkflowID)
	}
	return d.Info.NumActions, d.Info.NumActionsSkippedOverlap
}

// triggerSchedule triggers a schedule and waits until the run was started or skipped: trigger NAME [allow_all].
func triggerSchedule(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: trigger NAME [allow_all]")
	}
	var options client.ScheduleTriggerOptions
	if len(args) > 1 {
		options.Overlap = enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL
	}
	h := schedule(ts, args[0])
	startedBefore, skippedBefore := scheduleCounts(ts, h)
	ts.Check(h.Trigger(context.Background(), options))
	for range 100 {
		if started, skipped := scheduleCounts(ts, h); started+skipped > startedBefore+skippedBefore {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	ts.Fatalf("no run was started or skipped within 10 s")
}

// countSchedule checks how many runs a schedule has started and skipped: counts NAME STARTED SKIPPED.
func countSchedule(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: counts NAME STARTED SKIPPED")
	}
	started, skipped := scheduleCounts(ts, schedule(ts, args[0]))
	if got, want := fmt.Sprint(started, skipped), args[1]+" "+args[2]; got != want {
		ts.Fatalf("runs started and skipped by %s = %s, want %s", args[0], got, want)
	}
}

// begin starts a run through a plain Temporal client, with the JSON input in a file: begin ID FILE [QUEUE].
func begin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: begin ID FILE [QUEUE]")
	}
	queue := append(args, contract.TaskQueue)[2]
	c, err := client.Dial(client.Options{HostPort: ts.Getenv("TEMPORAL_ADDRESS"), Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		ts.Fatalf("%v", err)
	}
	defer c.Close()
	_, err = c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: args[0], TaskQueue: queue, Memo: map[string]any{contract.MemoFlow: args[0]}},
		contract.WorkflowFlow, json.RawMessage(ts.ReadFile(args[1])))
	if err != nil {
		ts.Fatalf("%v", err)
	}
}

// eventually runs starter until its output contains a text: eventually TEXT ARGS...
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually TEXT ARGS...")
	}
	const loop = `want=$1; shift; for i in $(seq 100); do out=$(starter "$@" 2>&1); case $out in *"$want"*) printf '%s\n' "$out"; exit 0 ;; esac; sleep 0.1; done; echo "$out"; exit 1`
	if err := ts.Exec("sh", append([]string{"-c", loop, "sh"}, args...)...); err != nil {
		ts.Fatalf("no output contains %q: %v", args[0], err)
	}
}

// devserver starts a server whose worker has only the scripted model.
func devserver(t *testing.T, path string, flags ...string) string {
	t.Helper()
	return devserverWith(t, path, []string{"WEFT_CONFIRM_MAIL_TOOLS=send_*"}, flags...)
}

// devserverWith starts a server whose worker has only these environment variables, PATH and HOME.
func devserverWith(t *testing.T, path string, env []string, flags ...string) string {
	t.Helper()
	cmd := exec.Command(path, append([]string{"-db", ":memory:", "-port", "0", "-ui-port", "0"}, flags...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	cmd.Dir = t.TempDir()
	var ready struct{ Address string }
	programs.Ready(t, cmd, &ready)
	return ready.Address
}
