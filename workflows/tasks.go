package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/agent"
	"weft/workflows/group"
)

// A run that is cancelled cancels the tasks of tools that its executions wait for. Those of executions that have yielded, to go
// on in another run, are left to the run itself.

// openTask is one with the step that waits for it.
type openTask struct {
	id   string
	task *contract.OpenTask
}

// openTasks lists the tasks for which an execution waits that has yielded, those below it included.
func openTasks(x *contract.SuspendedExecution) []openTask {
	var out []openTask
	if x == nil {
		return nil
	}
	for i := range x.Steps {
		s := &x.Steps[i]
		if s.Task != nil {
			out = append(out, openTask{s.ID, s.Task})
		}
		out = append(out, openTasks(s.Execution)...)
		if s.Run != nil {
			for k := range s.Run.Live {
				out = append(out, openTasks(s.Run.Live[k].Suspended)...)
			}
		}
	}
	return out
}

// cancelTasks cancels the tasks for which executions wait that have yielded.
func (f *flowRun) cancelTasks(ctx workflow.Context) {
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	g, n := group.New(quiet), 0
	for _, x := range f.sched.Suspended() {
		for _, t := range openTasks(x.Suspended) {
			n++
			id := fmt.Sprintf("%s~cancel.%d", t.id, n) // executions below may have the same ids
			g.Start(func(ctx workflow.Context) error {
				agent.CancelTask(ctx, f.run, id, t.task)
				return nil
			})
		}
	}
	_ = g.Wait() // each says for itself that it failed
}
