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

// Child describes a child workflow. [Run.Admit] encodes its input, [Run.Start] starts it.
type Child struct {
	// Workflow is the workflow type; In is its input, encoded once it is admitted.
	Workflow string
	In       any
	// ID is the workflow id before it is shortened; Summary is shown in Temporal's Web UI.
	ID, Summary string
	// Outlives is set for a child that continues when this run ends: a hook after the run, or the delivery of an event.
	Outlives bool
	// Unique rejects the start if even a closed run has the id.
	Unique bool
	// Timeout, if positive, limits the child's execution.
	Timeout time.Duration
}

// ChildRun is a started child.
type ChildRun struct {
	// Future is ready once the child has ended.
	Future workflow.ChildWorkflowFuture
	id     string
	// Asked is set once the child has been asked to yield.
	Asked bool
}

// StartedChild returns a started child with a workflow id.
func StartedChild(end workflow.ChildWorkflowFuture, id string) *ChildRun {
	return &ChildRun{Future: end, id: id}
}

// Result waits for the child's result and decodes it.
func (c *ChildRun) Result(ctx workflow.Context, to any) error { return result(ctx, c.Future, to) }

// ChildInput returns the input that all child runs of flows have in common.
func (r *Run) ChildInput() contract.RunInput {
	return contract.RunInput{V: contract.Version, Model: r.Shared.Model, Depth: r.Shared.Depth + 1, Owner: r.Shared.Owner, FirstRun: r.Shared.FirstRun,
		OnError: r.Shared.OnError, ScriptRef: r.Shared.Script, MaxEvents: r.Shared.MaxEvents, MaxPayload: r.Shared.MaxPayload, Entries: r.Shared.Entries, Grant: r.Shared.Grant, ServerSessions: r.Shared.Sessions()}
}

// Admit encodes and measures the input of a child, and waits for a workflow task that has room for it.
func (r *Run) Admit(ctx workflow.Context, c *Child, what string) error {
	raw, err := json.Marshal(c.In) // a quarter faster than contract.Encode for structs
	if err != nil {
		return err
	}
	c.In = payload(raw, true)
	return r.Sizes.admit(ctx, what, len(raw))
}

// Start starts a child. All children are started here.
func (r *Run) Start(ctx workflow.Context, c *Child) *ChildRun {
	o := workflow.ChildWorkflowOptions{
		WorkflowID: contract.ShortenID(c.ID), StaticSummary: wait.Summary(c.Summary), WorkflowExecutionTimeout: c.Timeout,
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

// maxStarts limits the attempts to start a child whose id is in use by a child of a run with the same id that has just ended.
const maxStarts = 10

// RetryStart reports whether a child that failed to start with err should be started again because its id was in use, and waits a
// second if so. tries is the number of starts so far.
func RetryStart(ctx workflow.Context, err error, tries int, id string) (again bool, _ error) {
	if !AlreadyStarted(err) || tries >= maxStarts {
		return false, err
	}
	if err := wait.Sleep(ctx, time.Second, "id still in use · "+id); err != nil {
		return false, err
	}
	return true, nil
}

// RetryWhileIDInUse calls start, which starts the child with an id, until the id is no longer in use.
func RetryWhileIDInUse(ctx workflow.Context, id string, start func() error) error {
	for tries := 1; ; tries++ {
		if again, err := RetryStart(ctx, start(), tries, id); !again {
			return err
		}
	}
}

// AlreadyStarted reports whether a child did not start because its id is in use.
func AlreadyStarted(err error) bool {
	_, ok := errors.AsType[*temporal.ChildWorkflowExecutionAlreadyStartedError](err)
	return ok
}

// Started starts a child and waits until it has started; it starts the child again if its id is still in use.
func (r *Run) Started(ctx workflow.Context, c *Child) error {
	return RetryWhileIDInUse(ctx, c.ID, func() error { return wait.Get(ctx, r.Start(ctx, c).Future.GetChildWorkflowExecution(), nil) })
}

// Signal sends a signal to the open run of a workflow id. All signals are sent here.
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

// AskToYield asks a child, once, to return at its next boundary, with a snapshot from which it can be resumed.
func (r *Run) AskToYield(ctx workflow.Context, c *ChildRun) {
	if c.Asked {
		return
	}
	c.Asked = true
	r.Policy.yieldRequests = append(r.Policy.yieldRequests, r.SignalChild(ctx, c, contract.SignalYield, nil))
}

// AwaitFlow runs a child flow, one of n that run together; what names its input in failures. If this run should yield, it asks the
// flow to yield, too; the flow's snapshot is stored in the step s.
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

// FinishFlow records how a child flow ended: usage, sessions and, in s, its snapshot if it has yielded.
func (r *Run) FinishFlow(snapshot *contract.RunSnapshot, out *contract.RunResult, s *journal.Step, err error) error {
	r.Budget.Charge(snapshot, out, err)
	f := ChildFailure(err)
	if f != nil {
		out.Conversation = &contract.Conversation{Messages: f.Messages}
	}
	maps.Copy(r.Shared.Sessions(), out.ServerSessions)
	if err == nil && out.Yielded != nil {
		s.Run = out.Yielded
		return ErrYield
	}
	if err == nil || contract.Cancelled(err) {
		return err
	}
	f.Usage, f.Messages = nil, nil // recorded above
	return f
}

// Fetch fetches the result that the closed run of a child holds, once there is room for it, even if this run is cancelled.
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
		if err := fetch(fmt.Sprintf("%s/part/%d", id, n), &part, maxPartSize, &page); err != nil {
			return err
		}
		raw = append(raw, page.Data...)
	}
	return contract.Decode(raw, out)
}

// maxPartSize is the maximum encoded size of a part of a result.
const maxPartSize = contract.PageBytes/3*4 + contract.Envelope

// Hold stores a result that is longer than its share for the parent run to fetch. It returns nil if the result can be returned,
// through the store if there is one.
func (r *Run) Hold(ctx workflow.Context, out interface{ Offload() }) (*contract.HeldResult, error) {
	if r.Sizes.ResultShare == 0 || workflow.GetInfo(ctx).ParentWorkflowExecution == nil {
		return nil, nil
	}
	raw, err := contract.Encode(out)
	if err != nil || len(raw) <= r.Sizes.ResultShare {
		return nil, err
	}
	if r.Sizes.storeLimit > 0 {
		out.Offload()
		return nil, nil
	}
	return &contract.HeldResult{ContentRef: r.Transcript.Keep(raw), Bytes: len(raw)}, nil
}

// runFlow runs a child flow until it ends, and asks it to yield if this run should yield.
func (r *Run) runFlow(ctx workflow.Context, c *Child, out *contract.RunResult, j *journal.Journal) error {
	return RetryWhileIDInUse(ctx, c.ID, func() error {
		k := r.Start(ctx, c)
		wait.UntilIgnoringCancel(ctx, func() bool { return k.Future.IsReady() || ctx.Err() == nil && r.Policy.ShouldYield(ctx, j.Weight()) })
		if !k.Future.IsReady() {
			r.AskToYield(ctx, k)
		}
		err := k.Result(ctx, out)
		r.Requests.Disown(ctx, k.id, err)
		return err
	})
}
