package impact

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/starter/plaintext"
	"weft/workflows/plan"
)

// changes returns the nodes that differ between two flows, in the order of the old one, preceded by
// differences of the flow itself, and by START if its edges differ. own reports that the run sets
// a model itself.
func changes(old, flow *plan.Flow, source *plan.Source, own bool) []Node {
	var out []Node
	if part := flowChanges(old, flow); part != "" {
		out = append(out, Node{Text: part + " of the flow changed"})
	}
	for _, id := range hookFlows(old) {
		if text := agentChange(old, flow, source, []string{id}); text != "" {
			out = append(out, Node{Text: "what a hook runs changed: " + text})
		}
	}
	if text := edgeChange(old, flow, source, plan.Start); text != "" {
		out = append(out, Node{Node: plan.Start, Text: text})
	}
	for i := range old.Nodes {
		n := &old.Nodes[i]
		message := []string{"it is gone"}
		if next := flow.Node(n.ID); next != nil {
			message = []string{plaintext.If(!same(n, next), "it changed"), edgeChange(old, flow, source, n.ID), useChange(old, flow, source, n, own)}
		}
		if message = slices.DeleteFunc(message, func(s string) bool { return s == "" }); len(message) > 0 {
			out = append(out, Node{Node: n.ID, Text: strings.Join(message, "; ")})
		}
	}
	return out
}

func flowChanges(old, flow *plan.Flow) string {
	var out []string
	for _, part := range []struct {
		name     string
		one, two any
	}{
		{"the dialect", old.Dialect, flow.Dialect}, {"the inputs", old.Inputs, flow.Inputs}, {"the choice of edges", old.Choice, flow.Choice},
		{"what no route means", old.NoRoute, flow.NoRoute}, {"the values", old.Values, flow.Values}, {"the meter", old.Meter, flow.Meter},
		{"the hooks", old.Hooks, flow.Hooks},
	} {
		if !same(part.one, part.two) {
			out = append(out, part.name)
		}
	}
	return strings.Join(out, ", ")
}

func same(one, two any) bool {
	a, _ := json.Marshal(one)
	b, _ := json.Marshal(two)
	return string(a) == string(b)
}

func edgeOf(f *plan.Flow, id string) *plan.Edge {
	i := slices.IndexFunc(f.Edges, func(e plan.Edge) bool { return e.ID == id })
	if i < 0 {
		return nil
	}
	return &f.Edges[i]
}

// sameEdge reports whether two edges are equal except for their ids, which are numbers by default.
func sameEdge(one, other plan.Edge) bool {
	one.ID, other.ID = "", ""
	return same(one, other)
}

// keptEdge returns the edge that equals e, or else the one with the same id and node.
func keptEdge(f *plan.Flow, e plan.Edge) *plan.Edge {
	now := edgeOf(f, e.ID)
	if now != nil && sameEdge(*now, e) {
		return now
	}
	if i := slices.IndexFunc(f.Edges, func(o plan.Edge) bool { return sameEdge(o, e) }); i >= 0 {
		return &f.Edges[i]
	}
	if now != nil && now.From == e.From {
		return now
	}
	return nil
}

// KeptEdges returns the ids of an old flow's edges in a new one; missing is the first edge that does not exist in it.
func KeptEdges(old, flow *plan.Flow, ids []string) (now []string, missing string) {
	for _, id := range ids {
		was := edgeOf(old, id)
		if was == nil {
			return nil, id
		}
		is := keptEdge(flow, *was)
		if is == nil {
			return nil, id
		}
		now = append(now, is.ID)
	}
	return now, ""
}

func edgesFrom(f *plan.Flow, node string) []plan.Edge {
	return slices.DeleteFunc(slices.Clone(f.Edges), func(e plan.Edge) bool { return e.From != node })
}

