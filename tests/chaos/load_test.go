package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/tests/programs"
)

const (
	// loadInFlight is how many runs are open at a time, loadCall how long a model call takes.
	loadInFlight = 40
	loadCall     = 300 * time.Millisecond
	// loadHeartbeat is long so that calls time out only because of faults, even on a busy machine.
	loadHeartbeat = 15 * time.Second
	// loadTimeout plus loadTimeoutEach per run limits a load test. They are long because machines may be
	// busy and servers restart slowly.
	loadTimeout     = 10 * time.Minute
	loadTimeoutEach = time.Second
)

// loadRequest is one request of a call.
type loadRequest struct {
	worker string
	at     time.Time
	// interrupted is set if the client disconnected before the answer.
	interrupted bool
	// disconnected is set for the worker that is disconnected for a while: it may send calls late that it
	// took before that, or that were buffered on the connection.
	disconnected bool
}

// loadTest executes many runs of a chain of three agents on a cluster, with a model that records
// which worker sent which call and when.
type loadTest struct {
	t      *testing.T
	client client.Client
	queue  string
	model  string // host:port

	mu      sync.Mutex
	log     map[string][]*loadRequest
	faults  []faultSpan
	workers int
	// disconnected is the name of the worker that is to be disconnected.
	disconnected string
}

// faultSpan is the time of a fault.
type faultSpan struct {
	what     string
	from, to time.Time
}

// newLoadTest returns a load test and serves its model.
func newLoadTest(t *testing.T) *loadTest {
	s := &loadTest{t: t, client: harness.Dial(t, harness.ServerAddress(t)), queue: fmt.Sprintf("loadTest-%d", time.Now().UnixNano()), log: map[string][]*loadRequest{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = srv.Close() })
	s.model = l.Addr().String()
	return s
}

// serve answers after loadCall. The path begins with the worker's name.
func (s *loadTest) serve(w http.ResponseWriter, r *http.Request) {
	var in struct{ Stream bool }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return // the client has disconnected
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	a := &loadRequest{worker: name, at: time.Now()}
	s.mu.Lock()
	a.disconnected = name == s.disconnected
	key := r.Header.Get("Idempotency-Key")
	s.log[key] = append(s.log[key], a)
	s.mu.Unlock()
	select {
	case <-time.After(loadCall):
	case <-r.Context().Done():
		s.mu.Lock()
		a.interrupted = true
		s.mu.Unlock()
		return
	}
	message, kind := map[string]any{"role": "assistant", "content": "fine"}, "message"
	if in.Stream {
		kind = "delta"
	}
	raw, err := json.Marshal(map[string]any{"model": "m", "choices": []any{map[string]any{kind: message, "finish_reason": "stop"}}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if !in.Stream {
		_, _ = w.Write(raw)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", raw)
}

// loadWorker is a worker process.
type loadWorker struct {
	name string
	cmd  *exec.Cmd
}

// startWorker starts a worker that connects to Temporal and the model at the given addresses. The
// arguments in under, if any, are a command that runs it.
func (s *loadTest) startWorker(temporal, model string, under ...string) *loadWorker {
	s.t.Helper()
	s.mu.Lock()
	s.workers++
	w := &loadWorker{name: fmt.Sprintf("w%d", s.workers)}
	s.mu.Unlock()
	dir := s.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weft.yaml"), fmt.Appendf(nil, "timeouts: {heartbeat: %s, first_retry: 100ms}\n", loadHeartbeat), 0o600); err != nil {
		s.t.Fatal(err)
	}
	args := append(under, programs.Path(s.t, "WEFT_WORKER"))
	w.cmd = exec.Command(args[0], args[1:]...)
	w.cmd.Dir = dir
	w.cmd.Env = append(programs.CleanEnv(), "TEMPORAL_ADDRESS="+temporal, "WEFT_TASK_QUEUE="+s.queue,
		"WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL=http://"+model+"/"+w.name+"/v1")
	w.cmd.Stderr = programs.Log(s.t, w.name)
	w.cmd.Stdout = w.cmd.Stderr
	if err := w.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(w.kill)
	return w
}

func (w *loadWorker) kill() {
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}

// withFault calls do and records a fault for its duration.
func (s *loadTest) withFault(what string, do func()) {
	from := time.Now()
	do()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faultSpan{what, from, time.Now()})
}

// run executes a number of runs and checks all of them. The keys of faults say after how many ended runs to inject each fault.
func (s *loadTest) run(runs int, faults map[int]func()) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), loadTimeout+time.Duration(runs)*loadTimeoutEach)
	defer cancel()
	slots, ended := make(chan struct{}, loadInFlight), make(chan struct{}, runs)
	var all, injector sync.WaitGroup
	injector.Go(func() {
		for n := 1; n <= runs; n++ {
			select {
			case <-ended:
			case <-ctx.Done():
				return
			}
			if f := faults[n]; f != nil {
				f()
			}
		}
	})
	errs := make([]error, runs)
	for i := range runs {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots; ended <- struct{}{} }()
			errs[i] = s.complete(ctx, fmt.Sprintf("%s-%d", s.queue, i))
		})
	}
	all.Wait()
	injector.Wait()
	if err := errors.Join(errs...); err != nil {
		s.t.Errorf("some of %d runs failed: %.2000v", runs, err)
		return
	}
	s.check(ctx, runs)
}

