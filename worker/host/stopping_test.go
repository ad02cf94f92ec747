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

// TestCallsAreCanceledAfterStopTimeout checks that a call is canceled when the stop timeout of the worker has passed, and not before.
func TestCallsAreCanceledAfterStopTimeout(t *testing.T) {
	tests := map[string]struct {
		stopping bool
		after    time.Duration
		want     bool
	}{
		"no stop":                 {},
		"within the stop timeout": {stopping: true, after: time.Hour},
		"after the stop timeout":  {stopping: true, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&stopInterceptor{after: tc.after}}})
			stop := make(chan struct{})
			env.SetWorkerStopChannel(stop)
			canceled := false
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				if tc.stopping {
					close(stop)
				}
				limit := time.Minute
				if !tc.want {
					limit = 200 * time.Millisecond
				}
				select {
				case <-ctx.Done():
					canceled = true
				case <-time.After(limit):
				}
				return nil
			}, activity.RegisterOptions{Name: "call"})
			if _, err := env.ExecuteActivity("call"); err != nil {
				t.Fatal(err)
			}
			if canceled != tc.want {
				t.Errorf("canceled = %v, want %v", canceled, tc.want)
			}
		})
	}
}
