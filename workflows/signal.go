package workflows

import (
	"go.temporal.io/sdk/workflow"
)

// signal sends a signal to another run, whichever of that workflow id is open. It is the only way to one.
// The future says what became of it.
func (r *run) signal(ctx workflow.Context, workflowID, name string, arg any) workflow.Future {
	return workflow.SignalExternalWorkflow(ctx, workflowID, "", name, arg)
}

// signalChild signals a child once it has started.
func (r *run) signalChild(ctx workflow.Context, c *childRun, name string, arg any) workflow.Future {
	started := c.GetChildWorkflowExecution()
	if err := started.Get(ctx, nil); err != nil {
		return started
	}
	return r.signal(ctx, c.id, name, arg)
}
