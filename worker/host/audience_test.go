package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// TestAudience checks that a run is watched once a client says so, and that a run that this worker has not cached counts as watched.
func TestAudience(t *testing.T) {
	for name, tc := range map[string]struct {
		query string
		want  bool
	}{
		"no query":                   {},
		"query by a watching client": {contract.QueryWatching, true},
		"another query":              {contract.QueryStatus, false},
	} {
		t.Run(name, func(t *testing.T) {
			audience := &Audience{}
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{audience}, DeadlockDetectionTimeout: time.Minute})
			env.SetTestTimeout(4 * time.Minute)
			run := ""
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				run = activity.GetInfo(ctx).WorkflowExecution.RunID
				if audience.Watched(run) {
					return errors.New("the run is watched before the query")
				}
				return nil
			}, activity.RegisterOptions{Name: "call"})
			watched := false
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				for _, q := range []string{contract.QueryWatching, contract.QueryStatus} {
					if err := workflow.SetQueryHandler(ctx, q, func() (int, error) { return 1, nil }); err != nil {
						return err
					}
				}
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
				if err := workflow.ExecuteActivity(ctx, "call").Get(ctx, nil); err != nil {
					return err
				}
				env.RegisterDelayedCallback(func() {
					if tc.query != "" {
						if _, err := env.QueryWorkflow(tc.query); err != nil {
							t.Error(err)
						}
					}
					watched = audience.Watched(run)
				}, time.Second)
				return workflow.Sleep(ctx, 2*time.Second)
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			if watched != tc.want {
				t.Errorf("Watched() = %v, want %v", watched, tc.want)
			}
			if until, cached := audience.until.Load(run); cached || !audience.Watched(run) {
				t.Errorf("the entry of a closed run was not removed: %v", until)
			}
		})
	}
}
