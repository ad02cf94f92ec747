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

// TestMessageWhileAwaitingDeliveries checks that a message is carried to the next run if it arrives in the very
// workflow task in which the webhook delivery completes that the run awaits before it continues as new.
func TestMessageWhileAwaitingDeliveries(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		f := singleNodeRun(ctx, 0, 1)
		f.pub.Status, f.run.Root = contract.StatusRunning, f.run.Transcript.Workflow
		f.session = session.New(f.run, f, &contract.RunInput{})
		if err := f.serve(ctx, &contract.RunInput{}); err != nil {
			t.Fatal(err)
		}
		f.run.Requests.Listen(ctx, func(ctx workflow.Context) {
			deliveries, settle := workflow.NewFuture(ctx)
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
					t.Error("the signal channel rejected the message")
				}
				settle.Set(nil, nil)
			})
			var next *workflow.ContinueAsNewError
			if err := f.ContinueAsNew(ctx); !errors.As(err, &next) {
				t.Fatalf("ContinueAsNew() = %v", err)
			}
			var in contract.RunInput
			if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
				t.Fatal(err)
			}
			if box := in.Snapshot.Inbox.Inbox; len(box) != 1 || box[0].Text != "stop it" {
				t.Errorf("messages of the next run = %+v", box)
			}
		})
	})
}

// traceWithAnswers returns a trace of n executions, each with two answers to questions of the given size.
func traceWithAnswers(n, bytes int) []contract.Execution {
	out := make([]contract.Execution, n)
	for i := range out {
		a := contract.Answer{Execution: fmt.Sprintf("a#%d", i+1), Edge: "e", Question: strings.Repeat("q", bytes)}
		out[i] = contract.Execution{Node: "a", Step: i + 1, Answers: []contract.Answer{a, a}}
	}
	return out
}

// TestLongTraceFits checks that the snapshot and the status of a run with a long trace of long
// questions are shortened until they fit.
func TestLongTraceFits(t *testing.T) {
	env := workflowtest.Env()
	env.SetCurrentHistoryLength(runtime.LastEvents + 1)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		f := singleNodeRun(ctx, 0, 0)
		f.run.Flow.Nodes[0].Exit = false
		f.trace = traceWithAnswers(3000, 1000)
		if s := f.status(); s.Dropped+len(s.Executions) != 3000 || len(s.Executions) < 100 || s.Executions[len(s.Executions)-1].Step != 3000 {
			t.Errorf("status has %d executions and omits %d", len(s.Executions), s.Dropped)
		} else if n, err := contract.Size(s); err != nil || n > contract.MaxPayload {
			t.Errorf("status has %d bytes: %v", n, err)
		}
		var next *workflow.ContinueAsNewError
		if err := f.ContinueAsNew(ctx); !errors.As(err, &next) {
			t.Errorf("ContinueAsNew() = %v", err)
		}
		if c := f.snapshot(); c.Dropped+len(c.Trace) != 3000 {
			t.Errorf("snapshot has %d executions and omits %d", len(c.Trace), c.Dropped)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// TestChainStopsBeforeResultTooLarge checks that a chain stops before its answers exceed the size limit of its result.
func TestChainStopsBeforeResultTooLarge(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := singleNodeRun(ctx, 0, 0).run
		b := &chain{run: r, strand: "s", view: &contract.View{}, maxBytes: r.Sizes.Limit() / 2}
		for _, e := range traceWithAnswers(1000, 1000) {
			if b.full() {
				break
			}
			b.done = append(b.done, e)
			b.outcomeBytes += answerBytes(&e)
		}
		if n, err := contract.Size(b.done); err != nil || !b.full() || n > contract.MaxPayload*2/3 {
			t.Errorf("the chain continues with %d bytes in %d executions: %v", n, len(b.done), err)
		}
	})
}

// TestConflictsAreBounded checks that only the latest conflicts are kept.
func TestConflictsAreBounded(t *testing.T) {
	var list []contract.Conflict
	for i := range 5000 {
		list = latestConflicts(append(list, contract.Conflict{Key: fmt.Sprint("k", i), Value: json.RawMessage(`"` + strings.Repeat("v", 500) + `"`)}))
	}
	if n, err := contract.Size(list); err != nil || n > 2*maxConflicts || len(list) < 100 || list[len(list)-1].Key != "k4999" {
		t.Errorf("kept %d conflicts of %d bytes: %v", len(list), n, err)
	}
}

// TestStateTooLargeNamesNode checks that the failure names the node that contributed most, not the one that ran last.
func TestStateTooLargeNamesNode(t *testing.T) {
	big := json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)
	for name, fill := range map[string]func(f *flowRun, v *contract.View){
		"state": func(_ *flowRun, v *contract.View) {
			for i := range 20 {
				schedule.SetEntry(v, contract.StateEntry{Key: fmt.Sprint("k", i), Value: big, By: contract.Stamp{Exec: "a#3", Step: 3}})
			}
		},
		"output": func(f *flowRun, v *contract.View) {
			ref := f.run.Transcript.Keep(json.RawMessage(`"` + strings.Repeat("y", 2_000_000) + `"`))
			schedule.SetOutput(v, contract.NodeOutput{Node: "a", SHA: ref.SHA, By: contract.Stamp{Exec: "a#3", Step: 3}})
		},
		"conversation": func(f *flowRun, _ *contract.View) {
			f.sched.Restore(&contract.RunSnapshot{Live: []contract.ExecutionState{{Node: "a", Step: 3, Suspended: &contract.SuspendedExecution{Agent: &contract.AgentState{
				Messages: []contract.ThreadMessage{{Raw: json.RawMessage(`"` + strings.Repeat("z", 2_000_000) + `"`)}}}}}}})
		},
	} {
		env := workflowtest.Env()
		env.SetCurrentHistoryLength(runtime.LastEvents + 1)
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			f := singleNodeRun(ctx, 0, 0)
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
				t.Errorf("%s: ContinueAsNew() = %+v", name, err)
			}
			return nil
		})
		if err := env.GetWorkflowError(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeliveriesSpreadOverTasks opens more requests at once than one workflow task can publish events for.
func TestDeliveriesSpreadOverTasks(t *testing.T) {
	env := workflowtest.Env()
	env.RegisterWorkflowWithOptions(func(workflow.Context, contract.WebhookDeliveryInput) error { return nil }, workflow.RegisterOptions{Name: contract.WorkflowWebhookDelivery})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		f := singleNodeRun(ctx, 0, 0)
		f.pub.Public = &contract.Publish{Webhooks: []contract.Webhook{{Name: "w", Events: []string{contract.EventRequestOpened}}}}
		before := workflow.Now(ctx)
		for i := range 200 {
			f.pub.Opened(ctx, &contract.Request{ID: fmt.Sprint("q", i), Kind: contract.RequestConfirm, Arguments: json.RawMessage(`"` + strings.Repeat("x", 16_000) + `"`)})
		}
		if len(f.pub.Deliveries) != 200 {
			t.Errorf("%d deliveries are pending, want 200", len(f.pub.Deliveries))
		}
		f.pub.AwaitDeliveries(ctx)
		if !workflow.Now(ctx).After(before) {
			t.Error("all deliveries started in one workflow task")
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}
