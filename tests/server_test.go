package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/tests/programs"
	"weft/worker/host"
	"weft/workflows"
)

// What the tests of this package need of the programs that make e2e has built.
var (
	program = programs.Path
	clean   = programs.Clean
	logFile = programs.Log
)

// embedded is a server in a process of its own.
type embedded struct {
	address string
	cmd     *exec.Cmd
}

// startTemporal starts a server on a database and waits until it answers.
func startTemporal(t testing.TB, args ...string) *embedded {
	t.Helper()
	cmd := exec.Command(program(t, "WEFT_DEVSERVER"), append([]string{"-worker=false", "-ui-port=0"}, args...)...)
	cmd.Env = append(clean(), "WEFT_MODEL=script")
	var ready struct{ Address string }
	programs.Ready(t, cmd, &ready)
	return &embedded{address: ready.Address, cmd: cmd}
}

func (s *embedded) kill() { programs.Kill(s.cmd) }

var sharedServer struct {
	once    sync.Once
	address string
	stop    func()
}

// server is the address of one server for all tests that do not harm it.
func temporalAddress(t testing.TB) string {
	t.Helper()
	if a := os.Getenv("TEMPORAL_ADDRESS"); a != "" {
		return a
	}
	program(t, "WEFT_DEVSERVER")
	sharedServer.once.Do(func() {
		keep := &keeper{TB: t}
		s := startTemporal(keep, "-db", ":memory:", "-port=0")
		sharedServer.address, sharedServer.stop = s.address, s.kill
	})
	if sharedServer.address == "" {
		t.Fatal("the shared server did not start")
	}
	return sharedServer.address
}

// keeper lets a server outlive the test that happened to start it.
type keeper struct{ testing.TB }

func (*keeper) Cleanup(func()) {}

func (k *keeper) TempDir() string { return os.TempDir() }

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == stdioBox {
		os.Exit(serveOnStdio())
	}
	code := m.Run()
	if sharedServer.stop != nil {
		sharedServer.stop()
	}
	os.Exit(code)
}

func dial(t testing.TB, address string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: address, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// hand is a worker in the test's own process, on a task queue of its own.
type hand struct {
	client client.Client
	queue  string
	worker worker.Worker
}

// work starts a worker. A cache of one byte makes every activity ask its run.
func work(t testing.TB, c client.Client, queue string, cacheBytes int, tools *tool.Tools) worker.Worker {
	t.Helper()
	return workWith(t, c, queue, workflows.Settings{}, activities.Deps{Tools: tools, CacheBytes: cacheBytes})
}

// workWith starts a worker with settings; deps are besides what all have. wrap stands between the
// activities and the worker.
func workWith(t testing.TB, c client.Client, queue string, settings workflows.Settings, deps activities.Deps,
	wrap ...func(worker.ActivityRegistry) worker.ActivityRegistry) worker.Worker {
	t.Helper()
	if deps.Models == nil {
		models, err := llm.Open(llm.Settings{Default: "script"})
		if err != nil {
			t.Fatal(err)
		}
		deps.Models = models
	}
	w := worker.New(c, queue, worker.Options{StickyScheduleToStartTimeout: 2 * time.Second, MaxHeartbeatThrottleInterval: time.Second,
		DeadlockDetectionTimeout: time.Minute, // machines are busy
		WorkerStopTimeout:        10 * time.Second, WorkflowTaskPollerBehavior: worker.NewPollerBehaviorSimpleMaximum(worker.PollerBehaviorSimpleMaximumOptions{MaximumNumberOfPollers: 8}),
		ActivityTaskPollerBehavior: worker.NewPollerBehaviorSimpleMaximum(worker.PollerBehaviorSimpleMaximumOptions{MaximumNumberOfPollers: 8})})
	settings.Register(w)
	deps.Source, deps.Compile, deps.Begin, deps.Attributes = activities.NewClientSource(c), compileText, host.Begin, activities.NewAttributes(c)
	var registry worker.ActivityRegistry = w
	for _, in := range wrap {
		registry = in(registry)
	}
	activities.New(deps).Register(registry)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// newHand starts one worker on a queue of its own.
func newHand(t testing.TB, cacheBytes int) *hand {
	t.Helper()
	h := &hand{client: dial(t, temporalAddress(t)), queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.worker = work(t, h.client, h.queue, cacheBytes, nil)
	t.Cleanup(h.worker.Stop)
	return h
}

// start starts a run.
func (h *hand) start(t testing.TB, in contract.RunInput) client.WorkflowRun {
	t.Helper()
	in.V = contract.Version
	if in.Model == "" {
		in.Model = "script"
	}
	run, err := h.client.ExecuteWorkflow(context.Background(),
		client.StartWorkflowOptions{TaskQueue: h.queue, ID: fmt.Sprintf("run-%d", time.Now().UnixNano())}, contract.WorkflowFlow, in)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// resultOf waits for a run's result.
func resultOf(t testing.TB, run client.WorkflowRun) (*contract.RunResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // machines are busy
	defer cancel()
	var out contract.RunResult
	if err := run.Get(ctx, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// script reads a script for a run's input.
func script(t testing.TB, text string) json.RawMessage {
	t.Helper()
	raw, err := llm.ParseScript("test.script", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// events reads a run's whole history.
func events(t testing.TB, c client.Client, id, run string) []*historypb.HistoryEvent {
	t.Helper()
	var out []*historypb.HistoryEvent
	it := c.GetWorkflowHistory(context.Background(), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// historyBytes is the size of a run's history as Temporal counts it.
func historyBytes(t testing.TB, c client.Client, id, run string) int {
	t.Helper()
	d, err := c.DescribeWorkflowExecution(context.Background(), id, run)
	if err != nil {
		t.Fatal(err)
	}
	return int(d.GetWorkflowExecutionInfo().GetHistorySizeBytes())
}