func edgeChange(old, flow *plan.Flow, source *plan.Source, node string) string {
	was, is := edgesFrom(old, node), edgesFrom(flow, node)
	if slices.EqualFunc(was, is, sameEdge) {
		return ""
	}
	kept := map[string]bool{}
	for _, e := range was {
		if now := keptEdge(flow, e); now != nil {
			kept[now.ID] = true
		}
	}
	var out []string
	for i, e := range flow.Edges {
		verb := "changed"
		switch {
		case e.From != node || slices.ContainsFunc(was, func(o plan.Edge) bool { return sameEdge(o, e) }):
			continue
		case !kept[e.ID]:
			verb = "is new"
		}
		out = append(out, fmt.Sprintf("its edge to %s (%s) %s", e.To, source.At(plan.EdgePath(i)), verb))
	}
	for _, e := range was {
		if keptEdge(flow, e) == nil {
			out = append(out, fmt.Sprintf("its edge to %s was removed", e.To))
		}
	}
	if len(out) == 0 {
		return "its outgoing edges are in a different order"
	}
	return strings.Join(out, ", ")
}

func useChange(old, flow *plan.Flow, source *plan.Source, n *plan.Node, own bool) string {
	var out []string
	if n.Agent != nil && n.Agent.Model == "" && !own && old.Model != flow.Model {
		out = append(out, "the model of the flow changed")
	}
	for _, t := range n.BoundTools() {
		id := t.Tool.Connection
		if text := fmt.Sprintf("the connection %q of its tools changed", id); !same(connectionOf(old, id), connectionOf(flow, id)) && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if text := agentChange(old, flow, source, agentsOf(old, *n)); text != "" {
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func connectionOf(f *plan.Flow, id string) *plan.Connection {
	i := slices.IndexFunc(f.Connections, func(c plan.Connection) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &f.Connections[i]
}

// agentsOf returns the flows that nodes can call or start.
func agentsOf(f *plan.Flow, nodes ...plan.Node) []string {
	out := f.Calls(nodes)
	for _, n := range nodes {
		if n.Agent != nil {
			for _, s := range n.Agent.Starts {
				out = append(out, s.Agent)
			}
		}
	}
	return out
}

func hookFlows(f *plan.Flow) []string {
	var out []string
	if f.Hooks != nil {
		for _, h := range []*plan.Hook{f.Hooks.Before, f.Hooks.After} {
			if h != nil {
				out = append(out, h.Flow)
			}
		}
	}
	return out
}

func agentChange(old, flow *plan.Flow, source *plan.Source, ids []string) string {
	var out []string
	seen := map[string]bool{old.ID: true}
	for todo := slices.Clone(ids); len(todo) > 0; todo = todo[1:] {
		id := todo[0]
		was, is := old.SubFlow(id), flow.SubFlow(id)
		if seen[id] || was == nil {
			continue
		}
		seen[id] = true
		switch {
		case is == nil:
			out = append(out, fmt.Sprintf("the agent %q was removed", id))
		case !same(was, is):
			out = append(out, fmt.Sprintf("the agent %q%s changed", id, agentPlace(was, is, source.Sub(id))))
		}
		todo = slices.Concat(todo, agentsOf(old, was.Nodes...), hookFlows(was))
	}
	return strings.Join(out, ", ")
}

// agentPlace returns the place of the first changed node, "" if only the root's file is known.
func agentPlace(was, is *plan.Flow, source plan.Source) string {
	for i := range is.Nodes {
		id := is.Nodes[i].ID
		if at := source.At(plan.NodePath(id)); !same(was.Node(id), is.Nodes[i]) && at != source.File {
			return " (" + at + ")"
		}
	}
	return ""
}

// SameNode reports whether a node and its outgoing edges are equal in two flows.
func SameNode(one, other *plan.Flow, id string) bool {
	return same(one.Node(id), other.Node(id)) && slices.EqualFunc(edgesFrom(one, id), edgesFrom(other, id), sameEdge)
}
