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

// failing is a worker one of whose activities fails with a class each time, and counts it.
type failing struct {
	worker.ActivityRegistry
	activity, class string
	made            *atomic.Int32
	// bound is how long all attempts of a call may take together, in nanoseconds.
	bound *atomic.Int64
}

func (f failing) RegisterActivityWithOptions(fn any, o activity.RegisterOptions) {
	if o.Name == f.activity {
		fn = func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			f.made.Add(1)
			f.bound.Store(int64(activity.GetInfo(ctx).ScheduleToCloseTimeout))
			return nil, (&contract.Failure{Class: f.class, Text: "it is so"}).ApplicationError()
		}
	}
	f.ActivityRegistry.RegisterActivityWithOptions(fn, o)
}

// TestFailureClasses fails calls of models and of tools with each class: those that pass are
// made again within an hour; what an operator mends waits for him then, or at once, or fails the run
// where nobody is to be asked; all else fails the run, or is the tool's result.
func TestFailureClasses(t *testing.T) {
	t.Parallel()
	type fate struct{ again, waits bool }
	fates := map[string]fate{
		contract.ClassRateLimited: {true, true}, contract.ClassUnavailable: {true, true}, contract.ClassTimeout: {true, true},
		contract.ClassDenied: {false, true}, contract.ClassQuotaExceeded: {false, true}, contract.ClassConnection: {false, true},
		contract.ClassBadRequest: {}, contract.ClassContextLength: {}, contract.ClassRefused: {}, contract.ClassSchema: {}, contract.ClassTooLarge: {},
	}
	for name, want := range fates {
		for _, call := range []string{contract.ActivityCallModel, contract.ActivityCallTool} {
			for _, onError := range []string{contract.OnErrorWait, contract.OnErrorFail} {
				if call == contract.ActivityCallTool && name == contract.ClassContextLength {
					continue // a model's
				}
				t.Run(name+" of "+call+", "+onError, func(t *testing.T) {
					t.Parallel()
					var made atomic.Int32
					var bound atomic.Int64
					var late contract.Status
					give := func(env *testsuite.TestWorkflowEnvironment) {
						harness.Query(t, env, contract.QueryStatus, &late)
						for _, q := range late.Requests {
							env.SignalWorkflow(contract.RequestRetry, contract.RetryAnswer{ID: q.ID, GiveUp: true, Reason: "enough"})
						}
					}
					p := harness.TestRun{Document: harness.OneNode(harness.SearchTool), Script: `rules: [{turn: 1, call: [{tool: search}]}, {say: done}]`,
						Tools:    map[string]func(string) (string, bool){"search": func(string) (string, bool) { return "found", false }},
						SetInput: func(in *contract.RunInput) { in.OnError = onError },
						Wrap:     func(r worker.ActivityRegistry) worker.ActivityRegistry { return failing{r, call, name, &made, &bound} },
						Prepare:  func(env *testsuite.TestWorkflowEnvironment) { harness.AtTime(env, 3*time.Hour, func() { give(env) }) },
					}.Execute(t)
					if again := made.Load() > 1; again != want.again || time.Duration(bound.Load()) != time.Hour {
						t.Errorf("%d attempts within %v, want more than one: %v", made.Load(), time.Duration(bound.Load()), want.again)
					}
					waits := want.waits && onError == contract.OnErrorWait
					if open := len(late.Requests) == 1; open != waits || open && late.Requests[0].Failure.Class != name {
						t.Errorf("after three hours these wait: %+v; want one: %v", late.Requests, waits)
					}
					if call == contract.ActivityCallTool && !want.waits {
						if got := toolReplies(t, p, "a#1"); p.Err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "!it is so") {
							t.Errorf("the model is told %q: %v", got, p.Err)
						}
						return
					}
					if p.Err == nil || p.Err.Class != name || p.Err.Node != "a" {
						t.Errorf("the run ends with %+v", p.Err)
					}
				})
			}
		}
	}
}
