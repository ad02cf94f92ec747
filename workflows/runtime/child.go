package runtime

import (
	"errors"
	"time"
	"weft/activities/contract"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Child describes a run below this one. [run.start] starts it.
type Child struct {
	// Workflow is the workflow type; in is its input.
	Workflow string
	In       any
	// ID is the workflow id before it is shortened; summary is shown in Temporal's Web UI.
	ID, Summary string
	// Outlives is set for a child that goes on when this run ends. Any other hears of a cancellation, and is
	// waited for.
	Outlives bool
	// Unique is set where a closed run with the id counts as taken, too.
	Unique bool
	// Timeout, if positive, bounds the child.
	Timeout time.Duration
}

// ChildRun is a child that was started.
type ChildRun struct {
	workflow.ChildWorkflowFuture
	id string
	// Asked is set when the child was asked to yield.
	Asked bool
}

// StartedChild is a child with a workflow id, whose end is a future.
func StartedChild(end workflow.ChildWorkflowFuture, id string) *ChildRun {
	return &ChildRun{ChildWorkflowFuture: end, id: id}
}

// Start starts a child. It is the only way to one; the input is measured before, by [guard.admit].
func (r *Run) Start(ctx workflow.Context, c *Child) *ChildRun {
	o := workflow.ChildWorkflowOptions{
		WorkflowID: contract.BoundID(c.ID), StaticSummary: boundSummary(c.Summary), WorkflowExecutionTimeout: c.Timeout,
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL, WaitForCancellation: true,
	}
	if c.Outlives {
		o.ParentClosePolicy, o.WaitForCancellation = enumspb.PARENT_CLOSE_POLICY_ABANDON, false
	}
	if c.Unique {
		o.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	}
	return StartedChild(workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, o), c.Workflow, c.In), o.WorkflowID)
}

// startTries is how often a child is started whose id is taken: by a child of a run with the same id that
// was ended just now.
const startTries = 10

// RetryTakenID reports whether a child did not start because its id is taken, and is to be started again. It
// waits for a second then; tries counts the starts so far.
func RetryTakenID(ctx workflow.Context, err error, tries int, id string) (again bool, _ error) {
	if !AlreadyStarted(err) || tries >= startTries {
		return false, err
	}
	if err := Pause(ctx, time.Second, "the id is still taken · "+id); err != nil {
		return false, err
	}
	return true, nil
}

func AlreadyStarted(err error) bool {
	var taken *temporal.ChildWorkflowExecutionAlreadyStartedError
	return errors.As(err, &taken)
}

// Started waits until the server has started a child, and starts it again where its id is still taken.
func (r *Run) Started(ctx workflow.Context, c *Child) error {
	for tries := 1; ; tries++ {
		err := r.Start(ctx, c).GetChildWorkflowExecution().Get(ctx, nil)
		if again, err := RetryTakenID(ctx, err, tries, c.ID); !again {
			return err
		}
	}
}

// AskToYield asks a child that has not been asked to come back at its next boundary with what it would
// itself go on with.
func (r *Run) AskToYield(ctx workflow.Context, c *ChildRun) {
	if c.Asked {
		return
	}
	c.Asked = true
	r.Policy.asking = append(r.Policy.asking, r.SignalChild(ctx, c, contract.SignalYield, nil))
}

// AwaitFlow runs a flow below this one, one of n that run together, and waits for it. Where this run should
// stop, the other is asked to come back with what it goes on with; that is kept in the step s.
func (r *Run) AwaitFlow(ctx workflow.Context, c *Child, in contract.RunInput, n int, out *contract.RunResult, s *JournalStep, j *Journal) error {
	for tries := 1; ; tries++ {
		in.MaxResultBytes = r.Sizes.Part(ctx, n, 25)
		c.In = in
		leave := r.Space.Keep(ctx, contract.BoundID(c.ID), in.MaxResultBytes)
		err := r.runFlow(ctx, c, in.Snapshot, out, j)
		leave()
		again, err := RetryTakenID(ctx, err, tries, c.ID)
		switch {
		case again:
			continue
		case err == nil && out.Yielded != nil:
			s.Run = out.Yielded
			return ErrYield
		}
		return below(err)
	}
}

// below is the error of a run below this one.
func below(err error) error {
	if err == nil || contract.Cancelled(err) {
		return err
	}
	f := contract.FailureOf(err)
	f.Usage = nil // it is counted
	return f
}

// runFlow is [run.awaitFlow], once.
func (r *Run) runFlow(ctx workflow.Context, c *Child, from *contract.RunSnapshot, out *contract.RunResult, j *Journal) error {
	k := r.Start(ctx, c)
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	for !k.IsReady() {
		if err := workflow.Await(quiet, func() bool {
			return k.IsReady() || !k.Asked && ctx.Err() == nil && r.Policy.ShouldYield(ctx, j.Weight())
		}); err != nil {
			return err
		}
		if !k.IsReady() {
			r.AskToYield(ctx, k)
		}
	}
	err := k.Get(quiet, out)
	r.Requests.Disown(ctx, k.id, err)
	r.Budget.Charge(from, out, err)
	return err
}
