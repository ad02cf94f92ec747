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

// server is a client of a server that answers Updates as answer does, after a delay.
type server struct {
	client.Client
	answer  func(*contract.LimitRequest) (*contract.LimitReply, error)
	delay   time.Duration
	running bool

	mu      sync.Mutex
	asked   []*contract.LimitRequest
	lookups int
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
	s.lookups++
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

// admit lets every call begin.
func admit(in *contract.LimitRequest) (*contract.LimitReply, error) {
	return &contract.LimitReply{Turns: make([]contract.LimitTurn, len(in.Calls))}, nil
}

// noServer is a worker that starts, unless it is broken.
type noServer struct{ broken error }

func (s noServer) Start() error { return s.broken }
func (noServer) Stop()          {}

type warnings struct{ n int }

func (*warnings) Debug(string, ...any)  {}
func (*warnings) Info(string, ...any)   {}
func (w *warnings) Warn(string, ...any) { w.n++ }
func (*warnings) Error(string, ...any)  {}

// bubble runs a test with a clock of its own, and fails where it leaves a goroutine behind for longer than an Update may take.
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

// TestCallsAreAskedForTogether begins 20 calls while the first Update is under way: the second Update has the others.
func TestCallsAreAskedForTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{answer: admit, delay: 200 * time.Millisecond}
		l := New(s, noServer{}, time.Minute, &warnings{})
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if p := begin(t, l, limited, fmt.Sprint(i)); p.Wait > 0 || p.Unlimited {
					t.Errorf("call %d has %+v", i, p)
				}
			})
		}
		all.Wait()
		calls := 0
		for _, in := range s.requests() {
			calls += len(in.Calls)
		}
		if calls != 20 || len(s.requests()) > 2 {
			t.Errorf("%d calls were asked for in %d Updates", calls, len(s.requests()))
		}
	})
}

// TestUnreachable has a limiter that does not answer, and a worker that cannot serve one: calls are not limited until it does.
func TestUnreachable(t *testing.T) {
	for name, broken := range map[string]error{"no answer": nil, "no server": errors.New("no permission")} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, w := &server{answer: admit, delay: time.Hour}, &warnings{}
				l := New(s, noServer{broken}, time.Minute, w)
				began := time.Now()
				if p := begin(t, l, limited, "a"); !p.Unlimited || p.Wait > 0 || w.n != 1 || time.Since(began) > updateTimeout {
					t.Errorf("after %s a call has %+v, with %d warnings", time.Since(began), p, w.n)
				}
				if p := begin(t, l, limited, "b"); !p.Unlimited || time.Since(began) > 2*updateTimeout+retryAfter {
					t.Errorf("after %s the next one has %+v", time.Since(began), p)
				}
				s.setPause(0)
				l.mu.Lock()
				l.server = noServer{}
				l.mu.Unlock()
				time.Sleep(updateTimeout + 2*retryAfter)
				if p := begin(t, l, limited, "c"); p.Unlimited || p.Wait > 0 {
					t.Errorf("with a limiter again a call has %+v", p)
				}
				s.setPause(time.Hour)
				begin(t, l, limited, "d")
				l.Stop()
			})
		})
	}
}

// TestTurnsAreGivenBack cancels calls before and after they have their turns, while an Update is under way, and has a turn come
// too late: the limiter hears of every turn that was not used.
func TestTurnsAreGivenBack(t *testing.T) {
	tests := map[string]struct {
		delay, turn, cancel time.Duration
		begins              bool
		unused              int
	}{
		"before the answer":           {delay: time.Second, cancel: time.Millisecond, unused: 1},
		"before the turn":             {turn: 400 * time.Millisecond, cancel: 200 * time.Millisecond, unused: 1},
		"the answer is late, once":    {delay: 3 * time.Second, cancel: time.Minute, begins: true, unused: 1},
		"the turn is used":            {delay: time.Second, turn: 400 * time.Millisecond, cancel: time.Minute, begins: true},
		"it has no turn, and asks on": {turn: -time.Second, cancel: 500 * time.Millisecond, begins: true},
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
				l := New(s, noServer{}, time.Minute, &warnings{})
				ctx, cancel := context.WithTimeout(t.Context(), tc.cancel)
				defer cancel()
				if _, err := l.Begin(ctx, limited, contract.LimitedCall{Key: "a", Tokens: 7}); (err == nil) != tc.begins {
					t.Errorf("the call ended with %v", err)
				}
				time.Sleep(5 * time.Second)
				s.setPause(0)
				begin(t, l, limited, "b")
				unused, used := 0, 0
				for _, in := range s.requests() {
					unused, used = unused+in.Unused, used+in.Used
				}
				if unused != tc.unused || used != -7*tc.unused {
					t.Errorf("%d turns and %d tokens were given back, want %d", unused, used, tc.unused)
				}
			})
		})
	}
}

