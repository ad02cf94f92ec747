package workflows

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/workflowtest"
)

// TestChainDeclaredOnce checks that branches that resume after continue-as-new are not counted as new child runs.
func TestChainDeclaredOnce(t *testing.T) {
	for form, want := range map[string]int{plan.BranchesAsChildren: 2, "": 0} {
		t.Run(form, func(t *testing.T) {
			flow := scheduletest.Sketch("START>a START>b a>c b>d c>END d>END")
			flow.Policy.Branches = form
			in := contract.RunInput{V: contract.Version, Model: "m", Flow: contract.FlowRef{Plan: flow}}
			var calls atomic.Int32
			run := func(before func(env *testsuite.TestWorkflowEnvironment)) (*contract.RunResult, error) {
				env := workflowtest.Env()
				Register(env)
				env.RegisterActivityWithOptions(func(context.Context, contract.ModelInput) (*contract.ModelResult, error) { return nil, nil }, activity.RegisterOptions{Name: contract.ActivityCallModel})
				env.OnActivity(contract.ActivityCallModel, mock.Anything, mock.Anything).Return(func(context.Context, contract.ModelInput) (*contract.ModelResult, error) {
					calls.Add(1)
					raw, err := (&contract.Message{Role: contract.RoleAssistant, Text: "said"}).Encode()
					return &contract.ModelResult{Message: raw, Stop: "stop", Usage: contract.Usage{Calls: 1}}, err
				}).After(10 * time.Second)
				before(env)
				env.ExecuteWorkflow(contract.WorkflowFlow, in)
				var out contract.RunResult
				if err := env.GetWorkflowError(); err != nil {
					return nil, err
				}
				return &out, env.GetWorkflowResult(&out)
			}
			_, err := run(func(env *testsuite.TestWorkflowEnvironment) {
				env.RegisterDelayedCallback(func() { env.SignalWorkflow(contract.SignalYield, nil) }, 5*time.Second)
			})
			var next *workflow.ContinueAsNewError
			if !errors.As(err, &next) {
				t.Fatalf("first run: got error %v", err)
			}
			in = contract.RunInput{}
			if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
				t.Fatal(err)
			}
			if n := in.Snapshot.Usage.Declared; n != want || calls.Load() != 2 {
				t.Errorf("first run: %d calls and %d declared runs, want 2 and %d", calls.Load(), n, want)
			}
			out, err := run(func(env *testsuite.TestWorkflowEnvironment) { env.SetContinuedExecutionRunID("before") })
			if err != nil || out.Usage.Declared != want || calls.Load() != 4 {
				t.Errorf("second run: got %+v, %v after %d calls, want %d declared runs", out, err, calls.Load(), want)
			}
		})
	}
}
