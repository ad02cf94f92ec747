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

// startedChild is the future of a running child workflow.
type startedChild struct{ workflow.ChildWorkflowFuture }

func (startedChild) GetChildWorkflowExecution() workflow.Future { return startedExecution{} }

type startedExecution struct{ workflow.Future }

func (startedExecution) Get(workflow.Context, any) error { return nil }

// branchHost is a host with one branch that receives all messages.
type branchHost struct {
	idleHost
	child *runtime.ChildRun
}

func (h branchHost) Route(*contract.Inbound) (string, *runtime.ChildRun) { return "a", h.child }

// TestAssignAcrossTasks checks that messages to a branch are spread over workflow tasks if they exceed one.
func TestAssignAcrossTasks(t *testing.T) {
	env := workflowtest.Env()
	env.OnSignalExternalWorkflow(mock.Anything, "branch", mock.Anything, contract.SignalSteer, mock.Anything).Return(nil)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		d := New(runtime.New(ctx), branchHost{child: runtime.StartedChild(startedChild{}, "branch")})
		for i := range 4 {
			d.run.Requests.UnreadMessages = append(d.run.Requests.UnreadMessages, contract.Inbound{Seq: i + 1, Text: strings.Repeat("w", 900<<10)})
		}
		d.assign(ctx)
		d.assign(ctx) // as when another message arrives
		if n := len(d.assigned); n != 2 {
			t.Errorf("the first workflow task sends %d messages, want 2", n)
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
			t.Errorf("sent %v after %v, want all in the next workflow task", seqs, waited)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// startingChild is the future of a child workflow that the server has not started yet.
type startingChild struct {
	workflow.ChildWorkflowFuture
	started workflow.Future
}

func (c startingChild) GetChildWorkflowExecution() workflow.Future { return c.started }

// TestAssignWhileBranchStarts checks that messages to a branch that has not started yet are sent once each.
func TestAssignWhileBranchStarts(t *testing.T) {
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
			t.Errorf("%d messages are assigned, %d unread", len(d.assigned), len(d.run.Requests.UnreadMessages))
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []int{1, 2}) {
		t.Errorf("the branch received %v, want each message once", got)
	}
}

// TestRelayBatches checks that answers are relayed in batches if they exceed the server's limit of pending signals.
func TestRelayBatches(t *testing.T) {
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
			t.Errorf("%d answers are queued, want %d", d.Busy(), n-runtime.MaxCommands)
		}
		if err := workflow.Await(ctx, func() bool { return d.Busy() == 0 }); err != nil {
			return err
		}
		return workflow.Sleep(ctx, time.Minute) // until the last signals are sent
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, ok := sent.Load(fmt.Sprint("waits-", i)); !ok {
			t.Fatalf("answer %d was not sent", i)
		}
	}
}

// TestRelayExceedsHistory checks that a run fails if its history has no room to relay an answer.
func TestRelayExceedsHistory(t *testing.T) {
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
				t.Errorf("after an answer of %d bytes: ShouldContinueAsNew() error = %v", long, err)
			}
			late := d.run.Requests.AdmitUpdate(ctx, converter.NewRawValue(&commonpb.Payload{Data: []byte("1")}))
			if f := contract.FailureOf(late); fails != (late != nil) || fails && (f.Class != contract.ClassStateTooLarge ||
				!strings.Contains(f.Text, `"q"`) || !strings.HasPrefix(f.Remedy, "start the run again, and ")) {
				t.Errorf("after an answer of %d bytes: AdmitUpdate() = %+v", long, late)
			}
			return nil
		})
		if err := env.GetWorkflowError(); err != nil {
			t.Fatal(err)
		}
	}
}
