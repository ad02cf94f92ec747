package continuum

import (
	"fmt"

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
	joins := s.plainJoins()
	size := g.end() + 1
	s.branches, s.shortest, s.longest = make([]uint64, size), make([]int, size), make([]int, size)
	s.indegree, s.most = make([]int, size), make([]int, size)
	for n := -1; n < len(g.flow.Nodes) && len(s.found) < joins && s.work <= maxJoinWork; n++ {
		if n < 0 {
			s.fork(g.start())
			continue
		}
		s.fork(n)
	}
}

// joinSearch follows the branches of one fork after another. The slices are by number and
// clean between forks; a node's branches are a set of bits, 0 where none arrives.
type joinSearch struct {
	*graph
	out, in           [][]int
	branches          []uint64
	shortest, longest []int
	indegree, most    []int
	reached, queue    []int
	arriving          []arrival
	found             map[int]bool
	work              int
}

// plainJoins counts the nodes that can be reported.
func (s *joinSearch) plainJoins() (n int) {
	for i := range s.flow.Nodes {
		if len(s.in[i]) > 1 && !s.flow.Nodes[i].Deferred {
			n++
		}
	}
	return n
}

// stops reports whether a branch is followed to a part but not beyond.
func (s *joinSearch) stops(fork, n int) bool {
	return n == fork || n >= len(s.flow.Nodes) || s.flow.Nodes[n].Deferred
}

func (s *joinSearch) fork(fork int) {
	branch := s.branchesOf(fork)
	if branch == nil {
		return
	}
	s.reached = s.reached[:0]
	s.spread(fork, branch)
	if s.work > maxJoinWork {
		return
	}
	s.measure(fork)
	for _, n := range s.reached {
		if len(s.in[n]) > 1 && !s.stops(fork, n) && !s.found[n] {
			s.join(fork, n, branch)
		}
	}
	for _, n := range s.reached {
		s.branches[n], s.shortest[n], s.longest[n], s.indegree[n], s.most[n] = 0, 0, 0, 0, 0
	}
}

// branchesOf gives each link from a fork the bit of its branch, or nil if there are fewer than two.
func (s *joinSearch) branchesOf(fork int) map[int]uint64 {
	branch := map[int]uint64{}
	next, alternatives := 0, uint64(0)
	for _, i := range s.out[fork] {
		switch {
		case !s.links[i].conditional:
			branch[i] = 1 << (next % 64)
			next++
		case alternatives == 0:
			alternatives = 1 << (next % 64)
			next++
			fallthrough
		default:
			branch[i] = alternatives
		}
	}
	if next < 2 {
		return nil
	}
	return branch
}

// spread finds what each branch reaches, and the fewest steps to it.
func (s *joinSearch) spread(fork int, branch map[int]uint64) {
	s.queue = s.queue[:0]
	arrive := func(n int, b uint64, steps int) {
		if s.branches[n] == 0 {
			s.reached = append(s.reached, n)
			s.shortest[n] = steps
		}
		if s.branches[n]|b != s.branches[n] {
			s.branches[n] |= b
			if !s.stops(fork, n) {
				s.queue = append(s.queue, n)
			}
		}
	}
	for _, i := range s.out[fork] {
		arrive(s.links[i].to, branch[i], 1)
	}
	for k := 0; k < len(s.queue) && s.work <= maxJoinWork; k++ {
		n := s.queue[k]
		for _, i := range s.out[n] {
			s.work++
			arrive(s.links[i].to, s.branches[n], s.shortest[n]+1)
		}
	}
}

// measure finds the most steps to each reached node, in topological order, and endless behind loops.
func (s *joinSearch) measure(fork int) {
	for _, n := range s.reached {
		s.longest[n] = endless
		if s.stops(fork, n) {
			continue
		}
		for _, i := range s.out[n] {
			s.work++
			s.indegree[s.links[i].to]++
		}
	}
	ready := s.queue[:0]
	for _, n := range s.reached {
		if s.indegree[n] == 0 {
			ready = append(ready, n)
		}
	}
	for len(ready) > 0 {
		n := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		s.longest[n] = max(s.most[n], 1)
		if s.stops(fork, n) {
			continue
		}
		for _, i := range s.out[n] {
			to := s.links[i].to
			s.most[to] = max(s.most[to], s.longest[n]+1)
			if s.indegree[to]--; s.indegree[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
}

// arrival is one edge by which branches come to a join.
type arrival struct {
	link              int
	branches          uint64
	shortest, longest int
}

// join reports a node at which two different branches can arrive at different steps.
func (s *joinSearch) join(fork, n int, branch map[int]uint64) {
	arrivals := s.arrivals(fork, n, branch)
	for i := range arrivals {
		for k := 0; k < i && s.work <= maxJoinWork; k++ {
			s.work++
			a, b := &arrivals[k], &arrivals[i]
			if a.branches&b.branches != 0 || a.shortest == a.longest && b.shortest == b.longest && a.shortest == b.shortest {
				continue
			}
			s.found[n] = true
			s.Warnf(s.places[n], "L2", `set "defer": true on it to wait for all branches`,
				"node %s can run more than once: branches of %s reach it %s and %s", source.Quote(s.flow.Nodes[n].ID), s.name(fork),
				s.describe(a), s.describe(b))
			return
		}
	}
}

// arrivals are the edges into a node that branches of a fork can take, until it is called again.
func (s *joinSearch) arrivals(fork, n int, branch map[int]uint64) []arrival {
	out := s.arriving[:0]
	for _, i := range s.in[n] {
		s.work++
		from := s.links[i].from
		if b := branch[i]; from == fork && b != 0 {
			out = append(out, arrival{i, b, 1, 1})
		} else if s.branches[from] != 0 && !s.stops(fork, from) {
			out = append(out, arrival{i, s.branches[from], s.shortest[from] + 1, min(s.longest[from]+1, endless)})
		}
	}
	s.arriving = out
	return out
}

func (s *joinSearch) name(n int) string {
	if n == s.start() {
		return "START"
	}
	return source.Quote(s.flow.Nodes[n].ID)
}

func (s *joinSearch) describe(a *arrival) string {
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
