// Package why explains why the nodes of a run ran, did not run, or wait.
package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	"weft/workflows/plan"
)

// Facts hold the known facts about one flow's run.
type Facts struct {
	Workflow *runtree.Workflow
	Branches []*runtree.Workflow
	Status   contract.Status
	// Calls are the calls in progress, by execution.
	Calls     map[string][]PendingCall
	Requests  []runs.Request
	SubAgents []*runtree.Workflow
	// Only are the selected nodes; nil means all.
	Only []string
	// NoAnswer is the reason why the facts are from history instead of a worker; nil if a worker answered.
	NoAnswer error
	Now      time.Time
	Failure  *contract.Failure

	// inner are the executions in progress in branches, by the first execution of their chain.
	inner map[string][]string
}

// PendingCall is a call that has no result yet.
type PendingCall struct {
	ID, Kind string
	// Failed is the failure of the last attempt, Waiting the limit that it waits for,
	// Paused a description of its pause in Temporal.
	Failed, Waiting, Paused string
	Attempt                 int32
	Started                 bool
	Next                    time.Time
}

// Settle builds the lists of finished and running executions.
func (f *Facts) Settle() {
	f.Failure = history.FailureOf(f.Workflow.Failure)
	var running []string
	for _, exec := range f.Status.Running {
		x := history.Label(history.ExecutionOf(exec))
		if inner, ok := f.inner[x]; ok {
			for _, i := range inner {
				running = append(running, history.Label(history.ExecutionOf(i)))
			}
			continue
		}
		running = append(running, x)
	}
	f.Status.Running = running
	if f.Workflow.Flow != nil && (f.NoAnswer != nil || f.Status.Dropped > 0) { // a run below may have failed before it had a plan
		f.recall()
	}
	slices.SortStableFunc(f.Status.Executions, func(a, b contract.Execution) int { return cmp.Compare(a.Step, b.Step) })
	seen := map[string]bool{}
	f.Status.Executions = slices.DeleteFunc(f.Status.Executions, func(x contract.Execution) bool {
		was := seen[history.Label(x)]
		seen[history.Label(x)] = true
		return was
	})
}

// recall adds executions from the history: all of them, or the ones before those that the run still lists. It
// finds only executions that made calls.
func (f *Facts) recall() {
	if f.NoAnswer != nil {
		f.Status.Executions = slices.Clone(f.Workflow.Executions)
	}
	known := map[string]bool{}
	for _, x := range f.Status.Executions {
		known[history.Label(x)] = true
	}
	for _, running := range f.Status.Running {
		known[running] = true
	}
	if answers := f.Workflow.Answers[plan.Start]; f.Status.Entry == nil {
		f.Status.Entry = &contract.Execution{Node: plan.Start, Answers: answers}
		f.Status.Entry.Taken = f.derive(f.Status.Entry)
	}
	for _, v := range append([]*runtree.Workflow{f.Workflow}, f.Branches...) {
		for i, exec := range v.Called {
			x := history.ExecutionOf(exec)
			if known[history.Label(x)] {
				continue
			}
			known[history.Label(x)] = true
			x.Answers = v.Answers[exec]
			completed := v.Status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
			failed := f.Failure != nil && f.Failure.Node == x.Node && f.Failure.Step == x.Step
			switch {
			case failed:
			case f.NoAnswer != nil && (i == len(v.Called)-1 && !completed || !f.decided(&x)):
				f.Status.Running = append(f.Status.Running, history.Label(x))
			default:
				x.Taken = f.derive(&x)
				f.Status.Executions = append(f.Status.Executions, x)
			}
		}
	}
}

// decided reports whether all questions on the outgoing edges of an execution are answered.
func (f *Facts) decided(x *contract.Execution) bool {
	for _, e := range f.edges(x.Node) {
		if e.Question == "" {
			continue
		}
		a := answerTo(x, e.ID)
		if a == nil {
			return f.first(x.Node) && slices.ContainsFunc(x.Answers, func(a contract.Answer) bool { return a.Yes })
		}
	}
	return true
}

// derive returns the edges that an execution took, as far as the recorded answers determine them.
func (f *Facts) derive(x *contract.Execution) []string {
	var out []string
	for _, e := range f.edges(x.Node) {
		a := answerTo(x, e.ID)
		if e.Compare != nil || e.Branch != "" || e.Question != "" && (a == nil || !a.Yes) {
			continue
		}
		out = append(out, e.ID)
		if f.first(x.Node) {
			break
		}
	}
	return out
}

func (f *Facts) edges(from string) []plan.Edge {
	return slices.DeleteFunc(slices.Clone(f.Workflow.Flow.Edges), func(e plan.Edge) bool { return e.From != from })
}

func (f *Facts) first(node string) bool {
	choice := f.Workflow.Flow.Choice
	if n := f.Workflow.Flow.Node(node); n != nil {
		choice = cmp.Or(n.Choice, choice)
	}
	return choice == plan.ChooseFirst
}

func answerTo(x *contract.Execution, edge string) *contract.Answer {
	if i := slices.IndexFunc(x.Answers, func(a contract.Answer) bool { return a.Edge == edge }); i >= 0 {
		return &x.Answers[i]
	}
	return nil
}

func (f *Facts) waits(exec string) []Wait {
	var out []Wait
	for _, c := range f.Calls[exec] {
		out = append(out, f.waitOf(&c))
	}
	for _, q := range f.Requests {
		last := q.Execution[strings.LastIndex(q.Execution, "/")+1:]
		if history.Label(history.ExecutionOf(last)) == exec {
			out = append(out, Wait{Kind: WaitRequest, Request: &q.Request, Commands: q.Commands,
				Text: fmt.Sprintf("%s: %s", q.Kind, plaintext.Line(q.Text, 500))})
		}
	}
	for _, v := range f.SubAgents {
		place := strings.TrimSuffix(strings.TrimPrefix(v.Place, f.Workflow.Place), " › ")
		before, _, _ := history.CutLast(place, ":")
		if v.Open() && history.Label(history.ExecutionOf(before)) == exec {
			out = append(out, Wait{Kind: WaitSubAgent, For: []string{v.ID}, Text: "its sub-agent " + place + " runs"})
		}
	}
	return out
}

