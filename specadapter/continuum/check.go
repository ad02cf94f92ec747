package continuum

import (
	"fmt"
	"regexp"
	"slices"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// check validates the graph. nodes and edges are the numbers of those in the document, including invalid ones.
func (g *graph) check(nodes, edges int) {
	if nodes == 0 {
		return
	}
	if edges == 0 {
		if v := g.object.Get("edges"); v == nil || v.Kind == source.Array {
			g.Errorf(g.object.Pos("edges"), "V14", `add "edges" from START to END`, "%s has nodes but no edges", g.object.Name)
		}
		return
	}
	// The indexes of the links out of and into each node, in edge order.
	out, in := make([][]int, g.end()+1), make([][]int, g.end()+1)
	for i, l := range g.links {
		out[l.from], in[l.to] = append(out[l.from], i), append(in[l.to], i)
	}
	g.checkReach(out)
	g.checkCycles(out)
	g.lintNodes(out, in)
	g.lintJoins(out, in)
	g.lintExecutionPlan()
}

// checkReach reports unreachable nodes (V5), and graphs without an edge from START (V4) or a path to END (V6).
func (g *graph) checkReach(out [][]int) {
	if len(out[g.start()]) == 0 {
		g.Errorf(g.object.Pos("edges"), "V4", "add an edge from START to the first node", "%s has no edge from START", g.object.Name)
		return
	}
	reached := plan.Reachable(g.start(), func(n int) (to []int) {
		for _, i := range out[n] {
			to = append(to, g.links[i].to)
		}
		return to
	})
	for n := range g.flow.Nodes {
		if !reached[n] {
			g.Errorf(g.nodePositions[n], "V5", "add an edge to it or remove it", "node %s cannot be reached from START", source.Quote(g.flow.Nodes[n].ID))
		}
	}
	if !reached[g.end()] {
		g.Errorf(g.object.Pos("edges"), "V6", "add an edge from the last node to END", "no path of %s leads from START to END", g.object.Name)
	}
}

// checkCycles reports unconditional edges that close a cycle of unconditional edges (V15), which only the step limit ends.
func (g *graph) checkCycles(out [][]int) {
	var path []string
	pathIndex := make([]int, g.end()+1) // 1-based index in path; -1 for finished nodes
	var visit func(n int, id string)
	visit = func(n int, id string) {
		path = append(path, id)
		pathIndex[n] = len(path)
		for _, i := range out[n] {
			switch l := g.links[i]; {
			case l.conditional || l.to == g.end() || pathIndex[l.to] < 0:
			case pathIndex[l.to] == 0:
				visit(l.to, g.flow.Nodes[l.to].ID)
			default:
				g.Warnf(g.edgePositions[l.edge], "V15", "add a condition_prompt to it and one to an edge out of the cycle",
					"the cycle of %s has no condition; it only ends at the step limit", source.Listed(path[pathIndex[l.to]-1:], source.ListedNames))
			}
		}
		path, pathIndex[n] = path[:len(path)-1], -1
	}
	for n := range g.flow.Nodes {
		if pathIndex[n] == 0 {
			visit(n, g.flow.Nodes[n].ID)
		}
	}
}

// lintNodes reports valid but suspicious properties of nodes (L1, L3, L4, L6).
func (g *graph) lintNodes(out, in [][]int) {
	exits := 0
	for n := range g.flow.Nodes {
		node, at := &g.flow.Nodes[n], g.nodePositions[n]
		id := source.Quote(node.ID)
		if node.Exit {
			exits++
		}
		if len(out[n]) == 0 {
			g.Warnf(at, "L3", "add an edge from it", "node %s is a dead end: it has no outgoing edge", id)
		}
		if node.Deferred && len(in[n]) < 2 {
			g.Warnf(at, "L4", "set defer only on nodes where branches join", "node %s is deferred but has %d incoming edge(s), so it joins nothing", id, len(in[n]))
		}
		always := 0
		for _, i := range out[n] {
			if !g.links[i].conditional {
				always++
			}
		}
		if len(out[n]) > 0 && always == 0 {
			g.Warnf(at, "L6", "add an edge without a condition, or make sure that one answer is always yes",
				"all edges from node %s are conditional; if every answer is no, the branch ends there", id)
		}
	}
	if exits == 0 && len(g.flow.Nodes) > 0 {
		g.Warnf(g.object.Pos("nodes"), "L1", `set "is_exit_node": true on the node that produces the result`,
			"%s has no exit node; the last node to run produces the result", g.object.Name)
	}
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)

// lintUUID reports, in the strict profile, an id that is not a UUID (L8).
func (a *adaptation) lintUUID(o *source.Fields) {
	v := o.Get("id")
	if !a.Strict || v == nil || v.Kind != source.String || v.Text == "" || uuid.MatchString(v.Text) ||
		v.Text == plan.Start || v.Text == plan.End {
		return
	}
	a.Warnf(v.Pos, "L8", "use a UUID; the dialect's checklist requires one, although its schema requires camelCase", "the id %s is not a UUID", source.Quote(v.Text))
}

// maxJoinWork limits the number of visited edges; in larger graphs some joins are not checked.
const maxJoinWork = 200_000

// endless is the length of a branch that can repeat a loop.
const endless = 1 << 30

// lintJoins reports nodes that are not deferred and at which branches of one fork can arrive
// at different steps, so that the nodes run more than once (L2).
//
// A fork is START or a node from which more than one branch can start at once: each
// unconditional edge is a branch, and all conditional edges of the node together are one
// more, because authors write their questions as alternatives. From each fork, branches are
// followed up to the fork itself and to deferred nodes, which wait for all branches. A node
// is reported if two of its incoming edges have no branch in common (so that neither is a
// loop back or a later split of the other) and their numbers of steps can differ: because
// the branches have different lengths, or because one contains a loop.
func (g *graph) lintJoins(out, in [][]int) {
	s := &joinSearch{graph: g, out: out, in: in, found: map[int]bool{}}
	s.follow(g.start())
	for n := range g.flow.Nodes {
		s.follow(n)
	}
}

// joinSearch is the state of lintJoins.
type joinSearch struct {
	*graph
	out, in [][]int
	found   map[int]bool
	work    int

	// fork is the current fork. branch maps each of its links to the bit of its branch; reach maps the nodes that the
	// branches reach to details, and reached lists them in order.
	fork    int
	branch  map[int]uint64
	reach   map[int]*reach
	reached []int
}

// reach holds the branches that reach a node, as a bit set, and after how many steps.
type reach struct {
	branches          uint64
	shortest, longest int
	// indegree and maxSteps are used by the search for the longest path.
	indegree, maxSteps int
}

// stops reports whether branches are not followed past a node.
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

// branches assigns each link from the fork the bit of its branch, and reports whether there are several.
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

// spread finds the nodes that each branch reaches, and the minimum number of steps to them.
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

// measure finds the maximum number of steps to each reached node, in topological order; it remains endless after a loop.
func (s *joinSearch) measure() {
	forEachNext := func(n int, visit func(to int)) {
		if !s.stops(n) {
			for _, i := range s.out[n] {
				visit(s.links[i].to)
			}
		}
	}
	for _, n := range s.reached {
		forEachNext(n, func(to int) {
			s.work++
			s.reach[to].indegree++
		})
	}
	ready := slices.DeleteFunc(slices.Clone(s.reached), func(n int) bool { return s.reach[n].indegree > 0 })
	for len(ready) > 0 {
		n := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		from := s.reach[n]
		from.longest = max(from.maxSteps, 1)
		forEachNext(n, func(to int) {
			r := s.reach[to]
			r.maxSteps = max(r.maxSteps, from.longest+1)
			if r.indegree--; r.indegree == 0 {
				ready = append(ready, to)
			}
		})
	}
}

// arrival is an edge by which branches reach a join.
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
			s.Warnf(s.nodePositions[n], "L2", `set "defer": true on it to wait for all branches`,
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
