package drawing

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"weft/workflows/plan"
)

// The layout is layered (Sugiyama): break loops, assign each node a rank below its
// predecessors, add a bend to long edges in every rank that they cross, order each rank to
// minimize crossings, and assign coordinates. Nodes have even ranks; the labels of edges
// have odd ranks, where they are treated like nodes, so that nothing overlaps.

// maxVertices limits the layout; larger drawings would not be readable anyway.
const maxVertices = 100_000

// vertex is a positioned part: a node, an edge's label or a bend of an edge.
type vertex struct {
	// node is the index of the node in the flow, or one of the constants below.
	node  int
	lines []string
	w, h  float64
	// loops are the edges from the node to itself; side is the width that they need.
	loops []int
	side  float64
	rank  int
	// x and y are its centre; tall is the height of its rank.
	x, y, tall float64
	// up and down are the connected vertices in the ranks above and below.
	up, down []int
}

// Values of vertex.node for vertices that are not nodes of the flow.
const (
	isStart = -1 - iota
	isEnd
	isText
	isBend
)

// link is the path of an edge through the ranks, from top to bottom.
type link struct {
	edge int
	// back reports whether the edge points upwards, because it closes a loop.
	back bool
	path []int
}

type graph struct {
	f        *plan.Flow
	vertices []vertex
	links    []link
	ranks    [][]int
}

func newGraph(f *plan.Flow, states States) (*graph, error) {
	g := &graph{f: f}
	index := map[string]int{plan.Start: 0}
	g.vertices = append(g.vertices, endpoint(isStart, plan.Start))
	for i := range f.Nodes {
		index[f.Nodes[i].ID] = len(g.vertices)
		g.vertices = append(g.vertices, nodeVertex(i, &f.Nodes[i], states))
	}
	index[plan.End] = len(g.vertices)
	g.vertices = append(g.vertices, endpoint(isEnd, plan.End))
	for i := range f.Edges {
		from, ok := index[f.Edges[i].From]
		to, ok2 := index[f.Edges[i].To]
		switch {
		case !ok || !ok2:
			return nil, fmt.Errorf("the edge %q from %q to %q has an unknown node", f.Edges[i].ID, f.Edges[i].From, f.Edges[i].To)
		case from == to:
			v := &g.vertices[from]
			v.loops = append(v.loops, i)
			v.side = max(v.side, loopWidth+boxWidth(textLines(&f.Edges[i])))
		default:
			g.links = append(g.links, link{edge: i, path: []int{from, to}})
		}
	}
	g.unloop()
	g.rank()
	if err := g.bend(); err != nil {
		return nil, err
	}
	g.order()
	return g, nil
}

// unloop reverses the edges that close a loop, found by a depth-first search in the flow's order.
func (g *graph) unloop() {
	out := make([][]int, len(g.vertices))
	for i, l := range g.links {
		out[l.path[0]] = append(out[l.path[0]], i)
	}
	const fresh, open, closed = 0, 1, 2
	seen := make([]int, len(g.vertices))
	var walk func(v int)
	walk = func(v int) {
		seen[v] = open
		for _, i := range out[v] {
			switch to := g.links[i].path[1]; seen[to] {
			case fresh:
				walk(to)
			case open:
				g.links[i].back = true
			}
		}
		seen[v] = closed
	}
	for v := range g.vertices {
		if seen[v] == fresh {
			walk(v)
		}
	}
	for i := range g.links {
		if g.links[i].back {
			slices.Reverse(g.links[i].path)
		}
	}
}

