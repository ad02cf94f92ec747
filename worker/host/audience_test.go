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

// A run is watched from the time that somebody says so; what no worker here holds may be.
func TestAudience(t *testing.T) {
	for name, tc := range map[string]struct {
		query string
		want  bool
	}{
		"nobody says anything":   {},
		"somebody watches":       {contract.QueryWatching, true},
		"somebody asks for more": {contract.QueryStatus, false},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &Audience{}
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{seen}, DeadlockDetectionTimeout: time.Minute})
			env.SetTestTimeout(4 * time.Minute)
			run := ""
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				run = activity.GetInfo(ctx).WorkflowExecution.RunID
				if seen.Watched(run) {
					return errors.New("the run is watched before anybody says so")
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
					watched = seen.Watched(run)
				}, time.Second)
				return workflow.Sleep(ctx, 2*time.Second)
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			if watched != tc.want {
				t.Errorf("the run is watched: %v, want %v", watched, tc.want)
			}
			if until, cached := seen.until.Load(run); cached || !seen.Watched(run) {
				t.Errorf("of a run that has ended is still known: %v", until)
			}
		})
	}
}
