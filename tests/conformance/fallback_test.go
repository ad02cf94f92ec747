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

// Which models had to answer for others is a part of what a run used: of its own calls, of its
// judges' and of its branches'.
func TestFallbackModelsAreReported(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(harness.NoLog)
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(harness.EnvOptions)
	env.SetTestTimeout(4 * time.Minute)
	workflows.Settings{}.Register(env)
	full := contract.Fallback{Model: "a/x", Class: contract.ClassRateLimited, Text: "slow down"}
	env.RegisterActivityWithOptions(func(ctx context.Context, in contract.ModelInput) (*contract.ModelResult, error) {
		res, err := harness.AnswerModel(ctx, in)
		res.Model, res.Fallbacks = "b/y", []contract.Fallback{full}
		return res, err
	}, activity.RegisterOptions{Name: contract.ActivityCallModel})
	env.RegisterActivityWithOptions(func(context.Context, contract.JudgeInput) (*contract.JudgeResult, error) {
		away := contract.Fallback{Model: "b/y", Class: contract.ClassUnavailable, To: "c/z"}
		return &contract.JudgeResult{Yes: true, Model: "c/z", Fallbacks: []contract.Fallback{{Model: full.Model, Class: full.Class, To: "b/y"}, away}}, nil
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
		t.Errorf("the result's (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, status.Usage.Fallbacks); diff != "" {
		t.Errorf("the status's (-want +got):\n%s", diff)
	}
}
