package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/wait"
)

// Child describes a run below this one. [Run.Admit] encodes its input, [Run.Start] starts it.
type Child struct {
	// Workflow is the workflow type; In is its input, encoded once it is admitted.
	Workflow string
	In       any
	// ID is the workflow id before it is shortened; Summary is shown in Temporal's Web UI.
	ID, Summary string
	// Outlives is set for a child that goes on when this run ends: a hook after the run, and a delivery of its events.
	Outlives bool
	// Unique is set where a closed run with the id counts as taken, too.
	Unique bool
	// Timeout, if positive, bounds the child.
	Timeout time.Duration
}

// ChildRun is a child that was started.
type ChildRun struct {
	// Future is ready once the child has ended.
	Future workflow.ChildWorkflowFuture
	id     string
	// Asked is set when the child was asked to yield.
	Asked bool
}

// StartedChild is a child with a workflow id, whose end is a future.
func StartedChild(end workflow.ChildWorkflowFuture, id string) *ChildRun {
	return &ChildRun{Future: end, id: id}
}

// Result waits for the child's end, and decodes its result.
func (c *ChildRun) Result(ctx workflow.Context, to any) error { return result(ctx, c.Future, to) }

// Below is what every flow's run below this one is started with.
func (r *Run) Below() contract.RunInput {
	return contract.RunInput{V: contract.Version, Model: r.Shared.Model, Depth: r.Shared.Depth + 1, Owner: r.Shared.Owner, FirstRun: r.Shared.FirstRun,
		OnError: r.Shared.OnError, ScriptRef: r.Shared.Script, MaxEvents: r.Shared.MaxEvents, MaxPayload: r.Shared.MaxPayload, Entries: r.Shared.Entries, Grant: r.Shared.Grant, ServerSessions: r.Shared.Sessions()}
}

// Admit encodes and measures the input of a child, and waits for a workflow task that has room for it.
func (r *Run) Admit(ctx workflow.Context, c *Child, what string) error {
	raw, err := json.Marshal(c.In) // for structures, a quarter faster than contract.Encode
	if err != nil {
		return err
	}
	c.In = payload(raw, true)
	return r.Sizes.admit(ctx, what, len(raw))
}

// Start starts a child. It is the only way to one.
func (r *Run) Start(ctx workflow.Context, c *Child) *ChildRun {
	o := workflow.ChildWorkflowOptions{
		WorkflowID: contract.BoundID(c.ID), StaticSummary: wait.Summary(c.Summary), WorkflowExecutionTimeout: c.Timeout,
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_TERMINATE, WaitForCancellation: true,
	}
	if c.Outlives {
		o.ParentClosePolicy, o.WaitForCancellation = enumspb.PARENT_CLOSE_POLICY_ABANDON, false
	}
	if c.Unique {
		o.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	}
	return StartedChild(workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, o), c.Workflow, c.In), o.WorkflowID)
}

// startTries is how often a child is started whose id is taken: by a child of a run with the same id that has just ended.
const startTries = 10

// RetryTakenID reports whether a child whose id was taken is to be started again, and waits for a second then. tries counts
// the starts so far.
func RetryTakenID(ctx workflow.Context, err error, tries int, id string) (again bool, _ error) {
	if !AlreadyStarted(err) || tries >= startTries {
		return false, err
	}
	if err := wait.Pause(ctx, time.Second, "the id is still taken · "+id); err != nil {
		return false, err
	}
	return true, nil
}

// WhileTaken calls start, which starts the child with an id, again while the id is taken.
func WhileTaken(ctx workflow.Context, id string, start func() error) error {
	for tries := 1; ; tries++ {
		if again, err := RetryTakenID(ctx, start(), tries, id); !again {
			return err
		}
	}
}

// AlreadyStarted reports whether a child did not start because its id is taken.
func AlreadyStarted(err error) bool {
	_, taken := errors.AsType[*temporal.ChildWorkflowExecutionAlreadyStartedError](err)
	return taken
}

// Started waits until the server has started a child, and starts it again where its id is still taken.
func (r *Run) Started(ctx workflow.Context, c *Child) error {
	return WhileTaken(ctx, c.ID, func() error { return wait.Get(ctx, r.Start(ctx, c).Future.GetChildWorkflowExecution(), nil) })
}

// Signal sends a signal to the open run of a workflow id. It is the only way to one.
func (r *Run) Signal(ctx workflow.Context, workflowID, name string, arg any) workflow.Future {
	return workflow.SignalExternalWorkflow(ctx, workflowID, "", name, arg)
}

// SignalChild signals a child once it has started.
func (r *Run) SignalChild(ctx workflow.Context, c *ChildRun, name string, arg any) workflow.Future {
	started := c.Future.GetChildWorkflowExecution()
	if err := wait.Get(ctx, started, nil); err != nil {
		return started
	}
	return r.Signal(ctx, c.id, name, arg)
}

