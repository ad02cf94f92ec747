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

// syncBuffer is a buffer that can be read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *syncBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// wait waits until a line matches.
func (l *syncBuffer) wait(t *testing.T, pattern string, timeout time.Duration) {
	t.Helper()
	want := regexp.MustCompile("(?m)" + pattern)
	for end := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		l.mu.Lock()
		text := l.buf.String()
		l.mu.Unlock()
		if want.MatchString(text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no line matches %s within %v:\n%s", pattern, timeout, text)
		}
	}
}

const singleNodeFlow = `{"name": "Echo", "nodes": [{"id": "echo", "name": "Echo", "prompt": "Repeat.", "is_exit_node": true}],
 "edges": [{"id": "in", "source": "START", "target": "echo"}, {"id": "out", "source": "echo", "target": "END"}]}`

// TestEndToEndStuckRuns starts runs that no worker polls for, or that fail in every workflow task: starter
// reports the cause, and the run completes once there is a working worker.
func TestEndToEndStuckRuns(t *testing.T) {
	path := programs.Path(t, "WEFT_DEVSERVER")
	address := devserver(t, path, "-worker=false")
	t.Parallel() // after the start: servers that start concurrently may take each other's ports
	c, err := client.Dial(client.Options{HostPort: address, Logger: discardLogger{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	flow := t.TempDir() + "/flow.json"
	if err := os.WriteFile(flow, []byte(singleNodeFlow), 0o600); err != nil {
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
		queue    string
		workflow string // registered by the first worker; "" means no worker
		want     string
	}{
		"no worker": {queue: "nobody", want: `^no worker polls task queue "nobody", namespace default at 127\.0\.0\.1:\d+; start one with: bin/worker or make dev; waiting$`},
		"panic in the workflow": {queue: "panics", workflow: contract.WorkflowFlow,
			want: `^run-panics cannot continue: its workflow task has failed \d+ times \(task queue "panics", namespace default at 127\.0\.0\.1:\d+\): .*a page is missing.*; check the worker's log; .*; waiting$`},
		"worker without the workflow": {queue: "foreign", workflow: "Other",
			want: `^run-foreign cannot continue: .*unable to find workflow type.*; the workers of this task queue are not Weft workers: use another with -task-queue, or start bin/worker; waiting$`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			broken.Store(true)
			var first worker.Worker
			if tc.workflow != "" {
				first = startWorker(t, c, tc.queue, tc.workflow, run)
			}
			var stdout, stderr syncBuffer
			a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, env: mapEnv{"TEMPORAL_ADDRESS": address, "TEMPORAL_CONFIG_FILE": flow + ".none"}}
			code := make(chan int, 1)
			start := time.Now()
			go func() {
				code <- a.run(context.Background(), []string{"-flow", flow, "-model", "script", "-task-queue", tc.queue, "-id", "run-" + tc.queue})
			}()
			stderr.wait(t, tc.want, 30*time.Second)
			t.Logf("reported after %v", time.Since(start))
			broken.Store(false)
			if tc.workflow != contract.WorkflowFlow {
				if first != nil {
					first.Stop()
				}
				startWorker(t, c, tc.queue, contract.WorkflowFlow, run)
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

// startWorker starts a worker with one workflow.
func startWorker(t *testing.T, c client.Client, queue, name string, fn any) worker.Worker {
	t.Helper()
	w := worker.New(c, queue, worker.Options{StickyScheduleToStartTimeout: time.Second})
	w.RegisterWorkflowWithOptions(fn, workflow.RegisterOptions{Name: name})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// discardLogger is a logger that discards everything.
type discardLogger struct{}

func (discardLogger) Debug(string, ...any) {}
func (discardLogger) Info(string, ...any)  {}
func (discardLogger) Warn(string, ...any)  {}
func (discardLogger) Error(string, ...any) {}
