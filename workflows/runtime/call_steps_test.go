package runtime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/workflowtest"
)

// TestCancellable checks the errors of calls that end before and after their cancellation.
func TestCancellable(t *testing.T) {
	timeout := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil)
	denied := &contract.Failure{Class: contract.ClassDenied, Text: "no"}
	tests := map[string]struct {
		cancelled bool
		err       error
		want      func(error) bool
	}{
		"result":                               {want: func(err error) bool { return err == nil }},
		"result after the cancellation":        {cancelled: true, want: func(err error) bool { return err == nil }},
		"timeout":                              {err: timeout, want: func(err error) bool { return errors.Is(err, timeout) }},
		"timeout after the cancellation":       {cancelled: true, err: timeout, want: contract.Cancelled},
		"other failure after the cancellation": {cancelled: true, err: denied, want: func(err error) bool { return errors.Is(err, denied) }},
		"cancellation error":                   {cancelled: true, err: temporal.NewCanceledError(), want: contract.Cancelled},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(ctx workflow.Context) {
				ctx, cancel := workflow.WithCancel(ctx)
				defer cancel()
				if tc.cancelled {
					cancel()
				}
				if err := asCancellation(func(workflow.Context, *Call) error { return tc.err })(ctx, &Call{}); !tc.want(err) {
					t.Errorf("call returned %v", err)
				}
			})
		})
	}
}

// TestUsageOfFailedCalls checks the counted usage of calls without a result.
func TestUsageOfFailedCalls(t *testing.T) {
	failed := &contract.Failure{Class: contract.ClassSchema, Usage: &contract.Usage{Calls: 1, Input: 7}}
	tests := map[string]struct {
		model, before bool
		err           error
		want          contract.Usage
	}{
		"result":                    {model: true},
		"failure with usage":        {model: true, err: failed, want: contract.Usage{Calls: 1, Input: 7}},
		"failure without usage":     {model: true, err: &contract.Failure{Class: contract.ClassDenied}},
		"cancelled during the call": {model: true, err: temporal.NewCanceledError(), want: contract.Usage{Stopped: 1}},
		"cancelled before the call": {model: true, before: true, err: temporal.NewCanceledError()},
		"cancelled tool call":       {err: temporal.NewCanceledError()},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(ctx workflow.Context) {
				ctx, cancel := workflow.WithCancel(ctx)
				defer cancel()
				if tc.before {
					cancel()
				}
				r, c := New(ctx), &Call{}
				if tc.model {
					c.Model = &ModelCall{}
				}
				_ = r.withUsage(func(workflow.Context, *Call) error { return tc.err })(ctx, c)
				if r.Budget.Usage.Calls != tc.want.Calls || r.Budget.Usage.Input != tc.want.Input || r.Budget.Usage.Stopped != tc.want.Stopped {
					t.Errorf("usage is %+v, want %+v", r.Budget.Usage, tc.want)
				}
			})
		})
	}
}

// TestWaitsForOperator checks which failed calls wait for an operator.
func TestWaitsForOperator(t *testing.T) {
	fail := func(class string) error { return &contract.Failure{Class: class, Text: "it failed"} }
	unknown := &contract.Failure{Class: contract.ClassTimeout, Text: "no answer", OutcomeUnknown: true}
	app := temporal.NewApplicationError("no such customer", "NotFound")
	tests := map[string]struct {
		call    Call
		onError string
		err     error
		want    bool
	}{
		"denied":                                 {err: fail(contract.ClassDenied), want: true},
		"bad request":                            {err: fail(contract.ClassBadRequest)},
		"cancellation":                           {err: temporal.NewCanceledError()},
		"retries exhausted":                      {err: fail(contract.ClassUnavailable), want: true},
		"retries exhausted, call not repeatable": {call: Call{Once: true}, err: fail(contract.ClassUnavailable), want: true},
		"unknown outcome":                        {call: Call{Once: true}, err: unknown},
		"unknown outcome, operator decides":      {call: Call{Once: true, AskUnknown: true}, err: unknown, want: true},
		"unknown outcome, call repeatable":       {err: unknown, want: true},
		"denied, call not repeatable":            {call: Call{Once: true}, err: fail(contract.ClassDenied), want: true},
		"with on_error fail":                     {onError: contract.OnErrorFail, err: fail(contract.ClassDenied)},
		"error of an external activity":          {call: Call{Remote: &contract.ExternalActivity{}}, err: app},
		"failure of an external activity":        {call: Call{Remote: &contract.ExternalActivity{}}, err: fail(contract.ClassTimeout), want: true},
		"same error of an own activity":          {err: app},
		"unclassified error":                     {err: errors.New("lost"), want: true},
		"success":                                {},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := &Run{}
			r.Shared.OnError = tc.onError
			if got := r.waitsForOperator(&tc.call, tc.err); got != tc.want {
				t.Errorf("waitsForOperator() = %t, want %t", got, tc.want)
			}
		})
	}
}

