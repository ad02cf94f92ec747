package workflows

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/references"
	"weft/workflows/schedule"
)

// A run can be forked: a new run begins with the recorded executions of this one, up to the one that it runs again. Each run keeps
// the records in memory, for a query. In the fork, an execution that becomes ready and has a record is replayed from it: since the
// executions depend only on the graph and the answers to its conditions, they are the same.

// startFork validates and sets the records with which a fork begins.
func startFork(f *flowRun, k *contract.ForkedFrom) error {
	if k == nil {
		return nil
	}
	if f.session.On() {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: "fork: a session cannot be forked", Remedy: "start the agent again"}
	}
	notFound := func(what, id string) error {
		return contract.Failf(contract.ClassBadRequest, "fork at a node before it, or keep it in the flow", "fork: the flow has no %s %s", what, id)
	}
	if f.run.Flow.Node(k.Node) == nil {
		return notFound("node", k.Node)
	}
	for _, p := range append([]contract.ExecutionRecord{{Execution: k.Entry}}, k.Executions...) {
		if p.Node != k.Entry.Node && f.run.Flow.Node(p.Node) == nil {
			return notFound("node", p.Node)
		}
		for _, id := range p.Taken {
			if f.run.Graph.Edge(id) < 0 {
				return notFound("edge", id+", which "+p.Node+" took")
			}
		}
	}
	setFork(f, k)
	return nil
}

// setFork sets the records of a fork; nil has no effect.
func setFork(f *flowRun, k *contract.ForkedFrom) {
	if k == nil {
		return
	}
	for _, raw := range k.Content {
		f.run.Transcript.Keep(raw)
	}
	f.run.Log.Fork, f.run.Log.Replay = k, schedule.NewLog(k.Executions)
}

// remainingFork returns the remaining records of a fork for the next run, usually nil: they are replayed before any node runs.
func remainingFork(f *flowRun) *contract.ForkedFrom {
	if f.run.Log.Fork == nil {
		return nil
	}
	k := *f.run.Log.Fork
	k.Executions = f.run.Log.Replay.Left()
	if len(k.Executions)+len(k.Set) == 0 && f.entry == nil {
		return nil
	}
	collected := references.Collector{Stored: f.run.Transcript.Content, Seen: map[string]bool{}}
	for i := range k.Executions {
		collected.Content(k.Executions[i].SHA)
		collected.View(&contract.View{State: k.Executions[i].Writes})
	}
	k.Content = collected.Found
	return &k
}

// replayed applies the record of an execution, except for the parts that the scheduler applies.
func replayed(f *flowRun, x *schedule.Replayed) error {
	f.conflicts = latestConflicts(append(f.conflicts, x.Conflicts...))
	at := f.execution(x.Execution, &x.View)
	before := f.run.Conversation.Mark()
	if added := x.Entry.Conversation; added != nil {
		f.run.Conversation.Add(added.Messages, true)
		f.run.Conversation.Merge(added)
	}
	if at.Node.Merge != nil {
		f.run.Conversation.DropForks(at.Node.Merge)
	}
	done := x.Entry.Execution
	done.Recorded = true
	f.run.Log.Add(&f.run.Conversation, at, &done, x.Entry.SHA, before)
	f.trace = append(f.trace, done)
	return nil
}

// override writes the values set by a fork to the view of the first execution that it runs again, as
// if that execution had written them. It reports whether there are any.
func override(f *flowRun, x *schedule.Execution, view *contract.View) (bool, error) {
	k := f.run.Log.Fork
	if k == nil || len(k.Set) == 0 || f.run.Flow.Nodes[x.Node].ID != k.Node || x.Step != k.Step {
		return false, nil
	}
	id := f.sched.ID(x)
	for _, key := range workflow.DeterministicKeys(k.Set) {
		e, err := f.run.Transcript.Value(key, k.Set[key], schedule.NextStamp(view, id, id, x.Step))
		if err != nil {
			return false, err
		}
		schedule.SetEntry(view, e)
	}
	k.Set = nil
	return true, nil
}
