package services

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// countingWorkers has two workers, each of which starts its own process of a counting server.
type countingWorkers struct {
	*harness.Worker
	counter *countingServer
	workers []*exec.Cmd
}

func startCountingWorkers(t *testing.T) *countingWorkers {
	t.Helper()
	k := &countingWorkers{counter: newCounter(t), Worker: &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}}
	raw, err := json.Marshal(map[string]any{"connections": map[string]any{"counter": map[string]any{"transport": "stdio", "command": k.counter.command, "env": k.counter.env}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		k.workers = append(k.workers, harness.StartWorker(t, harness.ServerAddress(t), "WEFT_TASK_QUEUE="+k.Queue, "WEFT_CONFIG="+file, "WEFT_TIMEOUTS_HEARTBEAT=20s"))
	}
	return k
}

// withCounter binds the counter's tools to all agents of a flow.
func withCounter(f *plan.Flow) *plan.Flow {
	f.Connections = []plan.Connection{{ID: "counter"}}
	for i := range f.Nodes {
		f.Nodes[i].Agent.Tools = []plan.Tool{{Name: "add", As: "add", Connection: "counter"}, {Name: "hang", As: "hang", Connection: "counter"}}
	}
	return f
}

// TestEndToEndToolProcess checks, with two workers and a server that keeps state in its process, that all calls of a run reach
// the same process, and that the model is informed once if its worker stops.
func TestEndToEndToolProcess(t *testing.T) {
	t.Parallel()
	const lost = "The session with this tool's server was lost"
	tests := map[string]struct {
		// until is the tool whose call is followed by the signal.
		until  string
		signal os.Signal
		want   []string
	}{
		"killed between calls":  {"add", syscall.SIGKILL, []string{"count 1", lost, "count 1", "count 2"}},
		"stopped between calls": {"add", syscall.SIGTERM, []string{"count 1", lost, "count 1", "count 2"}},
		"killed during a call":  {"hang", syscall.SIGKILL, []string{"count 1", "outcome unknown", lost, "count 1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := startCountingWorkers(t)
			run := k.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: withCounter(harness.OneAgent())}, Script: harness.Script(t, fmt.Sprintf(`rules:
- {turn: 1, call: [{tool: add}]}
- {turn: 2, delay: 4s, call: [{tool: %s}]}
- {turn: 3, call: [{tool: add}]}
- {turn: 4, call: [{tool: add}]}
- {say: done}`, tc.until))})
			var parent int
			harness.WaitFor(t, "the call", func() bool {
				var called string
				called, parent = k.counter.lastCall()
				return called == tc.until
			})
			i := slices.IndexFunc(k.workers, func(w *exec.Cmd) bool { return w.Process.Pid == parent })
			if i < 0 {
				t.Fatalf("the call was made by process %d, which is none of the workers", parent)
			}
			if tc.until == "add" {
				time.Sleep(time.Second) // until the response has arrived
			}
			if err := k.workers[i].Process.Signal(tc.signal); err != nil {
				t.Fatal(err)
			}
			if _, err := harness.Result(t, run); err != nil {
				t.Fatal(err)
			}
			if got := k.results(t, run.GetID(), "b1#1"); !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
				t.Errorf("tool results = %q, want %q", got, tc.want)
			}
		})
	}
	t.Run("no fault", func(t *testing.T) {
		t.Parallel()
		k := startCountingWorkers(t)
		flow := withCounter(harness.WithChildBranches(harness.FanIn("many", "a", "b")))
		run := k.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: flow}, MaxEvents: 30, Script: harness.Script(t, `rules:
- {node: join, turn: 1, call: [{tool: add}]}
- {contains: count 9, say: all}
- {node: join, say: "not all"}
- {turn: 1, call: [{tool: add}]}
- {turn: 2, call: [{tool: add}]}
- {turn: 3, call: [{tool: add}]}
- {turn: 4, call: [{tool: add}]}
- {say: done}`)})
		out, err := harness.Result(t, run)
		if err != nil || *out.ResultText != "all" {
			t.Errorf("result = %+v, %v", out, err)
		}
		if n := harness.RunCount(t, k.Client, k.Client.GetWorkflow(context.Background(), run.GetID(), "")); n < 2 {
			t.Errorf("the run did not continue as new")
		}
	})
}

// results returns the texts of the tool results in a thread.
func (k *countingWorkers) results(t *testing.T, id, thread string) (out []string) {
	t.Helper()
	v, err := k.Client.QueryWorkflow(context.Background(), id, "", contract.QueryTranscript, contract.TranscriptQuery{Thread: thread})
	var page contract.TranscriptPage
	if err == nil {
		err = v.Get(&page)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range page.Messages {
		m, err := contract.DecodeMessage(raw)
		if err != nil {
			t.Fatal(err)
		}
		if m.Role == contract.RoleTool {
			out = append(out, m.Text)
		}
	}
	return out
}