// TestSessionQueue checks that a call goes to the task queue of the worker that has the server's session, and to the common queue if
// that worker is down.
func TestSessionQueue(t *testing.T) {
	const own = "weft@one"
	notStarted := func(cause error) error {
		return temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, cause)
	}
	died := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil)
	unsent := (&contract.Failure{Class: contract.ClassUnavailable, Text: "refused"}).ApplicationError()
	tests := map[string]struct {
		call Call
		err  error
		// queues are the task queues of the attempts, empty for the common one.
		queues  []string
		class   string
		unknown bool
	}{
		"no session":                   {queues: []string{""}},
		"call succeeds":                {call: Call{Queue: own}, queues: []string{own}},
		"call fails":                   {call: Call{Queue: own}, err: (&contract.Failure{Class: contract.ClassDenied}).ApplicationError(), queues: []string{own}, class: contract.ClassDenied},
		"call times out":               {call: Call{Queue: own}, err: died, queues: []string{own}, class: contract.ClassTimeout, unknown: true},
		"worker is down":               {call: Call{Queue: own, Once: true}, err: notStarted(nil), queues: []string{own, ""}},
		"worker died during the call":  {call: Call{Queue: own, Once: true}, err: notStarted(died), queues: []string{own}, class: contract.ClassTimeout, unknown: true},
		"worker died, call repeatable": {call: Call{Queue: own}, err: notStarted(died), queues: []string{own, ""}},
		"worker died after an attempt that was not sent": {call: Call{Queue: own, Once: true}, err: notStarted(unsent), queues: []string{own, ""}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var queues []string
			env := workflowtest.Env()
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				if queue := activity.GetInfo(ctx).TaskQueue; queue == own {
					queues = append(queues, own)
					return tc.err
				}
				queues = append(queues, "")
				return nil
			}, activity.RegisterOptions{Name: "call"})
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				r := New(ctx)
				r.Flow = &plan.Flow{Policy: plan.DefaultPolicy}
				c := tc.call
				c.Activity, c.ID, c.Options = "call", "a#1/tool/1.1", r.Options(60)
				c.Options.RetryPolicy.MaximumAttempts = 1
				err := r.schedule(ctx, &c)
				if f := contract.FailureOf(err); (tc.class != "") != (err != nil) || err != nil && (f.Class != tc.class || f.OutcomeUnknown != tc.unknown) {
					t.Errorf("call returned %v", err)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil || !slices.Equal(queues, tc.queues) {
				t.Errorf("attempts used the task queues %q, want %q; %v", queues, tc.queues, err)
			}
		})
	}
}

// TestWaitForTurn checks that a call with two attempts can wait three times for its turn and fail once in between: the waits do not
// count as attempts, but count towards the call's timeout.
func TestWaitForTurn(t *testing.T) {
	tests := map[string]struct {
		last  error
		hours int64
		calls int
		class string
	}{
		"then succeeds":          {hours: 1, calls: 5},
		"then fails":             {last: (&contract.Failure{Class: contract.ClassUnavailable, Text: "no"}).ApplicationError(), hours: 1, calls: 5, class: contract.ClassUnavailable},
		"turn after the timeout": {hours: 3, calls: 4, class: contract.ClassRateLimited},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n := 0
			env := workflowtest.Env()
			env.RegisterActivityWithOptions(func(context.Context) error {
				var failed int32
				switch n++; n {
				case 2:
					return (&contract.Failure{Class: contract.ClassUnavailable, Text: "first"}).ApplicationError()
				case 3:
					failed = 1
				case 5:
					return tc.last
				}
				return (&contract.Failure{Class: contract.ClassRateLimited, Text: "waiting", Final: true, Usage: &contract.Usage{Calls: 1},
					Limit: &contract.LimitWait{Millis: tc.hours * time.Hour.Milliseconds(), Failed: failed}}).ApplicationError()
			}, activity.RegisterOptions{Name: "call"})
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				r, start := New(ctx), workflow.Now(ctx)
				r.Flow = &plan.Flow{Policy: plan.DefaultPolicy}
				c := Call{Activity: "call", ID: "a#1/model/1", Options: r.Options(60), Model: &ModelCall{}}
				c.Options.RetryPolicy.MaximumAttempts, c.Options.ScheduleToCloseTimeout = 2, 8*time.Hour
				err := r.schedule(ctx, &c)
				if f := contract.FailureOf(err); (tc.class != "") != (err != nil) || err != nil && f.Class != tc.class {
					t.Errorf("call returned %v", err)
				}
				waits := int(workflow.Now(ctx).Sub(start) / (time.Duration(tc.hours) * time.Hour))
				if waits != tc.calls-2 || r.Budget.Usage.Calls != waits || len(r.Requests.Tasks) > 0 {
					t.Errorf("%d waits, usage %+v, waiting tasks %q", waits, r.Budget.Usage, r.Requests.Tasks)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil || n != tc.calls {
				t.Errorf("%d calls, want %d; %v", n, tc.calls, err)
			}
		})
	}
}

// TestCancelWaitForTurn cancels a call that waits for its turn, and checks that the status shows the wait.
func TestCancelWaitForTurn(t *testing.T) {
	env := workflowtest.Env()
	env.RegisterActivityWithOptions(func(context.Context) error {
		return (&contract.Failure{Class: contract.ClassRateLimited, Text: "waiting for its turn", Final: true, Limit: &contract.LimitWait{Millis: time.Minute.Milliseconds() * 2}}).ApplicationError()
	}, activity.RegisterOptions{Name: "call"})
	var r *Run
	env.RegisterDelayedCallback(func() {
		if len(r.Requests.Tasks) != 1 || !strings.HasPrefix(r.Requests.Tasks[0], "a#1/model/1 waiting for its turn, until ") {
			t.Errorf("waiting tasks are %q", r.Requests.Tasks)
		}
		env.CancelWorkflow()
	}, time.Minute)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		r = New(ctx)
		r.Flow = &plan.Flow{Policy: plan.DefaultPolicy}
		if err := r.schedule(ctx, &Call{Activity: "call", ID: "a#1/model/1", Options: r.Options(60)}); !contract.Cancelled(err) {
			t.Errorf("call returned %v", err)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}
