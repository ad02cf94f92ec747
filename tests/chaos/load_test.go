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
	// loadInFlight is how many runs are open at a time, loadCall how long a model's answer takes.
	loadInFlight = 40
	loadCall     = 300 * time.Millisecond
	// loadHeartbeat is long: on a busy machine, no call may be given up without a fault.
	loadHeartbeat = 15 * time.Second
	// loadTimeout bounds a loadTest, beside loadTimeoutEach for each run: machines are busy, and servers
	// come back slowly.
	loadTimeout     = 10 * time.Minute
	loadTimeoutEach = time.Second
)

// arrival is one request for one call.
type arrival struct {
	worker string
	at     time.Time
	// cut is set if whoever asked went away before the answer.
	cut bool
	// far is set for a worker that was cut off for a while: what it was given before that, or
	// what waited on the way, it may do late.
	far bool
}

// loadTest is many runs of a chain of three agents on a cluster, with a model that remembers who
// asked what and when.
type loadTest struct {
	t      *testing.T
	client client.Client
	queue  string
	model  string // host:port

	mu     sync.Mutex
	log    map[string][]*arrival
	faults []span
	hired  int
	// far is the name of a worker that is to be cut off.
	far string
}

// span is a time in which something was broken.
type span struct {
	what     string
	from, to time.Time
}

// newLoadTest serves the model.
func newLoadTest(t *testing.T) *loadTest {
	s := &loadTest{t: t, client: harness.Dial(t, harness.ServerAddress(t)), queue: fmt.Sprintf("loadTest-%d", time.Now().UnixNano()), log: map[string][]*arrival{}}
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

// serve answers after a while. The path begins with the worker's name.
func (s *loadTest) serve(w http.ResponseWriter, r *http.Request) {
	var in struct{ Stream bool }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return // whoever asked is gone
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	a := &arrival{worker: name, at: time.Now()}
	s.mu.Lock()
	a.far = name == s.far
	key := r.Header.Get("Idempotency-Key")
	s.log[key] = append(s.log[key], a)
	s.mu.Unlock()
	select {
	case <-time.After(loadCall):
	case <-r.Context().Done():
		s.mu.Lock()
		a.cut = true
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

// loadWorker is a worker's process.
type loadWorker struct {
	name string
	cmd  *exec.Cmd
}

// hire starts a worker that reaches Temporal and the model at the given addresses. Under, if
// set, is a command that runs it.
func (s *loadTest) hire(temporal, model string, under ...string) *loadWorker {
	s.t.Helper()
	s.mu.Lock()
	s.hired++
	b := &loadWorker{name: fmt.Sprintf("w%d", s.hired)}
	s.mu.Unlock()
	dir := s.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weft.yaml"), fmt.Appendf(nil, "timeouts: {heartbeat: %s, first_retry: 100ms}\n", loadHeartbeat), 0o600); err != nil {
		s.t.Fatal(err)
	}
	args := append(under, programs.Path(s.t, "WEFT_WORKER"))
	b.cmd = exec.Command(args[0], args[1:]...)
	b.cmd.Dir = dir
	b.cmd.Env = append(programs.Clean(), "TEMPORAL_ADDRESS="+temporal, "WEFT_TASK_QUEUE="+s.queue,
		"WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL=http://"+model+"/"+b.name+"/v1")
	b.cmd.Stderr = programs.Log(s.t, b.name)
	b.cmd.Stdout = b.cmd.Stderr
	if err := b.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(b.kill)
	return b
}

func (b *loadWorker) kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// broken notes that something was broken while do ran.
func (s *loadTest) broken(what string, do func()) {
	from := time.Now()
	do()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, span{what, from, time.Now()})
}

// run starts so many runs, with faults when so many of them have ended, and checks all of them.
func (s *loadTest) run(runs int, faults map[int]func()) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), loadTimeout+time.Duration(runs)*loadTimeoutEach)
	defer cancel()
	slots, ended := make(chan struct{}, loadInFlight), make(chan struct{}, runs)
	var all, blows sync.WaitGroup
	blows.Go(func() {
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
	lost := make([]error, runs)
	for i := range runs {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots; ended <- struct{}{} }()
			lost[i] = s.one(ctx, fmt.Sprintf("%s-%d", s.queue, i))
		})
	}
	all.Wait()
	blows.Wait()
	if err := errors.Join(lost...); err != nil {
		s.t.Errorf("of %d runs some were lost: %.2000v", runs, err)
		return
	}
	s.check(ctx, runs)
}

