package workflows

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/workflowtest"
)

// TestEarlyMessageToUnknownNode checks that a signal that arrived before the flow was compiled is rejected if it names a node that
// the flow does not have.
func TestEarlyMessageToUnknownNode(t *testing.T) {
	env := workflowtest.Env()
	Register(env)
	flow := scheduletest.Sketch("START>a a>END")
	flow.Version, flow.Policy = plan.Version, plan.DefaultPolicy
	flow.Nodes[0].Kind, flow.Nodes[0].Ask, flow.Nodes[0].Agent = plan.KindAsk, &plan.Ask{Text: "what?"}, nil
	hash, err := flow.Hash()
	if err != nil {
		t.Fatal(err)
	}
	unused := func(context.Context, contract.CompileFlowInput) (*contract.CompileFlowResult, error) { return nil, nil }
	env.RegisterActivityWithOptions(unused, activity.RegisterOptions{Name: contract.ActivityCompileFlow})
	env.OnActivity(contract.ActivityCompileFlow, mock.Anything, mock.Anything).After(3*time.Second).Return(
		&contract.CompileFlowResult{Plan: flow, Hash: hash, Model: "script"}, nil)
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(contract.RequestMessage, map[string]any{"text": "hello", "node": "nobody"})
	}, time.Second)
	env.RegisterDelayedCallback(func() {
		v, err := env.QueryWorkflow(contract.QueryStatus)
		if err != nil {
			t.Fatal(err)
		}
		var s contract.Status
		if err := v.Get(&s); err != nil {
			t.Fatal(err)
		}
		if s.Rejected != 1 || len(s.Inbox) != 0 {
			t.Errorf("%d rejected signals and %d unread messages, want 1 and 0", s.Rejected, len(s.Inbox))
		}
		env.SignalWorkflow(contract.RequestMessage, map[string]any{"text": "this"})
	}, time.Minute)
	env.ExecuteWorkflow(contract.WorkflowFlow, contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Text: "x"}})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}
