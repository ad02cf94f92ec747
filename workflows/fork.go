package workflows

import (
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/schedule"
)

// A run can be forked: another one begins with what this one's executions did, up to one that
// it runs anew. So each run keeps what they did in memory, for the query executions; nothing of it
// enters history. The run that begins so takes such an execution as done where the scheduler
// has it ready: which executions there are is a property of the graph and of the answers, so
// that they are the same.

// executionLog holds what the finished executions of a run did.
type executionLog struct {
	finished []contract.Past
	// fork is what the run was begun with, nil for most; replay holds what is left to replay of it.
	fork   *contract.ForkedFrom
	replay *schedule.Log
}

// talkMark is how much a run has said before an execution.
type conversationMark struct{ messages, forks, spent int }

func (r *run) conversationMark() conversationMark {
	m := conversationMark{forks: len(r.conversation.forks), spent: r.conversation.spent}
	if r.conversation.thread != nil {
		m.messages = len(r.conversation.thread.entries)
	}
	return m
}

// enterPast keeps what an execution did. Where it went on in its middle, what it had said
// before is the run's before this one.
func (r *run) enterPast(x *execution, done *executed, sha string, before conversationMark) {
	p := contract.Past{Execution: done.Execution, Lineage: x.lineage, SHA: sha}
	p.Nth = x.occurrence
	for i := range x.view.State {
		if x.view.State[i].By.Exec == x.id {
			p.Writes = append(p.Writes, x.view.State[i])
		}
	}
	t := contract.Talk{Spent: r.conversation.spent - before.spent}
	if r.conversation.thread != nil {
		t.Messages = carriedMessages(r.conversation.thread.entries[before.messages:])
	}
	if len(r.conversation.forks) > before.forks {
		t.Forks = slices.Clone(r.conversation.forks[before.forks:])
	}
	if t.Messages != nil || t.Forks != nil || t.Spent != 0 {
		p.Talk = &t
	}
	r.log.finished = append(r.log.finished, p)
}

// pastPage answers the query executions.
func (r *run) pastPage(q contract.ExecutionsQuery) (contract.ExecutionsPage, error) {
	past := r.log.finished
	if q.From < 0 || q.From > len(past) {
		return contract.ExecutionsPage{}, notFound("execution %d; it has %d", q.From, len(past))
	}
	page := contract.ExecutionsPage{Executions: []contract.Past{}}
	size := 0
	for i := q.From; i < len(past); i++ {
		raw, err := json.Marshal(past[i])
		if err != nil {
			return page, err
		}
		if size += len(raw); size > contract.PageBytes && len(page.Executions) > 0 {
			page.Next = i
			break
		}
		page.Executions = append(page.Executions, past[i])
	}
	return page, nil
}

// takeFork begins with what another run did.
func (f *flowRun) takeFork(ctx workflow.Context, k *contract.ForkedFrom) error {
	if k == nil {
		return nil
	}
	if f.session.on() {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: "fork: a run that takes turns cannot be forked", Remedy: "start the agent again"}
	}
	// Where clients may not bring plans, they may not leave out nodes of one either.
	var refused bool
	if err := workflow.SideEffect(ctx, func(workflow.Context) any { return f.settings.RefusePlans }).Get(&refused); err != nil {
		return err
	}
	if refused {
		return &contract.Failure{Class: contract.ClassInvalidFlow, Text: "the run is a fork, but its worker runs the flows of its folder alone, from their beginning (flows.accept: named)",
			Remedy: "start a run of the flow by its name, or ask the worker's operator to set flows.accept: any"}
	}
	wrong := func(what, id string) error {
		return &contract.Failure{Class: contract.ClassBadRequest, Text: "fork: the flow has no " + what + " " + id,
			Remedy: "fork at a node before it, or keep it in the flow"}
	}
	if f.flow.Node(k.Node) == nil {
		return wrong("node", k.Node)
	}
	for _, p := range append([]contract.Past{{Execution: k.Entry}}, k.Past...) {
		if p.Node != k.Entry.Node && f.flow.Node(p.Node) == nil {
			return wrong("node", p.Node)
		}
		for _, id := range p.Taken {
			if f.g.Edge(id) < 0 {
				return wrong("edge", id+", which "+p.Node+" took")
			}
		}
	}
	f.keepFork(k)
	return nil
}

// keepFork begins, or goes on, with what another run did.
func (f *flowRun) keepFork(k *contract.ForkedFrom) {
	if k == nil {
		return
	}
	for _, raw := range k.Content {
		f.store.keep(raw)
	}
	f.log.fork, f.log.replay = k, schedule.NewLog(k.Past)
}

// carryFork is what is left of a fork for the next run, which is nothing in most: what is recorded is taken
// before anything runs.
func (f *flowRun) carryFork() *contract.ForkedFrom {
	if f.log.fork == nil {
		return nil
	}
	k := *f.log.fork
	k.Past = f.log.replay.Left()
	if len(k.Past)+len(k.Set) == 0 && f.entry == nil {
		return nil
	}
	k.Content = nil
	have := map[string]bool{}
	need := func(sha string) {
		if raw, ok := f.store.content[sha]; ok && !have[sha] {
			have[sha] = true
			k.Content = append(k.Content, raw)
		}
	}
	for i := range k.Past {
		need(k.Past[i].SHA)
		for _, w := range k.Past[i].Writes {
			need(w.SHA)
		}
	}
	return &k
}

// edgesOf are the indices of edges by their ids.
func (f *flowRun) edgesOf(ids []string) []int {
	var out []int
	for _, id := range ids {
		out = append(out, f.g.Edge(id))
	}
	return out
}

// replayed takes over what an execution of another run did besides what the scheduler keeps.
func (f *flowRun) replayed(x *schedule.Replayed) error {
	f.conflicts = latestOf(append(f.conflicts, x.Conflicts...))
	at := &execution{node: &f.flow.Nodes[x.Node], id: f.sched.ID(x.Execution), n: x.Step, occurrence: x.Occurrence, lineage: x.Lineage, view: &x.View}
	before := f.conversationMark()
	if conversation := x.Entry.Talk; conversation != nil {
		f.hold(conversation.Messages)
		f.conversation.forks = append(f.conversation.forks, conversation.Forks...)
		f.conversation.spent += conversation.Spent
	}
	if at.node.Merge != nil {
		f.dropForks(at.node.Merge)
	}
	done := executed{Execution: x.Entry.Execution}
	done.Recorded = true
	f.enterPast(at, &done, x.Entry.SHA, before)
	f.trace = append(f.trace, done.Execution)
	return nil
}

// override lets the first execution that a fork runs anew see the values that it was given, as
// if it had written them itself.
func (f *flowRun) override(x *schedule.Execution, view *contract.View) error {
	k := f.log.fork
	if k == nil || len(k.Set) == 0 || f.flow.Nodes[x.Node].ID != k.Node || x.Step != k.Step {
		return nil
	}
	id := f.sched.ID(x)
	for _, key := range workflow.DeterministicKeys(k.Set) {
		e, err := f.store.value(key, k.Set[key], schedule.NextStamp(view, id, id, x.Step))
		if err != nil {
			return err
		}
		schedule.SetEntry(view, e)
	}
	k.Set = nil
	if n, limit := schedule.StateBytes(view), f.flow.Limits.MaxStateBytes; n > limit {
		return f.fail(&execution{node: &f.flow.Nodes[x.Node], n: x.Step}, contract.ClassStateTooLarge, "set shorter values",
			"with the values that the fork sets the state would hold %d bytes, at most %d are allowed", n, limit)
	}
	return nil
}
