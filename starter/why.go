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
	"weft/worker/config"
)

// whyReport says of a run, or of a sub-agent's run in it, why its nodes ran, did not run or
// wait.
type whyReport struct {
	Run string `json:"run"`
	// Place is where a sub-agent was called: node#step:call, behind those above it.
	Place  string `json:"place,omitempty"`
	Flow   string `json:"flow,omitempty"`
	Status string `json:"status"`
	// Failure is that of a run that failed.
	Failure *contract.Failure `json:"failure,omitempty"`
	// FromHistory says that no worker answered: nodes that make no calls may be missing.
	FromHistory bool      `json:"from_history,omitempty"`
	Nodes       []whyNode `json:"nodes"`
	// SubAgents are the runs below it.
	SubAgents []whyReport `json:"sub_agents,omitempty"`
	// Gone are the ids of runs whose history is not kept any more.
	Gone []string `json:"gone,omitempty"`
}

// whyNode is a node's state: done, running, waiting, failed, stopped or not_run.
type whyNode struct {
	Node  string `json:"node"`
	Name  string `json:"name,omitempty"`
	At    string `json:"at,omitempty"`
	State string `json:"state"`
	// Executions are those that ran, run or wait; Refused are the edges into a node that has
	// none, each with what kept it.
	Executions []whyExecution `json:"executions,omitempty"`
	Refused    []whyEdge      `json:"refused,omitempty"`
}

// whyExecution is one execution of a node.
type whyExecution struct {
	Execution string `json:"execution"`
	State     string `json:"state"`
	// Because are the edges that led here, Left those out of it, once they are decided.
	Because []whyEdge `json:"because,omitempty"`
	// Absent are the nodes with an edge into this join that did not run before it, or not between
	// the join's previous execution and this one.
	Absent []string  `json:"absent,omitempty"`
	Left   []whyEdge `json:"left,omitempty"`
	Waits  []whyWait `json:"waits,omitempty"`
	// Text says what else is known of it.
	Text string `json:"text,omitempty"`
}

// What became of an edge.
const (
	edgeTaken   = "taken"
	edgeRefused = "refused"
	edgeOpen    = "undecided"
)

