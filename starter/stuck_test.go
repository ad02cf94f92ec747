package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/tests/programs"
)

// lines is standard error that is read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// wait waits until a line matches.
func (l *lines) wait(t *testing.T, pattern string, patience time.Duration) {
	t.Helper()
	want := regexp.MustCompile("(?m)" + pattern)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		l.mu.Lock()
		text := l.buf.String()
		l.mu.Unlock()
		if want.MatchString(text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no line like %s within %v:\n%s", pattern, patience, text)
		}
	}
}

const stuckFlow = `{"name": "Echo", "nodes": [{"id": "echo", "name": "Echo", "prompt": "Repeat.", "is_exit_node": true}],
 "edges": [{"id": "in", "source": "START", "target": "echo"}, {"id": "out", "source": "echo", "target": "END"}]}`

// TestEndToEndRunsThatCannotGoOn starts runs that no worker takes, or that break every worker
// that takes them: it is said within 5 seconds, and the starter waits until it is mended.
func TestEndToEndRunsThatCannotGoOn(t *testing.T) {
	path := programs.Path(t, "WEFT_DEVSERVER")
	address := devserver(t, path, "-worker=false")
	t.Parallel() // after the start: servers that start at once may take each other's ports
	c, err := client.Dial(client.Options{HostPort: address, Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	flow := t.TempDir() + "/flow.json"
	if err := os.WriteFile(flow, []byte(stuckFlow), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "mended"
	var broken atomic.Bool
	run := func(ctx workflow.Context, _ contract.RunInput) (*contract.RunResult, error) {
		if broken.Load() {
			panic("a page is missing")
		}
		return &contract.RunResult{Status: "completed", ResultText: &text}, nil
	}
	tests := map[string]struct {
		queue string
		// before is the name of the workflow that the first worker has; "" is no worker.
		before string
		want   string
	}{
		"nobody polls": {queue: "nobody", want: `^no worker polls task queue "nobody", namespace default at 127\.0\.0\.1:\d+; start one with: bin/worker or make dev; waiting$`},
		"a worker that panics": {queue: "panics", before: contract.WorkflowFlow,
			want: `^run-panics cannot continue: its workflow task has failed \d+ times \(task queue "panics", namespace default at 127\.0\.0\.1:\d+\): .*a page is missing.*; check the worker's log; .*; waiting$`},
		"somebody else's worker": {queue: "foreign", before: "Other",
			want: `^run-foreign cannot continue: .*unable to find workflow type.*; the workers of this task queue are not Weft workers: use another with -task-queue, or start bin/worker; waiting$`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			broken.Store(true)
			var first worker.Worker
			if tc.before != "" {
				first = startWorkflow(t, c, tc.queue, tc.before, run)
			}
			var stdout, stderr lines
			a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, env: mapEnv{"TEMPORAL_ADDRESS": address, "TEMPORAL_CONFIG_FILE": flow + ".none"}}
			code := make(chan int, 1)
			began := time.Now()
			go func() {
				code <- a.run(context.Background(), []string{"-flow", flow, "-model", "script", "-task-queue", tc.queue, "-id", "run-" + tc.queue})
			}()
			stderr.wait(t, tc.want, 30*time.Second)
			t.Logf("said after %v", time.Since(began))
			broken.Store(false)
			if tc.before != contract.WorkflowFlow {
				if first != nil {
					first.Stop()
				}
				startWorkflow(t, c, tc.queue, contract.WorkflowFlow, run)
			}
			select {
			case got := <-code:
				if got != exitOK || stdout.buf.String() != "mended\n" {
					t.Errorf("exit code %d, result %q", got, stdout.buf.String())
				}
			case <-time.After(60 * time.Second):
				t.Fatalf("the run did not end:\n%s", stderr.buf.String())
			}
		})
	}
}

// startWorkflow runs a worker with one workflow.
func startWorkflow(t *testing.T, c client.Client, queue, name string, fn any) worker.Worker {
	t.Helper()
	w := worker.New(c, queue, worker.Options{StickyScheduleToStartTimeout: time.Second})
	w.RegisterWorkflowWithOptions(fn, workflow.RegisterOptions{Name: name})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// silent is a logger that says nothing.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
