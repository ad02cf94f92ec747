package dialects

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"weft/activities/contract"
	"weft/tests/harness"
)

// failing is an activity registry in which one activity always fails with a class, and counts its attempts.
type failing struct {
	worker.ActivityRegistry
	activity, class string
	attempts        *atomic.Int32
	// timeout is the ScheduleToCloseTimeout of a call, in nanoseconds.
	timeout *atomic.Int64
}

func (f failing) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	if o.Name == f.activity {
		fn = func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			f.attempts.Add(1)
			f.timeout.Store(int64(activity.GetInfo(ctx).ScheduleToCloseTimeout))
			return nil, (&contract.Failure{Class: f.class, Text: "it is so"}).ApplicationError()
		}
	}
	f.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}

// TestFailureClasses checks how failures of model and tool calls are handled, by class. Transient failures are retried for an hour.
// After that, or at once if an operator is needed, a request is opened, or the run fails if on_error is fail. Other failures fail
// the run or are returned to the model as the tool's result.
func TestFailureClasses(t *testing.T) {
	t.Parallel()
	type handling struct{ retried, waits bool }
	classes := map[string]handling{
		contract.ClassRateLimited: {true, true}, contract.ClassUnavailable: {true, true}, contract.ClassTimeout: {true, true},
		contract.ClassDenied: {false, true}, contract.ClassQuotaExceeded: {false, true}, contract.ClassConnection: {false, true},
		contract.ClassBadRequest: {}, contract.ClassContextLength: {}, contract.ClassRefused: {}, contract.ClassSchema: {}, contract.ClassTooLarge: {},
	}
	for name, want := range classes {
		for _, call := range []string{contract.ActivityCallModel, contract.ActivityCallTool} {
			for _, onError := range []string{contract.OnErrorWait, contract.OnErrorFail} {
				if call == contract.ActivityCallTool && name == contract.ClassContextLength {
					continue // only of models
				}
				t.Run(name+" of "+call+", "+onError, func(t *testing.T) {
					t.Parallel()
					var attempts atomic.Int32
					var timeout atomic.Int64
					var status contract.Status
					giveUp := func(env *testsuite.TestWorkflowEnvironment) {
						harness.Query(t, env, contract.QueryStatus, &status)
						for _, q := range status.Requests {
							env.SignalWorkflow(contract.RequestRetry, contract.RetryAnswer{ID: q.ID, GiveUp: true, Reason: "enough"})
						}
					}
					p := harness.TestRun{Document: harness.OneNode(harness.SearchTool), Script: `rules: [{turn: 1, call: [{tool: search}]}, {say: done}]`,
						Tools:    map[string]func(string) (string, bool){"search": func(string) (string, bool) { return "found", false }},
						SetInput: func(in *contract.RunInput) { in.OnError = onError },
						Wrap: func(r worker.ActivityRegistry) worker.ActivityRegistry {
							return failing{r, call, name, &attempts, &timeout}
						},
						Prepare: func(env *testsuite.TestWorkflowEnvironment) { harness.AtTime(env, 3*time.Hour, func() { giveUp(env) }) },
					}.Execute(t)
					if retried := attempts.Load() > 1; retried != want.retried || time.Duration(timeout.Load()) != time.Hour {
						t.Errorf("%d attempts within %v, want retries: %v", attempts.Load(), time.Duration(timeout.Load()), want.retried)
					}
					waits := want.waits && onError == contract.OnErrorWait
					if open := len(status.Requests) == 1; open != waits || open && status.Requests[0].Failure.Class != name {
						t.Errorf("open requests after three hours = %+v, want one: %v", status.Requests, waits)
					}
					if call == contract.ActivityCallTool && !want.waits {
						if got := toolReplies(t, p, "a#1"); p.Err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "!it is so") {
							t.Errorf("tool results = %q: %v", got, p.Err)
						}
						return
					}
					if p.Err == nil || p.Err.Class != name || p.Err.Node != "a" {
						t.Errorf("the run ended with %+v", p.Err)
					}
				})
			}
		}
	}
}
