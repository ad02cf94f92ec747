package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/workflows/agent"
	"weft/workflows/group"
	"weft/workflows/references"
)

// A run that is cancelled cancels the tasks of tools that its executions wait for. Those of executions that have yielded, to go
// on in another run, are left to the run itself.

// cancelTasks cancels the tasks for which executions wait that have yielded.
func (f *flowRun) cancelTasks(ctx workflow.Context) {
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	g, n := group.New(quiet), 0
	for _, x := range f.sched.Suspended {
		for _, t := range references.Tasks(x.Suspended) {
			n++
			id := fmt.Sprintf("%s~cancel.%d", t.ID, n) // executions below may have the same ids
			g.Start(func(ctx workflow.Context) error {
				agent.CancelTask(ctx, f.run, id, t.Task)
				return nil
			})
		}
	}
	_ = g.Wait() // each says for itself that it failed
}
