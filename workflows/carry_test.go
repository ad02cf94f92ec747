package workflows

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
	"weft/workflows/schedule/scheduletest"
)

// left are the fields of a type that the next run does not get, and why not.
type left map[string]string

// sameFields compares all fields of what a run carried and of what the next one made of it, but those
// that are left. A field that this test does not set might be lost and nobody would know.
func sameFields(t *testing.T, old, again any, without left) {
	t.Helper()
	a, b := reflect.ValueOf(old).Elem(), reflect.ValueOf(again).Elem()
	open := func(f reflect.Value) reflect.Value { return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem() }
	known := 0
	for i := range a.NumField() {
		name := a.Type().Field(i).Name
		if why, ok := without[name]; ok {
			if known++; why == "" {
				t.Errorf("say why %T.%s is not carried", old, name)
			}
			continue
		}
		was, is := open(a.Field(i)), open(b.Field(i))
		if was.IsZero() {
			t.Errorf("%T.%s is not set here: set it and carry it, or say why it is not carried", old, name)
		} else if diff := cmp.Diff(was.Interface(), is.Interface(), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Errorf("%T.%s is not carried (-before +after):\n%s", old, name, diff)
		}
	}
	if known != len(without) {
		t.Errorf("%T has no longer all of the fields %v", old, without)
	}
}

// travels gives what a payload makes of a value.
func travels[T any](t *testing.T, in T) T {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	wasRun   = "the next run makes it anew"
	fromPlan = "it is made of the plan"
	noneNow  = "nothing of it is under way where a run continues as new"
)

