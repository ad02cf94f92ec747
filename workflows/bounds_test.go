package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
	"weft/workflows/schedule/scheduletest"
)

// TestForeignRequests refuses what is too long in any field of a request that anybody can announce, and
// takes what runs of the tree announce.
func TestForeignRequests(t *testing.T) {
	d := &inbox{r: &run{store: emptyStore()}}
	long := strings.Repeat("x", 1<<20)
	fair := contract.Request{ID: "q", Kind: contract.RequestConfirm, Run: contract.Run{Workflow: "wf/a#1", Run: "r"}}
	for name, spoil := range map[string]func(q *contract.Request){
		"id": func(q *contract.Request) { q.ID = long }, "kind": func(q *contract.Request) { q.Kind = long },
		"node": func(q *contract.Request) { q.Node = long }, "execution": func(q *contract.Request) { q.Execution = long },
		"at": func(q *contract.Request) { q.At = long }, "text": func(q *contract.Request) { q.Text = long },
		"hash": func(q *contract.Request) { q.Hash = long }, "tool": func(q *contract.Request) { q.Tool = long },
		"name": func(q *contract.Request) { q.Name = long }, "connection": func(q *contract.Request) { q.Connection = long },
		"arguments": func(q *contract.Request) { q.Arguments = json.RawMessage(`"` + long + `"`) },
		"call":      func(q *contract.Request) { q.Call = &contract.ContentRef{SHA: long} },
		"catalogue": func(q *contract.Request) { q.Catalogue = &contract.ContentRef{Workflow: long} },
		"run":       func(q *contract.Request) { q.Run.Run = long }, "workflow": func(q *contract.Request) { q.Run.Workflow = long },
	} {
		q := fair
		spoil(&q)
		if err := d.announced(&q); err == nil || len(err.Error()) > 1000 {
			t.Errorf("a long %s gives %.200v", name, err)
		}
	}
	q := fair
	q.Failure = &contract.Failure{Class: "denied", Text: long, Remedy: long, At: long, Diagnostics: []string{long}, Data: json.RawMessage(`"` + long + `"`)}
	if err := d.announced(&q); err != nil {
		t.Error(err)
	}
	if n, err := size(q); err != nil || n > 32<<10 {
		t.Errorf("a long failure leaves a request of %d bytes: %v", n, err)
	}
	f := scheduletest.Sketch("START>a a>END")
	f.Nodes[0].ID = long
	r := &run{store: emptyStore(), root: "wf/a", shared: contract.Shared{Owner: "wf"}}
	own := r.complete(&execution{node: &f.Nodes[0], id: "a#1"}, contract.Request{ID: "a#1/confirm/1.1", Kind: contract.RequestConfirm, Text: long, Tool: long, Name: long, Failure: shownFailure(q.Failure)})
	own.Run.Workflow = "wf/a"
	if err := d.announced(&own); err != nil {
		t.Errorf("a run's own request: %v", err)
	}
}

// TestAnswersAsTheyTravel measures answers as they go to the run that waits: a client may write
// characters as they are that are escaped there.
func TestAnswersAsTheyTravel(t *testing.T) {
	d := &inbox{r: &run{store: emptyStore()}, requests: []contract.Request{{ID: "q", Kind: contract.RequestMessage}, {ID: "c", Kind: contract.RequestToolResult}},
		given: func() (int, int) { return 0, 0 }, known: func(string) bool { return true }}
	for name, tc := range map[string]struct {
		kind, raw, class string
	}{
		"a long text":             {contract.RequestMessage, `{"id":"q","text":"` + strings.Repeat("x", 1_000_000) + `"}`, ""},
		"a text of brackets":      {contract.RequestMessage, `{"id":"q","text":"` + strings.Repeat("<", 400_000) + `"}`, contract.ClassTooLarge},
		"a result of brackets":    {contract.RequestToolResult, `{"id":"c","result":"` + strings.Repeat("&", 400_000) + `"}`, contract.ClassTooLarge},
		"bytes that are no text":  {contract.RequestMessage, `{"id":"q","text":"` + strings.Repeat("\xff", 400_000) + `"}`, contract.ClassTooLarge},
		"a message":               {contract.RequestMessage, `{"text":"` + strings.Repeat("x", 200_000) + `"}`, ""},
		"a message of brackets":   {contract.RequestMessage, `{"text":"` + strings.Repeat("<", 200_000) + `"}`, contract.ClassTooLarge},
		"a short one of brackets": {contract.RequestMessage, `{"text":"` + strings.Repeat("<", 2000) + `"}`, ""},
	} {
		if err := d.admit(tc.kind, json.RawMessage(tc.raw)); class(err) != tc.class {
			t.Errorf("%s gives %.200v, want class %q", name, err, tc.class)
		}
	}
	d.unread = []contract.Inbound{{Text: strings.Repeat("<", 100_000)}}
	if err := d.admit(contract.RequestMessage, json.RawMessage(`{"text":"`+strings.Repeat("<", 100_000)+`"}`)); class(err) != contract.ClassTooLarge {
		t.Errorf("a second message of brackets gives %v", err)
	}
}

