package main

import (
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/workflows/plan"
)

// The states of a node or of an execution.
const (
	whyDone    = "done"
	whyRunning = "running"
	whyWaiting = "waiting"
	whyFailed  = "failed"
	whyStopped = "stopped"
	whyNotRun  = "not_run"
)

// whyStates are the states in which an execution can be: the first of those that a node's
// executions have is the node's.
var whyStates = []string{whyFailed, whyRunning, whyWaiting, whyStopped, whyDone}

// report explains a flow's run, node by node in the order of declaration.
func (f *runFacts) report() whyReport {
	r := whyReport{Run: f.visit.id, Place: strings.TrimSuffix(f.visit.place, " › "), Status: f.st.Status, Failure: f.failure,
		FromHistory: f.fromHistory, Nodes: []whyNode{}}
	if f.visit.flow == nil {
		return r
	}
	r.Flow = f.visit.flow.Name
	for i := range f.visit.flow.Nodes {
		n := &f.visit.flow.Nodes[i]
		if f.only == nil || slices.Contains(f.only, n.ID) {
			r.Nodes = append(r.Nodes, f.node(n))
		}
	}
	return r
}

// node explains one node.
func (f *runFacts) node(n *plan.Node) whyNode {
	out := whyNode{Node: n.ID, Name: n.Name, At: f.visit.source.At(plan.NodePath(n.ID)), State: whyNotRun}
	before := 0
	for i := range f.st.Executions {
		if x := &f.st.Executions[i]; x.Node == n.ID {
			e := whyExecution{Execution: history.Label(*x), State: whyDone, Because: f.because(n, x, before),
				Absent: f.absent(n, x, before), Left: f.left(x)}
			switch in := f.visit.input; {
			case x.Recorded && in != nil && in.Fork != nil && slices.Contains(in.Fork.Replaced, history.Label(*x)):
				e.Text = "given with the fork, in place of what the other run had"
			case x.Recorded:
				e.Text = "taken from the run of which this one is a fork"
			case x.NoRoute:
				e.Text = "all conditions said no: its branch ended here"
			case x.Exhausted:
				e.Text = "its budget of tool calls was spent"
			}
			out.Executions, before = append(out.Executions, e), x.Step
		}
	}
	out.Executions = append(out.Executions, f.underWay(n, before)...)
	for _, state := range whyStates {
		if slices.ContainsFunc(out.Executions, func(e whyExecution) bool { return e.State == state }) {
			out.State = state
			break
		}
	}
	if len(out.Executions) == 0 {
		out.Refused = f.refused(n.ID, map[string]bool{})
	}
	return out
}

// underWay are the executions of a node that failed, run or wait. Those of a run that has
// ended were stopped.
func (f *runFacts) underWay(n *plan.Node, before int) []whyExecution {
	var out []whyExecution
	open := f.visit.open()
	add := func(exec, state string, waits []whyWait) {
		x := history.ExecutionOf(exec)
		if x.Node != n.ID {
			return
		}
		e := whyExecution{Execution: history.Label(x), State: state, Because: f.because(n, &x, before), Waits: waits}
		if state != whyWaiting {
			e.Absent = f.absent(n, &x, before)
		}
		if !open && state != whyFailed {
			e.State, e.Text = whyStopped, "the run ended before it was done"
			e.Waits = slices.DeleteFunc(e.Waits, func(w whyWait) bool { return w.Kind != waitJoin })
		}
		out = append(out, e)
	}
	if fail := f.failure; fail != nil && fail.Node == n.ID && !f.ran(fail.Node, fail.Step) {
		add(fmt.Sprintf("%s#%d", escaped(n.ID), fail.Step), whyFailed, nil)
		out[0].Text = clean(fail.Class+": "+fail.Text, 1000)
	}
	for _, exec := range f.st.Running {
		if len(out) == 0 || out[0].Execution != exec {
			state, waits := whyRunning, f.waits(exec)
			if slices.ContainsFunc(waits, func(w whyWait) bool { return w.Kind == waitRequest }) {
				state = whyWaiting
			}
			add(escaped(exec), state, waits)
		}
	}
	for _, w := range f.st.Waits {
		add(w.Execution, whyWaiting, []whyWait{joinOf(&w, open)})
	}
	return out
}

// ran says whether a node's execution at a step has ended.
func (f *runFacts) ran(node string, step int) bool {
	return slices.ContainsFunc(f.st.Executions, func(x contract.Execution) bool { return x.Node == node && x.Step == step })
}

// joinOf says for whom a join waits, or waited.
func joinOf(w *contract.Wait, open bool) whyWait {
	out := whyWait{Kind: waitJoin, Text: "nothing: it runs next"}
	for _, o := range w.For {
		out.For = append(out.For, history.Label(history.ExecutionOf(o)))
	}
	if len(out.For) > 0 {
		verb := "may still lead here"
		if !open {
			verb = "could still have led here"
		}
		out.Text = "a join: " + strings.Join(out.For, ", ") + " " + verb
	}
	return out
}

// escaped makes an id safe for [executionOf], which unescapes it.
func escaped(id string) string { return strings.ReplaceAll(id, "%", "%25") }

// because are the edges that led to an execution. before is the step of the node's execution
// before it.
func (f *runFacts) because(n *plan.Node, x *contract.Execution, before int) []whyEdge {
	var out []whyEdge
	for i, e := range f.visit.flow.Edges {
		if e.To != n.ID {
			continue
		}
		if e.From == plan.Start {
			if s := f.st.Entry; s != nil && slices.Contains(s.Taken, e.ID) && (x.Step == 1 || n.Deferred && before == 0) {
				out = append(out, f.decidedEdge(i, s))
			}
			continue
		}
		for k := range f.st.Executions {
			p := &f.st.Executions[k]
			if p.Node == e.From && arrives(n, p.Step, x.Step, before) && slices.Contains(p.Taken, e.ID) {
				out = append(out, f.decidedEdge(i, p))
			}
		}
	}
	return out
}

