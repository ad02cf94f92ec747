package host

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
)

// A call is cut when the worker's stop has lasted as long as calls may go on, and not before.
func TestCallsAreCutAtTheEndOfTheStop(t *testing.T) {
	tests := map[string]struct {
		stopping bool
		after    time.Duration
		cut      bool
	}{
		"no stop":              {},
		"a stop with patience": {stopping: true, after: time.Hour},
		"a stop at its end":    {stopping: true, cut: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&stopInterceptor{after: tc.after}}})
			stop := make(chan struct{})
			env.SetWorkerStopChannel(stop)
			was := false
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				if tc.stopping {
					close(stop)
				}
				limit := time.Minute
				if !tc.cut {
					limit = 200 * time.Millisecond
				}
				select {
				case <-ctx.Done():
					was = true
				case <-time.After(limit):
				}
				return nil
			}, activity.RegisterOptions{Name: "call"})
			if _, err := env.ExecuteActivity("call"); err != nil {
				t.Fatal(err)
			}
			if was != tc.cut {
				t.Errorf("the call is cut: %v, want %v", was, tc.cut)
			}
		})
	}
}