// talked is a thread of two messages that a model has had.
func talked(t *testing.T, s *store, name string) *thread {
	t.Helper()
	out := s.open(name)
	for _, text := range []string{"one", "two"} {
		if _, err := s.write(out, &contract.Message{Role: contract.RoleUser, Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	out.mark()
	out.sent = []*contract.Sent{{Key: "k", Skip: 1, Note: "n", Tokens: 5, Counted: 2}}
	return out
}

// TestAgentIsCarriedWhole carries an agent that stops in its middle.
func TestAgentIsCarriedWhole(t *testing.T) {
	inWorkflow(t, func(ctx workflow.Context) {
		cfg := &plan.Agent{Members: []plan.Member{{ID: "m"}}}
		agent := func() *agentRun {
			r := newRun(ctx)
			a := &agentRun{run: r, execution: &execution{id: "a#1", journal: newJournal(nil, nil), view: &contract.View{}}, cfg: cfg, team: &team{of: cfg, node: "a", id: "a#1"}}
			return a
		}
		old, again := agent(), agent()
		old.thread, again.thread = talked(t, old.store, "a#1"), again.store.open("a#1")
		old.turn, old.left, old.exhausted, old.errors, old.repairs, old.summaries = 3, 2, true, 1, 1, 2
		old.startLen, old.results, old.think, old.activeAgent = 1, 2, true, "m"
		old.starts = []contract.StartCount{{ID: "call_1", N: 2}}
		old.team.lines = []*line{{name: "m", n: 2, activeAgent: "m", thread: talked(t, old.store, "a#1:m~1")}}

		old.team.main, again.team.main = old.thread, again.thread
		old.takeMark()
		again.restore(new(travels(t, *old.snapshot())))
		sameFields(t, old, again, left{"run": wasRun, "execution": fromPlan, "cfg": fromPlan, "profile": fromPlan, "ports": fromPlan,
			"thread": "see below", "team": "see below", "above": "the one who asked carries it", "before": wasRun, "under": "the journal has their steps", "marked": "see snapshot",
			"result": "the message that gives it is looked at again", "problems": "the message is looked at again", "next": "a boundary comes after it"})
		for name, pair := range map[string][2]*thread{"its own": {old.thread, again.thread}, "a member's": {old.team.lines[0].thread, again.team.lines[0].thread}} {
			t.Run(name, func(t *testing.T) { sameFields(t, pair[0], pair[1], nil) })
		}
		sameFields(t, old.team, again.team, left{"of": fromPlan, "node": fromPlan, "id": fromPlan, "in": fromPlan, "main": wasRun, "lines": "see below"})
		sameFields(t, old.team.lines[0], again.team.lines[0], left{"thread": "see above", "by": "who is asked is carried by who asks", "yielded": wasRun})
	})
}

// TestRunIsCarriedWhole carries a run with a session, executions in all states and an inbox.
func TestRunIsCarriedWhole(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	view := contract.View{State: []contract.StateEntry{{Key: "k", Value: json.RawMessage("1")}}}
	inWorkflow(t, func(ctx workflow.Context) {
		f := lone(ctx, 8<<20, 3)
		f.flow = scheduletest.Sketch("START>a a>b b>END")
		f.g = schedule.NewGraph(f.flow)
		f.sched = schedule.New(f.g)
		f.flow.Nodes[0].Agent.Starts, f.flow.ID = []plan.Startable{{Agent: "b"}}, "flow"
		f.source, f.hash, f.status, f.dropped, f.runs = plan.Source{File: "f.json"}, "hash", contract.StatusWaiting, 4, 2
		f.usage = contract.Usage{Calls: 3, Stopped: 1, Input: 10, Switched: []contract.Switched{{From: "a", To: "b", Class: "c", Times: 2}}}
		ref, err := f.store.write(f.store.open("input"), &contract.Message{Role: contract.RoleUser, Text: "go"})
		if err != nil {
			t.Fatal(err)
		}
		f.shared = contract.Shared{Model: "m", Depth: 1, Input: ref, MaxEvents: 7, Owner: "o", OnError: "wait", MaxPayload: 8 << 20, Budget: &contract.Budget{Calls: 9},
			Text: "go", Script: &ref, Scope: json.RawMessage(`{"a":1}`), Turn: 3, Chat: &ref, Connections: []contract.Bound{{ID: "web", Catalogue: &ref}}}
		f.public, f.answers, f.entered = &contract.Publish{Attributes: []string{"x"}}, []contract.Answer{{Edge: "e"}}, []string{"e0"}
		f.conflicts, f.entry = []contract.Conflict{{Key: "k"}}, &contract.CarriedEntry{View: view}
		x := contract.CarriedExecution{Node: "b", Step: 2, Nth: 2, Lineage: "l", Arrivals: []contract.CarriedArrival{{Edge: 1, Lineage: "l", View: view}},
			Suspended: &contract.SuspendedExecution{Outcome: &contract.NodeOutcome{SHA: "s"}}}
		waiting, join := x, x
		waiting.Step, join.Step = 3, 4
		f.sched.Restore(schedule.State{Suspended: []contract.CarriedExecution{x}, Waiting: []contract.CarriedExecution{waiting},
			Joins: []contract.CarriedExecution{join}, Ran: []contract.Count{{Node: "a", Step: 2, N: 1}}, Ended: &view})
		f.conversation = conversation{thread: talked(t, f.store, conversationName), forks: []contract.Fork{{Node: "a", Spent: 2}}, spent: 5, heard: 1, reminded: []contract.Reminded{{Node: "a", N: 1}}}
		f.log.replay = schedule.NewLog([]contract.Past{{Execution: contract.Execution{Node: "a"}, SHA: "p"}})
		f.log.fork = &contract.ForkedFrom{From: contract.Run{Workflow: "w"}, Node: "a", Step: 2, Past: []contract.Past{{Execution: contract.Execution{Node: "a"}, SHA: "p"}}}
		f.inbox = &inbox{r: f.run, requests: []contract.Request{{ID: "r", OpenedAt: at}}, answered: []contract.Answered{{ID: "q", At: at, Run: "r", Again: 1, Expired: true}},
			remembered: []contract.Remembered{{Name: "n"}}, unread: []contract.Inbound{{Seq: 1, Text: "hi"}}, seen: []string{"s"}, seq: 3}
		f.rejected, f.rejects = 2, []string{"no"}
		f.session = &session{f: f, stays: true, parent: "p", turns: []contract.Turn{{N: 1}}, count: 1, queue: []contract.Prompt{{ID: "i"}}, callbacks: []contract.ChildTurn{{Session: "c"}},
			spent: contract.Usage{Calls: 1}, stop: &contract.CloseSessionInput{Reason: "r"}, children: []*childSession{{ChildSession: contract.ChildSession{ID: "c", Agent: "b", Created: at}}}}

		in := contract.RunInput{Carry: travels(t, f.carryOver())}
		g := &flowRun{run: newRun(ctx)}
		g.session = newSession(g, &in)
		g.inbox = &inbox{r: g.run}
		g.inbox.restore(ctx, in.Carry.Desk)
		g.restore(in.Carry)
		owner := f.inbox
		f.inbox = nil
		h := &flowRun{run: newRun(ctx)}
		newSession(h, &contract.RunInput{Carry: travels(t, f.carryOver())})
		for who, n := range map[string]int{"the owner": g.rejected, "a session below": h.rejected} {
			if n != 2 {
				t.Errorf("%s has refused %d signals", who, n)
			}
		}
		f.inbox = owner
		if g.runs != f.runs+1 {
			t.Errorf("the run after the third is number %d", g.runs+1)
		}
		sameFields(t, f, g, left{"run": "see below", "settings": "they are the worker's", "session": "see below", "sched": "see below", "runs": "see above",
			"branches": noneNow, "ending": noneNow, "deliveries": noneNow, "sent": noneNow, "assigns": wasRun, "rest": "it is what the run above carries"})
		sameFields(t, f.run, g.run, left{"store": "what the carry names is kept", "guard": "it counts one task; the bound is in shared", "g": fromPlan,
			"root": "it is the workflow's id", "reserved": noneNow, "conversation": "see below", "log": "see below", "sessions": "see below", "watch": "it is the worker's",
			"pace": "the limit is in the input; all else is of one history", "space": "what is under way has ended", "requests": "who waits asks again; the inbox is below"})
		sameFields(t, &f.conversation, &g.conversation, left{"thread": "see below"})
		sameFields(t, f.conversation.thread, g.conversation.thread, left{"called": "the next call says what it is about anew"})
		sameFields(t, &f.log, &g.log, left{"finished": "each run of a chain is asked for its own"})
		was, is := f.sched.Snapshot(0), g.sched.Snapshot(0)
		sameFields(t, &was, &is, nil)
		sameFields(t, f.inbox, g.inbox, left{"r": wasRun, "limits": "the requests say when they are due", "busy": noneNow, "relays": noneNow, "looking": noneNow, "looks": "it is of one run", "opened": wasRun, "closed": wasRun, "changed": wasRun,
			"signals": wasRun, "ready": wasRun, "known": wasRun, "steered": wasRun, "given": wasRun})
		sameFields(t, f.session, g.session, left{"f": wasRun, "children": "see below", "idle": wasRun, "leaving": wasRun, "over": "it would not go on", "endedAt": "it would not go on",
			"end": wasRun, "kids": wasRun, "above": wasRun, "endKids": wasRun, "prompt": "its hook has seen it before the turn can yield", "turnSignals": wasRun, "asked": wasRun})
		sameFields(t, f.session.children[0], g.session.children[0], left{"future": wasRun, "reserved": "it is lent anew"})
	})
}
