package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/workflows/plan"
)

// States of a node or an execution.
const (
	Done    = "done"
	Running = "running"
	Waiting = "waiting"
	Failed  = "failed"
	Stopped = "stopped"
	NotRun  = "not_run"
)

// states are the states by precedence: a node has the first state that one of its executions has.
var states = []string{Failed, Running, Waiting, Stopped, Done}

// Report explains a flow's run, node by node in the order of declaration.
func (f *Facts) Report() Report {
	r := Report{Run: f.Workflow.ID, Place: strings.TrimSuffix(f.Workflow.Place, " › "), Status: f.Status.Status, Failure: f.Failure,
		FromHistory: f.NoAnswer != nil, Nodes: []Node{}}
	if f.Workflow.Flow == nil {
		return r
	}
	r.Flow = f.Workflow.Flow.Name
	for i := range f.Workflow.Flow.Nodes {
		n := &f.Workflow.Flow.Nodes[i]
		if f.Only == nil || slices.Contains(f.Only, n.ID) {
			r.Nodes = append(r.Nodes, f.node(n))
		}
	}
	return r
}

func (f *Facts) node(n *plan.Node) Node {
	out := Node{Node: n.ID, Name: n.Name, At: f.Workflow.Source.At(plan.NodePath(n.ID)), State: NotRun}
	before := 0
	for i := range f.Status.Executions {
		if x := &f.Status.Executions[i]; x.Node == n.ID {
			e := Execution{Execution: history.Label(*x), State: Done, Because: f.because(n, x, before),
				Absent: f.absent(n, x, before), Left: f.left(x)}
			switch in := f.Workflow.Input; {
			case x.Recorded && in != nil && in.Fork != nil && slices.Contains(in.Fork.Replaced, history.Label(*x)):
				e.Text = "set by the fork, replacing the other run's"
			case x.Recorded:
				e.Text = "taken from the forked run"
			case x.NoRoute:
				e.Text = "no condition held: its branch ended here"
			case x.Exhausted:
				e.Text = "its budget of tool calls was spent"
			}
			out.Executions, before = append(out.Executions, e), x.Step
		}
	}
	out.Executions = append(out.Executions, f.underWay(n, before)...)
	for _, state := range states {
		if slices.ContainsFunc(out.Executions, func(e Execution) bool { return e.State == state }) {
			out.State = state
			break
		}
	}
	if len(out.Executions) == 0 {
		out.Refused = f.refused(n.ID, map[string]bool{})
	}
	return out
}

func (f *Facts) underWay(n *plan.Node, before int) []Execution {
	var out []Execution
	open := f.Workflow.Open()
	add := func(exec, state string, waits []Wait) {
		x := history.ExecutionOf(exec)
		if x.Node != n.ID {
			return
		}
		e := Execution{Execution: history.Label(x), State: state, Because: f.because(n, &x, before), Waits: waits}
		if state != Waiting {
			e.Absent = f.absent(n, &x, before)
		}
		if !open && state != Failed {
			e.State, e.Text = Stopped, "the run ended before it was done"
			e.Waits = slices.DeleteFunc(e.Waits, func(w Wait) bool { return w.Kind != WaitJoin })
		}
		out = append(out, e)
	}
	if fail := f.Failure; fail != nil && fail.Node == n.ID &&
		!slices.ContainsFunc(f.Status.Executions, func(x contract.Execution) bool { return x.Node == fail.Node && x.Step == fail.Step }) {
		add(fmt.Sprintf("%s#%d", Escaped(n.ID), fail.Step), Failed, nil)
		out[0].Text = plaintext.Line(fail.Class+": "+fail.Text, 1000)
	}
	for _, exec := range f.Status.Running {
		if len(out) == 0 || out[0].Execution != exec {
			state, waits := Running, f.waits(exec)
			if slices.ContainsFunc(waits, func(w Wait) bool { return w.Kind == WaitRequest }) {
				state = Waiting
			}
			add(Escaped(exec), state, waits)
		}
	}
	for _, w := range f.Status.Waits {
		add(w.Execution, Waiting, []Wait{joinOf(&w, open)})
	}
	return out
}

func joinOf(w *contract.Wait, open bool) Wait {
	out := Wait{Kind: WaitJoin, Text: "nothing: it runs next"}
	for _, o := range w.For {
		out.For = append(out.For, history.Label(history.ExecutionOf(o)))
	}
	if len(out.For) > 0 {
		verb := cmp.Or(plaintext.If(!open, "could still have led here"), "may still lead here")
		out.Text = "a join: " + strings.Join(out.For, ", ") + " " + verb
	}
	return out
}

// Escaped escapes an id for [history.ExecutionOf].
func Escaped(id string) string { return strings.ReplaceAll(id, "%", "%25") }

