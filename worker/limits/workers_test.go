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

// server is a fake client with one limiter, which answers within 300 ms, and not at all while it is down.
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

// stop takes the server down for d.
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
	for ; s.down; s.mu.Lock() { // the client retries
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

// provider accepts at most limit calls in any minute and refuses others, with a Retry-After of after unless it is 0.
type provider struct {
	limit int
	after time.Duration

	mu                    sync.Mutex
	first                 time.Time
	accepted              []time.Time
	early, late, lastHalf int // refused in the first minute, later, and after ten minutes
}

func (p *provider) accepts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.first.IsZero() {
		p.first = now
	}
	for len(p.accepted) > 0 && now.Sub(p.accepted[0]) >= time.Minute {
		p.accepted = p.accepted[1:]
	}
	if len(p.accepted) < p.limit {
		p.accepted = append(p.accepted, now)
		return true
	}
	if age := now.Sub(p.first); age < time.Minute {
		p.early++
	} else if p.late++; age > 10*time.Minute {
		p.lastHalf++
	}
	return false
}

// call retries a call until the provider accepts it, as Temporal does for an activity. It reports whether it was accepted.
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
		ok := p.accepts()
		if time.Sleep(100 * time.Millisecond); ok {
			permit.End(llm.LimitOutcome{})
			return true
		}
		permit.End(llm.LimitOutcome{Refused: "too many", After: p.after})
		time.Sleep(max(p.after, time.Second))
	}
	return false
}

// calls makes calls on three workers, started over spread, until they are accepted or within has passed. It returns the number of
// accepted calls and the time that it took.
func (p *provider) calls(t *testing.T, s *server, configured, calls int, spread, within time.Duration) (accepted int, took time.Duration) {
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
	time.Sleep(time.Minute) // for Updates in flight
	return int(n.Load()), took
}

// TestThreeWorkers checks calls of a provider that accepts 60 per minute: with that limit configured it refuses none, and without
// one it refuses none after the first minute, however the calls are distributed.
func TestThreeWorkers(t *testing.T) {
	tests := map[string]struct {
		configured, calls   int
		spread, down, after time.Duration
	}{
		"configured, at once":                    {configured: 60, calls: 100},
		"configured, over a minute":              {configured: 60, calls: 200, spread: time.Minute},
		"configured, server restart":             {configured: 60, calls: 100, down: 10 * time.Second},
		"not configured, at once":                {calls: 100},
		"not configured, over ten seconds":       {calls: 100, spread: 10 * time.Second},
		"not configured, over fifty seconds":     {calls: 100, spread: 50 * time.Second},
		"not configured, 300 calls":              {calls: 300},
		"not configured, retry after a second":   {calls: 100, after: time.Second},
		"not configured, retry after 20 seconds": {calls: 100, after: 20 * time.Second},
		"not configured, retry after a minute":   {calls: 100, after: time.Minute},
	}
	for name, tc := range tests {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("%s, %d", name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, p := newServer(seed), &provider{limit: 60, after: tc.after}
					time.AfterFunc(20*time.Second, func() { s.stop(tc.down) })
					accepted, took := p.calls(t, s, tc.configured, tc.calls, tc.spread, time.Hour)
					if accepted != tc.calls || p.late > 0 || tc.configured > 0 && p.early > 0 {
						t.Errorf("accepted %d calls, refused %d in the first minute and %d later", accepted, p.early, p.late)
					}
					if most := time.Duration(tc.calls)*time.Minute/40 + time.Minute; took > most {
						t.Errorf("%d calls took %s", tc.calls, took)
					}
				})
			})
		}
	}
}

// TestPermanentRefusal checks that a provider that refuses every call is called only once or twice a minute in the end.
func TestPermanentRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		accepted, _ := p.calls(t, newServer(1), 0, 40, 0, 20*time.Minute)
		if accepted > 0 || p.lastHalf == 0 || p.lastHalf > 20 {
			t.Errorf("accepted %d calls, refused %d after ten minutes", accepted, p.lastHalf)
		}
	})
}
