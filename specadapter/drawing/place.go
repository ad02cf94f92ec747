package drawing

import (
	"math"
	"slices"
)

// Distances of the drawing, in pixels.
const (
	margin = 24
	// gapX is between neighbours in a rank, thin is beside a bend; gapY is between ranks.
	gapX = 28
	thin = 14
	gapY = 28
)

// place gives every vertex its place and says how large the drawing is.
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
				g.vertices[v].x = g.vertices[rank[i-1]].x + g.apart(rank[i-1], v)
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

// apart is how far the middles of two neighbours are from each other, at least.
func (g *graph) apart(left, right int) float64 {
	a, b := &g.vertices[left], &g.vertices[right]
	gap := float64(gapX)
	if a.node == isBend || b.node == isBend {
		gap = thin
	}
	return a.w/2 + a.side + gap + b.w/2
}

// settle moves the vertices of a rank as near as they can come to the middles of those that
// they are joined with, in their order and apart: least squares under an order, which is
// solved by pooling neighbours that want to pass each other. Bends weigh more, so that long
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
			offsets[i] = offsets[i-1] + g.apart(rank[i-1], v)
		}
		weight := 1.0
		switch v := &g.vertices[v]; {
		case v.node == isBend, v.node == isText:
			weight = 4
		case len(v.up)+len(v.down) == 0:
			weight = 0.001 // it takes what room the others leave
		}
		pools = append(pools, pool{weight * (g.wish(v, up, down) - offsets[i]), weight, 1})
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

// wish is where a vertex would like to be.
func (g *graph) wish(v int, up, down bool) float64 {
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

// frame moves all that is drawn into the margins and gives the width.
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
