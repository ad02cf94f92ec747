package workflows

import (
	"cmp"
	"slices"
	"strconv"

	"weft/activities/contract"
)

// scheduler decides which node runs when, by steps without a barrier:
//
//   - START's targets arrive at step 1; what a node at step k leads to arrives at step
//     k+1. A branch carries its lineage, the last deferred join that it has passed.
//   - Arrivals at one plain node with the same step and lineage are one execution. It
//     waits only while something that lives could still arrive there at that very step.
//   - An edge into a deferred node arms it. It runs once for all arrivals, when nothing
//     that lives and no other armed node that comes before it can still reach it. Its step
//     is its arrivals' highest, its lineage is new.
//   - An armed node E comes before an armed node D if D can be reached from E, and either E
//     cannot be reached from D, or D can be reached from E without a back edge. So joins
//     nested in a loop run from the inner to the outer one, and no two armed nodes ever hold
//     up each other.
//
// So which executions there are is a property of the graph and of the answers to its
// conditions, never of timing. The scheduler is pure: no Temporal, no clock.
type scheduler struct {
	g       *graph
	running []*execution
	pending []*execution
	armed   []*execution
	// resumed are executions that ran before and go on.
	resumed []*execution
	// ran counts executions by node and step.
	ran [][]int
}

// execution is one execution of a node, and the first of a chain when a child runs it.
type execution struct {
	node, step, nth int
	lineage         string
	arrivals        []arrival
	// resume is set where the execution goes on in its middle.
	resume *contract.Resume
	// child is set while a child runs it; tries counts its starts that failed because its id was taken.
	child *childRun
	tries int
	// release gives back what of the budget was reserved for the child.
	release func()
}

// arrival is an edge taken into a node, with what its branch knows.
type arrival struct {
	edge    int
	lineage string
	view    contract.View
}

func newScheduler(g *graph) *scheduler {
	return &scheduler{g: g, ran: make([][]int, len(g.flow.Nodes))}
}

// arrive notes that edges were taken by something at step-1. It returns the first node that
// would run beyond the limit, or -1.
func (s *scheduler) arrive(edges []int, step, limit int, lineage string, view contract.View) int {
	seen := map[int]bool{}
	for _, e := range edges {
		node, ok := s.g.target(e)
		if !ok || seen[node] {
			continue
		}
		if step > limit {
			return node
		}
		seen[node] = true
		a := arrival{edge: e, lineage: lineage, view: view}
		if s.g.deferred(node) {
			s.arm(node, step, a)
		} else {
			s.pend(node, step, a)
		}
	}
	return -1
}

func (s *scheduler) arm(node, step int, a arrival) {
	for _, x := range s.armed {
		if x.node == node {
			x.step = max(x.step, step)
			x.arrivals = append(x.arrivals, a)
			return
		}
	}
	s.armed = append(s.armed, &execution{node: node, step: step, arrivals: []arrival{a}})
}

func (s *scheduler) pend(node, step int, a arrival) {
	for _, x := range s.pending {
		if x.node == node && x.step == step && x.lineage == a.lineage {
			x.arrivals = append(x.arrivals, a)
			return
		}
	}
	s.pending = append(s.pending, &execution{node: node, step: step, lineage: a.lineage, arrivals: []arrival{a}})
}

// ready takes out what can run now, by step and declaration, and counts it as running.
func (s *scheduler) ready() []*execution {
	var out, pending, armed []*execution
	for _, x := range s.pending {
		if s.mayJoin(x) {
			pending = append(pending, x)
		} else {
			out = append(out, x)
		}
	}
	for _, x := range s.armed {
		if s.blocked(x) {
			armed = append(armed, x)
		} else {
			out = append(out, x)
		}
	}
	s.pending, s.armed = pending, armed
	slices.SortStableFunc(out, func(a, b *execution) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.node, b.node), cmp.Compare(a.lineage, b.lineage))
	})
	for _, x := range out {
		x.nth = s.count(x.node, x.step)
		if s.g.deferred(x.node) {
			x.lineage = s.id(x)
		}
		slices.SortStableFunc(x.arrivals, func(a, b arrival) int {
			return cmp.Or(cmp.Compare(a.edge, b.edge), cmp.Compare(a.lineage, b.lineage))
		})
		s.running = append(s.running, x)
	}
	out = append(s.resumed, out...)
	s.resumed = nil
	return out
}

// maxChildren is how many branches run at once; the server refuses more than 2,000.
const maxChildren = 500

// again lets an execution go on that came back between two turns. It has never stopped
// running, so that nothing else starts in its place.
func (s *scheduler) again(x *execution) {
	s.running = append(s.running, x)
	s.resumed = append(s.resumed, x)
}

// mayJoin says whether something that lives could still arrive at x's node at x's step in
// x's lineage.
func (s *scheduler) mayJoin(x *execution) bool {
	could := func(o *execution) bool { return s.could(o, x) }
	return slices.ContainsFunc(s.running, could) || slices.ContainsFunc(s.pending, could)
}

