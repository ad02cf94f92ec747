package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/activities/llm"
)

// server is a fake client that answers Updates with answer, after a delay.
type server struct {
	client.Client
	answer  func(*contract.LimitRequest) (*contract.LimitReply, error)
	delay   time.Duration
	running bool

	mu        sync.Mutex
	asked     []*contract.LimitRequest
	describes int
}

func (*server) NewWithStartWorkflowOperation(client.StartWorkflowOptions, any, ...any) client.WithStartWorkflowOperation {
	return nil
}

func (s *server) UpdateWithStartWorkflow(ctx context.Context, o client.UpdateWithStartWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	in := o.UpdateOptions.Args[0].(*contract.LimitRequest)
	s.mu.Lock()
	s.asked = append(s.asked, in)
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.pause()):
	}
	out, err := s.answer(in)
	return handle{out: out}, err
}

func (s *server) DescribeWorkflowExecution(ctx context.Context, _, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.mu.Lock()
	s.describes++
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.pause()):
	}
	if !s.running {
		return nil, errors.New("not found")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}}, nil
}

func (s *server) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delay
}

func (s *server) setPause(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

func (s *server) requests() []*contract.LimitRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

type handle struct {
	client.WorkflowUpdateHandle
	out *contract.LimitReply
}

func (h handle) Get(_ context.Context, to any) error {
	*to.(*contract.LimitReply) = *h.out
	return nil
}

// admit admits every call immediately.
func admit(in *contract.LimitRequest) (*contract.LimitReply, error) {
	return &contract.LimitReply{Turns: make([]contract.LimitTurn, len(in.Calls))}, nil
}

// fakeServer is a limiter worker; Start returns broken.
type fakeServer struct{ broken error }

func (s fakeServer) Start() error { return s.broken }
func (fakeServer) Stop()          {}

type warnings struct{ n int }

func (*warnings) Debug(string, ...any)  {}
func (*warnings) Info(string, ...any)   {}
func (w *warnings) Warn(string, ...any) { w.n++ }
func (*warnings) Error(string, ...any)  {}

// bubble runs a test with a fake clock. It fails if a goroutine outlives the timeout of an Update.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t)
		time.Sleep(updateTimeout + 2*retryAfter)
	})
}

var limited = llm.LimitedKey{Fingerprint: "k", Requests: 60}

func begin(t *testing.T, l *Limits, of llm.LimitedKey, name string) llm.Permit {
	t.Helper()
	p, err := l.Begin(t.Context(), of, contract.LimitedCall{Key: name})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRequestsAreBatched checks that calls that begin while an Update is in flight share the next Update.
func TestRequestsAreBatched(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{answer: admit, delay: 200 * time.Millisecond}
		l := New(s, fakeServer{}, time.Minute, &warnings{})
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if p := begin(t, l, limited, fmt.Sprint(i)); p.Wait > 0 || p.Unlimited {
					t.Errorf("call %d: permit %+v", i, p)
				}
			})
		}
		all.Wait()
		calls := 0
		for _, in := range s.requests() {
			calls += len(in.Calls)
		}
		if calls != 20 || len(s.requests()) > 2 {
			t.Errorf("%d calls were requested in %d Updates", calls, len(s.requests()))
		}
	})
}

// TestUnreachable checks that calls are not limited while the limiter does not answer or the worker cannot start one, and are limited afterwards.
func TestUnreachable(t *testing.T) {
	for name, broken := range map[string]error{"no answer": nil, "no limiter worker": errors.New("no permission")} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, w := &server{answer: admit, delay: time.Hour}, &warnings{}
				l := New(s, fakeServer{broken}, time.Minute, w)
				began := time.Now()
				if p := begin(t, l, limited, "a"); !p.Unlimited || p.Wait > 0 || w.n != 1 || time.Since(began) > updateTimeout {
					t.Errorf("first call: permit %+v after %s, %d warnings", p, time.Since(began), w.n)
				}
				if p := begin(t, l, limited, "b"); !p.Unlimited || time.Since(began) > 2*updateTimeout+retryAfter {
					t.Errorf("second call: permit %+v after %s", p, time.Since(began))
				}
				s.setPause(0)
				l.mu.Lock()
				l.server = fakeServer{}
				l.mu.Unlock()
				time.Sleep(updateTimeout + 2*retryAfter)
				if p := begin(t, l, limited, "c"); p.Unlimited || p.Wait > 0 {
					t.Errorf("with a limiter: permit %+v", p)
				}
				s.setPause(time.Hour)
				begin(t, l, limited, "d")
				l.Stop()
			})
		})
	}
}