func class(err error) string {
	if err == nil {
		return ""
	}
	return contract.FailureOf(err).Class
}

// TestNothingIsLostBehindEvents lets a message come in the task in which the server tells that it has
// an event, for which a run that continues as new waits.
func TestNothingIsLostBehindEvents(t *testing.T) {
	inWorkflow(t, func(ctx workflow.Context) {
		f := lone(ctx, 0, 1)
		f.status, f.root = contract.StatusRunning, f.store.workflow
		f.session = newSession(f, &contract.RunInput{})
		if err := f.serve(ctx, &contract.RunInput{}); err != nil {
			t.Fatal(err)
		}
		f.listen(ctx)
		deliveries, tell := workflow.NewFuture(ctx)
		f.deliveries = []workflow.Future{deliveries}
		workflow.Go(ctx, func(ctx workflow.Context) {
			if err := workflow.Sleep(ctx, time.Second); err != nil {
				t.Error(err)
			}
			p, err := converter.GetDefaultDataConverter().ToPayloads(map[string]any{"text": "stop it"})
			if err != nil {
				t.Error(err)
			}
			messages, ok := f.inbox.signals[0].channel.(workflow.Channel)
			if f.inbox.signals[0].name != contract.RequestMessage || !ok || !messages.SendAsync(p) {
				t.Error("the channel takes nothing")
			}
			tell.Set(nil, nil)
		})
		var next *workflow.ContinueAsNewError
		if err := f.continueAsNew(ctx); !errors.As(err, &next) {
			t.Fatalf("the run gives %v", err)
		}
		var in contract.RunInput
		if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
			t.Fatal(err)
		}
		if box := in.Carry.Desk.Inbox; len(box) != 1 || box[0].Text != "stop it" {
			t.Errorf("the next run has the messages %+v", box)
		}
	})
}

// judgedTrace is a trace of n executions with two answers of some bytes each.
func judgedTrace(n, bytes int) []contract.Execution {
	out := make([]contract.Execution, n)
	for i := range out {
		a := contract.Answer{Execution: fmt.Sprintf("a#%d", i+1), Edge: "e", Question: strings.Repeat("q", bytes)}
		out[i] = contract.Execution{Node: "a", Step: i + 1, Answers: []contract.Answer{a, a}}
	}
	return out
}

