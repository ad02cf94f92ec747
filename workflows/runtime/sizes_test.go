package runtime

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/wait"
	"weft/workflows/workflowtest"
)

func TestFits(t *testing.T) {
	full := strings.Repeat("x", contract.MaxPayload-2) // plus two quotes
	if err := new(Sizes).Fits("it", full); err != nil {
		t.Errorf("value of the maximum size: %v", err)
	}
	f := contract.FailureOf(new(Sizes).Fits("the run's result", full+"x"))
	if f.Class != contract.ClassTooLarge || !strings.Contains(f.Text, "the run's result is 1945601 bytes, at most 1945600") || f.Remedy == "" {
		t.Errorf("failure is %+v", f)
	}
	// The size after encoding counts, not the length.
	if err := new(Sizes).Fits("it", strings.Repeat("<", contract.MaxPayload/6+1)); err == nil {
		t.Error("value that is too large once encoded is accepted")
	}
	if err := new(Sizes).Fits("it", func() {}); err == nil {
		t.Error("value that cannot be encoded is accepted")
	}
}

func TestAdmit(t *testing.T) {
	mega, half := strings.Repeat("x", 1<<20), strings.Repeat("x", 900<<10)
	tests := map[string]struct {
		args []string
		// events is the number of events added to the history before each call.
		events int
		waits  int
		fails  int
	}{
		"calls that fit in one workflow task": {args: []string{half, half}},
		"one call waits for the next task":    {args: []string{half, half, half}, waits: 1},
		"next task starts at zero":            {args: []string{half, half, half, half, half}, waits: 2},
		"calls of different tasks":            {args: []string{mega, mega, mega, mega}, events: 5},
		"call that is too large":              {args: []string{mega + mega}, fails: 1},
		"call that is too large, and others":  {args: []string{mega + mega, half, half}, fails: 1},
		"many small calls":                    {args: strings.Split(strings.Repeat(mega[:300<<10]+" ", 25), " "), waits: 4},
		"maximum number of commands":          {args: make([]string, MaxCommands)},
		"too many commands":                   {args: make([]string, MaxCommands+1), waits: 1},
		"large call alone in a task":          {args: []string{mega[:900<<10] + mega[:900<<10]}},
		"two large calls":                     {args: []string{mega[:900<<10] + mega[:900<<10], mega[:900<<10] + mega[:900<<10]}, waits: 1},
		"large call after a small one":        {args: []string{"x", mega[:900<<10] + mega[:900<<10]}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				var g Sizes
				waits, fails := 0, 0
				for i, arg := range tc.args {
					env.SetCurrentHistoryLength(3 + i*tc.events)
					before := workflow.Now(ctx)
					if err := g.Admit(ctx, "the call", arg); err != nil {
						fails++
						if f := contract.FailureOf(err); f.Class != contract.ClassTooLarge || !strings.Contains(f.Text, "the call is ") {
							t.Errorf("failure is %+v", f)
						}
					}
					if took := workflow.Now(ctx).Sub(before); took > time.Second {
						t.Errorf("Admit waited %s", took)
					} else if took > 0 {
						waits++
					}
				}
				if waits != tc.waits || fails != tc.fails {
					t.Errorf("%d waits and %d failures, want %d and %d", waits, fails, tc.waits, tc.fails)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAdmitConcurrently checks calls that wait for the next workflow task together: all of them resume in it, and it has no more
// room than the one before.
func TestAdmitConcurrently(t *testing.T) {
	const calls = 7
	env := workflowtest.Env()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		var g Sizes
		tasks, left := map[int]int{}, calls
		for range calls {
			workflow.Go(ctx, func(ctx workflow.Context) {
				if err := g.Admit(ctx, "the call", strings.Repeat("x", 900<<10)); err != nil {
					t.Error(err)
				}
				tasks[g.taskCount]++
				left--
			})
		}
		if err := workflow.Await(ctx, func() bool { return left == 0 }); err != nil {
			return err
		}
		if len(tasks) != (calls+1)/2 {
			t.Errorf("calls by task: %v", tasks)
		}
		for task, n := range tasks {
			if n > 2 {
				t.Errorf("%d calls of 900 KiB in task %d", n, task)
			}
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// TestAcceptCountsUpdates checks that Updates count towards the size of their workflow task, as its commands do.
func TestAcceptCountsUpdates(t *testing.T) {
	env := workflowtest.Env()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		var g Sizes
		env.SetCurrentHistoryLength(3)
		g.Accept(ctx, 900<<10)
		if !g.Take(ctx, 900<<10) {
			t.Error("no room for an answer and its Update")
		}
		if g.fits(ctx, 900<<10) || g.Take(ctx, 900<<10) {
			t.Error("room for an answer that exceeds the limit")
		}
		if !g.fits(ctx, 1000) {
			t.Error("no room for a small answer")
		}
		env.SetCurrentHistoryLength(8)
		if !g.fits(ctx, 1<<20) || g.bytes == 0 {
			t.Error("no room in the next task, or fits changed the state")
		}
		g.Accept(ctx, 1<<20)
		if g.bytes > 1<<20+eventSize {
			t.Errorf("%d bytes of the previous task counted", g.bytes-1<<20)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

func TestAdmitCancelled(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		ctx, cancel := workflow.WithCancel(ctx)
		cancel()
		g := Sizes{bytes: maxTaskBytes, commands: 1, taskStart: workflow.GetInfo(ctx).GetCurrentHistoryLength()}
		if err := g.Admit(ctx, "it", "x"); !contract.Cancelled(err) {
			t.Errorf("error is %v", err)
		}
	})
}

// TestStoredArguments checks that arguments in the store do not count towards the size of a workflow task.
func TestStoredArguments(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		g := Sizes{storeLimit: 8 << 20}
		before := workflow.Now(ctx)
		for range 20 {
			if err := g.Admit(ctx, "the call", strings.Repeat("x", 4<<20)); err != nil {
				t.Error(err)
			}
		}
		if workflow.Now(ctx) != before {
			t.Error("Admit waited for the next task")
		}
	})
}

// TestShare checks that the shares are three quarters of the free room together.
func TestShare(t *testing.T) {
	tests := map[string]struct{ history, reserved, n, want int }{
		"few results":                      {n: 3, want: contract.MaxPayload},
		"many results":                     {n: 100, want: MaxHistory / 100 * 3 / 4},
		"many results, with a reservation": {reserved: MaxHistory / 4, n: 100, want: MaxHistory / 100 * 3 / 4},
		"one result, with a reservation":   {reserved: MaxHistory - 400_000, n: 1, want: 300_000},
		"history partly full":              {history: MaxHistory - 4_000_000, n: 10, want: 300_000},
		"history full":                     {history: MaxHistory + 1, n: 10, want: minResult},
		"no results":                       {n: 0, want: contract.MaxPayload},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			env.SetCurrentHistorySize(tc.history)
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				s := Sizes{reserved: tc.reserved}
				if got := s.Share(ctx, tc.n); got != tc.want {
					t.Errorf("Share() = %d, want %d", got, tc.want)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAdmitExceedsHistory checks the error of a command for which the history has no room.
func TestAdmitExceedsHistory(t *testing.T) {
	env := workflowtest.Env()
	env.SetCurrentHistorySize(MaxHistory - 1000)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		s := Sizes{reserved: 1000}
		if err := s.Admit(ctx, "it", strings.Repeat("x", Slack-contract.Envelope)); err != nil {
			t.Errorf("command within the slack: %v", err)
		}
		f := contract.FailureOf(s.Admit(ctx, "the next", strings.Repeat("x", 2*contract.Envelope)))
		if f == nil || f.Class != contract.ClassStateTooLarge || !strings.HasPrefix(f.Text, "the next is 8194 bytes, but the run's history has room for 0") || f.Remedy == "" {
			t.Errorf("failure is %+v", f)
		}
		s = Sizes{reserved: 1000, storeLimit: 8 << 20}
		if err := s.Admit(ctx, "what the store takes", strings.Repeat("x", 4<<20)); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// TestResultsWaitForRoom checks that calls whose results need all of the room run one after another, in order.
func TestResultsWaitForRoom(t *testing.T) {
	env := workflowtest.Env()
	env.SetCurrentHistorySize(MaxHistory - contract.MaxPayload*3/2)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		r := New(ctx)
		running, most := 0, 0
		var order []int
		g := workflow.NewWaitGroup(ctx)
		for i := range 3 {
			g.Add(1)
			call := func(ctx workflow.Context) error {
				release, err := r.Sizes.ReserveResult(ctx, "it", contract.MaxPayload)
				if err != nil {
					return err
				}
				order = append(order, i)
				running++
				most = max(most, running)
				defer release()
				defer func() { running-- }()
				return wait.Sleep(ctx, 1, "the call")
			}
			workflow.Go(ctx, func(ctx workflow.Context) {
				defer g.Done()
				if err := call(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		g.Wait(ctx)
		if most != 1 || !slices.Equal(order, []int{0, 1, 2}) {
			t.Errorf("up to %d calls in flight, in the order %v; want 1", most, order)
		}
		if r.Sizes.reserved != 0 || r.Sizes.inFlight != 0 || len(r.Sizes.waiting) != 0 {
			t.Errorf("after all calls: %d bytes reserved, %d in flight, %d waiting", r.Sizes.reserved, r.Sizes.inFlight, len(r.Sizes.waiting))
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// TestResultWithoutRoom checks that a result without room fails if nothing is in flight, unless the run has made progress: then it
// continues as new. The end of a session is not awaited.
func TestResultWithoutRoom(t *testing.T) {
	for _, progressed := range []bool{false, true} {
		env := workflowtest.Env()
		env.SetCurrentHistorySize(MaxHistory - contract.MaxPayload)
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			r := New(ctx)
			r.Policy.Progressed = progressed
			defer r.Sizes.Reserve(1000, 0)()
			_, err := r.Sizes.ReserveResult(ctx, "it", contract.MaxPayload)
			if progressed {
				stop, failed := r.Policy.ShouldContinueAsNew(ctx, 0)
				if !errors.Is(err, ErrYield) || !stop || failed != nil {
					t.Errorf("got %v, continue-as-new %t, %v", err, stop, failed)
				}
				_, failed = r.Policy.ShouldContinueAsNew(ctx, contract.MaxPayload)
				if f := contract.FailureOf(failed); f == nil || f.Class != contract.ClassStateTooLarge {
					t.Errorf("snapshot too large: got %v", failed)
				}
				return nil
			}
			if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassStateTooLarge {
				t.Errorf("got %v", err)
			}
			return nil
		})
		if err := env.GetWorkflowError(); err != nil {
			t.Fatal(err)
		}
	}
}

// textResult is a result with a text.
type textResult struct {
	contract.Offloading `json:"-"`
	Text                string
}

// TestHold checks that a result within the run's share is returned, and that a longer one is held, or offloaded if there is a store.
func TestHold(t *testing.T) {
	for name, tc := range map[string]struct {
		n, share, most  int
		held, offloaded bool
	}{
		"within the share":             {n: 100, share: 1000},
		"over the share":               {n: 2000, share: 1000, held: true},
		"over the share, with a store": {n: 2000, share: 1000, most: 8 << 20, offloaded: true},
		"no share":                     {n: 2000},
	} {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
				r := New(ctx)
				r.Sizes.ResultShare = tc.share
				r.Allow(tc.most)
				out := &textResult{Text: strings.Repeat("x", tc.n-len(`{"Text":""}`))}
				got, err := r.Hold(ctx, out)
				if err != nil || (got != nil) != tc.held || out.Offloaded != tc.offloaded {
					t.Errorf("held %+v, offloaded %t, %v", got, out.Offloaded, err)
				}
				if tc.held && (got.Bytes != tc.n || len(r.Transcript.Content[got.SHA]) != tc.n) {
					t.Errorf("%d bytes held, want %d", got.Bytes, tc.n)
				}
				return nil
			}, workflow.RegisterOptions{Name: "child"})
			env.ExecuteWorkflow(func(ctx workflow.Context) error { return workflow.ExecuteChildWorkflow(ctx, "child").Get(ctx, nil) })
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
