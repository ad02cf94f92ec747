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
	late := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil)
	other := &contract.Failure{Class: contract.ClassDenied, Text: "no"}
	tests := map[string]struct {
		cancelled bool
		err       error
		want      func(error) bool
	}{
		"a result":                            {want: func(err error) bool { return err == nil }},
		"a result after the cancellation":     {cancelled: true, want: func(err error) bool { return err == nil }},
		"a timeout":                           {err: late, want: func(err error) bool { return errors.Is(err, late) }},
		"a timeout after the cancellation":    {cancelled: true, err: late, want: contract.Cancelled},
		"another failure after cancellation":  {cancelled: true, err: other, want: func(err error) bool { return errors.Is(err, other) }},
		"a cancellation after a cancellation": {cancelled: true, err: temporal.NewCanceledError(), want: contract.Cancelled},
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
					t.Errorf("the call ended with %v", err)
				}
			})
		})
	}
}

// TestCounted checks the counted usage of calls without a result.
func TestCounted(t *testing.T) {
	spent := &contract.Failure{Class: contract.ClassSchema, Usage: &contract.Usage{Calls: 1, Input: 7}}
	tests := map[string]struct {
		model, before bool
		err           error
		want          contract.Usage
	}{
		"a result":                        {model: true},
		"a failure that a model answered": {model: true, err: spent, want: contract.Usage{Calls: 1, Input: 7}},
		"a failure that none answered":    {model: true, err: &contract.Failure{Class: contract.ClassDenied}},
		"a cancellation under way":        {model: true, err: temporal.NewCanceledError(), want: contract.Usage{Stopped: 1}},
		"a cancellation before the call":  {model: true, before: true, err: temporal.NewCanceledError()},
		"a tool that was cancelled":       {err: temporal.NewCanceledError()},
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
		"a denied key":                {err: fail(contract.ClassDenied), want: true},
		"a bad request":               {err: fail(contract.ClassBadRequest)},
		"a cancellation":              {err: temporal.NewCanceledError()},
		"retries used up":             {err: fail(contract.ClassUnavailable), want: true},
		"retries of one made once":    {call: Call{Once: true}, err: fail(contract.ClassUnavailable), want: true},
		"an unknown outcome":          {call: Call{Once: true}, err: unknown},
		"one that a person decides":   {call: Call{Once: true, AskUnknown: true}, err: unknown, want: true},
		"one of a call made again":    {err: unknown, want: true},
		"a key of one made once":      {call: Call{Once: true}, err: fail(contract.ClassDenied), want: true},
		"with on_error fail":          {onError: contract.OnErrorFail, err: fail(contract.ClassDenied)},
		"the words of another worker": {call: Call{Remote: &contract.ExternalActivity{}}, err: app},
		"a failure of another worker": {call: Call{Remote: &contract.ExternalActivity{}}, err: fail(contract.ClassTimeout), want: true},
		"the same words of one's own": {err: app},
		"an error of no class":        {err: errors.New("lost"), want: true},
		"success":                     {},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := &Run{}
			r.Shared.OnError = tc.onError
			if got := r.waitsForOperator(&tc.call, tc.err); got != tc.want {
				t.Errorf("waits: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestSessionQueue checks that a call goes to the task queue of the worker that has the server's session, and to the common queue if
// that worker is gone.
func TestSessionQueue(t *testing.T) {
	const own = "weft@one"
	gone := func(cause error) error {
		return temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, cause)
	}
	died := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil)
	unsent := (&contract.Failure{Class: contract.ClassUnavailable, Text: "refused"}).ApplicationError()
	tests := map[string]struct {
		call Call
		err  error
		// queues are those of the attempts, empty for the common one.
		queues  []string
		class   string
		unknown bool
	}{
		"no session":                       {queues: []string{""}},
		"the worker answers":               {call: Call{Queue: own}, queues: []string{own}},
		"the call fails":                   {call: Call{Queue: own}, err: (&contract.Failure{Class: contract.ClassDenied}).ApplicationError(), queues: []string{own}, class: contract.ClassDenied},
		"the call is lost":                 {call: Call{Queue: own}, err: died, queues: []string{own}, class: contract.ClassTimeout, unknown: true},
		"the worker is gone":               {call: Call{Queue: own, Once: true}, err: gone(nil), queues: []string{own, ""}},
		"it died during the call":          {call: Call{Queue: own, Once: true}, err: gone(died), queues: []string{own}, class: contract.ClassTimeout, unknown: true},
		"it died during a call made again": {call: Call{Queue: own}, err: gone(died), queues: []string{own, ""}},
		"it died after an unsent attempt":  {call: Call{Queue: own, Once: true}, err: gone(unsent), queues: []string{own, ""}},
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
					t.Errorf("the call ended with %v", err)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil || !slices.Equal(queues, tc.queues) {
				t.Errorf("the attempts were on the queues %q, want %q; %v", queues, tc.queues, err)
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
		made  int
		class string
	}{
		"then it answers":           {hours: 1, made: 5},
		"then it fails":             {last: (&contract.Failure{Class: contract.ClassUnavailable, Text: "no"}).ApplicationError(), hours: 1, made: 5, class: contract.ClassUnavailable},
		"its turn comes after that": {hours: 3, made: 4, class: contract.ClassRateLimited},
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
				r, began := New(ctx), workflow.Now(ctx)
				r.Flow = &plan.Flow{Policy: plan.DefaultPolicy}
				c := Call{Activity: "call", ID: "a#1/model/1", Options: r.Options(60), Model: &ModelCall{}}
				c.Options.RetryPolicy.MaximumAttempts, c.Options.ScheduleToCloseTimeout = 2, 8*time.Hour
				err := r.schedule(ctx, &c)
				if f := contract.FailureOf(err); (tc.class != "") != (err != nil) || err != nil && f.Class != tc.class {
					t.Errorf("the call ended with %v", err)
				}
				waits := int(workflow.Now(ctx).Sub(began) / (time.Duration(tc.hours) * time.Hour))
				if waits != tc.made-2 || r.Budget.Usage.Calls != waits || len(r.Requests.Tasks) > 0 {
					t.Errorf("it waited %d times, and spent %+v; %q wait", waits, r.Budget.Usage, r.Requests.Tasks)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil || n != tc.made {
				t.Errorf("it was made %d times; %v", n, err)
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
			t.Errorf("the run waits for %q", r.Requests.Tasks)
		}
		env.CancelWorkflow()
	}, time.Minute)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		r = New(ctx)
		r.Flow = &plan.Flow{Policy: plan.DefaultPolicy}
		if err := r.schedule(ctx, &Call{Activity: "call", ID: "a#1/model/1", Options: r.Options(60)}); !contract.Cancelled(err) {
			t.Errorf("the call ended with %v", err)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}
