package runtime

import (
	"go.temporal.io/sdk/workflow"

	"weft/workflows/wait"
)

// Signal sends a signal to another run, whichever of that workflow id is open. It is the only way to one.
// The future says what became of it.
func (r *Run) Signal(ctx workflow.Context, workflowID, name string, arg any) workflow.Future {
	return workflow.SignalExternalWorkflow(ctx, workflowID, "", name, arg)
}

// SignalChild signals a child once it has started.
func (r *Run) SignalChild(ctx workflow.Context, c *ChildRun, name string, arg any) workflow.Future {
	started := c.Future.GetChildWorkflowExecution()
	if err := wait.Get(ctx, started, nil); err != nil {
		return started
	}
	return r.Signal(ctx, c.id, name, arg)
}
