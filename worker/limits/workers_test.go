package limits_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/worker/limits"
	"weft/workflows/limiter"
)

// server is a client of a server with one limiter, which answers after up to 300 ms, and not at all while it is down.
type server struct {
	client.Client
	limits.Server
	mu      sync.Mutex
	limiter *limiter.Queue
	started bool
	down    bool
	r       *rand.Rand
}

func newServer(seed uint64) *server {
	return &server{limiter: limiter.NewQueue(contract.LimiterState{}, time.Minute), r: rand.New(rand.NewPCG(seed, 1))}
}

// stop has the server not answer for a time.
func (s *server) stop(d time.Duration) {
	set := func(down bool) {
		s.mu.Lock()
		s.down = down
		s.mu.Unlock()
	}
	set(d > 0)
	time.Sleep(d)
	set(false)
}

func (*server) Start() error { return nil }

func (*server) NewWithStartWorkflowOperation(client.StartWorkflowOptions, any, ...any) client.WithStartWorkflowOperation {
	return nil
}

func (s *server) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		return nil, errors.New("not found")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}}, nil
}

func (s *server) UpdateWithStartWorkflow(ctx context.Context, o client.UpdateWithStartWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	s.mu.Lock()
	for ; s.down; s.mu.Lock() { // the client tries again
		s.mu.Unlock()
		if time.Sleep(100 * time.Millisecond); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	delay := time.Duration(s.r.Int64N(int64(300 * time.Millisecond)))
	s.mu.Unlock()
	time.Sleep(delay / 2)
	s.mu.Lock()
	out := s.limiter.Reserve(time.Now().UnixMicro(), o.UpdateOptions.Args[0].(*contract.LimitRequest))
	s.started = !out.Free
	s.mu.Unlock()
	time.Sleep(delay / 2)
	return handle{out: out}, nil
}

type handle struct {
	client.WorkflowUpdateHandle
	out *contract.LimitReply
}

func (h handle) Get(_ context.Context, to any) error {
	*to.(*contract.LimitReply) = *h.out
	return nil
}

// provider takes so many calls in any minute, and refuses the others: it asks to wait for a time, if that is not 0.
type provider struct {
	limit int
	after time.Duration

	mu                    sync.Mutex
	first                 time.Time
	taken                 []time.Time
	early, late, lastHalf int // refused in the first minute, later, and after ten minutes
}

func (p *provider) takes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.first.IsZero() {
		p.first = now
	}
	for len(p.taken) > 0 && now.Sub(p.taken[0]) >= time.Minute {
		p.taken = p.taken[1:]
	}
	if len(p.taken) < p.limit {
		p.taken = append(p.taken, now)
		return true
	}
	if age := now.Sub(p.first); age < time.Minute {
		p.early++
	} else if p.late++; age > 10*time.Minute {
		p.lastHalf++
	}
	return false
}

// call makes a call until the provider takes it, as an activity does that Temporal repeats. It reports whether it was taken.
func (p *provider) call(ctx context.Context, l *limits.Limits, key llm.LimitedKey, name string) bool {
	for ctx.Err() == nil {
		permit, err := l.Begin(ctx, key, contract.LimitedCall{Key: name})
		if err != nil {
			return false
		}
		if permit.Wait > 0 {
			time.Sleep(permit.Wait)
			continue
		}
		takes := p.takes()
		if time.Sleep(100 * time.Millisecond); takes {
			permit.End(llm.LimitOutcome{})
			return true
		}
		permit.End(llm.LimitOutcome{Refused: "too many", After: p.after})
		time.Sleep(max(p.after, time.Second))
	}
	return false
}

// calls makes so many calls on three workers, which begin over a time, until they are taken or a time is over. It returns how many
// are taken, and how long that takes.
func (p *provider) calls(t *testing.T, s *server, configured, calls int, spread, within time.Duration) (taken int, took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	key := llm.LimitedKey{Fingerprint: "k", Requests: configured}
	var workers []*limits.Limits
	for range 3 {
		workers = append(workers, limits.New(s, s, time.Minute, log.NewStructuredLogger(slog.New(slog.DiscardHandler))))
	}
	var all sync.WaitGroup
	var n atomic.Int64
	began := time.Now()
	for i := range calls {
		all.Go(func() {
			time.Sleep(spread * time.Duration(i) / time.Duration(calls))
			if p.call(ctx, workers[i%3], key, fmt.Sprint(i)) {
				n.Add(1)
			}
		})
	}
	all.Wait()
	took = time.Since(began)
	time.Sleep(time.Minute) // Updates under way end
	return int(n.Load()), took
}

// TestThreeWorkers makes calls whose provider takes 60 in any minute: with that limit configured it refuses none, and without one
// none after the first minute, however the calls come.
func TestThreeWorkers(t *testing.T) {
	tests := map[string]struct {
		configured, calls   int
		spread, down, after time.Duration
	}{
		"configured, at once":              {configured: 60, calls: 100},
		"configured, over a minute":        {configured: 60, calls: 200, spread: time.Minute},
		"configured, the server restarts":  {configured: 60, calls: 100, down: 10 * time.Second},
		"not configured, at once":          {calls: 100},
		"not configured, in ten seconds":   {calls: 100, spread: 10 * time.Second},
		"not configured, in fifty seconds": {calls: 100, spread: 50 * time.Second},
		"not configured, many":             {calls: 300},
		"not configured, a second":         {calls: 100, after: time.Second},
		"not configured, 20 seconds":       {calls: 100, after: 20 * time.Second},
		"not configured, a minute":         {calls: 100, after: time.Minute},
	}
	for name, tc := range tests {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%s, %d", name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, p := newServer(seed), &provider{limit: 60, after: tc.after}
					time.AfterFunc(20*time.Second, func() { s.stop(tc.down) })
					taken, took := p.calls(t, s, tc.configured, tc.calls, tc.spread, time.Hour)
					if taken != tc.calls || p.late > 0 || tc.configured > 0 && p.early > 0 {
						t.Errorf("%d calls were taken; %d refused in the first minute, %d later", taken, p.early, p.late)
					}
					if most := time.Duration(tc.calls)*time.Minute/40 + time.Minute; took > most {
						t.Errorf("%d calls took %s", tc.calls, took)
					}
				})
			})
		}
	}
}

// TestAProviderThatRefusesForGood is asked once or twice a minute in the end.
func TestAProviderThatRefusesForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		taken, _ := p.calls(t, newServer(1), 0, 40, 0, 20*time.Minute)
		if taken > 0 || p.lastHalf == 0 || p.lastHalf > 20 {
			t.Errorf("%d calls were taken, and %d refused after ten minutes", taken, p.lastHalf)
		}
	})
}