// TestLongAnswersDoNotEndARun carries a run over that has been asked long questions for long, and asks
// how it stands.
func TestLongAnswersDoNotEndARun(t *testing.T) {
	env := patient()
	env.SetCurrentHistoryLength(lastEvents + 1)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		f := lone(ctx, 0, 0)
		f.flow.Nodes[0].Exit = false
		f.trace = judgedTrace(3000, 1000)
		if s := f.report(); s.Dropped+len(s.Executions) != 3000 || len(s.Executions) < 100 || s.Executions[len(s.Executions)-1].Step != 3000 {
			t.Errorf("%d executions are shown and %d not", len(s.Executions), s.Dropped)
		} else if n, err := size(s); err != nil || n > maxPayload {
			t.Errorf("the status is %d bytes: %v", n, err)
		}
		var next *workflow.ContinueAsNewError
		if err := f.continueAsNew(ctx); !errors.As(err, &next) {
			t.Errorf("the run gives %v", err)
		}
		if c := f.carryOver(); c.Dropped+len(c.Trace) != 3000 {
			t.Errorf("%d executions are carried and %d not", len(c.Trace), c.Dropped)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// TestBranchComesBackBeforeItIsTooLarge stops a chain whose answers are nearly too much for its result.
func TestBranchComesBackBeforeItIsTooLarge(t *testing.T) {
	inWorkflow(t, func(ctx workflow.Context) {
		b := &branch{run: lone(ctx, 0, 0).run, strand: "s"}
		for _, e := range judgedTrace(1000, 1000) {
			if b.full() {
				break
			}
			b.done = append(b.done, e)
			b.outcomeBytes += judged(&e)
		}
		if n, err := size(b.done); err != nil || !b.full() || n > maxPayload*2/3 {
			t.Errorf("the chain goes on with %d bytes of %d executions: %v", n, len(b.done), err)
		}
	})
}

// TestConflictsAreBounded keeps the latest conflicts.
func TestConflictsAreBounded(t *testing.T) {
	var list []contract.Conflict
	for i := range 5000 {
		list = latestOf(append(list, contract.Conflict{Key: fmt.Sprint("k", i), Value: json.RawMessage(`"` + strings.Repeat("v", 500) + `"`)}))
	}
	if n, err := size(list); err != nil || n > 2*maxConflicts || len(list) < 100 || list[len(list)-1].Key != "k4999" {
		t.Errorf("%d conflicts of %d bytes are kept: %v", len(list), n, err)
	}
}

// TestFailedTurnsAreBounded keeps the classes of old failures, and all of the last.
func TestFailedTurnsAreBounded(t *testing.T) {
	s := &session{}
	for i := range 1200 {
		s.turns = append(s.turns, contract.Turn{N: i + 1, Status: contract.TurnFailed,
			Failure: &contract.Failure{Class: contract.ClassNoExit, Text: strings.Repeat("t", 2000), Answers: judgedTrace(1, 300)[0].Answers}})
		s.trim()
	}
	if n, err := size(s.turns); err != nil || len(s.turns) != maxTurns || n > 1<<20 {
		t.Errorf("%d turns of %d bytes are kept: %v", len(s.turns), n, err)
	}
	first, last := s.turns[0].Failure, s.turns[maxTurns-1].Failure
	if first.Class != contract.ClassNoExit || first.Text == "" || first.Answers != nil || len(last.Text) != 2000 || len(last.Answers) != 2 {
		t.Errorf("the first failure is %.300v, the last %.300v", first, last)
	}
}

// TestGrownAtItsNode blames the node that made most of what is too large, not the last that ran.
func TestGrownAtItsNode(t *testing.T) {
	big := json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)
	for name, fill := range map[string]func(f *flowRun, v *contract.View){
		"the state": func(_ *flowRun, v *contract.View) {
			for i := range 20 {
				schedule.SetEntry(v, contract.StateEntry{Key: fmt.Sprint("k", i), Value: big, By: contract.Stamp{Exec: "a#3", Step: 3}})
			}
		},
		"an output": func(f *flowRun, v *contract.View) {
			ref := f.store.keep(json.RawMessage(`"` + strings.Repeat("y", 2_000_000) + `"`))
			schedule.SetOutput(v, contract.NodeOutput{Node: "a", SHA: ref.SHA, By: contract.Stamp{Exec: "a#3", Step: 3}})
		},
		"a conversation": func(f *flowRun, _ *contract.View) {
			f.sched.Restore(schedule.State{Suspended: []contract.CarriedExecution{{Node: "a", Step: 3, Suspended: &contract.SuspendedExecution{Agent: &contract.AgentState{
				Messages: []contract.CarriedMessage{{Raw: json.RawMessage(`"` + strings.Repeat("z", 2_000_000) + `"`)}}}}}}})
		},
	} {
		env := patient()
		env.SetCurrentHistoryLength(lastEvents + 1)
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			f := lone(ctx, 0, 0)
			f.flow = scheduletest.Sketch("START>a a>b b>b b>END")
			f.g = schedule.NewGraph(f.flow)
			f.sched = schedule.New(f.g)
			f.source = plan.Source{}
			f.trace = []contract.Execution{{Node: "a", Step: 3}, {Node: "b", Step: 4}, {Node: "b", Step: 5}}
			v := contract.View{}
			fill(f, &v)
			schedule.SetEntry(&v, contract.StateEntry{Key: "small", Value: json.RawMessage(`1`), By: contract.Stamp{Exec: "b#5", Step: 5}})
			if err := f.sched.Arrive([]int{1}, 6, "", v); err != nil {
				return err
			}
			var large *contract.Failure
			if err := f.continueAsNew(ctx); !errors.As(err, &large) || large.Class != contract.ClassStateTooLarge || large.Node != "a" || large.Step != 3 {
				t.Errorf("%s gives %+v", name, err)
			}
			return nil
		})
		if err := env.GetWorkflowError(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManyEventsShareTasks lets more requests open at once than the events of one workflow task may hold.
func TestManyEventsShareTasks(t *testing.T) {
	env := patient()
	env.RegisterWorkflowWithOptions(func(workflow.Context, contract.WebhookDeliveryInput) error { return nil }, workflow.RegisterOptions{Name: contract.WorkflowWebhookDelivery})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		f := lone(ctx, 0, 0)
		f.public = &contract.Publish{Webhooks: []contract.Webhook{{Name: "w", Events: []string{contract.EventRequestOpened}}}}
		before := workflow.Now(ctx)
		for i := range 200 {
			f.opened(ctx, &contract.Request{ID: fmt.Sprint("q", i), Kind: contract.RequestConfirm, Arguments: json.RawMessage(`"` + strings.Repeat("x", 16_000) + `"`)})
		}
		if f.guard.bytes > maxTask || len(f.deliveries) != 200 {
			t.Errorf("the commands of one task hold %d bytes, and %d events are waited for, want 200", f.guard.bytes, len(f.deliveries))
		}
		f.awaitDeliveries(ctx)
		if !workflow.Now(ctx).After(before) {
			t.Error("all went with one workflow task")
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}
