package rehearse

import (
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// TestDeliveryToStartingRun checks that a run can end while the next delivery is for its child, which is about to start.
func TestDeliveryToStartingRun(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	p := &player{rec: &Recording{ID: "r", Inbox: []Delivery{{}, {Run: "c"}}}, passed: map[*Delivery]bool{}}
	p.env = suite.NewTestWorkflowEnvironment()
	p.env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&gates{p: p}}})
	p.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "r"})
	ran := false
	child := func(workflow.Context) error {
		ran = true
		return nil
	}
	p.env.RegisterWorkflow(child)
	p.env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: "r/c", ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON})
		workflow.ExecuteChildWorkflow(ctx, child)
		return nil
	})
	if err := p.env.GetWorkflowError(); err != nil || !ran {
		t.Errorf("run error = %v; child ran: %t", err, ran)
	}
}