// TestNothingIsShared makes calls without a limit: they wait for a look-up at most, and the limiter of another worker is found.
func TestNothingIsShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{delay: time.Second, answer: admit}
		l, free := New(s, noServer{errors.New("it is not needed")}, time.Minute, &warnings{}), llm.LimitedKey{Fingerprint: "k"}
		began := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				p := begin(t, l, free, fmt.Sprint(i))
				p.End(llm.LimitOutcome{Used: 1000})
				if !p.Unlimited || time.Since(began) > time.Second {
					t.Errorf("a call has %+v after %s", p, time.Since(began))
				}
			})
		}
		all.Wait()
		if s.lookups != 1 || len(s.requests()) != 0 {
			t.Errorf("it looked %d times and asked %d times", s.lookups, len(s.requests()))
		}
		s.running, l.server = true, noServer{}
		time.Sleep(lookEvery + time.Second)
		if p := begin(t, l, free, "shared"); p.Unlimited || len(s.requests()) != 1 || s.requests()[0].Used != 0 {
			t.Errorf("a call has %+v; the limiter was asked %d times", p, len(s.requests()))
		}
		s.setPause(time.Hour)
		other := llm.LimitedKey{Fingerprint: "other"}
		began = time.Now()
		if p := begin(t, l, other, "not found"); !p.Unlimited || time.Since(began) > lookTimeout {
			t.Errorf("where the server does not answer a call has %+v after %s", p, time.Since(began))
		}
		s.setPause(0)
		s.answer = func(in *contract.LimitRequest) (*contract.LimitReply, error) {
			out, err := admit(in)
			out.Free = true
			return out, err
		}
		begin(t, l, free, "the last that asks")
		if p := begin(t, l, free, "free"); !p.Unlimited {
			t.Errorf("where nothing is limited a call has %+v", p)
		}
	})
}

// TestARefusalIsTold has the provider refuse a call without a configured limit: the limiter hears it, and is asked from then on.
func TestARefusalIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{answer: admit}
		l, free := New(s, noServer{}, time.Minute, &warnings{}), llm.LimitedKey{Fingerprint: "k"}
		begin(t, l, free, "a")
		p := begin(t, l, free, "b")
		time.Sleep(time.Second)
		p.End(llm.LimitOutcome{Refused: "slow down", After: 2 * time.Second})
		time.Sleep(time.Second)
		if len(s.requests()) != 1 {
			t.Fatalf("%d Updates were made", len(s.requests()))
		}
		if in := s.requests()[0]; in.Refusal == nil || *in.Refusal != (contract.LimitRefusal{AgoMillis: 1000, AfterMillis: 2000}) || in.Sent != 1 {
			t.Errorf("the limiter was told %+v, %+v", in, in.Refusal)
		}
		if p := begin(t, l, free, "c"); p.Unlimited {
			t.Error("the next call did not ask")
		}
	})
}

// TestBeginEndsWithItsContext ends calls that wait for an answer, and leaves nothing behind.
func TestBeginEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &server{answer: admit, delay: time.Hour}
		l := New(s, noServer{}, time.Minute, &warnings{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		defer l.Stop()
		if _, err := l.Begin(ctx, limited, contract.LimitedCall{Key: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the call ended with %v", err)
		}
	})
}
