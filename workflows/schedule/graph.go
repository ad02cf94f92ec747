package schedule

import (
	"math/bits"

	"weft/workflows/plan"
)

// Graph answers queries about a flow's edges. Nodes and edges are identified by their index in the
// plan, which is their declaration order. A graph caches its answers; it is not safe for
// concurrent use.
type Graph struct {
	flow  *plan.Flow
	index map[string]int
	// edges maps ids to edges; nil until first needed.
	edges map[string]int
	// Starts are the edges from START; out are the edges from each node. They must not be changed.
	Starts []int
	out    [][]int
	// Exits is set if the flow has exit nodes.
	Exits bool
	// deferred are the nodes that wait for all branches that can reach them.
	deferred NodeSet
	// reach and forward cache the reachable nodes of each node, nil until needed; forward excludes back edges.
	reach, forward []NodeSet
	// back holds the back edges; nil until first needed.
	back NodeSet
	// walksTo[t][n-1] holds the nodes from which a walk of n edges leads to node t.
	walksTo [][]NodeSet
}

// NewGraph returns the graph of a flow, whose nodes and edges must not be changed afterwards.
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

// Index returns the index of the node with an id, -1 if there is none.
func (g *Graph) Index(id string) int {
	if n, ok := g.index[id]; ok {
		return n
	}
	return -1
}

// Edge returns the index of the first edge with an id, -1 if there is none.
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

// Edges returns the indices of the edges with the ids; it skips unknown ids.
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

// walk adds to a set the nodes to which a walk of one edge or more from a node leads, without the edges of except. It does not
// continue past nodes of stops and nodes that are in the set already.
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

// backEdges returns the back edges of a depth-first walk from START. Without them, the part of the graph that is reachable from START
// has no cycles.
func (g *Graph) backEdges() NodeSet {
	if g.back == nil {
		g.back = g.findBackEdges(g.Starts, NewNodeSet(len(g.flow.Nodes)), nil)
	}
	return g.back
}

// findBackEdges returns the edges that lead to a node entered but not finished, in a depth-first walk that follows edges in
// declaration order. It does not enter stops.
func (g *Graph) findBackEdges(from []int, entered, stops NodeSet) NodeSet {
	back, finished := NewNodeSet(len(g.flow.Edges)), NewNodeSet(len(g.flow.Nodes))
	var follow func(edges []int)
	follow = func(edges []int) {
		for _, e := range edges {
			t, ok := g.Target(e)
			switch {
			case !ok || stops.Has(t):
			case !entered.Has(t):
				entered.Add(t)
				follow(g.out[t])
				finished.Add(t)
			case !finished.Has(t):
				back.Add(e)
			}
		}
	}
	follow(from)
	return back
}

// hasWalk reports whether a walk of exactly length edges leads from one node to another, without passing a deferred node in between.
// It returns false if the target is deferred.
func (g *Graph) hasWalk(from, to, length int) bool {
	if length < 1 || g.deferred.Has(to) || !g.Reachable(from).Has(to) {
		return false
	}
	for len(g.walksTo[to]) < length {
		g.walksTo[to] = append(g.walksTo[to], g.nextWalks(to))
	}
	return g.walksTo[to][length-1].Has(from)
}

// nextWalks returns the nodes from which walks lead to a node that are one edge longer than the longest ones in walksTo.
func (g *Graph) nextWalks(to int) NodeSet {
	walks := g.walksTo[to]
	out := NewNodeSet(len(g.flow.Nodes))
	for n := range g.out {
		for _, e := range g.out[n] {
			t, ok := g.Target(e)
			if ok && (len(walks) == 0 && t == to || len(walks) > 0 && !g.deferred.Has(t) && walks[len(walks)-1].Has(t)) {
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

// Add adds a node to the set.
func (s NodeSet) Add(node int) { s[node/64] |= 1 << (node % 64) }

// Has reports whether a node is in the set; a nil set is empty.
func (s NodeSet) Has(node int) bool { return s != nil && s[node/64]&(1<<(node%64)) != 0 }

// Each calls f for each node of the set, in order.
func (s NodeSet) Each(f func(node int)) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			f(i*64 + bits.TrailingZeros64(word))
		}
	}
}
