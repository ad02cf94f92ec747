package schedule

import (
	"cmp"
	"slices"

	"weft/activities/contract"
)

// Scheduler holds the executions of a run that have not ended, and determines which can run. Its lists must not be
// changed by others. It is not safe for concurrent use.
type Scheduler struct {
	g *Graph
	// Running are the executions that are running or Suspended; the latter are resumed. Waiting are those at whose nodes a live
	// branch may still arrive; Joins are pending joins.
	Running, Waiting, Joins, Suspended []*Execution
	// reachers counts, by node, the live executions that are at it or can reach it.
	reachers []int
	// runCounts counts executions by node and step.
	runCounts [][]int
	// Ended holds the views of the branches that have ended, in the order in which they ended.
	Ended []contract.ArrivalState
}

// New returns a scheduler for a flow's graph. It enforces the flow's step limit.
func New(g *Graph) *Scheduler {
	return &Scheduler{g: g, reachers: make([]int, len(g.flow.Nodes)), runCounts: make([][]int, len(g.flow.Nodes))}
}

// Reset discards everything except the counts of executions.
func (s *Scheduler) Reset() {
	*s = Scheduler{g: s.g, reachers: make([]int, len(s.reachers)), runCounts: s.runCounts}
}

// Arrive records that a branch with a lineage and a view took edges, and arrives at their targets at
// step. The error is a [StepLimitError] or nil.
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
		// A join accepts arrivals of any step and lineage.
		join, list, newLineage := s.g.deferred.Has(node), &s.Waiting, lineage
		if join {
			list, newLineage = &s.Joins, ""
		}
		i := slices.IndexFunc(*list, func(x *Execution) bool { return x.Node == node && (join || x.Step == step && x.Lineage == lineage) })
		if i < 0 {
			i = len(*list)
			*list = append(*list, &Execution{Node: node, Step: step, Lineage: newLineage})
			s.countLive((*list)[i], 1)
		}
		x := (*list)[i]
		x.Step = max(x.Step, step)
		x.Arrivals = append(x.Arrivals, contract.ArrivalState{Edge: e, Lineage: lineage, View: view})
	}
	return nil
}

// countLive counts an execution as live; by is 1, or -1 if it has ended.
func (s *Scheduler) countLive(x *Execution, by int) {
	x.alive = by > 0
	s.reachers[x.Node] += by
	s.g.Reachable(x.Node).Each(func(n int) {
		if n != x.Node {
			s.reachers[n] += by
		}
	})
}

