package schedule

import (
	"cmp"
	"slices"

	"weft/activities/contract"
)

// Scheduler holds the executions of a run that have not ended, and says which can run. Its lists must not be
// changed. It is not safe for concurrent use.
type Scheduler struct {
	g *Graph
	// Running are the executions that run or are Suspended; these go on in their middle. At the node of one of Waiting a live
	// branch may still arrive; Joins are pending.
	Running, Waiting, Joins, Suspended []*Execution
	// reached counts, by node, the executions alive that are at it or can reach it.
	reached []int
	// ran counts executions by node and step.
	ran [][]int
	// Ended is what the branches that ended knew, in the order in which they did.
	Ended []contract.ArrivalState
}

// New returns a scheduler of a flow's graph. The flow's limit of steps holds.
func New(g *Graph) *Scheduler {
	return &Scheduler{g: g, reached: make([]int, len(g.flow.Nodes)), ran: make([][]int, len(g.flow.Nodes))}
}

// Reset forgets everything but how often nodes ran.
func (s *Scheduler) Reset() {
	*s = Scheduler{g: s.g, reached: make([]int, len(s.reached)), ran: s.ran}
}

// Arrive notes that edges were taken into step, by a branch with a lineage that knows a view. The
// error is a [StepLimitError] or nil.
func (s *Scheduler) Arrive(edges []int, step int, lineage string, view contract.View) error {
	seen := make([]int, 0, len(edges))
	for _, e := range edges {
		node, ok := s.g.Target(e)
		if !ok || slices.Contains(seen, node) {
			continue
		}
		if step > s.g.flow.Limits.MaxSteps {
			return &StepLimitError{Node: node}
		}
		seen = append(seen, node)
		// A join takes arrivals of any step and lineage.
		join, list, own := s.g.deferred.Has(node), &s.Waiting, lineage
		if join {
			list, own = &s.Joins, ""
		}
		i := slices.IndexFunc(*list, func(x *Execution) bool { return x.Node == node && (join || x.Step == step && x.Lineage == lineage) })
		if i < 0 {
			i = len(*list)
			*list = append(*list, &Execution{Node: node, Step: step, Lineage: own})
			s.count((*list)[i], 1)
		}
		x := (*list)[i]
		x.Step = max(x.Step, step)
		x.Arrivals = append(x.Arrivals, contract.ArrivalState{Edge: e, Lineage: lineage, View: view})
	}
	return nil
}

// count counts an execution as alive; by is -1 where it has ended.
func (s *Scheduler) count(x *Execution, by int) {
	x.alive = by > 0
	s.reached[x.Node] += by
	s.g.Reachable(x.Node).Each(func(n int) {
		if n != x.Node {
			s.reached[n] += by
		}
	})
}

// ready is [Scheduler.Ready] once, but that what the log has keeps its occurrence from there and is not ended.
func (s *Scheduler) ready(log *Log) []*Execution {
	var out []*Execution
	free := func(list []*Execution) (blocked []*Execution) {
		for _, x := range list {
			if s.blocked(x) {
				blocked = append(blocked, x)
			} else {
				out = append(out, x)
			}
		}
		return blocked
	}
	s.Waiting, s.Joins = free(s.Waiting), free(s.Joins)
	slices.SortStableFunc(out, func(a, b *Execution) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Lineage, b.Lineage))
	})
	for _, x := range out {
		if x.recorded = log.take(s.g, x); x.recorded != nil {
			x.Occurrence = max(x.recorded.Occurrence, 1)
		} else {
			x.Occurrence = s.CountRan(x.Node, x.Step)
		}
		if s.g.deferred.Has(x.Node) {
			x.Lineage = s.ID(x)
		}
		slices.SortStableFunc(x.Arrivals, byEdge)
		s.Running = append(s.Running, x)
	}
	out = append(s.Suspended, out...)
	s.Suspended = nil
	return out
}

func byEdge(a, b contract.ArrivalState) int {
	return cmp.Or(cmp.Compare(a.Edge, b.Edge), cmp.Compare(a.Lineage, b.Lineage))
}

// Begin returns the view with which an execution that is ready starts, and the concurrent writes
// that met in it.
func (s *Scheduler) Begin(x *Execution) (contract.View, []contract.Conflict) {
	view, conflicts := Join(x.Arrivals)
	if s.live() == 1 { // whatever runs later comes from x
		ForgetVersions(&view)
		if len(s.Ended) > 0 {
			// Or what ended before would count as later than all that x writes.
			before, _ := Join(s.Ended)
			ForgetVersions(&before)
			s.Ended = []contract.ArrivalState{{View: before}}
		}
	}
	return view, conflicts
}

// Started records the view with which an execution runs elsewhere, in place of its arrivals.
func (s *Scheduler) Started(x *Execution, view contract.View) {
	x.Arrivals = []contract.ArrivalState{{View: view}}
}

// End notes that an execution, or the chain that began with it, has ended without going on.
func (s *Scheduler) End(x *Execution) {
	if i := slices.Index(s.Running, x); i >= 0 {
		s.Running = slices.Delete(s.Running, i, i+1)
		s.count(x, -1)
	}
}

// Leave ends an execution, or the chain that began with it, whose last execution was at step, took
// edges and then knew view. The error is a [StepLimitError] or nil.
func (s *Scheduler) Leave(x *Execution, step int, edges []int, view contract.View) error {
	s.End(x)
	if !slices.ContainsFunc(edges, func(e int) bool { _, ok := s.g.Target(e); return ok }) {
		s.Ended = append(s.Ended, contract.ArrivalState{View: view})
		return nil
	}
	return s.Arrive(edges, step+1, x.Lineage, view)
}