// because returns the edges that led to an execution; before is the step of the node's previous execution.
func (f *Facts) because(n *plan.Node, x *contract.Execution, before int) []Edge {
	var out []Edge
	for i, e := range f.Workflow.Flow.Edges {
		if e.To != n.ID {
			continue
		}
		if e.From == plan.Start {
			if s := f.Status.Entry; s != nil && slices.Contains(s.Taken, e.ID) && (x.Step == 1 || n.Deferred && before == 0) {
				out = append(out, f.decidedEdge(i, s))
			}
			continue
		}
		for k := range f.Status.Executions {
			p := &f.Status.Executions[k]
			if p.Node == e.From && arrives(n, p.Step, x.Step, before) && slices.Contains(p.Taken, e.ID) {
				out = append(out, f.decidedEdge(i, p))
			}
		}
	}
	return out
}

// arrives reports whether an execution that ends at step from can have led to n at step, or to a join between before and step.
func arrives(n *plan.Node, from, step, before int) bool {
	return from+1 == step || n.Deferred && from < step && from+1 > before
}

// absent returns the predecessors of a join that did not run before its execution x, or not between
// its previous execution, at step before, and x. It is empty for other nodes, and if the run no longer has all executions before x.
func (f *Facts) absent(n *plan.Node, x *contract.Execution, before int) []string {
	if before == 0 && f.Status.Dropped > 0 {
		return nil
	}
	var out []string
	for _, e := range f.Workflow.Flow.Edges {
		if !n.Deferred || e.To != n.ID || e.From == plan.Start || slices.Contains(out, e.From) {
			continue
		}
		if !slices.ContainsFunc(f.Status.Executions, func(p contract.Execution) bool {
			return p.Node == e.From && arrives(n, p.Step, x.Step, before)
		}) {
			out = append(out, e.From)
		}
	}
	return out
}

func (f *Facts) left(x *contract.Execution) []Edge {
	var out []Edge
	for i, e := range f.Workflow.Flow.Edges {
		if e.From == x.Node {
			out = append(out, f.decidedEdge(i, x))
		}
	}
	return out
}

// decidedEdge describes the outcome of an outgoing edge of a finished execution.
func (f *Facts) decidedEdge(i int, x *contract.Execution) Edge {
	e := &f.Workflow.Flow.Edges[i]
	out := Edge{Edge: e.ID, From: history.Label(*x), To: e.To, At: f.Workflow.Source.At(plan.EdgePath(i)), Result: Refused}
	if x.Node == plan.Start {
		out.From = plan.Start
	}
	if slices.Contains(x.Taken, e.ID) {
		out.Result = Taken
	}
	switch a := answerTo(x, e.ID); {
	case a != nil:
		out.Question, out.Answer, out.Reason = a.Question, &a.Yes, a.Reason
		out.Text = fmt.Sprintf("%s to %q", plaintext.YesNo(a.Yes), plaintext.Line(a.Question, 300)) + plaintext.If(a.Reason != "", ": %s", plaintext.Line(a.Reason, 300))
	case out.Result == Taken && e.Branch != "":
		out.Text = fmt.Sprintf("%s left by its branch %q", x.Node, e.Branch)
	case out.Result == Taken:
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

// refused returns the edges by which a node could have been reached, back to nodes that ran, with the reasons why they were not taken.
func (f *Facts) refused(node string, seen map[string]bool) []Edge {
	seen[node] = true
	var out, behind []Edge
	for i := range f.Workflow.Flow.Edges {
		e := &f.Workflow.Flow.Edges[i]
		if e.To != node {
			continue
		}
		edges, ran := f.sources(i)
		if out = append(out, edges...); ran {
			continue
		}
		edge := Edge{Edge: e.ID, From: e.From, To: node, At: f.Workflow.Source.At(plan.EdgePath(i)), Result: Undecided}
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

func (f *Facts) sources(i int) (out []Edge, ran bool) {
	from := f.Workflow.Flow.Edges[i].From
	if from == plan.Start {
		if f.Status.Entry == nil {
			return nil, false
		}
		out = append(out, f.decidedEdge(i, f.Status.Entry))
	}
	for k := range f.Status.Executions {
		if f.Status.Executions[k].Node == from {
			out = append(out, f.decidedEdge(i, &f.Status.Executions[k]))
		}
	}
	for k := range out {
		if out[k].Result == Taken {
			out[k].Text += "; but the run ended before this node started"
		}
	}
	return out, len(out) > 0
}

func (f *Facts) notYet(node string) string {
	if node == plan.Start {
		return "the edges out of START are not evaluated yet"
	}
	n := f.Workflow.Flow.Node(node)
	if n == nil {
		return ""
	}
	all := f.underWay(n, 0)
	if len(all) == 0 {
		return ""
	}
	return all[0].Execution + map[string]string{Failed: " failed", Stopped: " was stopped with the run", Waiting: " waits; it may still lead here",
		Running: " runs; it may still lead here"}[all[0].State]
}

// Explain returns the report of the root flow, which contains the reports of its descendants.
func Explain(all []*Facts, missing []string) Report {
	report := all[0].Report()
	for _, f := range all[1:] {
		report.SubAgents = append(report.SubAgents, f.Report())
	}
	report.Gone = missing
	return report
}
