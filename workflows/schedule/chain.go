package schedule

import "slices"

// Part is what a chain can run that begins with an execution and ends before deferred nodes and others.
type Part struct {
	// Runs are the nodes that it can run, Nodes those and the ones before which it ends.
	Runs, Nodes NodeSet
	// Edges are those out of Runs, in order.
	Edges []int
	// Others are the nodes that other live branches are at or can reach.
	Others NodeSet
}

// Part returns what the chain can run that begins with x, which runs.
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

// Loops reports whether that chain may run a node twice.
func (s *Scheduler) Loops(x *Execution) bool {
	entered := NewNodeSet(len(s.g.flow.Nodes))
	entered.Add(x.Node)
	back := s.g.leadingBack(s.g.out[x.Node], entered, s.g.stops(s.others(x)))
	return slices.ContainsFunc(back, func(word uint64) bool { return word != 0 })
}

// stops returns the nodes before which a chain ends that runs beside branches which can reach others.
func (g *Graph) stops(others NodeSet) NodeSet {
	out := slices.Clone(others)
	for i := range out {
		out[i] |= g.deferred[i]
	}
	return out
}

// Next returns the node with which a chain goes on without the scheduler, behind a node that took edges. It is false where
// the chain ends: at END, at a fork, before a deferred node or one that other live branches can reach, and where the choice
// of an edge closed the way to such a node, which others may be waiting at.
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
	after := g.Reachable(next)
	for _, e := range g.out[node] {
		t, ok := g.Target(e)
		if !ok || t == next {
			continue
		}
		closed := slices.Clone(g.Reachable(t))
		closed.Add(t)
		for i := range closed {
			// Deferred nodes wait for whatever can reach them at all, others for what can reach them
			// in a certain number of steps.
			if closed[i]&stops[i]&^(g.deferred[i]&after[i]) != 0 {
				return 0, false
			}
		}
	}
	return next, true
}
