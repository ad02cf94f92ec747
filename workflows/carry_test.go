package workflows

import (
	"encoding/json"
	"testing"
	"time"
	"weft/workflows/workflowtest"

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
	wasRun   = "the next run makes it anew"
	fromPlan = "it is made of the plan"
	noneNow  = "nothing of it is under way where a run continues as new"
)

// TestRunIsCarriedWhole carries a run with a session, executions in all states and an inbox.
func TestRunIsCarriedWhole(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	view := contract.View{State: []contract.StateEntry{{Key: "k", Value: json.RawMessage("1")}}}
	workflowtest.Run(t, func(ctx workflow.Context) {
		f := lone(ctx, 8<<20, 3)
		f.run.Flow = scheduletest.Sketch("START>a a>b b>END")
		f.run.Graph = schedule.NewGraph(f.run.Flow)
		f.sched = schedule.New(f.run.Graph)
		f.run.Flow.Nodes[0].Agent.Starts, f.run.Flow.ID = []plan.Startable{{Agent: "b"}}, "flow"
		f.run.Source, f.run.Hash, f.status, f.dropped, f.runs = plan.Source{File: "f.json"}, "hash", contract.StatusWaiting, 4, 2
		f.run.Budget.Usage = contract.Usage{Calls: 3, Stopped: 1, Input: 10, Switched: []contract.Switched{{From: "a", To: "b", Class: "c", Times: 2}}}
		ref, err := f.run.Transcript.Write(f.run.Transcript.Open("input"), &contract.Message{Role: contract.RoleUser, Text: "go"})
		if err != nil {
			t.Fatal(err)
		}
		f.run.Shared = contract.Shared{Model: "m", Depth: 1, Input: ref, MaxEvents: 7, Owner: "o", OnError: "park", MaxPayload: 8 << 20, Budget: &contract.Budget{Calls: 9},
			Text: "go", Script: &ref, Scope: json.RawMessage(`{"a":1}`), Turn: 3, Chat: &ref, Connections: []contract.Bound{{ID: "web", Catalogue: &ref}}}
		f.public, f.answers, f.entered = &contract.Publish{Attributes: []string{"x"}}, []contract.Answer{{Edge: "e"}}, []string{"e0"}
		f.conflicts, f.entry = []contract.Conflict{{Key: "k"}}, &contract.CarriedEntry{View: view}
		x := contract.CarriedExecution{Node: "b", Step: 2, Nth: 2, Lineage: "l", Arrivals: []contract.CarriedArrival{{Edge: 1, Lineage: "l", View: view}},
			Suspended: &contract.SuspendedExecution{Outcome: &contract.NodeOutcome{SHA: "s"}}}
		waiting, join := x, x
		waiting.Step, join.Step = 3, 4
		f.sched.Restore(schedule.State{Suspended: []contract.CarriedExecution{x}, Waiting: []contract.CarriedExecution{waiting},
			Joins: []contract.CarriedExecution{join}, Ran: []contract.Count{{Node: "a", Step: 2, N: 1}}, Ended: &view})
		f.run.Conversation = runtime.conversation{Thread: agent.talked(t, f.run.Transcript, runtime.conversationName), Forks: []contract.Fork{{Node: "a", Spent: 2}}, Spent: 5, Heard: 1, reminded: []contract.Reminded{{Node: "a", N: 1}}}
		f.run.Log.Replay = schedule.NewLog([]contract.Past{{Execution: contract.Execution{Node: "a"}, SHA: "p"}})
		f.run.Log.Fork = &contract.ForkedFrom{From: contract.Run{Workflow: "w"}, Node: "a", Step: 2, Past: []contract.Past{{Execution: contract.Execution{Node: "a"}, SHA: "p"}}}
		f.run.Requests.Owner = true
		f.inbox = &inbox.Inbox{run: f.run, host: f, Requests: []contract.Request{{ID: "r", OpenedAt: at}}, answered: []contract.Answered{{ID: "q", At: at, Run: "r", Again: 1, Expired: true}},
			remembered: []contract.Remembered{{Name: "n"}}, Unread: []contract.Inbound{{Seq: 1, Text: "hi"}}, seen: []string{"s"}, seq: 3}
		f.run.Requests.Rejected, f.run.Requests.Rejects = 2, []string{"no"}
		f.session = &session.Session{run: f.run, host: f, view: f, Stays: true, parent: "p", turns: []contract.Turn{{N: 1}}, count: 1, queue: []contract.Prompt{{ID: "i"}}, callbacks: []contract.ChildTurn{{Session: "c"}},
			spent: contract.Usage{Calls: 1}, stop: &contract.StopInput{Reason: "r"}, children: []*session.childSession{{ChildSession: contract.ChildSession{ID: "c", Agent: "b", Created: at}}}}

		in := contract.RunInput{Carry: workflowtest.Travels(t, f.carryOver())}
		g := &flowRun{run: runtime.NewRun(ctx)}
		g.session = session.NewSession(g.run, g, g, &in)
		g.inbox = inbox.NewInbox(g.run, g)
		g.inbox.Restore(ctx, in.Carry.Desk)
		g.restore(in.Carry)
		owner := f.inbox
		f.inbox, f.run.Requests.Owner = nil, false
		h := &flowRun{run: runtime.NewRun(ctx)}
		session.NewSession(h.run, h, h, &contract.RunInput{Carry: workflowtest.Travels(t, f.carryOver())})
		for who, n := range map[string]int{"the owner": g.run.Requests.Rejected, "a session below": h.run.Requests.Rejected} {
			if n != 2 {
				t.Errorf("%s has refused %d signals", who, n)
			}
		}
		f.inbox, f.run.Requests.Owner = owner, true
		if g.runs != f.runs+1 {
			t.Errorf("the run after the third is number %d", g.runs+1)
		}
		workflowtest.SameFields(t, f, g, workflowtest.Without{"run": "see below", "settings": "they are the worker's", "session": "see below", "sched": "see below", "runs": "see above",
			"branches": noneNow, "ending": noneNow, "deliveries": noneNow, "inbox": "see below", "runner": wasRun, "rest": "it is what the run above carries"})
		workflowtest.SameFields(t, f.run, g.run, workflowtest.Without{"store": "what the carry names is kept", "guard": "it counts one task; the bound is in shared", "g": fromPlan,
			"root": "it is the workflow's id", "budget": "see below", "conversation": "see below", "log": "see below", "watch": "it is the worker's",
			"pace": "the limit is in the input; all else is of one history", "space": "what is under way has ended", "requests": "who waits asks again; the inbox is below"})
		workflowtest.SameFields(t, &f.run.Budget, &g.run.Budget, workflowtest.Without{"run": wasRun, "reserved": noneNow})
		workflowtest.SameFields(t, &f.run.Conversation, &g.run.Conversation, workflowtest.Without{"run": wasRun, "thread": "see below"})
		workflowtest.SameFields(t, f.run.Conversation.Thread, g.run.Conversation.Thread, workflowtest.Without{"called": "the next call says what it is about anew"})
		workflowtest.SameFields(t, &f.run.Log, &g.run.Log, workflowtest.Without{"run": wasRun, "finished": "each run of a chain is asked for its own"})
		was, is := f.sched.Snapshot(0), g.sched.Snapshot(0)
		workflowtest.SameFields(t, &was, &is, nil)
		workflowtest.SameFields(t, f.inbox, g.inbox, workflowtest.Without{"run": wasRun, "host": wasRun, "limits": "the requests say when they are due", "busy": noneNow, "relays": noneNow, "looking": noneNow, "looks": "it is of one run", "signals": wasRun, "given": noneNow, "full": wasRun})
		workflowtest.SameFields(t, f.session, g.session, workflowtest.Without{"run": wasRun, "host": wasRun, "view": wasRun, "children": "see below", "idle": wasRun, "leaving": wasRun, "over": "it would not go on", "endedAt": "it would not go on",
			"end": wasRun, "kids": wasRun, "above": wasRun, "endKids": wasRun, "prompt": "its hook has seen it before the turn can yield", "turnSignals": wasRun, "asked": wasRun})
		workflowtest.SameFields(t, f.session.children[0], g.session.children[0], workflowtest.Without{"future": wasRun, "reserved": "it is lent anew"})
	})
}