// complete starts a run and waits for its end, retrying while the server is down.
func (s *loadTest) complete(ctx context.Context, id string) error {
	in := contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Text: clusterFlow, Name: "chain.json"}, Model: "fake/m", Input: "go"}
	for ctx.Err() == nil {
		run, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: s.queue,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE}, contract.WorkflowFlow, in)
		var exists *serviceerror.WorkflowExecutionAlreadyStarted
		if errors.As(err, &exists) {
			run, err = s.client.GetWorkflow(ctx, id, ""), nil
		}
		var out contract.RunResult
		if err == nil {
			err = run.Get(ctx, &out)
		}
		if err == nil {
			if out.ResultText == nil || *out.ResultText != "fine" || out.Usage.Calls != 3 {
				return fmt.Errorf("%s: %+v", id, out)
			}
			return nil
		}
		if f := contract.FailureOf(err); f.Class != contract.ClassUnavailable && f.Class != contract.ClassTimeout {
			return fmt.Errorf("%s: %w", id, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	return fmt.Errorf("%s: %w", id, ctx.Err())
}

// check compares the requests with the histories: every call was received, none after its
// result was recorded, none more often than it has attempts, none again without a fault in
// between, and every interrupted call was received again.
func (s *loadTest) check(ctx context.Context, runs int) {
	s.t.Helper()
	known := map[string]*recordedCall{}
	for i := range runs {
		if err := readCalls(ctx, s.client, fmt.Sprintf("%s-%d", s.queue, i), known); err != nil {
			s.t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(known) != 3*runs || len(s.log) != len(known) {
		s.t.Errorf("%d calls in histories, %d received; want %d", len(known), len(s.log), 3*runs)
	}
	interrupted, repeated, late := 0, 0, 0
	for key, requests := range s.log {
		r := known[key]
		if r == nil {
			s.t.Errorf("call %q is in no history", key)
			continue
		}
		for _, p := range loadProblems(requests, r, s.faults) {
			s.t.Errorf("call %s: %s", key, p)
		}
		repeated += len(requests) - 1
		for _, a := range requests {
			if a.interrupted {
				interrupted++
			}
			if a.disconnected && a.at.After(r.done) {
				late++
			}
		}
	}
	for _, f := range s.faults {
		s.t.Logf("%s: %.1f s", f.what, f.to.Sub(f.from).Seconds())
	}
	s.t.Logf("%d runs, none lost; %d calls, %d interrupted, %d repeated, of which %d late from the disconnected worker", runs, len(known), interrupted, repeated, late)
}

// recordedCall is a call in history.
type recordedCall struct {
	attempts int
	done     time.Time
}

// readCalls adds the calls of one run to a map, by idempotency key.
func readCalls(ctx context.Context, c client.Client, id string, to map[string]*recordedCall) error {
	scheduled := map[int64]*recordedCall{}
	it := c.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	run := ""
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return fmt.Errorf("read the history of %s: %w", id, err)
		}
		if a := e.GetWorkflowExecutionStartedEventAttributes(); a != nil {
			run = a.OriginalExecutionRunId
		}
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == contract.ActivityCallModel {
			r := &recordedCall{}
			scheduled[e.EventId], to[run+"/"+a.ActivityId] = r, r
		}
		if a := e.GetActivityTaskStartedEventAttributes(); a != nil && scheduled[a.ScheduledEventId] != nil {
			scheduled[a.ScheduledEventId].attempts = int(a.Attempt)
		}
		if a := e.GetActivityTaskCompletedEventAttributes(); a != nil && scheduled[a.ScheduledEventId] != nil {
			scheduled[a.ScheduledEventId].done = e.EventTime.AsTime()
		}
	}
	return nil
}

// loadProblems checks all requests of one call.
func loadProblems(requests []*loadRequest, r *recordedCall, faults []faultSpan) (problems []string) {
	if len(requests) > r.attempts {
		problems = append(problems, fmt.Sprintf("received %d times in %d attempts", len(requests), r.attempts))
	}
	for i, a := range requests {
		if a.disconnected && faultBetween(faults, a.at, a.at) && !r.done.IsZero() {
			continue // it took the call before the result was recorded; its own result is rejected
		}
		if r.done.IsZero() || a.at.After(r.done) {
			problems = append(problems, fmt.Sprintf("received again %s after its result was recorded", a.at.Sub(r.done)))
		}
		if a.interrupted && i == len(requests)-1 {
			problems = append(problems, "interrupted and not received again")
		}
		if i == 0 {
			continue
		}
		if !faultBetween(faults, requests[i-1].at, a.at) {
			problems = append(problems, fmt.Sprintf("received from %s and from %s, %s later, without a fault in between", requests[i-1].worker, a.worker, a.at.Sub(requests[i-1].at)))
		}
	}
	return problems
}

// faultBetween reports whether there was a fault between two times.
func faultBetween(faults []faultSpan, from, to time.Time) bool {
	return slices.ContainsFunc(faults, func(f faultSpan) bool { return f.from.Before(to) && f.to.After(from) })
}

// TestLoadCheckFindsErrors checks that loadProblems reports each kind of error.
func TestLoadCheckFindsErrors(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	faults := []faultSpan{{"a kill", at(10), at(12)}}
	tests := map[string]struct {
		made []*loadRequest
		rec  recordedCall
		want string
	}{
		"once":                               {[]*loadRequest{{at: at(1)}}, recordedCall{1, at(2)}, ""},
		"interrupted and repeated":           {[]*loadRequest{{at: at(9), interrupted: true}, {at: at(13)}}, recordedCall{2, at(14)}, ""},
		"answered but not recorded":          {[]*loadRequest{{at: at(9)}, {at: at(13)}}, recordedCall{2, at(14)}, ""},
		"an attempt without a request":       {[]*loadRequest{{at: at(13)}}, recordedCall{2, at(14)}, ""},
		"repeated after the result":          {[]*loadRequest{{at: at(9)}, {at: at(13)}}, recordedCall{2, at(11)}, "after its result was recorded"},
		"more requests than attempts":        {[]*loadRequest{{at: at(9)}, {at: at(13)}}, recordedCall{1, at(14)}, "received 2 times in 1 attempts"},
		"repeated without a fault":           {[]*loadRequest{{at: at(1)}, {at: at(3)}}, recordedCall{2, at(4)}, "without a fault"},
		"interrupted, not repeated":          {[]*loadRequest{{at: at(9), interrupted: true}}, recordedCall{2, at(14)}, "not received again"},
		"late, from the disconnected worker": {[]*loadRequest{{at: at(8)}, {at: at(11), disconnected: true, interrupted: true}}, recordedCall{2, at(10)}, ""},
		"late, long after it reconnected":    {[]*loadRequest{{at: at(8)}, {at: at(20), disconnected: true}}, recordedCall{2, at(10)}, "after its result was recorded"},
		"without a result":                   {[]*loadRequest{{at: at(9)}}, recordedCall{1, time.Time{}}, "after its result was recorded"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(loadProblems(tc.made, &tc.rec, faults), "\n")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("problems = %q, want %q", got, tc.want)
			}
		})
	}
}
