package inbox

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/workflowtest"

	commonpb "go.temporal.io/api/common/v1"

	"weft/workflows/runtime"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
)

// startedChild is the future of a child that has started and has not ended.
type startedChild struct{ workflow.ChildWorkflowFuture }

func (startedChild) GetChildWorkflowExecution() workflow.Future { return startedExecution{} }

type startedExecution struct{ workflow.Future }

func (startedExecution) Get(workflow.Context, any) error { return nil }

// branchHost is a run with one branch, which gets all messages.
type branchHost struct {
	idleHost
	child *runtime.ChildRun
}

func (h branchHost) Route(*contract.Inbound) (string, *runtime.ChildRun) { return "a", h.child }

// TestAssignWaitsForRoom gives a branch more long messages than one workflow task holds.
func TestAssignWaitsForRoom(t *testing.T) {
	env := workflowtest.Env()
	env.OnSignalExternalWorkflow(mock.Anything, "branch", mock.Anything, contract.SignalSteer, mock.Anything).Return(nil)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		d := New(runtime.New(ctx), branchHost{child: runtime.StartedChild(startedChild{}, "branch")})
		for i := range 4 {
			d.run.Requests.UnreadMessages = append(d.run.Requests.UnreadMessages, contract.Inbound{Seq: i + 1, Text: strings.Repeat("w", 900<<10)})
		}
		d.assign(ctx)
		d.assign(ctx) // another message has come
		if n := len(d.assigned); n != 2 {
			t.Errorf("%d messages are sent with the first workflow task, want 2", n)
		}
		began := workflow.Now(ctx)
		if err := workflow.Await(ctx, func() bool { return len(d.run.Requests.UnreadMessages) == 0 }); err != nil {
			return err
		}
		var seqs []int
		for _, d := range d.assigned {
			seqs = append(seqs, d.message.Seq)
		}
		if waited := workflow.Now(ctx).Sub(began); !slices.Equal(seqs, []int{1, 2, 3, 4}) || waited <= 0 || waited > 10*time.Millisecond {
			t.Errorf("sent %v after %v, want all with the next workflow task", seqs, waited)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// startingChild is the future of a child that the server has not started yet.
type startingChild struct {
	workflow.ChildWorkflowFuture
	started workflow.Future
}

func (c startingChild) GetChildWorkflowExecution() workflow.Future { return c.started }

// TestAssignWhileABranchStarts has two messages come for a branch before it has started.
func TestAssignWhileABranchStarts(t *testing.T) {
	env := workflowtest.Env()
	var got []int
	env.OnSignalExternalWorkflow(mock.Anything, "branch", mock.Anything, contract.SignalSteer, mock.Anything).Return(
		func(_, _, _, _ string, m any) error {
			got = append(got, m.(contract.Inbound).Seq)
			return nil
		})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		started, start := workflow.NewFuture(ctx)
		d := New(runtime.New(ctx), branchHost{child: runtime.StartedChild(startingChild{started: started}, "branch")})
		for i := range 2 {
			workflow.Go(ctx, func(ctx workflow.Context) {
				d.run.Requests.UnreadMessages = append(d.run.Requests.UnreadMessages, contract.Inbound{Seq: i + 1, Text: "m"})
				d.assign(ctx)
			})
		}
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return err
		}
		start.SetValue(nil)
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return err
		}
		if len(d.assigned) != 2 || len(d.run.Requests.UnreadMessages) != 0 {
			t.Errorf("%d messages are given, %d unread", len(d.assigned), len(d.run.Requests.UnreadMessages))
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []int{1, 2}) {
		t.Errorf("the branch gets %v, want each message once", got)
	}
}

// TestRelaysTakeTurns has more answers on their way than the server takes signals at once.
func TestRelaysTakeTurns(t *testing.T) {
	const n = 2*runtime.MaxSignals + 300
	env := workflowtest.Env()
	var sent sync.Map
	env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, contract.SignalReply, mock.Anything).Return(
		func(_, to, _, _ string, _ any) error {
			sent.Store(to, true)
			return nil
		})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		d := New(runtime.New(ctx), idleHost{})
		for i := range n {
			d.relay(ctx, &contract.Request{Run: contract.Run{Workflow: fmt.Sprint("waits-", i)}}, &contract.Reply{ID: "q", Expired: true})
		}
		if d.Busy() != n-runtime.MaxCommands {
			t.Errorf("%d wait, want %d", d.Busy(), n-runtime.MaxCommands)
		}
		if err := workflow.Await(ctx, func() bool { return d.Busy() == 0 }); err != nil {
			return err
		}
		return workflow.Sleep(ctx, time.Minute) // the last are on their way
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, ok := sent.Load(fmt.Sprint("waits-", i)); !ok {
			t.Fatalf("answer %d has not gone", i)
		}
	}
}

// TestRelayKnowsTheHistory ends a run whose history has no room for an answer to be handed on.
func TestRelayKnowsTheHistory(t *testing.T) {
	for long, fails := range map[int]bool{runtime.Slack / 2: false, runtime.Slack + 2000: true} {
		env := workflowtest.Env()
		env.SetCurrentHistorySize(runtime.MaxHistory - 1000)
		env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, contract.SignalReply, mock.Anything).Return(nil)
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			d := New(runtime.New(ctx), idleHost{})
			d.relay(ctx, &contract.Request{ID: "q", Node: "a", Run: contract.Run{Workflow: "waits"}},
				&contract.Reply{ID: "q", Message: &contract.MessageAnswer{Text: strings.Repeat("w", long)}})
			_, err := d.run.Policy.ShouldContinueAsNew(ctx, 0)
			if f := contract.FailureOf(err); fails != (err != nil) || fails && (f.Class != contract.ClassStateTooLarge || f.Node != "a" || f.Remedy == "") {
				t.Errorf("after an answer of %d bytes the run ends with %v", long, err)
			}
			late := d.run.Requests.AdmitUpdate(ctx, converter.NewRawValue(&commonpb.Payload{Data: []byte("1")}))
			if f := contract.FailureOf(late); fails != (late != nil) || fails && (f.Class != contract.ClassStateTooLarge ||
				!strings.Contains(f.Text, `"q"`) || !strings.HasPrefix(f.Remedy, "start the run again, and ")) {
				t.Errorf("after an answer of %d bytes an Update is refused with %+v", long, late)
			}
			return nil
		})
		if err := env.GetWorkflowError(); err != nil {
			t.Fatal(err)
		}
	}
}
