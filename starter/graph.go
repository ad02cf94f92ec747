package main

import (
	"context"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/specadapter/drawing"
	"weft/starter/history"
	"weft/starter/runs"
	"weft/starter/transcript"
	"weft/starter/usage"
	"weft/workflows/plan"
)

// graph draws a flow, or the flow of a run with the states of its nodes.
func (a *app) graph(ctx context.Context, files []string) error {
	switch {
	case a.flags.id != "" && len(files) > 0:
		return usage.Errorf("graph draws the flow of the run -id %s or that of the file %q; remove one of them", a.flags.id, files[0])
	case a.flags.id != "":
		return a.graphOfRun(ctx, a.flags.id)
	case len(files) == 0:
		return usage.Errorf("graph wants a file, or -id with a run's id; usage: starter graph FILE|-id ID")
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	res, err := a.compile(cfg, files[0], false)
	if err != nil {
		return err
	}
	return a.draw(res.Flow, nil)
}

func (a *app) draw(f *plan.Flow, states drawing.States) error {
	if !a.flags.svg {
		fmt.Fprint(a.stdout, drawing.Mermaid(f, states))
		return nil
	}
	text, err := drawing.SVG(f, states)
	if err != nil {
		return fmt.Errorf("draw the flow %q: %w; without -svg it is drawn as Mermaid", f.Name, err)
	}
	fmt.Fprint(a.stdout, text)
	return nil
}

func (a *app) graphOfRun(ctx context.Context, id string) error {
	r, err := a.find(ctx, id)
	if err != nil {
		return err
	}
	defer r.Client.Close()
	st, read, err := a.standing(ctx, r)
	if err != nil {
		return err
	}
	flow := &plan.Flow{}
	if read != nil {
		if flow = read.Root().Flow; flow == nil {
			return fmt.Errorf("the history of the run %q holds no plan: it did not get so far, or its beginning is not read any more", id)
		}
	} else if err := r.Query(ctx, contract.QueryPlan, flow); err != nil {
		return err
	}
	if len(flow.Nodes) == 0 {
		return fmt.Errorf("the run %q has no plan yet; try again when it has started its first node", id)
	}
	r.AddBranches(ctx, st)
	return a.draw(flow, statesOf(st, read, failedNode(ctx, r)))
}

func failedNode(ctx context.Context, r *runs.Run) string {
	if r.Status != enumspb.WORKFLOW_EXECUTION_STATUS_FAILED {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, runs.CallTimeout)
	defer cancel()
	if err := r.Client.GetWorkflow(ctx, r.ID, r.RunID).Get(ctx, nil); err != nil {
		return contract.FailureOf(err).Node
	}
	return ""
}

func statesOf(st *contract.Status, read *transcript.Transcript, failed string) drawing.States {
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
	if st.Status == contract.StatusRunning {
		running = drawing.Running
		for _, exec := range slices.Concat(st.PendingJoins, st.Waiting) {
			put(history.ExecutionOf(exec).Node, drawing.Waiting, 0)
		}
	}
	for _, exec := range st.Running {
		put(history.ExecutionOf(exec).Node, running, 1)
	}
	if failed != "" {
		put(failed, drawing.Failed, 0)
	}
	return states
}
