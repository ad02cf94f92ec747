package model

import (
	"weft/specadapter/source"
)

// graph is a flow's control flow by node numbers.
type graph struct {
	*Flow
	edges   []ControlEdge // Control, then loose
	out     [][]int       // numbers of the edges that leave a node
	in      []int         // how many edges enter a node
	reached []bool
	// broken are titles, once they are needed.
	broken map[string]bool
}

func newGraph(f *Flow) *graph {
	g := &graph{Flow: f, edges: append(f.Control[:len(f.Control):len(f.Control)], f.loose...), out: make([][]int, len(f.Nodes)), in: make([]int, len(f.Nodes)), reached: make([]bool, len(f.Nodes))}
	for i, e := range g.edges {
		from := f.index[e.From]
		g.out[from] = append(g.out[from], i)
		g.in[f.index[e.To]]++
	}
	if f.Has(f.Start) {
		g.walk(f.index[f.Start], g.reached, func(int) bool { return true })
	}
	return g
}

func (g *graph) walk(from int, seen []bool, pass func(node int) bool) (steps int) {
	seen[from] = true
	todo := []int{from}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !pass(n) {
			continue
		}
		for _, i := range g.out[n] {
			steps++
			if to := g.index[g.edges[i].To]; !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return steps
}

func (l *loader) checkBranches(c *Component, g *graph) {
	for n, node := range g.Nodes {
		if node.Type.ActsAs("StartNode") || node.Type.ActsAs("EndNode") || node.Type.Unknown || node.broken {
			continue
		}
		taken := map[string]bool{}
		for _, i := range g.out[n] {
			e := &g.edges[i]
			if taken[e.Branch] && i < len(g.Control) {
				l.Errorf(e.At, "branch-two-edges", "keep one edge for each branch; use a ParallelFlowNode to run in parallel",
					"more than one edge leaves %s%s", node, e.by())
			}
			taken[e.Branch] = true
		}
		for _, b := range node.Branches {
			if !taken[b] && g.reached[n] {
				l.Warnf(l.itemAt(c, "nodes", n), "branch-unconnected", "add a ControlFlowEdge from it", "no edge leaves %s by the branch %s; a run that takes it cannot continue",
					node, source.Quote(b))
			}
		}
	}
}

// checkReach reports unreachable nodes, and returns whether the flow is complete enough to check its data.
func (l *loader) checkReach(c *Component, g *graph) bool {
	if c.broken || !g.Has(g.Start) || len(g.out[g.index[g.Start]]) == 0 {
		return false
	}
	for n, node := range g.Nodes {
		// End nodes without edges have a rule of their own.
		if !g.reached[n] && (!node.Type.ActsAs("EndNode") || len(g.out[n]) > 0 || g.in[n] > 0) && !node.Type.ActsAs("StartNode") {
			l.Strictf(l.itemAt(c, "nodes", n), "node-unreachable", "add an edge to it or remove it", "%s of %s cannot be reached from its start", node, c)
		}
	}
	return true
}

// checkLoops reports cycles without branches in which nothing waits; only a limit of the run ends them.
func (l *loader) checkLoops(g *graph) {
	mark := make([]int, len(g.Nodes)) // the walk in which a node was seen
	for start := range g.Nodes {
		n := start
		for mark[n] == 0 && g.single(n) {
			mark[n] = start + 1
			n = g.index[g.edges[g.out[n][0]].To]
		}
		if mark[n] != start+1 || !g.single(n) {
			continue
		}
		waits, names := false, []string(nil)
		for i := n; ; {
			waits = waits || g.Nodes[i].yields != ""
			names = append(names, g.Nodes[i].Name)
			if i = g.index[g.edges[g.out[i][0]].To]; i == n {
				break
			}
		}
		if !waits {
			l.Warnf(g.edges[g.out[n][0]].At, "loop-unbounded", "add a BranchingNode with a branch out of the loop", "the loop of %s never ends", list(names))
		}
	}
}

func (g *graph) single(n int) bool {
	return len(g.out[n]) == 1 && len(g.Nodes[n].Branches) <= 1
}
