package continuum

import (
	"regexp"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// check checks the graph as a whole. nodes and edges count those that the document lists.
func (g *graph) check(nodes, edges int) {
	if nodes == 0 {
		return
	}
	if edges == 0 {
		if v := g.object.Get("edges"); v == nil || v.Kind == source.Array {
			g.Errorf(g.object.Pos("edges"), "V14", `add "edges" from START to END`, "%s has nodes but no edges", g.object.Name)
		}
		return
	}
	out, in := g.adjacency()
	g.checkReach(out)
	g.checkCycles(out)
	g.lintNodes(out, in)
	g.lintJoins(out, in)
	g.lintExecutionPlan()
}

// adjacency lists the links out of and into each numbered part, in edge order.
func (g *graph) adjacency() (out, in [][]int) {
	out, in = make([][]int, g.end()+1), make([][]int, g.end()+1)
	for i, l := range g.links {
		out[l.from] = append(out[l.from], i)
		in[l.to] = append(in[l.to], i)
	}
	return out, in
}

// checkReach reports unreachable nodes (V5), and graphs without entry (V4) or way to END (V6).
func (g *graph) checkReach(out [][]int) {
	if len(out[g.start()]) == 0 {
		g.Errorf(g.object.Pos("edges"), "V4", "add an edge from START to the first node", "%s has no edge from START", g.object.Name)
		return
	}
	reached := plan.Reachable(g.start(), func(n int) (to []int) {
		for _, i := range out[n] {
			to = append(to, g.links[i].to)
		}
		return to
	})
	for n := range g.flow.Nodes {
		if !reached[n] {
			g.Errorf(g.places[n], "V5", "add an edge to it or remove it", "node %s cannot be reached from START", source.Quote(g.flow.Nodes[n].ID))
		}
	}
	if !reached[g.end()] {
		g.Errorf(g.object.Pos("edges"), "V6", "add an edge from the last node to END", "no path of %s leads from START to END", g.object.Name)
	}
}

// checkCycles reports the unconditional edges that close a cycle of such (V15), which only the step limit ends.
func (g *graph) checkCycles(out [][]int) {
	var path []string
	place := make([]int, g.end()+1) // in path, from 1 on; -1 for those that were left
	var visit func(n int, id string)
	visit = func(n int, id string) {
		path = append(path, id)
		place[n] = len(path)
		for _, i := range out[n] {
			switch l := g.links[i]; {
			case l.conditional || l.to == g.end() || place[l.to] < 0:
			case place[l.to] == 0:
				visit(l.to, g.flow.Nodes[l.to].ID)
			default:
				g.Warnf(g.edgePlaces[l.edge], "V15", "add a condition_prompt to it and one to an edge out of the cycle",
					"the cycle of %s has no condition; it only ends at the step limit", source.Listed(path[place[l.to]-1:], source.ListedNames))
			}
		}
		path, place[n] = path[:len(path)-1], -1
	}
	for n := range g.flow.Nodes {
		if place[n] == 0 {
			visit(n, g.flow.Nodes[n].ID)
		}
	}
}

// lintNodes reports what is legal at single nodes and often a mistake (L1, L3, L4, L6).
func (g *graph) lintNodes(out, in [][]int) {
	exits := 0
	for n := range g.flow.Nodes {
		node, at := &g.flow.Nodes[n], g.places[n]
		id := source.Quote(node.ID)
		if node.Exit {
			exits++
		}
		if len(out[n]) == 0 {
			g.Warnf(at, "L3", "add an edge from it", "node %s is a dead end: it has no outgoing edge", id)
		}
		if node.Deferred && len(in[n]) < 2 {
			g.Warnf(at, "L4", "set defer only on nodes where branches join", "node %s is deferred but has %d incoming edge(s), so it joins nothing", id, len(in[n]))
		}
		always := 0
		for _, i := range out[n] {
			if !g.links[i].conditional {
				always++
			}
		}
		if len(out[n]) > 0 && always == 0 {
			g.Warnf(at, "L6", "add an edge without a condition, or make sure that one answer is always yes",
				"all edges from node %s are conditional; if every answer is no, the branch ends there", id)
		}
	}
	if exits == 0 && len(g.flow.Nodes) > 0 {
		g.Warnf(g.object.Pos("nodes"), "L1", `set "is_exit_node": true on the node that produces the result`,
			"%s has no exit node; the last node to run produces the result", g.object.Name)
	}
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

// lintUUID reports, in the strict profile, an id that is no UUID (L8).
func (a *adaptation) lintUUID(o *source.Fields) {
	v := o.Get("id")
	if !a.Strict || v == nil || v.Kind != source.String || v.Text == "" || uuid.MatchString(v.Text) ||
		v.Text == plan.Start || v.Text == plan.End {
		return
	}
	a.Warnf(v.Pos, "L8", "use a UUID; the dialect's checklist requires one, although its schema requires camelCase", "the id %s is not a UUID", source.Quote(v.Text))
}
