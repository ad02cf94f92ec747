package schedule

import (
	"slices"

	"weft/activities/contract"
)

// NotRunning returns all executions that do not run: those that are suspended, wait, or are
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

// Known returns what all branches know together.
func (s *Scheduler) Known() contract.View {
	all := slices.Clone(s.Ended)
	for _, x := range slices.Concat(s.Running, s.Waiting, s.Joins) {
		all = append(all, x.Arrivals...)
	}
	v, _ := Join(all)
	return v
}

// Ran lists how often the nodes of a set ran at the steps behind one.
func (s *Scheduler) Ran(nodes NodeSet, step int) []contract.Count {
	var out []contract.Count
	nodes.Each(func(n int) {
		for k := step + 1; k < len(s.ran[n]); k++ {
			if s.ran[n][k] > 0 {
				out = append(out, contract.Count{Node: s.g.flow.Nodes[n].ID, Step: k, N: s.ran[n][k]})
			}
		}
	})
	return out
}

// Snapshot writes what another scheduler of the same flow goes on with. Executions that run are not in it: a run continues as new
// when none does. Of more than maxRan counts, if that is not 0, those are left out that lie before everything that is alive: no
// execution comes there any more.
func (s *Scheduler) Snapshot(c *contract.RunSnapshot, maxRan int) {
	c.Live, c.Pending, c.PendingJoins = s.carried(s.Suspended), s.carried(s.Waiting), s.carried(s.Joins)
	if len(s.Ended) > 0 {
		v, _ := Join(s.Ended)
		c.Ended = &v
	}
	all := NewNodeSet(len(s.ran))
	for n := range s.ran {
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

// Restore brings a new scheduler to the state that [Scheduler.Snapshot] wrote.
func (s *Scheduler) Restore(c *contract.RunSnapshot) {
	for _, n := range c.Ran {
		*s.ranAt(s.g.Index(n.Node), n.Step) += n.N
	}
	s.Waiting, s.Joins = s.restored(c.Pending), s.restored(c.PendingJoins)
	for _, x := range slices.Concat(s.Waiting, s.Joins) {
		s.count(x, 1)
	}
	s.Requeue(s.restored(c.Live)...)
	if c.Ended != nil {
		s.Ended = []contract.ArrivalState{{View: *c.Ended}}
	}
}

func (s *Scheduler) carried(list []*Execution) []contract.ExecutionState {
	var out []contract.ExecutionState
	for _, x := range list {
		out = append(out, contract.ExecutionState{Node: s.g.flow.Nodes[x.Node].ID, Step: x.Step, Occurrence: x.Occurrence, Lineage: x.Lineage,
			Arrivals: slices.Clone(x.Arrivals), Suspended: x.Suspended, Continues: x.Continues})
	}
	return out
}

func (s *Scheduler) restored(list []contract.ExecutionState) []*Execution {
	var out []*Execution
	for _, e := range list {
		out = append(out, &Execution{Node: s.g.Index(e.Node), Step: e.Step, Occurrence: e.Occurrence, Lineage: e.Lineage, Arrivals: e.Arrivals,
			Suspended: e.Suspended, Continues: e.Continues})
	}
	return out
}
