package inbox

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"weft/activities/contract"
	"weft/workflows/schedule"
	"weft/workflows/schedule/scheduletest"
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

// TestAssignWaitsForRoom gives a branch more long messages than one workflow task holds.
func TestAssignWaitsForRoom(t *testing.T) {
	env := workflowtest.Env()
	env.OnSignalExternalWorkflow(mock.Anything, "branch", mock.Anything, contract.SignalSteer, mock.Anything).Return(nil)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		f := workflows.lone(ctx, 0, 0)
		f.run.Flow = scheduletest.Sketch("START>a START>b a>END b>END")
		f.run.Graph = schedule.NewGraph(f.run.Flow)
		f.sched = schedule.New(f.run.Graph)
		f.sched.Restore(schedule.State{Suspended: []contract.CarriedExecution{{Node: "a"}}})
		x := f.sched.Running()[0]
		f.branches[x] = &workflows.branchRun{x: x, child: &runtime.ChildRun{ChildWorkflowFuture: startedChild{}, id: "branch"}}
		f.inbox = NewInbox(f.run, f)
		for i := range 4 {
			f.inbox.Unread = append(f.inbox.Unread, contract.Inbound{Seq: i + 1, Text: strings.Repeat("w", 900<<10)})
		}
		f.inbox.assign(ctx)
		f.inbox.assign(ctx) // another message has come
		if n, tasks := len(f.inbox.given), f.run.Sizes.tasks; n != 2 || tasks != 0 {
			t.Errorf("%d messages are sent after waiting for %d workflow tasks, want 2 after 0", n, tasks)
		}
		if err := workflow.Await(ctx, func() bool { return len(f.inbox.Unread) == 0 }); err != nil {
			return err
		}
		var seqs []int
		for _, d := range f.inbox.given {
			seqs = append(seqs, d.message.Seq)
		}
		if !slices.Equal(seqs, []int{1, 2, 3, 4}) || f.run.Sizes.tasks != 1 {
			t.Errorf("sent %v, and waited for %d workflow tasks, want all after 1", seqs, f.run.Sizes.tasks)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// TestRelaysTakeTurns has more answers on their way than the server takes signals at once.
func TestRelaysTakeTurns(t *testing.T) {
	const n = 2*runtime.maxSignals + 300
	env := workflowtest.Env()
	var sent sync.Map
	env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, contract.SignalReply, mock.Anything).Return(
		func(_, to, _, _ string, _ any) error {
			sent.Store(to, true)
			return nil
		})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		d := NewInbox(runtime.NewRun(ctx), idleHost{})
		for i := range n {
			d.relay(ctx, &contract.Request{Run: contract.Run{Workflow: fmt.Sprint("waits-", i)}}, &contract.Reply{ID: "q", Expired: true})
		}
		if got := len(d.run.Sizes.signals); got != runtime.maxSignals || d.Busy != n-runtime.maxSignals {
			t.Errorf("%d are on their way at once and %d wait, want %d and %d", got, d.Busy, runtime.maxSignals, n-runtime.maxSignals)
		}
		return workflow.Await(ctx, func() bool {
			return d.Busy == 0 && !slices.ContainsFunc(d.run.Sizes.signals, func(f workflow.Future) bool { return !f.IsReady() })
		})
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
		env.SetCurrentHistorySize(runtime.LastBytes - 1000)
		env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, contract.SignalReply, mock.Anything).Return(nil)
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			d := NewInbox(runtime.NewRun(ctx), idleHost{})
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
