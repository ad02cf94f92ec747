package workflows

import (
	"slices"

	"weft/workflows/plan"
)

// graph answers questions about a flow's edges. Nodes are known by their index in the
// plan, which is their declaration order.
type graph struct {
	flow  *plan.Flow
	index map[string]int
	// starts are the edges from START; out are the edges from each node.
	starts []int
	out    [][]int
	reach  map[int]bits
	// forward is reach without back edges. back holds the back edges, nil until it is first needed.
	forward map[int]bits
	back    bits
}

func newGraph(f *plan.Flow) *graph {
	g := &graph{flow: f, index: make(map[string]int, len(f.Nodes)), out: make([][]int, len(f.Nodes)),
		reach: map[int]bits{}, forward: map[int]bits{}}
	for i := range f.Nodes {
		g.index[f.Nodes[i].ID] = i
	}
	for i := range f.Edges {
		if f.Edges[i].From == plan.Start {
			g.starts = append(g.starts, i)
		} else if from, ok := g.index[f.Edges[i].From]; ok {
			g.out[from] = append(g.out[from], i)
		}
	}
	return g
}

func (g *graph) deferred(node int) bool { return g.flow.Nodes[node].Deferred }

// target is the node that an edge leads to; false for END.
func (g *graph) target(edge int) (int, bool) {
	n, ok := g.index[g.flow.Edges[edge].To]
	return n, ok
}

// reachable is the set of nodes that a walk of one edge or more from a node leads to.
func (g *graph) reachable(node int) bits {
	r, ok := g.reach[node]
	if !ok {
		r = g.walk(node, nil)
		g.reach[node] = r
	}
	return r
}

// reachableForward is the set of nodes that a walk of one edge or more from a node leads to
// without a back edge.
func (g *graph) reachableForward(node int) bits {
	r, ok := g.forward[node]
	if !ok {
		r = g.walk(node, g.backEdges())
		g.forward[node] = r
	}
	return r
}

// walk returns the set of nodes that a walk of one edge or more from a node leads to without an
// edge of except, which may be nil.
func (g *graph) walk(node int, except bits) bits {
	r := newBits(len(g.flow.Nodes))
	todo := []int{node}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range g.out[n] {
			if t, ok := g.target(e); ok && !r.has(t) && (except == nil || !except.has(e)) {
				r.add(t)
				todo = append(todo, t)
			}
		}
	}
	return r
}

// backEdges is the set of edges that a depth-first walk from START, edges in declaration order,
// finds leading to a node that it has not yet left. Without them the graph that START reaches has
// no cycle.
func (g *graph) backEdges() bits {
	if g.back != nil {
		return g.back
	}
	g.back = newBits(len(g.flow.Edges))
	entered, left := newBits(len(g.flow.Nodes)), newBits(len(g.flow.Nodes))
	var follow func(edges []int)
	follow = func(edges []int) {
		for _, e := range edges {
			t, ok := g.target(e)
			switch {
			case !ok:
			case !entered.has(t):
				entered.add(t)
				follow(g.out[t])
				left.add(t)
			case !left.has(t):
				g.back.add(e)
			}
		}
	}
	follow(g.starts)
	return g.back
}

// walks says whether a walk of exactly length edges leads from one node to another
// without passing a deferred node in between.
func (g *graph) walks(from, to, length int) bool {
	if length < 1 || g.deferred(to) || !g.reachable(from).has(to) {
		return false
	}
	at := []int{from}
	for ; length > 0; length-- {
		var next []int
		seen := newBits(len(g.flow.Nodes))
		for _, n := range at {
			if n != from && g.deferred(n) {
				continue
			}
			for _, e := range g.out[n] {
				if t, ok := g.target(e); ok && !seen.has(t) {
					seen.add(t)
					next = append(next, t)
				}
			}
		}
		at = next
		from = -1 // from here on, a deferred node ends the walk
	}
	return slices.Contains(at, to)
}

// bits is a set of node indices.
type bits []uint64

func newBits(n int) bits { return make(bits, (n+63)/64) }

func (b bits) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bits) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b bits) union(o bits) {
	for i := range o {
		b[i] |= o[i]
	}
}
