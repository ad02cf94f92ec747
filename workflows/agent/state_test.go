package agent

import (
	"testing"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/transcript"
	"weft/workflows/workflowtest"
)

const (
	recreated = "created by the next run"
	fromPlan  = "derived from the plan"
)

// sentThread opens a thread of two messages that were sent to a model.
func sentThread(s *transcript.Transcript, name string) *transcript.Thread {
	out := s.Open(name)
	for _, text := range []string{"one", "two"} {
		s.Write(out, &contract.Message{Role: contract.RoleUser, Text: text})
	}
	out.Mark()
	s.Restore(out, transcript.ThreadMessages(out.Entries), 2, nil) // as in a continued run
	out.Sent = []*contract.Sent{{Key: "k", Skip: 1, Note: "n", Tokens: 5, Counted: 2}}
	return out
}

// TestSnapshotRestoresAgent checks that the snapshot of a suspended agent restores all of its fields.
func TestSnapshotRestoresAgent(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		cfg := &plan.Agent{Members: []plan.Member{{ID: "m"}}}
		agent := func() *agentRun {
			r := runtime.New(ctx)
			a := &agentRun{run: r, execution: &runtime.Execution{Node: &plan.Node{ID: "a", Agent: cfg}, ID: "a#1", Journal: journal.New(nil, nil), View: &contract.View{}}, cfg: cfg}
			a.team = &team{top: a}
			return a
		}
		old, again := agent(), agent()
		old.thread, again.thread = sentThread(old.run.Transcript, "a#1"), again.run.Transcript.Open("a#1")
		old.state = contract.AgentState{
			Turn: 3, Left: 2, Exhausted: true, Errors: 1, Repairs: 1, Summaries: 2, StartLen: 1, Results: 2, Think: true, Active: "m",
			Refused: []contract.Answer{{Edge: "e"}}, Starts: []contract.StartCount{{ID: "call_1", N: 2}}, Served: map[string]contract.ServerSession{"web": {Sealed: "s"}},
		}
		old.team.conversations = []*sideConversation{{state: contract.SideConversation{Name: "m", Questions: 2, Active: "m"}, thread: sentThread(old.run.Transcript, "a#1:m~1")}}

		old.save()
		again.restore(new(workflowtest.RoundTrip(t, *old.snapshot())))
		workflowtest.CompareFields(t, old, again, workflowtest.IgnoredFields{"run": recreated, "execution": fromPlan, "sessions": recreated, "cfg": fromPlan, "profile": fromPlan, "ports": fromPlan,
			"thread": "see below", "team": "see below", "asker": "in the snapshot of the asking agent", "questionsBefore": recreated, "saved": "see snapshot", "savedView": "see snapshot", "savedLen": "see snapshot",
			"result": "computed again from the message", "unfit": "the node ends once it is set", "handoffTo": "a step boundary follows it"})
		for name, pair := range map[string][2]*transcript.Thread{"agent": {old.thread, again.thread}, "member": {old.team.conversations[0].thread, again.team.conversations[0].thread}} {
			t.Run(name, func(t *testing.T) {
				workflowtest.CompareFields(t, pair[0], pair[1], workflowtest.IgnoredFields{"published": "the next run publishes all messages again"})
			})
		}
		workflowtest.CompareFields(t, old.team, again.team, workflowtest.IgnoredFields{"top": "see above", "conversations": "see below"})
		workflowtest.CompareFields(t, old.team.conversations[0], again.team.conversations[0], workflowtest.IgnoredFields{"thread": "see above", "askedBy": "in the snapshot of the asking agent", "yielded": recreated})
	})
}