// one starts a run and waits for its end, however often the server is away.
func (s *loadTest) one(ctx context.Context, id string) error {
	in := contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Text: clusterFlow, Name: "chain.json"}, Model: "fake/m", Input: "go"}
	for ctx.Err() == nil {
		run, err := s.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: s.queue,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE}, contract.WorkflowFlow, in)
		var there *serviceerror.WorkflowExecutionAlreadyStarted
		if errors.As(err, &there) {
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

// check compares what came with what histories have: every call came, none after history had
// its result, none more often than it was tried, none again without a fault in between, and
// those that were cut off once more.
func (s *loadTest) check(ctx context.Context, runs int) {
	s.t.Helper()
	known := map[string]*recorded{}
	for i := range runs {
		if err := recordedOf(ctx, s.client, fmt.Sprintf("%s-%d", s.queue, i), known); err != nil {
			s.t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(known) != 3*runs || len(s.log) != len(known) {
		s.t.Errorf("histories have %d calls, %d came; want %d", len(known), len(s.log), 3*runs)
	}
	cut, again, late := 0, 0, 0
	for key, made := range s.log {
		r := known[key]
		if r == nil {
			s.t.Errorf("call %q is in no history", key)
			continue
		}
		for _, p := range callsProblems(made, r, s.faults) {
			s.t.Errorf("call %s: %s", key, p)
		}
		again += len(made) - 1
		for _, a := range made {
			if a.cut {
				cut++
			}
			if a.far && a.at.After(r.done) {
				late++
			}
		}
	}
	for _, f := range s.faults {
		s.t.Logf("%s: %.1f s", f.what, f.to.Sub(f.from).Seconds())
	}
	s.t.Logf("%d runs, none lost; %d calls, %d cut off under way, %d came again, of which %d late, from who was cut off", runs, len(known), cut, again, late)
}

// recorded is what history has of a call.
type recorded struct {
	attempts int
	done     time.Time
}

// recordedOf reads the calls of one run, by idempotency key.
func recordedOf(ctx context.Context, c client.Client, id string, to map[string]*recorded) error {
	scheduled := map[int64]*recorded{}
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
			r := &recorded{}
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

// callsProblems looks at all requests for one call.
func callsProblems(made []*arrival, r *recorded, faults []span) (problems []string) {
	if len(made) > r.attempts {
		problems = append(problems, fmt.Sprintf("it came %d times in %d attempts", len(made), r.attempts))
	}
	for i, a := range made {
		if a.far && within(faults, a.at, a.at) && !r.done.IsZero() {
			continue // it was given the call before history had a result; what it says is refused
		}
		if r.done.IsZero() || a.at.After(r.done) {
			problems = append(problems, fmt.Sprintf("it came again %s after history had its result", a.at.Sub(r.done)))
		}
		if a.cut && i == len(made)-1 {
			problems = append(problems, "it was cut off and did not come again")
		}
		if i == 0 {
			continue
		}
		if !within(faults, made[i-1].at, a.at) {
			problems = append(problems, fmt.Sprintf("it came from %s and from %s, %s later, and nothing was broken in between", made[i-1].worker, a.worker, a.at.Sub(made[i-1].at)))
		}
	}
	return problems
}

// within reports whether something was broken between two times.
func within(faults []span, from, to time.Time) bool {
	return slices.ContainsFunc(faults, func(f span) bool { return f.from.Before(to) && f.to.After(from) })
}

// TestLoadCheckFindsErrors gives the check calls that must not pass.
func TestLoadCheckFindsErrors(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	faults := []span{{"a kill", at(10), at(12)}}
	tests := map[string]struct {
		made []*arrival
		rec  recorded
		want string
	}{
		"once":                        {[]*arrival{{at: at(1)}}, recorded{1, at(2)}, ""},
		"cut off and made again":      {[]*arrival{{at: at(9), cut: true}, {at: at(13)}}, recorded{2, at(14)}, ""},
		"answered, and not taken in":  {[]*arrival{{at: at(9)}, {at: at(13)}}, recorded{2, at(14)}, ""},
		"an attempt that never came":  {[]*arrival{{at: at(13)}}, recorded{2, at(14)}, ""},
		"again though history has it": {[]*arrival{{at: at(9)}, {at: at(13)}}, recorded{2, at(11)}, "after history had its result"},
		"more often than tried":       {[]*arrival{{at: at(9)}, {at: at(13)}}, recorded{1, at(14)}, "it came 2 times in 1 attempts"},
		"again for nothing":           {[]*arrival{{at: at(1)}, {at: at(3)}}, recorded{2, at(4)}, "nothing was broken"},
		"cut off for good":            {[]*arrival{{at: at(9), cut: true}}, recorded{2, at(14)}, "did not come again"},
		"late, from who was cut off":  {[]*arrival{{at: at(8)}, {at: at(11), far: true, cut: true}}, recorded{2, at(10)}, ""},
		"late, long after the cut":    {[]*arrival{{at: at(8)}, {at: at(20), far: true}}, recorded{2, at(10)}, "after history had its result"},
		"without a result":            {[]*arrival{{at: at(9)}}, recorded{1, time.Time{}}, "after history had its result"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(callsProblems(tc.made, &tc.rec, faults), "\n")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("problems are %q, want %q", got, tc.want)
			}
		})
	}
}
