package schedule

import (
	"math/bits"

	"weft/workflows/plan"
)

// Graph answers questions about a flow's edges. Nodes and edges are known by their index in the
// plan, which is their declaration order. A graph keeps its answers; it is not safe for
// concurrent use.
type Graph struct {
	flow  *plan.Flow
	index map[string]int
	// edges is by id, nil until it is first needed.
	edges map[string]int
	// Starts are the edges from START; out are the edges from each node. They must not be changed.
	Starts []int
	out    [][]int
	// Exits is set where the flow has exit nodes.
	Exits bool
	// deferred are the nodes that wait for all that can reach them.
	deferred NodeSet
	// reach and forward are by node and nil where not asked for yet; forward is reach without back edges.
	reach, forward []NodeSet
	// back holds the back edges, nil until it is first needed.
	back NodeSet
	// walksTo holds, by target and by length less one, the nodes from which a walk leads there.
	walksTo [][]NodeSet
}

// NewGraph returns the graph of a flow. The flow's nodes and edges must not change any more.
func NewGraph(f *plan.Flow) *Graph {
	n := len(f.Nodes)
	g := &Graph{flow: f, index: make(map[string]int, n), out: make([][]int, n),
		deferred: NewNodeSet(n), reach: make([]NodeSet, n), forward: make([]NodeSet, n), walksTo: make([][]NodeSet, n)}
	for i := range f.Nodes {
		g.index[f.Nodes[i].ID] = i
		g.Exits = g.Exits || f.Nodes[i].Exit
		if f.Nodes[i].Deferred {
			g.deferred.Add(i)
		}
	}
	for i := range f.Edges {
		if f.Edges[i].From == plan.Start {
			g.Starts = append(g.Starts, i)
		} else if from, ok := g.index[f.Edges[i].From]; ok {
			g.out[from] = append(g.out[from], i)
		}
	}
	return g
}

// Index returns the index of the node with an id, -1 where the flow has none.
func (g *Graph) Index(id string) int {
	if n, ok := g.index[id]; ok {
		return n
	}
	return -1
}

// Edge returns the index of the edge with an id, the first one if several have it; -1 where the flow
// has none.
func (g *Graph) Edge(id string) int {
	if g.edges == nil {
		g.edges = make(map[string]int, len(g.flow.Edges))
		for i := len(g.flow.Edges) - 1; i >= 0; i-- {
			g.edges[g.flow.Edges[i].ID] = i
		}
	}
	if e, ok := g.edges[id]; ok {
		return e
	}
	return -1
}

// Edges returns those of some edges, by id, that the flow has.
func (g *Graph) Edges(ids []string) []int {
	var out []int
	for _, id := range ids {
		if e := g.Edge(id); e >= 0 {
			out = append(out, e)
		}
	}
	return out
}

// Out returns the edges from a node, in declaration order. They must not be changed.
func (g *Graph) Out(node int) []int { return g.out[node] }

// Target returns the node that an edge leads to; false for END.
func (g *Graph) Target(edge int) (int, bool) {
	n, ok := g.index[g.flow.Edges[edge].To]
	return n, ok
}

// Reachable returns the set of nodes that a walk of one edge or more from a node leads to. It must
// not be changed.
func (g *Graph) Reachable(node int) NodeSet {
	if g.reach[node] == nil {
		g.reach[node] = g.walk(node, NewNodeSet(len(g.flow.Nodes)), nil, nil)
	}
	return g.reach[node]
}

// reachableForward returns the set of nodes that a walk of one edge or more from a node leads to
// without a back edge.
func (g *Graph) reachableForward(node int) NodeSet {
	if g.forward[node] == nil {
		g.forward[node] = g.walk(node, NewNodeSet(len(g.flow.Nodes)), g.backEdges(), nil)
	}
	return g.forward[node]
}

// walk adds the nodes to a set that a walk of one edge or more from a node leads to: without an edge of except, and
// not beyond a node of stops or one that was in the set.
func (g *Graph) walk(from int, set, except, stops NodeSet) NodeSet {
	todo := []int{from}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range g.out[n] {
			if t, ok := g.Target(e); ok && !set.Has(t) && !except.Has(e) {
				set.Add(t)
				if !stops.Has(t) {
					todo = append(todo, t)
				}
			}
		}
	}
	return set
}

// backEdges is the set of edges that a depth-first walk from START finds leading back. Without them the graph that
// START reaches has no cycle.
func (g *Graph) backEdges() NodeSet {
	if g.back == nil {
		g.back = g.leadingBack(g.Starts, NewNodeSet(len(g.flow.Nodes)), nil)
	}
	return g.back
}

// leadingBack is the set of edges that a depth-first walk, edges in declaration order, finds leading to a node that it has
// entered and not yet left. It does not enter stops.
func (g *Graph) leadingBack(from []int, entered, stops NodeSet) NodeSet {
	back, left := NewNodeSet(len(g.flow.Edges)), NewNodeSet(len(g.flow.Nodes))
	var follow func(edges []int)
	follow = func(edges []int) {
		for _, e := range edges {
			t, ok := g.Target(e)
			switch {
			case !ok || stops.Has(t):
			case !entered.Has(t):
				entered.Add(t)
				follow(g.out[t])
				left.Add(t)
			case !left.Has(t):
				back.Add(e)
			}
		}
	}
	follow(from)
	return back
}

// walks reports whether a walk of exactly length edges leads from one node to another, which is not
// deferred, without passing a deferred node in between.
func (g *Graph) walks(from, to, length int) bool {
	if length < 1 || g.deferred.Has(to) || !g.Reachable(from).Has(to) {
		return false
	}
	for len(g.walksTo[to]) < length {
		g.walksTo[to] = append(g.walksTo[to], g.before(to))
	}
	return g.walksTo[to][length-1].Has(from)
}

// before returns the nodes from which walks lead to a node that are one edge longer than the longest
// known ones.
func (g *Graph) before(to int) NodeSet {
	known := g.walksTo[to]
	out := NewNodeSet(len(g.flow.Nodes))
	for n := range g.out {
		for _, e := range g.out[n] {
			t, ok := g.Target(e)
			if ok && (len(known) == 0 && t == to || len(known) > 0 && !g.deferred.Has(t) && known[len(known)-1].Has(t)) {
				out.Add(n)
				break
			}
		}
	}
	return out
}

// NodeSet is a set of indices of nodes, or of edges.
type NodeSet []uint64

// NewNodeSet returns an empty set for a graph of n nodes.
func NewNodeSet(n int) NodeSet { return make(NodeSet, (n+63)/64) }

// Add puts a node into the set.
func (s NodeSet) Add(node int) { s[node/64] |= 1 << (node % 64) }

// Has reports whether a node is in the set; nil is an empty one.
func (s NodeSet) Has(node int) bool { return s != nil && s[node/64]&(1<<(node%64)) != 0 }

// Each calls f for every node of the set, in order.
func (s NodeSet) Each(f func(node int)) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			f(i*64 + bits.TrailingZeros64(word))
		}
	}
}