// could says whether o, which lives, can still arrive at x's node at x's step.
func (s *scheduler) could(o, x *execution) bool {
	return o != x && o.lineage == x.lineage && o.step < x.step && s.g.walks(o.node, x.node, x.step-o.step)
}

// blocked says whether something that lives, or another armed node that comes before x, can
// still reach the armed x.
func (s *scheduler) blocked(x *execution) bool {
	reaches := func(o *execution) bool { return s.reaches(o, x) }
	return slices.ContainsFunc(s.running, reaches) || slices.ContainsFunc(s.pending, reaches) ||
		slices.ContainsFunc(s.armed, func(o *execution) bool { return s.comesBefore(o, x) })
}

func (s *scheduler) reaches(o, x *execution) bool { return s.g.reachable(o.node).has(x.node) }

// comesBefore reports whether o, which is armed too, runs before x.
func (s *scheduler) comesBefore(o, x *execution) bool {
	return o != x && s.reaches(o, x) &&
		(!s.g.reachable(x.node).has(o.node) || s.g.reachableForward(o.node).has(x.node))
}

// waits says for whom each execution waits that has not begun.
func (s *scheduler) waits() []contract.Wait {
	var out []contract.Wait
	note := func(x *execution, lists [][]*execution, holds ...func(o, x *execution) bool) {
		w := contract.Wait{Execution: s.id(x), For: []string{}}
		for i, list := range lists {
			for _, o := range list {
				if holds[i](o, x) {
					w.For = append(w.For, s.id(o))
				}
			}
		}
		out = append(out, w)
	}
	for _, x := range s.pending {
		note(x, [][]*execution{s.running, s.pending}, s.could, s.could)
	}
	for _, x := range s.armed {
		note(x, [][]*execution{s.running, s.pending, s.armed}, s.reaches, s.reaches, s.comesBefore)
	}
	return out
}

// count gives the next number for an execution at a place: 1 for the first.
func (s *scheduler) count(node, step int) int {
	if grow := step + 1 - len(s.ran[node]); grow > 0 {
		s.ran[node] = append(s.ran[node], make([]int, grow)...)
	}
	s.ran[node][step]++
	return s.ran[node][step]
}

// done notes that x, or the chain that began with it, has ended.
func (s *scheduler) done(x *execution) {
	s.running = slices.DeleteFunc(s.running, func(o *execution) bool { return o == x })
}

// alone says whether x is all that lives: whatever runs later comes from it.
func (s *scheduler) alone(x *execution) bool {
	return len(s.running) == 1 && s.running[0] == x && len(s.pending) == 0 && len(s.armed) == 0
}

// idle says whether nothing lives. What is armed then is stuck.
func (s *scheduler) idle() bool { return len(s.running) == 0 && len(s.pending) == 0 }

// over says whether nothing is left to run.
func (s *scheduler) over() bool { return s.idle() && len(s.armed) == 0 }

// others is the set of nodes at which something other than x is or can still arrive. It
// only shrinks while x runs.
func (s *scheduler) others(x *execution) bits {
	set := newBits(len(s.g.flow.Nodes))
	for _, o := range s.running {
		if o != x {
			set.add(o.node)
			set.union(s.g.reachable(o.node))
		}
	}
	for _, list := range [][]*execution{s.pending, s.armed} {
		for _, o := range list {
			set.add(o.node)
			set.union(s.g.reachable(o.node))
		}
	}
	return set
}

// names lists what runs, waits and is armed.
func (s *scheduler) names() (running, waiting, armed []string) {
	name := func(list []*execution) (out []string) {
		for _, x := range list {
			out = append(out, s.id(x))
		}
		return out
	}
	return name(s.running), name(s.pending), name(s.armed)
}

// noteRan counts an execution that a chain ran on its own.
func (s *scheduler) noteRan(node, step int) { s.count(node, step) }

// ranBehind lists how often the nodes of a set ran at steps behind x's.
func (s *scheduler) ranBehind(x *execution, nodes bits) []contract.Count {
	var out []contract.Count
	for n := range s.g.flow.Nodes {
		if !nodes.has(n) {
			continue
		}
		for step := range s.ran[n] {
			if step > x.step && s.ran[n][step] > 0 {
				out = append(out, contract.Count{Node: s.g.flow.Nodes[n].ID, Step: step, N: s.ran[n][step]})
			}
		}
	}
	return out
}

// id is an execution's name: node#step, with ~n from the second with that name on.
func (s *scheduler) id(x *execution) string {
	return executionID(s.g.flow.Nodes[x.node].ID, x.step, x.nth)
}

func executionID(node string, step, nth int) string {
	id := escapeID(node) + "#" + strconv.Itoa(step)
	if nth > 1 {
		id += "~" + strconv.Itoa(nth)
	}
	return id
}