// ready does one round of [Scheduler.Ready] without replaying: executions in the log get their recorded occurrence.
func (s *Scheduler) ready(log *Log) []*Execution {
	var out []*Execution
	unblock := func(list []*Execution) (blocked []*Execution) {
		for _, x := range list {
			if s.blocked(x) {
				blocked = append(blocked, x)
			} else {
				out = append(out, x)
			}
		}
		return blocked
	}
	s.Waiting, s.Joins = unblock(s.Waiting), unblock(s.Joins)
	slices.SortStableFunc(out, func(a, b *Execution) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Lineage, b.Lineage))
	})
	for _, x := range out {
		if x.recorded = log.pop(s.g, x); x.recorded != nil {
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

// Begin returns the view with which a ready execution starts, and the conflicts of the merged
// arrivals.
func (s *Scheduler) Begin(x *Execution) (contract.View, []contract.Conflict) {
	view, conflicts := Join(x.Arrivals)
	if s.liveCount() == 1 { // all later executions descend from x
		ForgetVersions(&view)
		if len(s.Ended) > 0 {
			// Otherwise the views of branches that have ended would count as later than the writes of x.
			before, _ := Join(s.Ended)
			ForgetVersions(&before)
			s.Ended = []contract.ArrivalState{{View: before}}
		}
	}
	return view, conflicts
}

// Started replaces an execution's arrivals with the view with which it runs in another run.
func (s *Scheduler) Started(x *Execution, view contract.View) {
	x.Arrivals = []contract.ArrivalState{{View: view}}
}

// End records that an execution, or the chain that began with it, has ended without successors.
func (s *Scheduler) End(x *Execution) {
	if i := slices.Index(s.Running, x); i >= 0 {
		s.Running = slices.Delete(s.Running, i, i+1)
		s.countLive(x, -1)
	}
}

// Leave ends an execution, or the chain that began with it, whose last execution was at step, ended
// with view and took edges. The error is a [StepLimitError] or nil.
func (s *Scheduler) Leave(x *Execution, step int, edges []int, view contract.View) error {
	s.End(x)
	if !slices.ContainsFunc(edges, func(e int) bool { _, ok := s.g.Target(e); return ok }) {
		s.Ended = append(s.Ended, contract.ArrivalState{View: view})
		return nil
	}
	return s.Arrive(edges, step+1, x.Lineage, view)
}

// Suspend ends an execution, or the chain that began with it, during the execution of a node or, if suspended is nil, before that
// execution, which is ready again at once. It counts as running meanwhile, so that nothing starts in its place.
func (s *Scheduler) Suspend(x *Execution, node, step, occurrence int, view contract.View, suspended *contract.SuspendedExecution) {
	s.End(x)
	s.Requeue(&Execution{Node: node, Step: step, Occurrence: occurrence, Lineage: x.Lineage, Arrivals: []contract.ArrivalState{{View: view}},
		Suspended: suspended, Continues: suspended == nil})
}

// Requeue makes executions ready again that have been ready but did not start.
func (s *Scheduler) Requeue(list ...*Execution) {
	for _, x := range list {
		if !x.alive {
			s.countLive(x, 1)
			s.Running = append(s.Running, x)
		}
		s.Suspended = append(s.Suspended, x)
	}
}

// runCount returns the count of a node's executions at a step, to read or change.
func (s *Scheduler) runCount(node, step int) *int {
	if grow := step + 1 - len(s.runCounts[node]); grow > 0 {
		s.runCounts[node] = append(s.runCounts[node], make([]int, grow)...)
	}
	return &s.runCounts[node][step]
}

// CountRan counts an execution of a node at a step, and returns its occurrence: 1 for the first.
func (s *Scheduler) CountRan(node, step int) int {
	n := s.runCount(node, step)
	*n++
	return *n
}

// Execution is one execution of a node, or the first one of a chain that a branch runs. Only the
// scheduler may change it.
type Execution struct {
	Node, Step int
	// Occurrence is 1 for the first execution with the same node and step, and so on; 0 until the
	// execution is ready.
	Occurrence int
	// Lineage is the last deferred join that the execution's branch has passed.
	Lineage  string
	Arrivals []contract.ArrivalState
	// Suspended, if set, is the state with which a suspended execution resumes.
	Suspended *contract.SuspendedExecution
	// Continues is set if a chain that has yielded continues with this execution, which has not begun.
	Continues bool

	// alive is set until the execution ends. blocker, if set, prevented it from running when it was
	// last checked, and does so while the blocker is alive.
	alive   bool
	blocker *Execution
	// id caches the execution's id.
	id string
	// recorded is the log's entry if the execution is to be replayed.
	recorded *contract.ExecutionRecord
}

// StepLimitError reports that a node would run at a step beyond the flow's limit.
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
	if s.reachers[x.Node] == 1 {
		return false // only x itself is at the node or can reach it
	}
	for _, list := range [...][]*Execution{s.Running, s.Waiting, s.Joins} {
		if i := slices.IndexFunc(list, func(o *Execution) bool { return s.blocks(o, x) }); i >= 0 {
			x.blocker = list[i]
			return true
		}
	}
	return false
}

// blocks reports whether o, which is alive, prevents x from running. The answer does not change while
// o is alive.
func (s *Scheduler) blocks(o, x *Execution) bool {
	switch {
	case o == x:
		return false
	case !s.g.deferred.Has(x.Node):
		// A join starts a new lineage.
		return !s.pendingJoin(o) && o.Lineage == x.Lineage && s.g.hasWalk(o.Node, x.Node, x.Step-o.Step)
	case s.pendingJoin(o):
		return s.comesBefore(o, x)
	}
	return s.g.Reachable(o.Node).Has(x.Node)
}

// pendingJoin reports whether a live execution is a join that has not started.
func (s *Scheduler) pendingJoin(x *Execution) bool {
	return s.g.deferred.Has(x.Node) && x.Occurrence == 0
}

// comesBefore reports whether a pending join runs before another one.
func (s *Scheduler) comesBefore(o, x *Execution) bool {
	return s.g.Reachable(o.Node).Has(x.Node) &&
		(!s.g.Reachable(x.Node).Has(o.Node) || s.g.reachableForward(o.Node).Has(x.Node))
}

// Waits returns, for each execution that has not begun, the executions for which it waits.
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

// others returns the nodes at which an execution other than x is or can still arrive. x must be
// running; the set can only shrink while it runs.
func (s *Scheduler) others(x *Execution) NodeSet {
	set, reachable := NewNodeSet(len(s.reachers)), s.g.Reachable(x.Node)
	for n, count := range s.reachers {
		if n == x.Node || reachable.Has(n) {
			count--
		}
		if count > 0 {
			set.Add(n)
		}
	}
	return set
}

// liveCount returns the number of executions that have not ended.
func (s *Scheduler) liveCount() int { return len(s.Running) + len(s.Waiting) + len(s.Joins) }

// Finished reports whether all executions have ended.
func (s *Scheduler) Finished() bool { return s.liveCount() == 0 }