// TestUnusedTurnsAreReturned checks that the limiter is told about every turn that was not used: because the call was cancelled
// before or after it had its turn, or because the answer was late.
func TestUnusedTurnsAreReturned(t *testing.T) {
	tests := map[string]struct {
		delay, turn, cancel time.Duration
		begins              bool
		unused              int
	}{
		"cancelled before the answer": {delay: time.Second, cancel: time.Millisecond, unused: 1},
		"cancelled before the turn":   {turn: 400 * time.Millisecond, cancel: 200 * time.Millisecond, unused: 1},
		"one late answer":             {delay: 3 * time.Second, cancel: time.Minute, begins: true, unused: 1},
		"turn used":                   {delay: time.Second, turn: 400 * time.Millisecond, cancel: time.Minute, begins: true},
		"no turn, request again":      {turn: -time.Second, cancel: 500 * time.Millisecond, begins: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &server{delay: tc.delay, answer: func(in *contract.LimitRequest) (*contract.LimitReply, error) {
					out, _ := admit(in)
					for i := range out.Turns {
						out.Turns[i] = contract.LimitTurn{Micros: max(tc.turn, -tc.turn).Microseconds(), Ask: tc.turn < 0}
					}
					return out, nil
				}}
				l := New(s, fakeServer{}, time.Minute, &warnings{})
				ctx, cancel := context.WithTimeout(t.Context(), tc.cancel)
				defer cancel()
				if _, err := l.Begin(ctx, limited, contract.LimitedCall{Key: "a", Tokens: 7}); (err == nil) != tc.begins {
					t.Errorf("Begin() error = %v", err)
				}
				time.Sleep(5 * time.Second)
				s.setPause(0)
				begin(t, l, limited, "b")
				unused, used := 0, 0
				for _, in := range s.requests() {
					unused, used = unused+in.Unused, used+in.Used
				}
				if unused != tc.unused || used != -7*tc.unused {
					t.Errorf("returned %d turns and %d tokens, want %d turns", unused, used, tc.unused)
				}
			})
		})
	}
}

// TestNoLimit checks that calls without a limit wait at most for one lookup, and that the limiter started by another worker is found.
func TestNoLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{delay: time.Second, answer: admit}
		l, free := New(s, fakeServer{errors.New("it is not needed")}, time.Minute, &warnings{}), llm.LimitedKey{Fingerprint: "k"}
		began := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				p := begin(t, l, free, fmt.Sprint(i))
				p.End(llm.LimitOutcome{Used: 1000})
				if !p.Unlimited || time.Since(began) > time.Second {
					t.Errorf("permit %+v after %s", p, time.Since(began))
				}
			})
		}
		all.Wait()
		if s.describes != 1 || len(s.requests()) != 0 {
			t.Errorf("%d lookups and %d requests", s.describes, len(s.requests()))
		}
		s.running, l.server = true, fakeServer{}
		time.Sleep(lookEvery + time.Second)
		if p := begin(t, l, free, "shared"); p.Unlimited || len(s.requests()) != 1 || s.requests()[0].Used != 0 {
			t.Errorf("permit %+v; %d requests", p, len(s.requests()))
		}
		s.setPause(time.Hour)
		other := llm.LimitedKey{Fingerprint: "other"}
		began = time.Now()
		if p := begin(t, l, other, "not found"); !p.Unlimited || time.Since(began) > lookTimeout {
			t.Errorf("without an answer of the server: permit %+v after %s", p, time.Since(began))
		}
		s.setPause(0)
		s.answer = func(in *contract.LimitRequest) (*contract.LimitReply, error) {
			out, err := admit(in)
			out.Free = true
			return out, err
		}
		begin(t, l, free, "the last that asks")
		if p := begin(t, l, free, "free"); !p.Unlimited {
			t.Errorf("with a free limiter: permit %+v", p)
		}
	})
}

// TestRefusalIsReported checks that a call refused by a provider without a configured limit is reported to the limiter, and that later calls request a turn.
func TestRefusalIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{answer: admit}
		l, free := New(s, fakeServer{}, time.Minute, &warnings{}), llm.LimitedKey{Fingerprint: "k"}
		begin(t, l, free, "a")
		p := begin(t, l, free, "b")
		time.Sleep(time.Second)
		p.End(llm.LimitOutcome{Refused: "slow down", After: 2 * time.Second})
		time.Sleep(time.Second)
		if len(s.requests()) != 1 {
			t.Fatalf("%d Updates, want 1", len(s.requests()))
		}
		if in := s.requests()[0]; in.Refusal == nil || *in.Refusal != (contract.LimitRefusal{AgoMillis: 1000, AfterMillis: 2000}) || in.Sent != 1 {
			t.Errorf("request %+v, refusal %+v", in, in.Refusal)
		}
		if p := begin(t, l, free, "c"); p.Unlimited {
			t.Error("the next call did not request a turn")
		}
	})
}

// TestBeginIsCancelled checks that Begin returns when its context ends, and leaves no goroutine.
func TestBeginIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{answer: admit, delay: time.Hour}
		l := New(s, fakeServer{}, time.Minute, &warnings{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		defer l.Stop()
		if _, err := l.Begin(ctx, limited, contract.LimitedCall{Key: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Begin() error = %v", err)
		}
	})
}
