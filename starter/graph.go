package main

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/specadapter/drawing"
	"weft/starter/history"
	"weft/starter/transcript"
	"weft/worker/config"
	"weft/workflows/plan"
)

// graph draws a flow, or the flow of a run with the states of its nodes.
func (a *app) graph(ctx context.Context, files []string) error {
	switch {
	case a.flags.id != "" && len(files) > 0:
		return bad("graph draws the flow of the run -id %s or that of the file %q; remove one of them", a.flags.id, files[0])
	case a.flags.id != "":
		return a.graphOfRun(ctx, a.flags.id)
	case len(files) == 0:
		return bad("graph wants a file, or -id with a run's id; usage: starter graph FILE|-id ID")
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

// draw prints a flow in the form that is asked for.
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

// graphOfRun draws what a run runs and how far it has come.
func (a *app) graphOfRun(ctx context.Context, id string) error {
	temporal, about, err := a.find(ctx, id)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	answered := a.whileSilent(ctx, temporal, about)
	st, read, err := standing(ctx, temporal, id, about)
	answered()
	if err != nil {
		return err
	}
	flow := &plan.Flow{}
	if read != nil {
		a.say("no worker answers for the run; this is from its history")
		if flow = read.Flow; flow == nil {
			return fmt.Errorf("the history of the run %q holds no plan: it did not get so far, or its beginning is not read any more", id)
		}
	} else if err := ask(ctx, temporal, id, about, contract.QueryPlan, flow); err != nil {
		return err
	}
	if len(flow.Nodes) == 0 {
		return fmt.Errorf("the run %q has no plan yet; try again when it has started its first node", id)
	}
	withBranches(ctx, temporal, id, about, st)
	return a.draw(flow, statesOf(st, read, failedNode(ctx, temporal, id, about)))
}

// standing is where a run stands: its worker says so or, where none answers for a run that
// has ended, its history, which is given then.
func standing(ctx context.Context, t *config.Temporal, id string, about about) (*contract.Status, *transcript.Transcript, error) {
	closed := about.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	st := &contract.Status{}
	err := ask(ctx, t, id, about, contract.QueryStatus, st)
	var silent *noAnswer
	var read *transcript.Transcript
	if errors.As(err, &silent) && closed {
		if read, err = transcript.Read(ctx, history.From(t.Client), id, about.run); err == nil {
			st = read.Status()
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if closed {
		// A run that was terminated could not progress.Notice it.
		st.Status = history.StatusName(about.status)
	}
	return st, read, nil
}

// failedNode is the node at which a run failed, or "".
func failedNode(ctx context.Context, t *config.Temporal, id string, about about) string {
	if about.status != enumspb.WORKFLOW_EXECUTION_STATUS_FAILED {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := t.Client.GetWorkflow(ctx, id, about.run).Get(ctx, nil); err != nil {
		return contract.FailureOf(err).Node
	}
	return ""
}

// statesOf says how far a run has come with each node.
func statesOf(st *contract.Status, read *transcript.Transcript, failed string) drawing.States {
	states := drawing.States{}
	open := st.Status == history.StatusName(enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	put := func(node string, state drawing.State, runs int) {
		states[node] = drawing.Progress{State: state, Runs: states[node].Runs + runs}
	}
	for i := range st.Executions {
		put(st.Executions[i].Node, drawing.Done, 1)
	}
	if read != nil && st.Status != history.StatusName(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED) {
		for _, node := range read.Unfinished() {
			put(node, drawing.Stopped, 0)
		}
	}
	for _, waiting := range [][]string{st.Armed, st.Waiting} {
		for _, exec := range waiting {
			if open {
				put(history.ExecutionOf(exec).Node, drawing.Waiting, 0)
			}
		}
	}
	for _, exec := range st.Running {
		state := drawing.Stopped
		if open {
			state = drawing.Running
		}
		put(history.ExecutionOf(exec).Node, state, 1)
	}
	if failed != "" {
		put(failed, drawing.Failed, 0)
	}
	return states
}
