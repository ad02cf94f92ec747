package schedule

import (
	"slices"

	"weft/activities/contract"
)

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
	for _, list := range [...][]*Execution{s.Waiting, s.Joins} {
		for _, x := range list {
			w := contract.Wait{Execution: s.ID(x), For: []string{}}
			for _, others := range [...][]*Execution{s.Running, s.Waiting, s.Joins} {
				for _, o := range others {
					if s.blocks(o, x) {
						w.For = append(w.For, s.ID(o))
					}
				}
			}
			out = append(out, w)
		}
	}
	return out
}

// Others returns the set of nodes at which an execution other than x, which runs, is or can still
// arrive. It only shrinks while x runs.
func (s *Scheduler) Others(x *Execution) NodeSet {
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

// alone reports whether x is all that is alive: whatever runs later comes from it.
func (s *Scheduler) alone(x *Execution) bool {
	return len(s.Running) == 1 && s.Running[0] == x && len(s.Waiting) == 0 && len(s.Joins) == 0
}

// Finished reports whether nothing is left to run.
func (s *Scheduler) Finished() bool { return len(s.Running)+len(s.Waiting)+len(s.Joins) == 0 }
