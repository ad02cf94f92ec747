package why

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
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/usage"
)

// Gather collects what is known of each flow of a tree: from workers, histories and Temporal.
func Gather(ctx context.Context, root *runs.Run, read *runtree.Tree) ([]*Facts, error) {
	var out []*Facts
	byPlace := map[string]*Facts{}
	byID := map[string]*Facts{}
	silent := false
	for _, v := range read.Workflows {
		run := root.Below(v.ID, v.RunID, v.Status)
		f := byPlace[v.Place]
		if !v.Branch {
			f = &Facts{Workflow: v, Calls: map[string][]PendingCall{}, Now: time.Now()}
			byPlace[v.Place], out = f, append(out, f)
			if v.Flow == nil && len(out) == 1 {
				return nil, fmt.Errorf("the history of the run %q holds no plan: it failed earlier, or its beginning is no longer retained", v.ID)
			}
			if silent = silent || !f.askStatus(ctx, run); silent {
				f.FromHistory, f.Status.Status, f.Status.Entry = true, history.StatusName(v.Status), v.Entry
			}
		}
		if f == nil {
			continue
		}
		if v.Branch {
			f.addBranch(ctx, v, run, silent)
		}
		if byID[v.ID] == nil {
			byID[v.ID] = f
		}
		if v.Open() {
			f.addPending(ctx, run)
		}
	}
	// The root keeps all requests.
	for i := range out[0].Status.Requests {
		q := &out[0].Status.Requests[i]
		if of := byID[q.Run.Workflow]; of != nil {
			of.Requests = append(of.Requests, root.Request("", q, of.Now))
		}
	}
	for _, f := range out {
		f.Settle()
	}
	Link(out)
	return out, nil
}

func (f *Facts) askStatus(ctx context.Context, run *runs.Run) bool {
	st, err := run.Reported(ctx)
	if err != nil {
		return false
	}
	if f.Status = *st; !run.Open() {
		f.Status.Status = history.StatusName(run.Status)
	}
	return true
}

func (f *Facts) addBranch(ctx context.Context, v *runtree.Workflow, run *runs.Run, silent bool) {
	f.Branches = append(f.Branches, v)
	if !v.Open() || silent {
		return
	}
	if st, err := run.Reported(ctx); err == nil {
		f.AddBranch(v, st)
	}
}

func (f *Facts) addPending(ctx context.Context, run *runs.Run) {
	d, err := run.Describe(ctx, run.ID, run.RunID)
	if err != nil {
		return
	}
	for _, p := range d.GetPendingActivities() {
		place, id := contract.SplitPlace(p.GetActivityId())
		exec, _, _ := strings.Cut(place+id, ":") // an element's call is its map's
		exec, _, _ = strings.Cut(exec, "/")
		exec = history.Label(history.ExecutionOf(exec))
		c := PendingCall{ID: p.GetActivityId(), Kind: p.GetActivityType().GetName(), Attempt: p.GetAttempt(),
			Started: p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED, Waiting: history.Waiting(p), Paused: runs.Paused(p, run.ID)}
		if p.GetLastFailure() != nil {
			c.Failed = history.FailureText(p.GetLastFailure())
		}
		if at := p.GetScheduledTime(); at != nil {
			c.Next = at.AsTime()
		}
		f.Calls[exec] = append(f.Calls[exec], c)
	}
}

// Select returns the flows that have a node, given by id, name or execution, with that node alone.
func Select(all []*Facts, word string) ([]*Facts, error) {
	var out []*Facts
	var names []string
	x := history.ExecutionOf(word)
	for _, f := range all {
		if f.Workflow.Flow == nil {
			continue
		}
		for _, n := range f.Workflow.Flow.Nodes {
			names = append(names, n.ID)
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
		return nil, usage.Errorf("the run has no node %q; did you mean %s?", word, near)
	}
	return nil, usage.Errorf("the run has no node %q; its nodes: %s", word, plaintext.Line(strings.Join(names, ", "), 1000))
}
