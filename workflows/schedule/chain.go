package schedule

import "slices"

// Part returns the nodes that a chain which begins at a node can run or come to, and the edges out
// of those that it can run, in order. others are the nodes that other live branches are at or can
// reach: the chain ends before them, and before deferred nodes.
func (g *Graph) Part(from int, others NodeSet) (nodes NodeSet, edges []int) {
	nodes = NewNodeSet(len(g.flow.Nodes))
	nodes.Add(from)
	todo := []int{from}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		edges = append(edges, g.out[n]...)
		for _, e := range g.out[n] {
			t, ok := g.Target(e)
			if !ok || nodes.Has(t) {
				continue
			}
			nodes.Add(t)
			if !g.deferred(t) && !others.Has(t) {
				todo = append(todo, t)
			}
		}
	}
	slices.Sort(edges)
	return nodes, edges
}

// Loops reports whether a chain that begins at a node may run a node twice. others are those of [Graph.Part].
func (g *Graph) Loops(from int, others NodeSet) bool {
	entered, left := NewNodeSet(len(g.flow.Nodes)), NewNodeSet(len(g.flow.Nodes))
	var walk func(n int) bool
	walk = func(n int) bool {
		entered.Add(n)
		for _, e := range g.out[n] {
			t, ok := g.Target(e)
			switch {
			case !ok || left.Has(t) || g.deferred(t) || others.Has(t):
			case entered.Has(t) || walk(t):
				return true
			}
		}
		left.Add(n)
		return false
	}
	return walk(from)
}

// Chain says how far a branch can go on without the scheduler.
type Chain struct {
	g *Graph
	// stops are the nodes before which the chain ends; deferred those of them that wait for all
	// that can reach them.
	stops, deferred NodeSet
}

// NewChain returns a chain that runs beside branches which can reach others.
func NewChain(g *Graph, others NodeSet) *Chain {
	c := &Chain{g: g, stops: others.Clone(), deferred: NewNodeSet(len(g.flow.Nodes))}
	for i := range g.flow.Nodes {
		if g.deferred(i) {
			c.stops.Add(i)
			c.deferred.Add(i)
		}
	}
	return c
}

// Next returns the node with which the chain goes on behind a node that took edges. It is false
// where the chain ends: at END, at a fork, before a deferred node or one that others can reach, and
// where the choice of an edge closed the way to such a node, which others may be waiting at.
func (c *Chain) Next(node int, taken []int) (int, bool) {
	next := -1
	for _, e := range taken {
		if t, ok := c.g.Target(e); ok && t != next {
			if next >= 0 {
				return 0, false
			}
			next = t
		}
	}
	if next < 0 || c.stops.Has(next) {
		return 0, false
	}
	after := c.g.Reachable(next)
	for _, e := range c.g.out[node] {
		t, ok := c.g.Target(e)
		if !ok || t == next {
			continue
		}
		closed := c.g.Reachable(t).Clone()
		closed.Add(t)
		for i := range closed {
			// Deferred nodes wait for whatever can reach them at all, others for what can reach them
			// in a certain number of steps.
			if closed[i]&c.stops[i]&^(c.deferred[i]&after[i]) != 0 {
				return 0, false
			}
		}
	}
	return next, true
}
