// Package impact determines the effect of an edited flow on open runs of the flow.
package impact

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/runtree"
	"weft/starter/why"
	"weft/workflows/plan"
)

// Impacts of an edited flow on an open run.
const (
	// None: no node or edge that the run can still reach has changed.
	None = "untouched"
	// Movable: the changed nodes have not started, so that the run could continue with the new flow.
	Movable = "movable"
	// Pinned: a changed node is running, or the new flow lacks nodes or edges of completed work.
	Pinned = "pinned"
	// Unknown: the run's flow is unknown.
	Unknown = "unknown"
)

// Run is the impact of an edited flow on a run.
type Run struct {
	Run    string `json:"run"`
	Impact string `json:"impact"`
	// Because are the nodes that determine it.
	Because []Node `json:"because,omitempty"`
}

// Node is a changed node; At is its position in the new flow or, if it was removed, in the old one.
type Node struct {
	Node      string `json:"node,omitempty"`
	At        string `json:"at,omitempty"`
	Execution string `json:"execution,omitempty"`
	Text      string `json:"text"`
}

// started returns the flow with which the run was started, without the run's own connections and limits.
func started(v *runtree.Workflow) *plan.Flow {
	if v.Input != nil && v.Input.Flow.Plan != nil {
		return v.Input.Flow.Plan
	} else if v.Compiled != nil {
		return v.Compiled.Plan
	}
	return v.Flow
}

// Weigh determines the impact of a new flow on a run.
func Weigh(f *why.Facts, flow *plan.Flow, source *plan.Source) Run {
	out := Run{Run: f.Workflow.ID, Impact: None}
	old := started(f.Workflow)
	changed := changes(old, flow, source, f.Workflow.Input != nil && f.Workflow.Input.Model != "")
	place := func(node string) string { return impactPlace(f, flow, source, node) }
	alive := live(f)
	hasStarted := len(f.Status.Executions)+len(alive) > 0
	within := func(string) bool { return true }
	if hasStarted {
		within = reached(alive, old, flow)
	}
	var pinned, moved []Node
	for _, c := range changed {
		switch exec, runs := alive[c.Node]; {
		case c.Node == "" && hasStarted:
			pinned = append(pinned, c)
		case runs && slices.ContainsFunc(f.Status.Running, func(x string) bool { return history.ExecutionOf(why.Escaped(x)).Node == c.Node }):
			c.At, c.Execution = place(c.Node), exec
			c.Text += ", and is running"
			pinned = append(pinned, c)
		case within(c.Node):
			c.At = place(c.Node)
			moved = append(moved, c)
		}
	}
	if len(moved) > 0 || len(pinned) > 0 {
		pinned = append(pinned, lostExecutions(f, old, flow, place)...)
	}
	switch {
	case len(pinned) > 0:
		out.Impact, out.Because = Pinned, pinned
	case len(moved) > 0:
		out.Impact, out.Because = Movable, moved
	}
	return out
}

// impactPlace returns the position of a node in the new flow, or else in the old one; for START, the position of its first edge.
func impactPlace(f *why.Facts, flow *plan.Flow, source *plan.Source, node string) string {
	switch entry := slices.IndexFunc(flow.Edges, func(e plan.Edge) bool { return e.From == plan.Start }); {
	case node == plan.Start && entry >= 0:
		return source.At(plan.EdgePath(entry))
	case node == plan.Start || flow.Node(node) == nil:
		return f.Workflow.Source.At(plan.NodePath(node))
	}
	return source.At(plan.NodePath(node))
}

func live(f *why.Facts) map[string]string {
	live := map[string]string{}
	for _, n := range f.Report().Nodes {
		for _, x := range n.Executions {
			if x.State != why.Done {
				live[n.Node] = x.Execution
			}
		}
	}
	return live
}

// reached returns a function that reports whether a live execution is at a node or can reach it.
func reached(live map[string]string, flows ...*plan.Flow) func(string) bool {
	reach := map[string]bool{}
	for node := range live {
		reach[node] = true
	}
	Reach(reach, slices.Collect(maps.Keys(live)), flows...)
	return func(node string) bool { return reach[node] }
}

// Reach adds the nodes that can be reached from some nodes, by edges of the flows, to a set.
func Reach(reach map[string]bool, from []string, flows ...*plan.Flow) {
	for ; len(from) > 0; from = from[1:] {
		for _, f := range flows {
			for _, e := range f.Edges {
				if e.From == from[0] && !reach[e.To] {
					reach[e.To] = true
					from = append(from, e.To)
				}
			}
		}
	}
}

func lostExecutions(f *why.Facts, old, flow *plan.Flow, place func(string) string) []Node {
	var out []Node
	ways := func(x *contract.Execution, label string) {
		for _, id := range x.Taken {
			was := edgeOf(old, id)
			if was == nil {
				continue
			}
			text := ""
			switch is := keptEdge(flow, *was); {
			case is == nil:
				text = fmt.Sprintf("it left by the edge to %s, which was removed", was.To)
			case was.To != is.To:
				text = fmt.Sprintf("it left by the edge to %s, which now leads to %s", was.To, is.To)
			default:
				continue
			}
			out = append(out, Node{Node: x.Node, At: place(x.Node), Execution: label, Text: text})
		}
	}
	if f.Status.Entry != nil {
		ways(f.Status.Entry, "")
	}
	for i := range f.Status.Executions {
		x := &f.Status.Executions[i]
		if flow.Node(x.Node) == nil {
			out = append(out, Node{Node: x.Node, At: place(x.Node), Execution: history.Label(*x), Text: "it ran and was removed"})
			continue
		}
		ways(x, history.Label(*x))
	}
	return out
}

func line(n *Node) string {
	line := cmp.Or(n.Execution, n.Node) + plaintext.If(n.At != "", " (%s)", n.At)
	return strings.TrimPrefix(line+": "+n.Text, ": ")
}

// Table writes runs as columns, with a line for each node in Because.
func Table(out io.Writer, all []Run) {
	var rows [][]string
	for _, x := range all {
		first := []string{x.Impact, plaintext.Line(x.Run, 200), ""}
		for _, n := range x.Because {
			first[2] = plaintext.Line(line(&n), 500)
			rows, first = append(rows, first), make([]string, 3)
		}
		if len(x.Because) == 0 {
			rows = append(rows, first)
		}
	}
	plaintext.Table(out, nil, rows)
}