// Suspend ends an execution, or the chain that began with it, in the middle of the execution of a node or, if suspended is
// nil, before it. That is ready again at once. It keeps running meanwhile: nothing starts in its place.
func (s *Scheduler) Suspend(x *Execution, node, step, occurrence int, view contract.View, suspended *contract.SuspendedExecution) {
	s.End(x)
	s.Requeue(&Execution{Node: node, Step: step, Occurrence: occurrence, Lineage: x.Lineage, Arrivals: []contract.ArrivalState{{View: view}},
		Suspended: suspended, Continues: suspended == nil})
}

// Requeue makes executions ready again that were ready before and did not start.
func (s *Scheduler) Requeue(list ...*Execution) {
	for _, x := range list {
		if !x.alive {
			s.count(x, 1)
			s.Running = append(s.Running, x)
		}
		s.Suspended = append(s.Suspended, x)
	}
}

// ranAt returns the count of a node's executions at a step.
func (s *Scheduler) ranAt(node, step int) *int {
	if grow := step + 1 - len(s.ran[node]); grow > 0 {
		s.ran[node] = append(s.ran[node], make([]int, grow)...)
	}
	return &s.ran[node][step]
}

// CountRan returns the next number for an execution of a node at a step: 1 for the first.
func (s *Scheduler) CountRan(node, step int) int {
	n := s.ranAt(node, step)
	*n++
	return *n
}

// Execution is one execution of a node, and the first of a chain where a branch runs several. The
// scheduler alone changes it.
type Execution struct {
	Node, Step int
	// Occurrence is 2 for the second execution with the same node and step, and so on; 0 for one that
	// is not ready yet.
	Occurrence int
	// Lineage is the last deferred join that the execution's branch has passed.
	Lineage  string
	Arrivals []contract.ArrivalState
	// Suspended, if set, is the state in which an execution that was suspended goes on.
	Suspended *contract.SuspendedExecution
	// Continues is set where a chain that came back goes on with the execution from its beginning.
	Continues bool

	// alive is set until the execution ends. blocker, if set, kept it from running when it was last
	// looked at, and does so while it is alive.
	alive   bool
	blocker *Execution
	// id is the execution's, once it has been asked for.
	id string
	// recorded is the log's entry of an execution that is replayed.
	recorded *contract.ExecutionRecord
}

// StepLimitError says that a node would run beyond the flow's limit of steps.
type StepLimitError struct {
	// Node is the index of the first such node.
	Node int
}

func (*StepLimitError) Error() string { return "step limit exceeded" }

// blocked reports whether x, which is waiting or a pending join, must wait for another execution.
func (s *Scheduler) blocked(x *Execution) bool {
	if x.blocker != nil && x.blocker.alive {
		return true
	}
	x.blocker = nil
	if s.reached[x.Node] == 1 {
		return false // x itself is all that is there or can come
	}
	for _, list := range [...][]*Execution{s.Running, s.Waiting, s.Joins} {
		if i := slices.IndexFunc(list, func(o *Execution) bool { return s.blocks(o, x) }); i >= 0 {
			x.blocker = list[i]
			return true
		}
	}
	return false
}

// blocks reports whether o, which is alive, keeps x from running. The answer does not change while o
// is alive.
func (s *Scheduler) blocks(o, x *Execution) bool {
	switch {
	case o == x:
		return false
	case !s.g.deferred.Has(x.Node):
		// A join gives its branch a new lineage.
		return !s.pendingJoin(o) && o.Lineage == x.Lineage && s.g.walks(o.Node, x.Node, x.Step-o.Step)
	case s.pendingJoin(o):
		return s.comesBefore(o, x)
	}
	return s.g.Reachable(o.Node).Has(x.Node)
}

// pendingJoin reports whether an execution that is alive is a join that does not run yet.
func (s *Scheduler) pendingJoin(x *Execution) bool {
	return s.g.deferred.Has(x.Node) && x.Occurrence == 0
}

// comesBefore reports whether a pending join runs before another one.
func (s *Scheduler) comesBefore(o, x *Execution) bool {
	return s.g.Reachable(o.Node).Has(x.Node) &&
		(!s.g.Reachable(x.Node).Has(o.Node) || s.g.reachableForward(o.Node).Has(x.Node))
}

// Waits lists for whom each execution waits that has not begun.
func (s *Scheduler) Waits() []contract.Wait {
	var out []contract.Wait
	waiting := slices.Concat(s.Waiting, s.Joins)
	for _, x := range waiting {
		w := contract.Wait{Execution: s.ID(x), For: []string{}}
		for _, o := range slices.Concat(s.Running, waiting) {
			if s.blocks(o, x) {
				w.For = append(w.For, s.ID(o))
			}
		}
		out = append(out, w)
	}
	return out
}

// others returns the set of nodes at which an execution other than x, which runs, is or can still
// arrive. It only shrinks while x runs.
func (s *Scheduler) others(x *Execution) NodeSet {
	set, own := NewNodeSet(len(s.reached)), s.g.Reachable(x.Node)
	for n, count := range s.reached {
		if n == x.Node || own.Has(n) {
			count--
		}
		if count > 0 {
			set.Add(n)
		}
	}
	return set
}

// live counts the executions that have not ended.
func (s *Scheduler) live() int { return len(s.Running) + len(s.Waiting) + len(s.Joins) }

// Finished reports whether nothing is left to run.
func (s *Scheduler) Finished() bool { return s.live() == 0 }
