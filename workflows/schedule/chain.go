package schedule

import "slices"

// Part is the part of a graph that a chain can run: it starts with an execution, and ends before deferred nodes and Others.
type Part struct {
	// Runs are the nodes that the chain can run; Nodes also includes those before which it ends.
	Runs, Nodes NodeSet
	// Edges are the edges from Runs, in order.
	Edges []int
	// Others are the nodes that other live branches are at or can reach.
	Others NodeSet
}

// Part returns the part that a chain can run that begins with x, which is running.
func (s *Scheduler) Part(x *Execution) Part {
	g, p := s.g, Part{Others: s.others(x)}
	stops, begin := g.stops(p.Others), NewNodeSet(len(g.flow.Nodes))
	begin.Add(x.Node)
	p.Nodes = g.walk(x.Node, slices.Clone(begin), nil, stops)
	p.Runs = slices.Clone(p.Nodes)
	for i := range p.Runs {
		p.Runs[i] &^= stops[i] &^ begin[i]
	}
	p.Runs.Each(func(n int) { p.Edges = append(p.Edges, g.out[n]...) })
	slices.Sort(p.Edges)
	return p
}

// Loops reports whether the chain that begins with x may run a node twice.
func (s *Scheduler) Loops(x *Execution) bool {
	entered := NewNodeSet(len(s.g.flow.Nodes))
	entered.Add(x.Node)
	back := s.g.findBackEdges(s.g.out[x.Node], entered, s.g.stops(s.others(x)))
	return slices.ContainsFunc(back, func(word uint64) bool { return word != 0 })
}

// stops returns the nodes before which a chain ends: deferred nodes and those that other branches can reach.
func (g *Graph) stops(others NodeSet) NodeSet {
	out := slices.Clone(others)
	for i := range out {
		out[i] |= g.deferred[i]
	}
	return out
}

// Next returns the node with which a chain continues without the scheduler after a node that took edges. It returns false if the
// chain ends: at END, at a fork, before a deferred node or one that other live branches can reach, and if the edges not taken
// lead to such a node, at which other branches may be waiting.
func (g *Graph) Next(node int, taken []int, others NodeSet) (int, bool) {
	next, stops := -1, g.stops(others)
	for _, e := range taken {
		if t, ok := g.Target(e); ok && t != next {
			if next >= 0 {
				return 0, false
			}
			next = t
		}
	}
	if next < 0 || stops.Has(next) {
		return 0, false
	}
	reachable := g.Reachable(next)
	for _, e := range g.out[node] {
		t, ok := g.Target(e)
		if !ok || t == next {
			continue
		}
		closed := slices.Clone(g.Reachable(t))
		closed.Add(t)
		for i := range closed {
			// Deferred nodes wait for all branches that can reach them, others only for those that can reach
			// them in a certain number of steps.
			if closed[i]&stops[i]&^(g.deferred[i]&reachable[i]) != 0 {
				return 0, false
			}
		}
	}
	return next, true
}
