package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/workflows/workflowtest"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/session"
	"weft/workflows/wait"
)

// TestNothingIsLostBehindEvents lets a message come in the task in which the server tells that it has
// an event, for which a run that continues as new waits.
func TestNothingIsLostBehindEvents(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		f := lone(ctx, 0, 1)
		f.pub.Status, f.run.Root = contract.StatusRunning, f.run.Transcript.Workflow
		f.session = session.New(f.run, f, &contract.RunInput{})
		if err := f.serve(ctx, &contract.RunInput{}); err != nil {
			t.Fatal(err)
		}
		f.run.Requests.Listen(ctx, func(ctx workflow.Context) {
			deliveries, tell := workflow.NewFuture(ctx)
			f.pub.Deliveries = []workflow.Future{deliveries}
			wait.Go(ctx, "event", func(ctx workflow.Context) {
				if err := wait.Sleep(ctx, time.Second, "an event"); err != nil {
					t.Error(err)
				}
				p, err := converter.GetDefaultDataConverter().ToPayloads(map[string]any{"text": "stop it"})
				if err != nil {
					t.Error(err)
				}
				messages, ok := workflow.GetSignalChannel(ctx, contract.RequestMessage).(workflow.Channel)
				if !ok || !messages.SendAsync(p) {
					t.Error("the channel takes nothing")
				}
				tell.Set(nil, nil)
			})
			var next *workflow.ContinueAsNewError
			if err := f.ContinueAsNew(ctx); !errors.As(err, &next) {
				t.Fatalf("the run gives %v", err)
			}
			var in contract.RunInput
			if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
				t.Fatal(err)
			}
			if box := in.Snapshot.Inbox.Inbox; len(box) != 1 || box[0].Text != "stop it" {
				t.Errorf("the next run has the messages %+v", box)
			}
		})
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
	env := workflowtest.Env()
	env.SetCurrentHistoryLength(runtime.LastEvents + 1)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		f := lone(ctx, 0, 0)
		f.run.Flow.Nodes[0].Exit = false
		f.trace = judgedTrace(3000, 1000)
		if s := f.status(); s.Dropped+len(s.Executions) != 3000 || len(s.Executions) < 100 || s.Executions[len(s.Executions)-1].Step != 3000 {
			t.Errorf("%d executions are shown and %d not", len(s.Executions), s.Dropped)
		} else if n, err := contract.Size(s); err != nil || n > contract.MaxPayload {
			t.Errorf("the status is %d bytes: %v", n, err)
		}
		var next *workflow.ContinueAsNewError
		if err := f.ContinueAsNew(ctx); !errors.As(err, &next) {
			t.Errorf("the run gives %v", err)
		}
		if c := f.snapshot(); c.Dropped+len(c.Trace) != 3000 {
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
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := lone(ctx, 0, 0).run
		b := &chain{run: r, strand: "s", view: &contract.View{}, maxBytes: r.Sizes.Limit() / 2}
		for _, e := range judgedTrace(1000, 1000) {
			if b.full() {
				break
			}
			b.done = append(b.done, e)
			b.outcomeBytes += answerBytes(&e)
		}
		if n, err := contract.Size(b.done); err != nil || !b.full() || n > contract.MaxPayload*2/3 {
			t.Errorf("the chain goes on with %d bytes of %d executions: %v", n, len(b.done), err)
		}
	})
}

// TestConflictsAreBounded keeps the latest conflicts.
func TestConflictsAreBounded(t *testing.T) {
	var list []contract.Conflict
	for i := range 5000 {
		list = latestConflicts(append(list, contract.Conflict{Key: fmt.Sprint("k", i), Value: json.RawMessage(`"` + strings.Repeat("v", 500) + `"`)}))
	}
	if n, err := contract.Size(list); err != nil || n > 2*maxConflicts || len(list) < 100 || list[len(list)-1].Key != "k4999" {
		t.Errorf("%d conflicts of %d bytes are kept: %v", len(list), n, err)
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
			ref := f.run.Transcript.Keep(json.RawMessage(`"` + strings.Repeat("y", 2_000_000) + `"`))
			schedule.SetOutput(v, contract.NodeOutput{Node: "a", SHA: ref.SHA, By: contract.Stamp{Exec: "a#3", Step: 3}})
		},
		"a conversation": func(f *flowRun, _ *contract.View) {
			f.sched.Restore(&contract.RunSnapshot{Live: []contract.ExecutionState{{Node: "a", Step: 3, Suspended: &contract.SuspendedExecution{Agent: &contract.AgentState{
				Messages: []contract.ThreadMessage{{Raw: json.RawMessage(`"` + strings.Repeat("z", 2_000_000) + `"`)}}}}}}})
		},
	} {
		env := workflowtest.Env()
		env.SetCurrentHistoryLength(runtime.LastEvents + 1)
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			f := lone(ctx, 0, 0)
			f.run.Flow = scheduletest.Sketch("START>a a>b b>b b>END")
			f.run.Graph = schedule.NewGraph(f.run.Flow)
			f.sched = schedule.New(f.run.Graph)
			f.run.Source = plan.Source{}
			f.trace = []contract.Execution{{Node: "a", Step: 3}, {Node: "b", Step: 4}, {Node: "b", Step: 5}}
			v := contract.View{}
			fill(f, &v)
			schedule.SetEntry(&v, contract.StateEntry{Key: "small", Value: json.RawMessage(`1`), By: contract.Stamp{Exec: "b#5", Step: 5}})
			if err := f.sched.Arrive([]int{1}, 6, "", v); err != nil {
				return err
			}
			var large *contract.Failure
			if err := f.ContinueAsNew(ctx); !errors.As(err, &large) || large.Class != contract.ClassStateTooLarge || large.Node != "a" || large.Step != 3 {
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
	env := workflowtest.Env()
	env.RegisterWorkflowWithOptions(func(workflow.Context, contract.WebhookDeliveryInput) error { return nil }, workflow.RegisterOptions{Name: contract.WorkflowWebhookDelivery})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		f := lone(ctx, 0, 0)
		f.pub.Public = &contract.Publish{Webhooks: []contract.Webhook{{Name: "w", Events: []string{contract.EventRequestOpened}}}}
		before := workflow.Now(ctx)
		for i := range 200 {
			f.pub.Opened(ctx, &contract.Request{ID: fmt.Sprint("q", i), Kind: contract.RequestConfirm, Arguments: json.RawMessage(`"` + strings.Repeat("x", 16_000) + `"`)})
		}
		if len(f.pub.Deliveries) != 200 {
			t.Errorf("%d events are waited for, want 200", len(f.pub.Deliveries))
		}
		f.pub.AwaitDeliveries(ctx)
		if !workflow.Now(ctx).After(before) {
			t.Error("all went with one workflow task")
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}