// rank assigns every vertex a rank below its predecessors.
func (g *graph) rank() {
	waits := make([]int, len(g.vertices))
	out := make([][]int, len(g.vertices))
	for _, l := range g.links {
		waits[l.path[1]]++
		out[l.path[0]] = append(out[l.path[0]], l.path[1])
	}
	var ready []int
	for v := range g.vertices {
		if waits[v] == 0 {
			ready = append(ready, v)
		}
	}
	for len(ready) > 0 {
		v := ready[0]
		ready = ready[1:]
		for _, to := range out[v] {
			g.vertices[to].rank = max(g.vertices[to].rank, g.vertices[v].rank+2)
			if waits[to]--; waits[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
}

// bend adds a vertex to every link in each rank that it crosses; the one next to its start has the label.
func (g *graph) bend() error {
	for i := range g.links {
		l := &g.links[i]
		top, bottom := l.path[0], l.path[1]
		first, last := g.vertices[top].rank+1, g.vertices[bottom].rank-1
		if len(g.vertices)+last-first > maxVertices {
			return fmt.Errorf("the flow is too large to draw: %d nodes and %d edges", len(g.f.Nodes), len(g.f.Edges))
		}
		holder := first
		if l.back {
			holder = last
		}
		path := []int{top}
		for r := first; r <= last; r++ {
			v := vertex{node: isBend, rank: r}
			if lines := textLines(&g.f.Edges[l.edge]); r == holder && len(lines) > 0 {
				v.node, v.lines, v.w, v.h = isText, lines, boxWidth(lines), float64(len(lines))*lineHeight+4
			}
			path = append(path, len(g.vertices))
			g.vertices = append(g.vertices, v)
		}
		l.path = append(path, bottom)
		for k := 1; k < len(l.path); k++ {
			a, b := l.path[k-1], l.path[k]
			g.vertices[a].down = append(g.vertices[a].down, b)
			g.vertices[b].up = append(g.vertices[b].up, a)
		}
	}
	return nil
}

// sweeps is the number of iterations that improve the order.
const sweeps = 12

// order sorts each rank by the positions of the neighbours, and selects the order with the fewest crossings.
func (g *graph) order() {
	for v := range g.vertices {
		r := g.vertices[v].rank
		for len(g.ranks) <= r {
			g.ranks = append(g.ranks, nil)
		}
		g.ranks[r] = append(g.ranks[r], v)
	}
	best, fewest := g.copyRanks(), g.crossings()
	for i := range sweeps {
		if fewest == 0 {
			break
		}
		g.sweep(i%2 == 0)
		if n := g.crossings(); n < fewest {
			best, fewest = g.copyRanks(), n
		}
	}
	g.ranks = best
}

func (g *graph) copyRanks() [][]int {
	out := make([][]int, len(g.ranks))
	for i, r := range g.ranks {
		out[i] = slices.Clone(r)
	}
	return out
}

// sweep sorts all ranks by the ranks above them, or by those below.
func (g *graph) sweep(down bool) {
	at := make([]float64, len(g.vertices))
	for _, rank := range g.ranks {
		for i, v := range rank {
			at[v] = float64(i)
		}
	}
	for i := range g.ranks {
		rank := g.ranks[i]
		if !down {
			rank = g.ranks[len(g.ranks)-1-i]
		}
		want := map[int]float64{}
		for _, v := range rank {
			near := g.vertices[v].up
			if !down {
				near = g.vertices[v].down
			}
			want[v] = at[v]
			if len(near) > 0 {
				sum := 0.0
				for _, n := range near {
					sum += at[n]
				}
				want[v] = sum / float64(len(near))
			}
		}
		sort.SliceStable(rank, func(a, b int) bool { return want[rank[a]] < want[rank[b]] })
		for i, v := range rank {
			at[v] = float64(i)
		}
	}
}

func (g *graph) crossings() int {
	at := make([]int, len(g.vertices))
	for _, rank := range g.ranks {
		for i, v := range rank {
			at[v] = i
		}
	}
	total := 0
	for r := 0; r+1 < len(g.ranks); r++ {
		// With the edges sorted by their upper ends, each inversion of the lower ends is a
		// crossing; a Fenwick tree counts the inversions.
		sums := make([]int, len(g.ranks[r+1])+1)
		seen := 0
		for _, v := range g.ranks[r] {
			ends := make([]int, 0, len(g.vertices[v].down))
			for _, d := range g.vertices[v].down {
				ends = append(ends, at[d])
			}
			for _, e := range ends {
				total += seen
				for i := e + 1; i > 0; i -= i & -i {
					total -= sums[i]
				}
			}
			for _, e := range ends {
				seen++
				for i := e + 1; i < len(sums); i += i & -i {
					sums[i]++
				}
			}
		}
	}
	return total
}

// Distances in pixels.
const (
	margin = 24
	// gapX is the distance of neighbours in a rank, thin that next to a bend; gapY is the distance of ranks.
	gapX = 28
	thin = 14
	gapY = 28
)

// place assigns coordinates to all vertices and returns the size of the drawing.
func (g *graph) place() (width, height float64) {
	y := float64(margin)
	for _, rank := range g.ranks {
		tall := 0.0
		for _, v := range rank {
			tall = max(tall, g.vertices[v].h)
		}
		for _, v := range rank {
			g.vertices[v].y, g.vertices[v].tall = y+tall/2, tall
		}
		y += tall + gapY
	}
	for _, rank := range g.ranks {
		for i, v := range rank {
			if i > 0 {
				g.vertices[v].x = g.vertices[rank[i-1]].x + g.minDistance(rank[i-1], v)
			}
		}
	}
	for i := range sweeps * 2 {
		for k := range g.ranks {
			if i%2 == 0 {
				g.settle(g.ranks[k], true, false)
			} else {
				g.settle(g.ranks[len(g.ranks)-1-k], false, true)
			}
		}
	}
	for _, rank := range g.ranks {
		g.settle(rank, true, true)
	}
	return g.frame(), y - gapY + margin
}

// minDistance returns the minimum distance between the centres of two neighbours.
func (g *graph) minDistance(left, right int) float64 {
	a, b := &g.vertices[left], &g.vertices[right]
	gap := float64(gapX)
	if a.node == isBend || b.node == isBend {
		gap = thin
	}
	return a.w/2 + a.side + gap + b.w/2
}

// settle moves the vertices of a rank as close as possible to the centres of their connected
// vertices, preserving order and minimum distances. This is an isotonic least-squares regression,
// solved by pooling neighbours that violate the order. Bends have more weight, so that long
// edges are straight.
func (g *graph) settle(rank []int, up, down bool) {
	type pool struct {
		sum, weight float64
		n           int
	}
	var pools []pool
	offsets := make([]float64, len(rank))
	for i, v := range rank {
		if i > 0 {
			offsets[i] = offsets[i-1] + g.minDistance(rank[i-1], v)
		}
		weight := 1.0
		switch v := &g.vertices[v]; {
		case v.node == isBend, v.node == isText:
			weight = 4
		case len(v.up)+len(v.down) == 0:
			weight = 0.001 // it yields to all others
		}
		pools = append(pools, pool{weight * (g.preferred(v, up, down) - offsets[i]), weight, 1})
		for k := len(pools) - 1; k > 0 && pools[k-1].sum*pools[k].weight >= pools[k].sum*pools[k-1].weight; k-- {
			pools[k-1].sum += pools[k].sum
			pools[k-1].weight += pools[k].weight
			pools[k-1].n += pools[k].n
			pools = pools[:k]
		}
	}
	i := 0
	for _, p := range pools {
		for range p.n {
			g.vertices[rank[i]].x = offsets[i] + p.sum/p.weight
			i++
		}
	}
}

// preferred returns the preferred coordinate of a vertex.
func (g *graph) preferred(v int, up, down bool) float64 {
	var joined []int
	if up {
		joined = g.vertices[v].up
	}
	if down {
		joined = slices.Concat(joined, g.vertices[v].down)
	}
	sum, n := 0.0, float64(len(joined))
	for _, j := range joined {
		sum += g.vertices[j].x
	}
	switch {
	case n > 0:
		return sum / n
	case len(g.vertices[v].up)+len(g.vertices[v].down) == 0:
		return g.vertices[0].x
	}
	return g.vertices[v].x
}

// frame moves the drawing inside the margins and returns the width.
func (g *graph) frame() float64 {
	left, right := math.Inf(1), math.Inf(-1)
	for i := range g.vertices {
		v := &g.vertices[i]
		left, right = min(left, v.x-v.w/2), max(right, v.x+v.w/2+v.side)
	}
	for i := range g.vertices {
		g.vertices[i].x += margin - left
	}
	return right - left + 2*margin
}
