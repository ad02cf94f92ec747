package continuum

import (
	"fmt"
	"slices"

	"weft/specadapter/source"
)

// maxJoinWork bounds the visited edges; in larger graphs some lints are missing.
const maxJoinWork = 200_000

// endless is the length of a branch that can go round a loop.
const endless = 1 << 30

// lintJoins reports plain nodes at which branches of one fork can arrive at different
// steps, so that they run more than once (L2).
//
// The rule. A fork is START or a node from which more than one branch can start at once:
// each unconditional edge is a branch, all conditional edges of the node are one more,
// because authors write their questions as alternatives. From each fork, branches are
// followed up to the fork itself and to deferred nodes, which wait for all. A plain node
// is reported if two of its incoming edges bring different branches (no branch in common,
// so that neither is a mere loop back or a later split of the other) after numbers of steps
// that can differ: because the branches are not equally long, or because one can go round
// a loop.
func (g *graph) lintJoins(out, in [][]int) {
	s := &joinSearch{graph: g, out: out, in: in, found: map[int]bool{}}
	s.follow(g.start())
	for n := range g.flow.Nodes {
		s.follow(n)
	}
}

// joinSearch follows the branches of one fork after another.
type joinSearch struct {
	*graph
	out, in [][]int
	found   map[int]bool
	work    int

	// fork is the one whose branches are followed: branch has the bit of the branch that each of its links belongs to, reach
	// what the branches come to, reached the same in order.
	fork    int
	branch  map[int]uint64
	reach   map[int]*reach
	reached []int
}

// reach says which branches come to a node, as a set of bits, and after how many steps.
type reach struct {
	branches          uint64
	shortest, longest int
	// indegree and most are those of the search for the longest way.
	indegree, most int
}

// stops reports whether a branch is followed to a part but not beyond.
func (s *joinSearch) stops(n int) bool {
	return n == s.fork || n >= len(s.flow.Nodes) || s.flow.Nodes[n].Deferred
}

func (s *joinSearch) follow(fork int) {
	s.fork, s.reach, s.reached = fork, map[int]*reach{}, nil
	if s.work > maxJoinWork || !s.branches() {
		return
	}
	s.spread()
	if s.work > maxJoinWork {
		return
	}
	s.measure()
	for _, n := range s.reached {
		if len(s.in[n]) > 1 && !s.stops(n) && !s.found[n] {
			s.join(n)
		}
	}
}

// branches gives each link from the fork the bit of its branch, and reports whether there are several.
func (s *joinSearch) branches() bool {
	s.branch = map[int]uint64{}
	next, alternatives := 0, uint64(0)
	for _, i := range s.out[s.fork] {
		if s.links[i].conditional && alternatives != 0 {
			s.branch[i] = alternatives
			continue
		}
		s.branch[i] = 1 << (next % 64)
		next++
		if s.links[i].conditional {
			alternatives = s.branch[i]
		}
	}
	return next > 1
}

// spread finds what each branch reaches, and the fewest steps to it.
func (s *joinSearch) spread() {
	var queue []int
	arrive := func(n int, branches uint64, steps int) {
		r := s.reach[n]
		if r == nil {
			r = &reach{shortest: steps, longest: endless}
			s.reach[n], s.reached = r, append(s.reached, n)
		}
		if r.branches|branches != r.branches {
			r.branches |= branches
			if !s.stops(n) {
				queue = append(queue, n)
			}
		}
	}
	for _, i := range s.out[s.fork] {
		arrive(s.links[i].to, s.branch[i], 1)
	}
	for k := 0; k < len(queue) && s.work <= maxJoinWork; k++ {
		from := s.reach[queue[k]]
		for _, i := range s.out[queue[k]] {
			s.work++
			arrive(s.links[i].to, from.branches, from.shortest+1)
		}
	}
}

// measure finds the most steps to each reached node, in topological order; those behind loops stay endless.
func (s *joinSearch) measure() {
	onward := func(n int, visit func(to int)) {
		if !s.stops(n) {
			for _, i := range s.out[n] {
				visit(s.links[i].to)
			}
		}
	}
	for _, n := range s.reached {
		onward(n, func(to int) {
			s.work++
			s.reach[to].indegree++
		})
	}
	ready := slices.DeleteFunc(slices.Clone(s.reached), func(n int) bool { return s.reach[n].indegree > 0 })
	for len(ready) > 0 {
		n := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		from := s.reach[n]
		from.longest = max(from.most, 1)
		onward(n, func(to int) {
			r := s.reach[to]
			r.most = max(r.most, from.longest+1)
			if r.indegree--; r.indegree == 0 {
				ready = append(ready, to)
			}
		})
	}
}

// arrival is one edge by which branches come to a join.
type arrival struct {
	link              int
	branches          uint64
	shortest, longest int
}

// join reports a node at which two different branches can arrive at different steps.
func (s *joinSearch) join(n int) {
	var arrivals []arrival
	for _, i := range s.in[n] {
		s.work++
		from := s.links[i].from
		if r := s.reach[from]; from == s.fork {
			arrivals = append(arrivals, arrival{i, s.branch[i], 1, 1})
		} else if r != nil && !s.stops(from) {
			arrivals = append(arrivals, arrival{i, r.branches, r.shortest + 1, min(r.longest+1, endless)})
		}
	}
	for i, b := range arrivals {
		for _, a := range arrivals[:i] {
			if s.work++; s.work > maxJoinWork+1 {
				return
			}
			if a.branches&b.branches != 0 || a.shortest == a.longest && b.shortest == b.longest && a.shortest == b.shortest {
				continue
			}
			s.found[n] = true
			s.Warnf(s.places[n], "L2", `set "defer": true on it to wait for all branches`,
				"node %s can run more than once: branches of %s reach it %s and %s", source.Quote(s.flow.Nodes[n].ID), s.name(s.fork),
				s.describe(a), s.describe(b))
			return
		}
	}
}

func (s *joinSearch) name(n int) string {
	if n == s.start() {
		return "START"
	}
	return source.Quote(s.flow.Nodes[n].ID)
}

func (s *joinSearch) describe(a arrival) string {
	through := "through " + s.name(s.links[a.link].from)
	switch {
	case a.longest >= endless:
		return through + " after a loop"
	case a.shortest != a.longest:
		return fmt.Sprintf("%s after %d to %d steps", through, a.shortest, a.longest)
	case a.shortest == 1:
		return through + " after 1 step"
	}
	return fmt.Sprintf("%s after %d steps", through, a.shortest)
}
