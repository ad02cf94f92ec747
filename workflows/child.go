package workflows

import (
	"errors"
	"time"
	"weft/activities/contract"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// child describes a run below this one. [run.start] starts it.
type child struct {
	// workflow is the workflow type; in is its input.
	workflow string
	in       any
	// id is the workflow id before it is shortened; summary is shown in Temporal's Web UI.
	id, summary string
	// outlives is set for a child that goes on when this run ends. Any other hears of a cancellation, and is
	// waited for.
	outlives bool
	// unique is set where a closed run with the id counts as taken, too.
	unique bool
	// timeout, if positive, bounds the child.
	timeout time.Duration
}

// childRun is a child that was started.
type childRun struct {
	workflow.ChildWorkflowFuture
	id string
	// asked is set when the child was asked to yield.
	asked bool
}

// start starts a child. It is the only way to one; the input is measured before, by [guard.admit].
func (r *run) start(ctx workflow.Context, c *child) *childRun {
	o := workflow.ChildWorkflowOptions{
		WorkflowID: contract.BoundID(c.id), StaticSummary: boundSummary(c.summary), WorkflowExecutionTimeout: c.timeout,
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL, WaitForCancellation: true,
	}
	if c.outlives {
		o.ParentClosePolicy, o.WaitForCancellation = enumspb.PARENT_CLOSE_POLICY_ABANDON, false
	}
	if c.unique {
		o.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	}
	return &childRun{ChildWorkflowFuture: workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, o), c.workflow, c.in), id: o.WorkflowID}
}

// startTries is how often a child is started whose id is taken: by a child of a run with the same id that
// was ended just now.
const startTries = 10

// idTaken reports whether a child did not start because its id is taken, and is to be started again. It
// waits for a second then; tries counts the starts so far.
func retryTakenID(ctx workflow.Context, err error, tries int, id string) (again bool, _ error) {
	if !alreadyStarted(err) || tries >= startTries {
		return false, err
	}
	if err := pause(ctx, time.Second, "the id is still taken · "+id); err != nil {
		return false, err
	}
	return true, nil
}

func alreadyStarted(err error) bool {
	var taken *temporal.ChildWorkflowExecutionAlreadyStartedError
	return errors.As(err, &taken)
}

// started waits until the server has started a child, and starts it again where its id is still taken.
func (r *run) started(ctx workflow.Context, c *child) error {
	for tries := 1; ; tries++ {
		err := r.start(ctx, c).GetChildWorkflowExecution().Get(ctx, nil)
		if again, err := retryTakenID(ctx, err, tries, c.id); !again {
			return err
		}
	}
}

// askToYield asks a child that has not been asked to come back at its next boundary with what it would
// itself go on with.
func (r *run) askToYield(ctx workflow.Context, c *childRun) {
	if c.asked {
		return
	}
	c.asked = true
	r.policy.asking = append(r.policy.asking, r.signalChild(ctx, c, contract.SignalYield, nil))
}

// awaitFlow runs a flow below this one, one of n that run together, and waits for it. Where this run should
// stop, the other is asked to come back with what it goes on with; that is kept in the step s.
func (r *run) awaitFlow(ctx workflow.Context, c *child, in contract.RunInput, n int, out *contract.RunResult, s *journalStep, j *journal) error {
	for tries := 1; ; tries++ {
		in.Room = r.sizes.part(ctx, n, 25)
		c.in = in
		leave := r.space.keep(ctx, contract.BoundID(c.id), in.Room)
		err := r.runFlow(ctx, c, in.Carry, out, j)
		leave()
		again, err := retryTakenID(ctx, err, tries, c.id)
		switch {
		case again:
			continue
		case err == nil && out.Yielded != nil:
			s.Run = out.Yielded
			return errYield
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
func (r *run) runFlow(ctx workflow.Context, c *child, from *contract.Carry, out *contract.RunResult, j *journal) error {
	k := r.start(ctx, c)
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	for !k.IsReady() {
		if err := workflow.Await(quiet, func() bool {
			return k.IsReady() || !k.asked && ctx.Err() == nil && r.policy.shouldYield(ctx, j.weight())
		}); err != nil {
			return err
		}
		if !k.IsReady() {
			r.askToYield(ctx, k)
		}
	}
	err := k.Get(quiet, out)
	r.requests.disown(ctx, k.id, err)
	r.budget.charge(from, out, err)
	return err
}