// whyEdge is an edge and what became of it.
type whyEdge struct {
	Edge string `json:"edge"`
	// From is the execution, node#step, or a node that has not run.
	From   string `json:"from"`
	To     string `json:"to"`
	At     string `json:"at,omitempty"`
	Result string `json:"result"`
	// Question, Answer and Reason are recorded where the edge has a condition.
	Question string `json:"question,omitempty"`
	Answer   *bool  `json:"answer,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Text says why in words.
	Text string `json:"text"`
}

// What an execution waits for.
const (
	waitJoin     = "join"
	waitRequest  = "request"
	waitRetry    = "retry"
	waitLimit    = "rate_limit"
	waitPaused   = "paused"
	waitCall     = "call"
	waitWorker   = "worker"
	waitSubAgent = "sub_agent"
)

// whyWait is something that an execution waits for.
type whyWait struct {
	Kind string `json:"kind"`
	// For are the executions, of a join; the runs, of a sub-agent.
	For []string `json:"for,omitempty"`
	// Call, Attempt, Next and Error are those of a call under way: Attempt is the one under
	// way or next, Next when that begins, Error what the one before it failed with.
	Call    string     `json:"call,omitempty"`
	Attempt int32      `json:"attempt,omitempty"`
	Next    *time.Time `json:"next,omitempty"`
	Error   string     `json:"error,omitempty"`
	// Request and Commands are those of a request.
	Request  *contract.Request `json:"request,omitempty"`
	Commands []string          `json:"commands,omitempty"`
	Text     string            `json:"text"`
}

// why says why a run's nodes ran, did not run, or wait.
func (a *app) why(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	t, err := readTree(ctx, history.From(temporal.Client), args[0], about.run)
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
	report := a.explained(facts, t)
	if a.flags.asJSON() {
		a.object(report)
		return nil
	}
	if report.FromHistory {
		a.say("no worker answers for the run; this is from its history, which does not have nodes that make no calls")
	}
	fmt.Fprint(a.stdout, whyText(&report, len(args) > 1))
	return nil
}

// facts gathers what there is to know of each flow of a tree: from its worker or, where none
// answers, from the histories, and of what is under way from Temporal.
func (a *app) facts(ctx context.Context, t *config.Temporal, about about, read *tree) ([]*runFacts, error) {
	var out []*runFacts
	byPlace := map[string]*runFacts{}
	silent := false
	for _, v := range read.visits {
		f := byPlace[v.place]
		if !v.branch {
			f = &runFacts{visit: v, calls: map[string][]pendingCall{}, now: time.Now()}
			byPlace[v.place], out = f, append(out, f)
			if v.flow == nil && len(out) == 1 {
				return nil, fmt.Errorf("the history of the run %q holds no plan: it did not get so far, or its first part is gone", v.id)
			}
			silent = !a.askStatus(ctx, t, about, f, silent) || silent
		} else if f != nil {
			f.branches = append(f.branches, v)
			var st contract.Status
			if v.open() && !silent && ask(ctx, t, v.id, about.of(v), contract.QueryStatus, &st) == nil {
				f.inBranch(v, &st)
			}
		}
		if f != nil && v.open() {
			f.pending(ctx, t, v)
		}
	}
	a.spread(out[0], read, byPlace)
	for _, f := range out {
		f.settle()
		f.subAgents = below(f, out)
	}
	return out, nil
}

// below are the runs of a flow's own sub-agents.
func below(f *runFacts, all []*runFacts) []*visit {
	var out []*visit
	for _, o := range all {
		if place, ok := strings.CutPrefix(o.visit.place, f.visit.place); ok && o != f && strings.Count(place, " › ") == 1 {
			out = append(out, o.visit)
		}
	}
	return out
}

// spread gives the requests that the root keeps to the flows whose they are.
func (a *app) spread(root *runFacts, read *tree, byPlace map[string]*runFacts) {
	for i := range root.st.Requests {
		q := &root.st.Requests[i]
		for _, v := range read.visits {
			if f := byPlace[v.place]; f != nil && v.id == q.Run.Workflow {
				f.requests = append(f.requests, request{q, a.answers(root.visit.id, q)})
				break
			}
		}
	}
}

// of is what is known of another workflow of the run.
func (x about) of(v *visit) about {
	return about{run: v.run, queue: x.queue, status: v.status, patience: closedTimeout}
}

// askStatus takes a flow's own word for where it stands, or makes it of the histories. It is
// false where nobody answers.
func (a *app) askStatus(ctx context.Context, t *config.Temporal, about about, f *runFacts, silent bool) bool {
	f.st = contract.Status{}
	if !silent && ask(ctx, t, f.visit.id, about.of(f.visit), contract.QueryStatus, &f.st) == nil {
		f.st.Status = cleanStatus(f.visit, f.st.Status)
		return true
	}
	f.fromHistory = true
	f.st = contract.Status{Status: statusName(f.visit.status), Entry: f.visit.entry}
	return false
}

// cleanStatus is a run's status: Temporal's word for one that has ended.
func cleanStatus(v *visit, own string) string {
	if v.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return own
	}
	return statusName(v.status)
}

// pending asks Temporal for the calls that a workflow waits for.
func (f *runFacts) pending(ctx context.Context, t *config.Temporal, v *visit) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := t.Client.DescribeWorkflowExecution(ctx, v.id, v.run)
	if err != nil {
		return
	}
	for _, p := range d.GetPendingActivities() {
		exec, _, _ := strings.Cut(p.GetActivityId(), "/")
		exec = history.Label(history.ExecutionOf(exec))
		c := pendingCall{id: p.GetActivityId(), kind: p.GetActivityType().GetName(), attempt: p.GetAttempt(),
			started: p.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED}
		if p.GetLastFailure() != nil {
			c.failed = history.FailureText(p.GetLastFailure())
		}
		if at := p.GetScheduledTime(); at != nil {
			c.next = at.AsTime()
		}
		c.waiting, c.paused = waitsFor(p), pausedText(p, v.id)
		f.calls[exec] = append(f.calls[exec], c)
	}
	if task := d.GetPendingWorkflowTask(); task.GetAttempt() > 1 {
		f.stuck = fmt.Sprintf("%s cannot go on: its workflow task has failed %d times; look into the worker's log", v.id, task.GetAttempt()-1)
	}
}

// chosen are the flows that have a node, with that node alone. The node is its id, its name,
// or one of its executions, node#step.
func chosen(all []*runFacts, word string) ([]*runFacts, error) {
	var out []*runFacts
	var names []string
	for _, f := range all {
		if f.visit.flow == nil {
			continue
		}
		for _, n := range f.visit.flow.Nodes {
			names = append(names, n.ID)
			x := history.ExecutionOf(word)
			if n.ID == word || strings.EqualFold(n.Name, word) || x.Step > 0 && x.Node == n.ID {
				if f.only = append(f.only, n.ID); len(f.only) == 1 {
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
	return nil, bad("the run has no node %q; its nodes: %s", word, clean(strings.Join(names, ", "), 1000))
}

// explained makes the reports of flows, those below others in theirs.
func (a *app) explained(all []*runFacts, t *tree) whyReport {
	report := all[0].report()
	for _, f := range all[1:] {
		report.SubAgents = append(report.SubAgents, f.report())
	}
	report.Gone = t.missing
	return report
}

// failureOfHistory is a failure as history has it.
func failureOfHistory(v *visit) *contract.Failure {
	if v.failure == nil {
		return nil
	}
	var f contract.Failure
	if d := v.failure.GetApplicationFailureInfo().GetDetails(); d != nil && history.Decode(d, &f) && f.Class != "" {
		return &f
	}
	return &contract.Failure{Class: v.failure.GetApplicationFailureInfo().GetType(), Text: clean(v.failure.GetMessage(), 2000)}
}
