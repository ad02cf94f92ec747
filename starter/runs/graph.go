package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/specadapter/drawing"
	"weft/starter/history"
	"weft/starter/transcript"
	"weft/workflows/plan"
)

// Graph is a run's flow with the states of its nodes. FromHistory says that no worker answered for the run.
type Graph struct {
	Flow        *plan.Flow
	States      drawing.States
	FromHistory bool
}

// ErrNoPlan is the error of a run whose plan is not known.
var ErrNoPlan = errors.New("no plan")

// Graph returns the run's graph, from its worker or, where none answers for a run that has ended, from its history.
func (r *Run) Graph(ctx context.Context) (*Graph, error) {
	st, read, err := r.Standing(ctx)
	if err != nil {
		return nil, err
	}
	flow := &plan.Flow{}
	if read != nil {
		if flow = read.Root().Flow; flow == nil {
			return nil, fmt.Errorf("the history of the run %q holds %w: it failed earlier, or its beginning is no longer readable", r.ID, ErrNoPlan)
		}
	} else if err := r.Query(ctx, contract.QueryPlan, flow); err != nil {
		return nil, err
	}
	if len(flow.Nodes) == 0 {
		return nil, fmt.Errorf("the run %q has %w yet; try again when it has started its first node", r.ID, ErrNoPlan)
	}
	r.AddBranches(ctx, st)
	failed := ""
	if f := r.FailedBy(ctx); f != nil {
		failed = f.Node
	}
	return &Graph{flow, StatesOf(st, read, failed), read != nil}, nil
}

// FailedBy is why the run failed, nil where it did not.
func (r *Run) FailedBy(ctx context.Context) *contract.Failure {
	if r.Status != enumspb.WORKFLOW_EXECUTION_STATUS_FAILED {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if err := r.Client.GetWorkflow(ctx, r.ID, r.RunID).Get(ctx, nil); err != nil {
		return contract.FailureOf(err)
	}
	return nil
}

// StatesOf returns the states of nodes by a run's status, its transcript where no worker answered, and the node that failed, if any.
func StatesOf(st *contract.Status, read *transcript.Transcript, failed string) drawing.States {
	states := drawing.States{}
	put := func(node string, state drawing.State, runs int) {
		states[node] = drawing.Progress{State: state, Runs: states[node].Runs + runs}
	}
	for i := range st.Executions {
		put(st.Executions[i].Node, drawing.Done, 1)
	}
	if read != nil && st.Status != contract.StatusCompleted {
		for _, node := range read.Unfinished() {
			put(node, drawing.Stopped, 0)
		}
	}
	running := drawing.Stopped
	if st.Status == contract.StatusRunning || st.Status == contract.StatusWaiting || st.Status == contract.StatusIdle {
		running = drawing.Running
		for _, exec := range slices.Concat(st.PendingJoins, st.Waiting) {
			put(history.ExecutionOf(exec).Node, drawing.Waiting, 0)
		}
	}
	for _, exec := range st.Running {
		put(history.ExecutionOf(exec).Node, running, 1)
	}
	for i := range st.Requests {
		if node := st.Requests[i].Node; states[node].State == drawing.Running {
			put(node, drawing.Waiting, 0)
		}
	}
	if failed != "" {
		put(failed, drawing.Failed, 0)
	}
	return states
}
