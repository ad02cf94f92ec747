package conformance

import (
	"testing"
	"weft/activities/contract"
	"weft/workflows/plan"

	"go.temporal.io/sdk/testsuite"
)

// runPlan runs a plan and returns its result, status and error.
func runPlan(t *testing.T, env *testsuite.TestWorkflowEnvironment, f *plan.Flow) (*contract.RunResult, contract.Status, error) {
	t.Helper()
	env.ExecuteWorkflow(contract.WorkflowFlow, contract.RunInput{
		V: contract.Version, Flow: contract.FlowRef{Plan: f}, Input: "input", Model: "script",
	})
	if !env.IsWorkflowCompleted() {
		t.Fatal("the workflow did not complete")
	}
	var status contract.Status
	v, err := env.QueryWorkflow(contract.QueryStatus)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Get(&status); err != nil {
		t.Fatal(err)
	}
	if err := env.GetWorkflowError(); err != nil {
		return nil, status, err
	}
	var out contract.RunResult
	if err := env.GetWorkflowResult(&out); err != nil {
		t.Fatal(err)
	}
	return &out, status, nil
}
