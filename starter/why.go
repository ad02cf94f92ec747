package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/specadapter/source"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/runtree"
	"weft/starter/why"
	"weft/worker/config"
)

// why says why a run's nodes ran, did not run, or wait.
func (a *app) why(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	t, err := runtree.Read(ctx, history.From(temporal.Client), args[0], about.run)
	if err != nil {
		return err
	}
	facts, err := a.facts(ctx, temporal, about, t)
	if err != nil {
		return err
	}
	if len(args) > 1 {
		if facts, err = chosen(facts, args[1]); err != nil {
			return err
		}
	}
	report := why.Explain(facts, t.Missing)
	if a.flags.asJSON() {
		a.object(report)
		return nil
	}
	if report.FromHistory {
		a.say("no worker answers for the run; this is from its history, which does not have nodes that make no calls")
	}
	fmt.Fprint(a.stdout, why.Text(&report, len(args) > 1))
	return nil
}

// facts gathers what there is to know of each flow of a tree: from its worker or, where none
// answers, from the histories, and of what is under way from Temporal.
func (a *app) facts(ctx context.Context, t *config.Temporal, about about, read *runtree.Tree) ([]*why.Facts, error) {
	var out []*why.Facts
	byPlace := map[string]*why.Facts{}
	silent := false
	for _, v := range read.Workflows {
		f := byPlace[v.Place]
		if !v.Branch {
			f = &why.Facts{Workflow: v, Calls: map[string][]why.PendingCall{}, Now: time.Now()}
			byPlace[v.Place], out = f, append(out, f)
			if v.Flow == nil && len(out) == 1 {
				return nil, fmt.Errorf("the history of the run %q holds no plan: it did not get so far, or its beginning is not kept any more", v.ID)
			}
			silent = !a.askStatus(ctx, t, about, f, silent) || silent
		} else if f != nil {
			f.Branches = append(f.Branches, v)
			var st contract.Status
			if v.Open() && !silent && ask(ctx, t, v.ID, about.of(v), contract.QueryStatus, &st) == nil {
				f.AddBranch(v, &st)
			}
		}
		if f != nil && v.Open() {
			pendingCalls(ctx, t, f, v)
		}
	}
	a.spread(out[0], read, byPlace)
	for _, f := range out {
		f.Settle()
	}
	why.Link(out)
	return out, nil
}

// spread gives the requests that the root keeps to the flows whose they are.
func (a *app) spread(root *why.Facts, read *runtree.Tree, byPlace map[string]*why.Facts) {
	for i := range root.Status.Requests {
		q := &root.Status.Requests[i]
		for _, v := range read.Workflows {
			if f := byPlace[v.Place]; f != nil && v.ID == q.Run.Workflow {
				f.Requests = append(f.Requests, why.Request{Request: q, Commands: a.answers(root.Workflow.ID, q)})
				break
			}
		}
	}
}

// of is what is known of another workflow of the run.
func (x about) of(v *runtree.Workflow) about {
	return about{run: v.RunID, queue: x.queue, status: v.Status, patience: closedTimeout}
}

// askStatus takes a flow's own word for where it stands, or makes it of the histories. It is
// false where nobody answers.
func (a *app) askStatus(ctx context.Context, t *config.Temporal, about about, f *why.Facts, silent bool) bool {
	f.Status = contract.Status{}
	if !silent && ask(ctx, t, f.Workflow.ID, about.of(f.Workflow), contract.QueryStatus, &f.Status) == nil {
		f.Status.Status = cleanStatus(f.Workflow, f.Status.Status)
		return true
	}
	f.FromHistory = true
	f.Status = contract.Status{Status: history.StatusName(f.Workflow.Status), Entry: f.Workflow.Entry}
	return false
}

// cleanStatus is a run's status: Temporal's word for one that has ended.
func cleanStatus(v *runtree.Workflow, own string) string {
	if v.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return own
	}
	return history.StatusName(v.Status)
}

// pendingCalls asks Temporal for the calls that a workflow waits for.
func pendingCalls(ctx context.Context, t *config.Temporal, f *why.Facts, v *runtree.Workflow) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := t.Client.DescribeWorkflowExecution(ctx, v.ID, v.RunID)
	if err != nil {
		return
	}
	for _, p := range d.GetPendingActivities() {
		exec, _, _ := strings.Cut(p.GetActivityId(), "/")
		exec = history.Label(history.ExecutionOf(exec))
		c := why.PendingCall{ID: p.GetActivityId(), Kind: p.GetActivityType().GetName(), Attempt: p.GetAttempt(),
			Started: p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED}
		if p.GetLastFailure() != nil {
			c.Failed = history.FailureText(p.GetLastFailure())
		}
		if at := p.GetScheduledTime(); at != nil {
			c.Next = at.AsTime()
		}
		c.Waiting, c.Paused = history.Waiting(p), pausedText(p, v.ID)
		f.Calls[exec] = append(f.Calls[exec], c)
	}
	if task := d.GetPendingWorkflowTask(); task.GetAttempt() > 1 {
		f.Stuck = fmt.Sprintf("%s cannot go on: its workflow task has failed %d times; look into the worker's log", v.ID, task.GetAttempt()-1)
	}
}

// chosen are the flows that have a node, with that node alone. The node is its id, its name,
// or one of its executions, node#step.
func chosen(all []*why.Facts, word string) ([]*why.Facts, error) {
	var out []*why.Facts
	var names []string
	for _, f := range all {
		if f.Workflow.Flow == nil {
			continue
		}
		for _, n := range f.Workflow.Flow.Nodes {
			names = append(names, n.ID)
			x := history.ExecutionOf(word)
			if n.ID == word || strings.EqualFold(n.Name, word) || x.Step > 0 && x.Node == n.ID {
				if f.Only = append(f.Only, n.ID); len(f.Only) == 1 {
					out = append(out, f)
				}
			}
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	if near := source.NewSuggester(names).Nearest(word); near != "" {
		return nil, bad("the run has no node %q; did you mean %s?", word, near)
	}
	return nil, bad("the run has no node %q; its nodes: %s", word, plaintext.Line(strings.Join(names, ", "), 1000))
}
