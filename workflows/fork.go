package workflows

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/node"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
)

// A run can be forked: another one begins with what this one's executions did, up to one that
// it runs anew. So each run keeps what they did in memory, for the query past; nothing of it
// enters history. The run that begins so takes such an execution as done where the scheduler
// has it ready: which executions there are is a property of the graph and of the answers, so
// that they are the same.

// takeFork begins with what another run did.
func takeFork(f *flowRun, k *contract.ForkedFrom) error {
	if k == nil {
		return nil
	}
	if f.session.On() {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: "fork: a run that takes turns cannot be forked", Remedy: "start the agent again"}
	}
	wrong := func(what, id string) error {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: "fork: the flow has no " + what + " " + id,
			Remedy: "fork at a node before it, or keep it in the flow"}
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

// carryFork is what is left of a fork for the next run, which is nothing in most: what is recorded is taken
// before anything runs.
func carryFork(f *flowRun) *contract.ForkedFrom {
	if f.run.Log.Fork == nil {
		return nil
	}
	k := *f.run.Log.Fork
	k.Executions = f.run.Log.Replay.Left()
	if len(k.Executions)+len(k.Set) == 0 && f.entry == nil {
		return nil
	}
	k.Content = nil
	have := map[string]bool{}
	need := func(sha string) {
		if raw, ok := f.run.Transcript.Content[sha]; ok && !have[sha] {
			have[sha] = true
			k.Content = append(k.Content, raw)
		}
	}
	for i := range k.Executions {
		need(k.Executions[i].SHA)
		for _, w := range k.Executions[i].Writes {
			need(w.SHA)
		}
	}
	return &k
}

// edgesOf are the indices of edges by their ids.
func edgesOf(f *flowRun, ids []string) []int {
	var out []int
	for _, id := range ids {
		out = append(out, f.run.Graph.Edge(id))
	}
	return out
}

// replayed takes over what an execution of another run did besides what the scheduler keeps.
func replayed(f *flowRun, x *schedule.Replayed) error {
	f.conflicts = latestOf(append(f.conflicts, x.Conflicts...))
	at := &runtime.Execution{Node: &f.run.Flow.Nodes[x.Execution.Node], ID: f.sched.ID(x.Execution), Step: x.Execution.Step, Occurrence: x.Execution.Occurrence, Lineage: x.Execution.Lineage, View: &x.View}
	before := f.run.Conversation.Mark()
	if conversation := x.Entry.Conversation; conversation != nil {
		f.run.Conversation.Add(conversation.Messages, true)
		f.run.Conversation.Forks = append(f.run.Conversation.Forks, conversation.Forks...)
		f.run.Conversation.Spent += conversation.Spent
	}
	if at.Node.Merge != nil {
		f.run.Conversation.DropForks(at.Node.Merge)
	}
	done := node.Executed{Execution: x.Entry.Execution}
	done.Recorded = true
	f.run.Log.Add(&f.run.Conversation, at, &done.Execution, x.Entry.SHA, before)
	f.trace = append(f.trace, done.Execution)
	return nil
}

// override lets the first execution that a fork runs anew see the values that it was given, as
// if it had written them itself.
func override(f *flowRun, x *schedule.Execution, view *contract.View) error {
	k := f.run.Log.Fork
	if k == nil || len(k.Set) == 0 || f.run.Flow.Nodes[x.Node].ID != k.Node || x.Step != k.Step {
		return nil
	}
	id := f.sched.ID(x)
	for _, key := range workflow.DeterministicKeys(k.Set) {
		e, err := f.run.Transcript.Value(key, k.Set[key], schedule.NextStamp(view, id, id, x.Step))
		if err != nil {
			return err
		}
		schedule.SetEntry(view, e)
	}
	k.Set = nil
	if n, limit := schedule.StateBytes(view), f.run.Flow.Limits.MaxStateBytes; n > limit {
		return f.run.Fail(&runtime.Execution{Node: &f.run.Flow.Nodes[x.Node], Step: x.Step}, contract.ClassStateTooLarge, "set shorter values, or raise limits.max_state_bytes in weft.yaml",
			"with the values that the fork sets the state would hold %d bytes, at most %d are allowed", n, limit)
	}
	return nil
}
