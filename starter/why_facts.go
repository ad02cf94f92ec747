package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/workflows/plan"
)

// runFacts are what is known of one flow's run.
type runFacts struct {
	visit    *visit
	branches []*visit
	st       contract.Status
	// inner are the executions under way in branches, by the first of their chain.
	inner map[string][]string
	// calls are those under way, by execution.
	calls     map[string][]pendingCall
	requests  []request
	subAgents []*visit
	// only are the nodes that are asked about; nil is all.
	only        []string
	fromHistory bool
	stuck       string
	now         time.Time
	failure     *contract.Failure
}

// pendingCall is a call that has no result yet.
type pendingCall struct {
	id, kind, failed, waiting, paused string
	attempt                           int32
	started                           bool
	next                              time.Time
}

// request is an open request, and the command lines that answer it.
type request struct {
	*contract.Request
	commands []string
}

// inBranch takes what a branch under way says of itself.
func (f *runFacts) inBranch(v *visit, st *contract.Status) {
	if f.inner == nil {
		f.inner = map[string][]string{}
	}
	f.st.Executions = append(f.st.Executions, st.Executions...)
	f.inner[history.Label(v.first)] = st.Running
}

// settle makes one list of what has run and one of what runs.
func (f *runFacts) settle() {
	f.failure = failureOfHistory(f.visit)
	if f.fromHistory && f.visit.flow != nil { // a run below may have failed before it had a plan
		f.recall()
	}
	var running []string
	for _, exec := range f.st.Running {
		x := history.Label(history.ExecutionOf(exec))
		if inner, ok := f.inner[x]; ok {
			for _, i := range inner {
				running = append(running, history.Label(history.ExecutionOf(i)))
			}
			continue
		}
		running = append(running, x)
	}
	f.st.Running = running
	slices.SortStableFunc(f.st.Executions, func(a, b contract.Execution) int { return cmp.Compare(a.Step, b.Step) })
	seen := map[string]bool{}
	f.st.Executions = slices.DeleteFunc(f.st.Executions, func(x contract.Execution) bool {
		was := seen[history.Label(x)]
		seen[history.Label(x)] = true
		return was
	})
}

// recall makes a status of what the histories hold.
func (f *runFacts) recall() {
	f.st.Executions = slices.Clone(f.visit.executions)
	known := map[string]bool{}
	for _, x := range f.st.Executions {
		known[history.Label(x)] = true
	}
	if answers := f.visit.judged[plan.Start]; f.st.Entry == nil {
		f.st.Entry = &contract.Execution{Node: plan.Start, Answers: answers}
		f.st.Entry.Taken = f.derive(f.st.Entry)
	}
	for _, v := range append([]*visit{f.visit}, f.branches...) {
		for i, exec := range v.seen {
			x := history.ExecutionOf(exec)
			if known[history.Label(x)] {
				continue
			}
			known[history.Label(x)] = true
			x.Answers = v.judged[exec]
			completed := v.status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
			failed := f.failure != nil && f.failure.Node == x.Node && f.failure.Step == x.Step
			switch {
			case failed:
			case i == len(v.seen)-1 && !completed, !f.decided(&x):
				f.st.Running = append(f.st.Running, history.Label(x))
			default:
				x.Taken = f.derive(&x)
				f.st.Executions = append(f.st.Executions, x)
			}
		}
	}
}

// decided says whether all questions behind an execution have their answers.
func (f *runFacts) decided(x *contract.Execution) bool {
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

// derive gives the edges that an execution took, as far as the recorded answers say.
func (f *runFacts) derive(x *contract.Execution) []string {
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

// edges are those out of a node, or out of START.
func (f *runFacts) edges(from string) []plan.Edge {
	var out []plan.Edge
	for _, e := range f.visit.flow.Edges {
		if e.From == from {
			out = append(out, e)
		}
	}
	return out
}

// first says whether only the first edge that holds is taken out of a node.
func (f *runFacts) first(node string) bool {
	choice := f.visit.flow.Choice
	if n := f.visit.flow.Node(node); n != nil {
		choice = cmp.Or(n.Choice, choice)
	}
	return choice == plan.ChooseFirst
}

func answerTo(x *contract.Execution, edge string) *contract.Answer {
	for i := range x.Answers {
		if x.Answers[i].Edge == edge {
			return &x.Answers[i]
		}
	}
	return nil
}

// waits are what an execution under way waits for.
func (f *runFacts) waits(exec string) []whyWait {
	var out []whyWait
	for _, c := range f.calls[exec] {
		out = append(out, f.waitOf(&c))
	}
	for _, q := range f.requests {
		last := q.Execution[strings.LastIndex(q.Execution, "/")+1:]
		if history.Label(history.ExecutionOf(last)) == exec {
			out = append(out, whyWait{Kind: waitRequest, Request: q.Request, Commands: q.commands,
				Text: fmt.Sprintf("%s: %s", q.Kind, clean(q.Text, 500))})
		}
	}
	for _, v := range f.subAgents {
		place := strings.TrimSuffix(strings.TrimPrefix(v.place, f.visit.place), " › ")
		before, _, _ := history.CutLast(place, ":")
		if v.open() && history.Label(history.ExecutionOf(before)) == exec {
			out = append(out, whyWait{Kind: waitSubAgent, For: []string{v.id}, Text: "its sub-agent " + place + " runs"})
		}
	}
	return out
}

// waitOf says how a call stands.
func (f *runFacts) waitOf(c *pendingCall) whyWait {
	w := whyWait{Kind: waitCall, Call: callLabel(c), Attempt: c.attempt, Error: c.failed}
	later := ""
	if !c.started && c.next.After(f.now) {
		at := c.next
		w.Next = &at
		later = fmt.Sprintf(" at %s (in %.0f s)", at.Local().Format(time.DateTime), at.Sub(f.now).Seconds()+0.5)
	}
	switch {
	case c.paused != "":
		w.Kind, w.Next, w.Text = waitPaused, nil, fmt.Sprintf("%s: %s", w.Call, c.paused)
	case c.waiting != "":
		w.Kind, w.Text = waitLimit, fmt.Sprintf("%s, which has not begun: %s", w.Call, clean(c.waiting, 300))
	case c.attempt > 1:
		if w.Kind = waitRetry; strings.HasPrefix(c.failed, contract.ClassRateLimited+":") {
			w.Kind = waitLimit
		}
		what := "is under way"
		if !c.started {
			what = "comes" + later
		}
		w.Text = fmt.Sprintf("%s: attempt %d %s; the one before it failed: %s", w.Call, c.attempt, what, cmp.Or(c.failed, "an unknown failure"))
	case c.started:
		w.Text = w.Call + ", which is under way"
	default:
		w.Kind, w.Text = waitWorker, w.Call+", which no worker has taken yet"
	}
	return w
}

// callLabel is a call in words: its kind and turn.
func callLabel(c *pendingCall) string {
	_, turn := history.SplitCallID(c.id)
	label := map[string]string{contract.ActivityModel: "model call", contract.ActivityTool: "tool call", contract.ActivityJudge: "question of an edge",
		contract.ActivityListTool: "list of tools", contract.ActivityPrepare: "preparation"}[c.kind]
	return strings.TrimSpace(clean(cmp.Or(label, c.kind), 100) + " " + clean(turn, 100))
}