// AskToYield asks a child, once, to come back at its next boundary with what it would itself go on with.
func (r *Run) AskToYield(ctx workflow.Context, c *ChildRun) {
	if c.Asked {
		return
	}
	c.Asked = true
	r.Policy.asking = append(r.Policy.asking, r.SignalChild(ctx, c, contract.SignalYield, nil))
}

// AwaitFlow runs a flow below this one, one of n that run together; what names its input. Where this run should stop, the flow is
// asked to come back; what it goes on with is kept in the step s.
func (r *Run) AwaitFlow(ctx workflow.Context, c *Child, in contract.RunInput, what string, n int, out *contract.RunResult, s *journal.Step, j *journal.Journal) error {
	if s.Held == nil {
		in.MaxResultBytes = r.Sizes.Share(ctx, n)
		release, err := r.Sizes.ReserveResult(ctx, "the result of "+what, in.MaxResultBytes)
		if err != nil {
			return err
		}
		c.In = &in
		if err = r.Admit(ctx, c, what); err != nil {
			release()
			return err
		}
		err = r.runFlow(ctx, c, out, j)
		release()
		if err != nil || out.Held == nil {
			return r.FinishFlow(in.Snapshot, out, s, err)
		}
		s.Held = out.Held
	}
	*out = contract.RunResult{}
	err := r.Fetch(ctx, s.Held, c.ID, out)
	if errors.Is(err, ErrYield) {
		return err
	}
	s.Held = nil
	return r.FinishFlow(in.Snapshot, out, s, err)
}

// FinishFlow records how a child flow ended.
func (r *Run) FinishFlow(from *contract.RunSnapshot, out *contract.RunResult, s *journal.Step, err error) error {
	r.Budget.Charge(from, out, err)
	f := FailedBelow(err)
	if f != nil {
		out.Conversation = &contract.Conversation{Messages: f.Said}
	}
	maps.Copy(r.Shared.Sessions(), out.ServerSessions)
	if err == nil && out.Yielded != nil {
		s.Run = out.Yielded
		return ErrYield
	}
	if err == nil || contract.Cancelled(err) {
		return err
	}
	f.Usage, f.Said = nil, nil // they are taken over
	return f
}

// Fetch fetches the result that the closed run of a child holds, once there is room for it, also where this run is cancelled.
func (r *Run) Fetch(ctx workflow.Context, held *contract.HeldResult, id string, out any) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	fetch := func(id string, held *contract.HeldResult, bytes int, out any) error {
		return r.Invoke(ctx, &Call{Activity: contract.ActivityFetchResult, Args: []any{held}, What: "the result of " + id,
			ID: id + "/result", Summary: "fetch the result · " + id, Options: fetchOptions, Result: ResultSize{Bytes: bytes}, Out: out})
	}
	if held.Bytes <= contract.MaxPayload {
		return fetch(id, held, held.Bytes, out)
	}
	var raw []byte
	for n, part := 1, *held; len(raw) < held.Bytes; n++ {
		var page contract.ContentPage
		part.Offset = len(raw)
		if err := fetch(fmt.Sprintf("%s/part/%d", id, n), &part, partBytes, &page); err != nil {
			return err
		}
		raw = append(raw, page.Data...)
	}
	return contract.Decode(raw, out)
}

// partBytes is the most that a part of a result takes, encoded.
const partBytes = contract.PageBytes/3*4 + contract.Envelope

// Hold keeps a result that is longer than its share for the run above, which fetches it. It gives nil where the result is
// returned, into the store if there is one.
func (r *Run) Hold(ctx workflow.Context, out interface{ Offload() }) (*contract.HeldResult, error) {
	if r.Sizes.ResultShare == 0 || workflow.GetInfo(ctx).ParentWorkflowExecution == nil {
		return nil, nil
	}
	raw, err := contract.Encode(out)
	if err != nil || len(raw) <= r.Sizes.ResultShare {
		return nil, err
	}
	if r.Sizes.most > 0 {
		out.Offload()
		return nil, nil
	}
	return &contract.HeldResult{ContentRef: r.Transcript.Keep(raw), Bytes: len(raw)}, nil
}

// runFlow runs a flow's run until it ends, and asks it to come back where this run should stop.
func (r *Run) runFlow(ctx workflow.Context, c *Child, out *contract.RunResult, j *journal.Journal) error {
	return WhileTaken(ctx, c.ID, func() error {
		k := r.Start(ctx, c)
		wait.Uncancelled(ctx, func() bool { return k.Future.IsReady() || ctx.Err() == nil && r.Policy.ShouldYield(ctx, j.Weight()) })
		if !k.Future.IsReady() {
			r.AskToYield(ctx, k)
		}
		err := k.Result(ctx, out)
		r.Requests.Disown(ctx, k.id, err)
		return err
	})
}