// arrives says whether what ends at step from can have led to n at a step: to a join, all that
// came behind its execution before.
func arrives(n *plan.Node, from, step, before int) bool {
	return from+1 == step || n.Deferred && from < step && from+1 > before
}

// absent are the predecessors of a join that did not run before its execution x, or not between
// the execution before that, at step before, and x. The list is empty for other nodes, and where the run no longer has all executions before x.
func (f *runFacts) absent(n *plan.Node, x *contract.Execution, before int) []string {
	if before == 0 && f.st.Dropped > 0 {
		return nil
	}
	var out []string
	for _, e := range f.visit.flow.Edges {
		if !n.Deferred || e.To != n.ID || e.From == plan.Start || slices.Contains(out, e.From) {
			continue
		}
		if !slices.ContainsFunc(f.st.Executions, func(p contract.Execution) bool {
			return p.Node == e.From && arrives(n, p.Step, x.Step, before)
		}) {
			out = append(out, e.From)
		}
	}
	return out
}

// left are the edges out of an execution.
func (f *runFacts) left(x *contract.Execution) []whyEdge {
	var out []whyEdge
	for i, e := range f.visit.flow.Edges {
		if e.From == x.Node {
			out = append(out, f.decidedEdge(i, x))
		}
	}
	return out
}

// decidedEdge says what became of an edge out of an execution that has ended.
func (f *runFacts) decidedEdge(i int, x *contract.Execution) whyEdge {
	e := &f.visit.flow.Edges[i]
	out := whyEdge{Edge: e.ID, From: history.Label(*x), To: e.To, At: f.visit.source.At(plan.EdgePath(i)), Result: edgeRefused}
	if x.Node == plan.Start {
		out.From = plan.Start
	}
	if slices.Contains(x.Taken, e.ID) {
		out.Result = edgeTaken
	}
	a := answerTo(x, e.ID)
	if a != nil {
		out.Question, out.Answer, out.Reason = a.Question, &a.Yes, a.Reason
	}
	switch {
	case a != nil:
		word := "no"
		if a.Yes {
			word = "yes"
		}
		out.Text = fmt.Sprintf("%s to %q", word, clean(a.Question, 300))
		if a.Reason != "" {
			out.Text += ": " + clean(a.Reason, 300)
		}
	case out.Result == edgeTaken && e.Branch != "":
		out.Text = fmt.Sprintf("%s left by its branch %q", x.Node, e.Branch)
	case out.Result == edgeTaken:
		out.Text = "it has no condition"
	case e.Branch != "" && x.Branch != e.Branch:
		out.Text = fmt.Sprintf("%s left by its branch %q, this edge is for %q", x.Node, x.Branch, e.Branch)
	case len(x.Taken) > 0 && f.first(x.Node):
		out.Text = fmt.Sprintf("only the first edge that holds is taken, and that was %s", strings.Join(x.Taken, ", "))
	default:
		out.Text = "no answer is recorded"
	}
	return out
}

// refused are the edges by which a node could have been reached, each with what kept it: back
// to nodes that ran.
func (f *runFacts) refused(node string, seen map[string]bool) []whyEdge {
	seen[node] = true
	var out, behind []whyEdge
	for i := range f.visit.flow.Edges {
		e := &f.visit.flow.Edges[i]
		if e.To != node {
			continue
		}
		edges, ran := f.sources(i)
		if out = append(out, edges...); ran {
			continue
		}
		edge := whyEdge{Edge: e.ID, From: e.From, To: node, At: f.visit.source.At(plan.EdgePath(i)), Result: edgeOpen}
		if edge.Text = f.notYet(e.From); edge.Text == "" {
			edge.Text = e.From + " did not run"
			if !seen[e.From] {
				behind = append(behind, f.refused(e.From, seen)...)
			}
		}
		out = append(out, edge)
	}
	return append(out, behind...)
}

// sources says what became of an edge behind each execution of its source. ran says that
// there is one.
func (f *runFacts) sources(i int) (out []whyEdge, ran bool) {
	from := f.visit.flow.Edges[i].From
	if from == plan.Start {
		if f.st.Entry == nil {
			return nil, false
		}
		out = append(out, f.decidedEdge(i, f.st.Entry))
	}
	for k := range f.st.Executions {
		if f.st.Executions[k].Node == from {
			out = append(out, f.decidedEdge(i, &f.st.Executions[k]))
		}
	}
	for k := range out {
		if out[k].Result == edgeTaken {
			out[k].Text += "; but the run ended before this node began"
		}
	}
	return out, len(out) > 0
}

// notYet says in words that a node has begun and not decided its edges, "" where it has not
// begun.
func (f *runFacts) notYet(node string) string {
	if node == plan.Start {
		return "the edges out of START are not decided yet"
	}
	n := f.visit.flow.Node(node)
	if n == nil {
		return ""
	}
	all := f.underWay(n, 0)
	if len(all) == 0 {
		return ""
	}
	switch e := all[0]; e.State {
	case whyFailed:
		return e.Execution + " failed"
	case whyStopped:
		return e.Execution + " was stopped with the run"
	case whyWaiting:
		return e.Execution + " waits; it may still lead here"
	default:
		return e.Execution + " runs; it may still lead here"
	}
}
