package workflows

import (
	"encoding/json"
	"testing"
	"time"

	"weft/workflows/workflowtest"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/inbox"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/session"
)

const (
	recreated = "the next run creates it again"
	fromPlan  = "it is derived from the plan"
	notActive = "none is active when a run continues as new"
)

// TestSnapshotIsComplete checks that every field of a run is restored from its snapshot, or that the reason why not is given.
func TestSnapshotIsComplete(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	view := contract.View{State: []contract.StateEntry{{Key: "k", Value: json.RawMessage("1")}}}
	workflowtest.Run(t, func(ctx workflow.Context) {
		f := singleNodeRun(ctx, 8<<20, 3)
		f.run.Flow = scheduletest.Sketch("START>a a>b b>END")
		f.run.Graph = schedule.NewGraph(f.run.Flow)
		f.sched = schedule.New(f.run.Graph)
		f.run.Flow.Nodes[0].Agent.Starts, f.run.Flow.ID = []plan.Startable{{Agent: "b"}}, "flow"
		f.run.Source, f.run.Hash, f.pub.Status, f.dropped, f.runs = plan.Source{File: "f.json"}, "hash", contract.StatusWaiting, 4, 2
		f.run.Budget.Usage = contract.Usage{Calls: 3, Stopped: 1, Input: 10, Fallbacks: []contract.FallbackCount{{From: "a", To: "b", Class: "c", Times: 2}}}
		ref := f.run.Transcript.Write(f.run.Transcript.Open("input"), &contract.Message{Role: contract.RoleUser, Text: "go"})
		f.run.Shared = contract.Shared{Model: "m", Depth: 1, Input: ref, MaxEvents: 7, Owner: "o", OnError: "wait", MaxPayload: 8 << 20, Budget: &contract.Budget{Calls: 9},
			Text: "go", Script: &ref, Scope: json.RawMessage(`{"a":1}`), Turn: 3, Chat: &ref, Connections: []contract.ResolvedConnection{{ID: "web", Catalogue: &ref}}}
		f.pub.Public, f.answers, f.entered = &contract.Publish{Attributes: []string{"x"}}, []contract.Answer{{Edge: "e"}}, []string{"e0"}
		f.conflicts, f.entry = []contract.Conflict{{Key: "k"}}, &contract.EntryState{View: view}
		x := contract.ExecutionState{Node: "b", Step: 2, Occurrence: 2, Lineage: "l", Arrivals: []contract.ArrivalState{{Edge: 1, Lineage: "l", View: view}},
			Suspended: &contract.SuspendedExecution{Outcome: &contract.NodeOutcome{SHA: "s"}}}
		waiting, join := x, x
		waiting.Step, join.Step = 3, 4
		f.sched.Restore(&contract.RunSnapshot{Live: []contract.ExecutionState{x}, Pending: []contract.ExecutionState{waiting},
			PendingJoins: []contract.ExecutionState{join}, Ran: []contract.Count{{Node: "a", Step: 2, N: 1}}, Ended: &view})
		talk := contract.Conversation{Messages: []contract.ThreadMessage{{Raw: json.RawMessage(`{"role":"user","text":"one"}`), Own: true}}, Sent: []contract.Sent{{Key: "k", Skip: 1, Note: "n"}},
			Forks: []contract.Fork{{Node: "a", Spent: 2}}, Spent: 5, Inherited: 1, Reminded: []contract.Reminded{{Node: "a", N: 1}}}
		f.run.Conversation.Restore(&talk)
		f.run.Log.Replay = schedule.NewLog([]contract.ExecutionRecord{{Execution: contract.Execution{Node: "a"}, SHA: "p"}})
		f.run.Log.Fork = &contract.ForkedFrom{From: contract.Run{Workflow: "w"}, Node: "a", Step: 2, Executions: []contract.ExecutionRecord{{Execution: contract.Execution{Node: "a"}, SHA: "p"}}}
		box := contract.InboxState{Open: []contract.Request{{ID: "r", OpenedAt: at}}, Answered: []contract.Answered{{ID: "q", At: at, Run: "r", Reopened: 1, Expired: true}},
			Remembered: []contract.Remembered{{Name: "n"}}, Inbox: []contract.Inbound{{Seq: 1, Text: "hi"}}, Seen: []string{"s"}, Seq: 3, Rejected: 2, RejectionReasons: []string{"no"}}
		turns := contract.SessionState{IsSession: true, Parent: "p", Turns: []contract.Turn{{N: 1}}, Count: 1, Queue: []contract.Prompt{{ID: "i"}}, Callbacks: []contract.ChildTurn{{Session: "c"}},
			Spent: contract.Usage{Calls: 1}, Stop: &contract.CloseSessionInput{Reason: "r"}, Children: []contract.ChildSession{{ChildStatus: contract.ChildStatus{ID: "c", Agent: "b", Created: at}}}}
		f.session = session.New(f.run, f, &contract.RunInput{Snapshot: &contract.RunSnapshot{Session: &turns}})
		f.inbox = inbox.New(f.run, f)
		f.inbox.Restore(ctx, &box)

		carried := f.snapshot()
		for what, diff := range map[string]string{"conversation": cmp.Diff(&talk, carried.Conversation), "inbox": cmp.Diff(&box, carried.Inbox), "session": cmp.Diff(&turns, carried.Session)} {
			if diff != "" {
				t.Errorf("snapshot of the %s (-want +got):\n%s", what, diff)
			}
		}
		in := contract.RunInput{Snapshot: workflowtest.RoundTrip(t, carried)}
		g := newFlowRun(runtime.New(ctx))
		g.session = session.New(g.run, g, &in)
		g.inbox = inbox.New(g.run, g)
		g.inbox.Restore(ctx, in.Snapshot.Inbox)
		g.restore(in.Snapshot)
		owner := f.inbox
		f.inbox, f.run.Requests.Owner = nil, false
		h := newFlowRun(runtime.New(ctx))
		session.New(h.run, h, &contract.RunInput{Snapshot: workflowtest.RoundTrip(t, f.snapshot())})
		for who, n := range map[string]int{"owner": g.run.Requests.Rejected, "child session": h.run.Requests.Rejected} {
			if n != 2 {
				t.Errorf("%s has rejected %d signals, want 2", who, n)
			}
		}
		f.inbox, f.run.Requests.Owner = owner, true
		if g.runs != f.runs+1 {
			t.Errorf("the next run is number %d, want 4", g.runs+1)
		}
		workflowtest.CompareFields(t, f, g, workflowtest.IgnoredFields{"run": "see below", "prep": "it is complete", "pub": "see below", "session": "see below", "sched": "see below", "runs": "see above",
			"branches": notActive, "stale": "it is written again", "ending": notActive, "inbox": "see below", "runner": recreated, "yielded": "it is the snapshot that the parent carries", "nested": "the run of the map node sets it"})
		workflowtest.CompareFields(t, &f.pub, &g.pub, workflowtest.IgnoredFields{"Run": recreated, "Deliveries": notActive, "Changed": notActive})
		workflowtest.CompareFields(t, f.run, g.run, workflowtest.IgnoredFields{"Transcript": "messages that the snapshot refers to are stored", "Sizes": "it counts one task and calls in flight; the limit is in Shared", "Graph": fromPlan,
			"Root": "it is the workflow's id", "branch": "no branch runs in place when a run continues as new", "idPrefix": "a flow in the run of its map node has its own snapshot", "ParentJournal": "it counts the size of the snapshot", "Budget": "see below", "Conversation": "see above", "Log": "see below", "Watch": "it belongs to the worker",
			"Policy": "the limit is in the input; the rest concerns one history", "Requests": "waiting executions open them again; the inbox is above"})
		if diff := cmp.Diff(f.run.Budget.Usage, g.run.Budget.Usage); diff != "" {
			t.Errorf("usage (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(f.run.Log.Fork, g.run.Log.Fork); diff != "" {
			t.Errorf("fork (-want +got):\n%s", diff)
		}
		was, is := &contract.RunSnapshot{}, &contract.RunSnapshot{}
		f.sched.Snapshot(was, 0)
		g.sched.Snapshot(is, 0)
		if diff := cmp.Diff(was, is); diff != "" || was.Live == nil || was.Pending == nil || was.PendingJoins == nil || was.Ran == nil || was.Ended == nil {
			t.Errorf("scheduler's state = %+v (-want +got):\n%s", was, diff)
		}
	})
}