func (f *Facts) waitOf(c *PendingCall) Wait {
	w := Wait{Kind: WaitCall, Call: callLabel(c), Attempt: c.Attempt, Error: c.Failed}
	later := ""
	if !c.Started && c.Next.After(f.Now) {
		at := c.Next
		w.Next = &at
		later = fmt.Sprintf(" at %s (in %.0f s)", at.Local().Format(time.DateTime), at.Sub(f.Now).Seconds()+0.5)
	}
	switch {
	case c.Paused != "":
		w.Kind, w.Next, w.Text = WaitPaused, nil, w.Call+": "+c.Paused
	case c.Waiting != "":
		w.Kind, w.Text = WaitLimit, fmt.Sprintf("%s, which has not started: %s", w.Call, plaintext.Line(c.Waiting, 300))
	case c.Attempt > 1:
		if w.Kind = WaitRetry; strings.HasPrefix(c.Failed, contract.ClassRateLimited+":") {
			w.Kind = WaitLimit
		}
		what := cmp.Or(plaintext.If(!c.Started, "comes%s", later), "is running")
		w.Text = fmt.Sprintf("%s: attempt %d %s; the previous one failed: %s", w.Call, c.Attempt, what, cmp.Or(c.Failed, "an unknown failure"))
	case c.Started:
		w.Text = w.Call + ", which is running"
	default:
		w.Kind, w.Text = WaitWorker, w.Call+", which no worker has picked up yet"
	}
	return w
}

func callLabel(c *PendingCall) string {
	_, turn := history.SplitCallID(c.ID)
	label := map[string]string{contract.ActivityCallModel: "model call", contract.ActivityCallTool: "tool call", contract.ActivityEvaluateCondition: "question of an edge",
		contract.ActivityListTools: "list of tools", contract.ActivityCompileFlow: "preparation"}[c.Kind]
	return strings.TrimSpace(plaintext.Line(cmp.Or(label, c.Kind), 100) + " " + plaintext.Line(turn, 100))
}

// Gather collects the facts about each flow of a tree from workers, histories and Temporal.
func Gather(ctx context.Context, root *runs.Run, read *runtree.Tree) ([]*Facts, error) {
	var out []*Facts
	byPlace := map[string]*Facts{}
	byID := map[string]*Facts{}
	var noAnswer error
	for _, v := range read.Workflows {
		run := root.InTree(v.ID, v.RunID, v.Status)
		f := byPlace[v.Place]
		if !v.Branch {
			f = &Facts{Workflow: v, Calls: map[string][]PendingCall{}, inner: map[string][]string{}, Now: time.Now(), NoAnswer: noAnswer}
			byPlace[v.Place], out = f, append(out, f)
			if v.Flow == nil && len(out) == 1 {
				return nil, fmt.Errorf("the history of the run %q holds no plan: it failed earlier, or its beginning is no longer retained", v.ID)
			}
			f.ask(ctx, run)
			noAnswer = f.NoAnswer
		}
		if f == nil {
			continue
		}
		if v.Branch {
			f.addBranch(ctx, v, run)
		}
		byID[v.ID] = cmp.Or(byID[v.ID], f)
		if v.Open() {
			f.addPending(ctx, run)
		}
	}
	// The root has all requests.
	for i := range out[0].Status.Requests {
		q := &out[0].Status.Requests[i]
		if of := byID[q.Run.Workflow]; of != nil {
			of.Requests = append(of.Requests, root.Request("", q, of.Now))
		}
	}
	for _, f := range out {
		f.Settle()
		// Include the sub-agents that its own flow has called.
		for _, o := range out {
			if place, ok := strings.CutPrefix(o.Workflow.Place, f.Workflow.Place); ok && o != f && strings.Count(place, " › ") == 1 {
				f.SubAgents = append(f.SubAgents, o.Workflow)
			}
		}
	}
	return out, nil
}

// ask queries the status from the flow's worker. If it, or the worker of an earlier flow, does not answer, it uses the history.
func (f *Facts) ask(ctx context.Context, run *runs.Run) {
	if f.NoAnswer == nil {
		st, err := run.QueryStatus(ctx)
		f.Status, f.NoAnswer = *st, err
	}
	if f.NoAnswer != nil {
		f.Status = contract.Status{Entry: f.Workflow.Entry}
	}
	if f.NoAnswer != nil || !run.Open() {
		f.Status.Status = history.StatusName(run.Status)
	}
}

func (f *Facts) addBranch(ctx context.Context, v *runtree.Workflow, run *runs.Run) {
	f.Branches = append(f.Branches, v)
	if !v.Open() || f.NoAnswer != nil {
		return
	}
	if st, err := run.QueryStatus(ctx); err == nil {
		f.Status.Executions = append(f.Status.Executions, st.Executions...)
		f.inner[history.Label(v.First)] = st.Running
	}
}

func (f *Facts) addPending(ctx context.Context, run *runs.Run) {
	d, err := run.Describe(ctx, run.ID, run.RunID)
	if err != nil {
		return
	}
	for _, p := range d.GetPendingActivities() {
		place, id := contract.SplitPlace(p.GetActivityId())
		exec, _, _ := strings.Cut(place+id, ":") // an element's call belongs to its map
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

// Select returns the flows that have a node, identified by id, name or execution, restricted to that node.
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
