package schedule

import (
	"slices"

	"weft/activities/contract"
)

// NotRunning returns all executions that are not running: those that are suspended, waiting or
// pending joins.
func (s *Scheduler) NotRunning() []*Execution { return slices.Concat(s.Suspended, s.Waiting, s.Joins) }

// ID returns an execution's id.
func (s *Scheduler) ID(x *Execution) string {
	if x.id != "" {
		return x.id
	}
	id := contract.ExecutionID(s.g.flow.Nodes[x.Node].ID, x.Step, x.Occurrence)
	if x.Occurrence > 0 {
		x.id = id
	}
	return id
}

// IDs returns the ids of a list of executions.
func (s *Scheduler) IDs(list []*Execution) []string {
	var out []string
	for _, x := range list {
		out = append(out, s.ID(x))
	}
	return out
}

// MergedView returns the merged view of all branches.
func (s *Scheduler) MergedView() contract.View {
	all := slices.Clone(s.Ended)
	for _, x := range slices.Concat(s.Running, s.Waiting, s.Joins) {
		all = append(all, x.Arrivals...)
	}
	v, _ := Join(all)
	return v
}

// Ran returns how often the nodes of a set have run at the steps after the given one.
func (s *Scheduler) Ran(nodes NodeSet, step int) []contract.Count {
	var out []contract.Count
	nodes.Each(func(n int) {
		for k := step + 1; k < len(s.runCounts[n]); k++ {
			if s.runCounts[n][k] > 0 {
				out = append(out, contract.Count{Node: s.g.flow.Nodes[n].ID, Step: k, N: s.runCounts[n][k]})
			}
		}
	})
	return out
}

// Snapshot stores the scheduler's state in c for another scheduler of the same flow. Running executions are not included, because a
// run continues as new only when there are none. If there are more than maxRan counts, and maxRan is not 0, those of steps before
// all live executions are omitted, because no execution can have such a step any more.
func (s *Scheduler) Snapshot(c *contract.RunSnapshot, maxRan int) {
	c.Live, c.Pending, c.PendingJoins = s.executionStates(s.Suspended), s.executionStates(s.Waiting), s.executionStates(s.Joins)
	if len(s.Ended) > 0 {
		v, _ := Join(s.Ended)
		c.Ended = &v
	}
	all := NewNodeSet(len(s.runCounts))
	for n := range s.runCounts {
		all.Add(n)
	}
	if c.Ran = s.Ran(all, -1); maxRan == 0 || len(c.Ran) <= maxRan {
		return
	}
	oldest := s.g.flow.Limits.MaxSteps + 1
	for _, x := range s.NotRunning() {
		oldest = min(oldest, x.Step)
	}
	c.Ran = s.Ran(all, oldest-1)
}

// Restore sets a new scheduler to the state that [Scheduler.Snapshot] stored.
func (s *Scheduler) Restore(c *contract.RunSnapshot) {
	for _, n := range c.Ran {
		*s.runCount(s.g.Index(n.Node), n.Step) += n.N
	}
	s.Waiting, s.Joins = s.executions(c.Pending), s.executions(c.PendingJoins)
	for _, x := range slices.Concat(s.Waiting, s.Joins) {
		s.countLive(x, 1)
	}
	s.Requeue(s.executions(c.Live)...)
	if c.Ended != nil {
		s.Ended = []contract.ArrivalState{{View: *c.Ended}}
	}
}

func (s *Scheduler) executionStates(list []*Execution) []contract.ExecutionState {
	var out []contract.ExecutionState
	for _, x := range list {
		out = append(out, contract.ExecutionState{Node: s.g.flow.Nodes[x.Node].ID, Step: x.Step, Occurrence: x.Occurrence, Lineage: x.Lineage,
			Arrivals: slices.Clone(x.Arrivals), Suspended: x.Suspended, Continues: x.Continues})
	}
	return out
}

func (s *Scheduler) executions(list []contract.ExecutionState) []*Execution {
	var out []*Execution
	for _, e := range list {
		out = append(out, &Execution{Node: s.g.Index(e.Node), Step: e.Step, Occurrence: e.Occurrence, Lineage: e.Lineage, Arrivals: e.Arrivals,
			Suspended: e.Suspended, Continues: e.Continues})
	}
	return out
}
