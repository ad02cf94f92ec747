package workflows

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/references"
	"weft/workflows/schedule"
)

// A run can be forked: another one begins with what this one's executions did, up to one that it runs anew. So each run keeps what
// they did in memory, for a query. The other one takes such an execution as done where the scheduler has it ready: which executions
// there are is a property of the graph and of the answers, so that they are the same.

// takeFork begins with what another run did.
func takeFork(f *flowRun, k *contract.ForkedFrom) error {
	if k == nil {
		return nil
	}
	if f.session.On() {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: "fork: a run that takes turns cannot be forked", Remedy: "start the agent again"}
	}
	wrong := func(what, id string) error {
		return contract.Failf(contract.ClassBadRequest, "fork at a node before it, or keep it in the flow", "fork: the flow has no %s %s", what, id)
	}
	if f.run.Flow.Node(k.Node) == nil {
		return wrong("node", k.Node)
	}
	for _, p := range append([]contract.ExecutionRecord{{Execution: k.Entry}}, k.Executions...) {
		if p.Node != k.Entry.Node && f.run.Flow.Node(p.Node) == nil {
			return wrong("node", p.Node)
		}
		for _, id := range p.Taken {
			if f.run.Graph.Edge(id) < 0 {
				return wrong("edge", id+", which "+p.Node+" took")
			}
		}
	}
	keepFork(f, k)
	return nil
}

// keepFork begins, or goes on, with what another run did.
func keepFork(f *flowRun, k *contract.ForkedFrom) {
	if k == nil {
		return
	}
	for _, raw := range k.Content {
		f.run.Transcript.Keep(raw)
	}
	f.run.Log.Fork, f.run.Log.Replay = k, schedule.NewLog(k.Executions)
}

// carryFork is what is left of a fork for the next run, which is nothing in most: what is recorded is taken before anything runs.
func carryFork(f *flowRun) *contract.ForkedFrom {
	if f.run.Log.Fork == nil {
		return nil
	}
	k := *f.run.Log.Fork
	k.Executions = f.run.Log.Replay.Left()
	if len(k.Executions)+len(k.Set) == 0 && f.entry == nil {
		return nil
	}
	kept := references.Kept{Stored: f.run.Transcript.Content, Seen: map[string]bool{}}
	for i := range k.Executions {
		kept.Content(k.Executions[i].SHA)
		kept.View(&contract.View{State: k.Executions[i].Writes})
	}
	k.Content = kept.Found
	return &k
}

// replayed takes over what an execution of another run did besides what the scheduler keeps.
func replayed(f *flowRun, x *schedule.Replayed) error {
	f.conflicts = latestOf(append(f.conflicts, x.Conflicts...))
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

// override lets the first execution that a fork runs anew see the values that it was given, as
// if it had written them itself. It reports whether there are some.
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
