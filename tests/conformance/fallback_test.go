package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows"
)

// TestFallbackModelsAreReported checks that the usage of a run has the fallbacks of its own model calls, its
// conditions and its branches.
func TestFallbackModelsAreReported(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(harness.NoLog)
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(harness.EnvOptions)
	env.SetTestTimeout(4 * time.Minute)
	workflows.Settings{}.Register(env)
	rateLimited := contract.Fallback{Model: "a/x", Class: contract.ClassRateLimited, Text: "slow down"}
	env.RegisterActivityWithOptions(func(ctx context.Context, in contract.ModelInput) (*contract.ModelResult, error) {
		res, err := harness.AnswerModel(ctx, in)
		res.Model, res.Fallbacks = "b/y", []contract.Fallback{rateLimited}
		return res, err
	}, activity.RegisterOptions{Name: contract.ActivityCallModel})
	env.RegisterActivityWithOptions(func(context.Context, contract.JudgeInput) (*contract.JudgeResult, error) {
		unavailable := contract.Fallback{Model: "b/y", Class: contract.ClassUnavailable, To: "c/z"}
		return &contract.JudgeResult{Yes: true, Model: "c/z", Fallbacks: []contract.Fallback{{Model: rateLimited.Model, Class: rateLimited.Class, To: "b/y"}, unavailable}}, nil
	}, activity.RegisterOptions{Name: contract.ActivityEvaluateCondition})
	yes := "Shall it?"
	f := harness.GraphPlan("switches", []harness.GraphNode{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d", Defer: true, Exit: true}}, []harness.GraphEdge{
		{Source: "START", Target: "a"}, {Source: "a", Target: "b", Condition: &yes}, {Source: "a", Target: "c"},
		{Source: "b", Target: "d"}, {Source: "c", Target: "d"}, {Source: "d", Target: "END"},
	})
	out, status, err := runPlan(t, env, f)
	if err != nil {
		t.Fatal(err)
	}
	want := []contract.FallbackCount{
		{From: "a/x", To: "b/y", Class: contract.ClassRateLimited, Times: 5}, {From: "b/y", To: "c/z", Class: contract.ClassUnavailable, Times: 1},
	}
	if diff := cmp.Diff(want, out.Usage.Fallbacks); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, status.Usage.Fallbacks); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}
