package runtime

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/argument"
	"weft/workflows/held"
	"weft/workflows/journal"
	"weft/workflows/wait"
)

// Call describes one activity call. [Run.Invoke] makes it.
type Call struct {
	// Activity is the activity's type; Args are what it is given: a [converter.RawValue] each, once the call is admitted.
	Activity string
	Args     []any
	// ID names the call within its run; Summary is shown in Temporal's Web UI.
	ID, Summary string
	// What names the arguments in the failure of a call that is too large.
	What    string
	Options workflow.ActivityOptions
	// At is the execution that makes the call; nil at the run's entry.
	At *Execution
	// Model is set where the call asks a model.
	Model *ModelCall
	// Result is how much the call may add to the history.
	Result ResultSize
	// Waiting is the call's step in Journal, where the call may wait for an operator; nil where a failure is its outcome.
	Waiting *contract.JournalStep
	Journal *journal.Journal
	// Once is set where a call whose outcome is unknown is not repeated. AskUnknown has a person decide whether it is.
	Once, AskUnknown bool
	// Remote is set for an activity of another worker.
	Remote *contract.ExternalActivity
	// Queue, if set, is that of the worker that has the server's session. If it is gone, the call is any worker's.
	Queue string
	// Held, if set, gets what the server asks while the activity holds the call.
	Held *held.Questions
	// Local, if positive, has the call be made in the workflow task where its worker can make it alone. So many bytes of its
	// argument and its result are recorded at most.
	Local int
	// Out receives the result.
	Out any
}

// ModelCall is what a call that asks a model may spend.
type ModelCall struct {
	// Bytes is the size of the conversation that is sent.
	Bytes int
	// Once, if not nil, is set where the budget has no second call for an answer that cannot be read; Others counts calls that
	// are to be made beside this one.
	Once   *bool
	Others int
}

// invoker makes a call. Each step around a call is an invoker that calls the next one.
type invoker func(ctx workflow.Context, c *Call) error

// Invoke makes a call. It is the only way to an activity: around it the budget is reserved, an operator is waited for, arguments
// and result are given room, what was spent is counted, and a timeout after a cancellation becomes one.
func (r *Run) Invoke(ctx workflow.Context, c *Call) error {
	return r.budgeted(r.retriedByOperator(r.sized(r.counted(cancellable(r.schedule)))))(ctx, c)
}

// schedule schedules the activity and waits for it.
func (r *Run) schedule(ctx workflow.Context, c *Call) error {
	o := c.Options
	o.ActivityID, o.Summary = contract.BoundID(r.place+c.ID), wait.Summary(r.summary(c))
	if made, err := r.callLocally(ctx, c, o.Summary); made || err != nil {
		return err
	}
	if c.Held != nil {
		defer r.Requests.Held.Begin(ctx, o.ActivityID, c.Held)()
	}
	if c.Queue != "" {
		o.TaskQueue, o.ScheduleToStartTimeout = c.Queue, workerGone
	}
	began := workflow.Now(ctx)
	err := result(ctx, workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), c.Activity, c.Args...), c.Out)
	switch f := contract.FailureOf(err); {
	case f == nil:
	case f.Limit != nil && f.Final:
		return r.scheduleAtTurn(ctx, c, f, began)
	case c.Queue != "" && contract.NotStarted(err) && !c.OutcomeUnknown(f):
		others := *c
		others.Queue = ""
		return r.schedule(ctx, &others)
	}
	return err
}

// result waits for what an activity or a child returns, and decodes it.
func result(ctx workflow.Context, f workflow.Future, to any) error {
	var raw converter.RawValue
	if err := wait.Get(ctx, f, &raw); err != nil {
		return err
	}
	return decode(ctx, raw, to)
}

// SideEffect records what f gives, and decodes what is recorded.
func SideEffect(ctx workflow.Context, f func() any, to any) error {
	var raw converter.RawValue
	if err := workflow.SideEffect(ctx, func(workflow.Context) any { return f() }).Get(&raw); err != nil {
		return err
	}
	return decode(ctx, raw, to)
}

// decode decodes what history holds of a result.
func decode(ctx workflow.Context, raw converter.RawValue, to any) error {
	argument.AssertReadable(ctx, raw)
	switch p := raw.Payload(); {
	case contract.Unread(p) != nil:
		return contract.Unread(p)
	case string(p.GetMetadata()[converter.MetadataEncoding]) == converter.MetadataEncodingJSON:
		return contract.Decode(p.GetData(), to)
	case p != nil: // from a worker of another kind
		return converter.GetDefaultDataConverter().FromPayload(p, to)
	}
	return nil
}

// scheduleAtTurn schedules a call again, begun at a time, whose turn has not come, as f says: with the attempts that have not
// failed, and the time that is left after the wait.
func (r *Run) scheduleAtTurn(ctx workflow.Context, c *Call, f *contract.Failure, began time.Time) error {
	pause := time.Duration(f.Limit.Millis) * time.Millisecond
	again, policy := *c, *c.Options.RetryPolicy
	policy.MaximumAttempts -= f.Limit.Failed
	again.Options.RetryPolicy = &policy
	again.Options.ScheduleToCloseTimeout -= workflow.Now(ctx).Sub(began) + pause
	if again.Options.ScheduleToCloseTimeout <= 0 {
		return f
	}
	if f.Usage != nil && c.Model != nil {
		r.Budget.Usage.Add(*f.Usage)
	}
	defer r.Requests.AddTask(wait.Summary(fmt.Sprintf("%s %s, until %s", r.place+c.ID, f.Text, workflow.Now(ctx).Add(pause).UTC().Format(time.RFC3339))))()
	if err := wait.Pause(ctx, pause, f.Text); err != nil {
		return err
	}
	return r.schedule(ctx, &again)
}

// arguments are what the activity is given: beside the call's own, who may make it or, for one of another worker, its key.
func (r *Run) arguments(c *Call) []any {
	switch {
	case c.Remote == nil && r.Shared.Grant != nil:
		return append(slices.Clip(c.Args), r.Shared.Grant)
	case c.Remote != nil && c.Remote.IdempotencyKey:
		return append(slices.Clip(c.Args), contract.CallKey{IdempotencyKey: r.IdempotencyKey(c.ID)})
	}
	return c.Args
}

// summary says which branch, or which flow below, makes a call.
func (r *Run) summary(c *Call) string {
	switch {
	case r.place != "":
		return strings.TrimSuffix(r.place, "/") + " · " + c.Summary
	case r.branch != "" && c.At != nil && c.At.Node.ID != r.branch:
		return "branch " + r.branch + " · " + c.Summary
	}
	return c.Summary
}

// IdempotencyKey returns the key of the call with an id: the first run id of the root, the path of the flow's run below it, and the
// id. It is the same for all attempts, wherever the run goes on, and whether a branch makes the call or the flow's own run.
func (r *Run) IdempotencyKey(id string) string {
	return r.Shared.FirstRun + "/" + r.path() + contract.BoundID(id)
}

// path is the path from the owner to this run, "" in the owner's own flow; where ids below the owner's are shortened, it is the
// run's whole id.
func (r *Run) path() string {
	if r.Root == r.Shared.Owner {
		return ""
	}
	return strings.TrimPrefix(r.Root, r.Shared.Owner+"/") + "/"
}

// Bounds of [Call.Local].
const (
	LocalBytes   = 32 << 10
	LocalCompile = 256 << 10
)

// localOptions bound a call in a workflow task, which holds up all else of the run. It is made once there.
var localOptions = workflow.LocalActivityOptions{StartToCloseTimeout: 2 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}}

// callLocally makes a call in the workflow task, and reports whether it could. What it could not is an activity's, with
// its retries and its failures.
func (r *Run) callLocally(ctx workflow.Context, c *Call, summary string) (made bool, _ error) {
	if c.Local == 0 {
		return false, nil
	}
	if err := r.Sizes.Wait(ctx, c.Local); err != nil {
		return false, err
	}
	o, argument := localOptions, c.Args[0].(converter.RawValue)
	o.Summary = summary
	var out contract.LocalResult
	err := wait.Get(ctx, workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, o), contract.ActivityCallLocally, &contract.LocalCall{
		ID: contract.BoundID(r.place + c.ID), Activity: c.Activity, Argument: argument.Payload().GetData(), Grant: r.Shared.Grant, MaxBytes: c.Local,
	}), &out)
	if ctx.Err() != nil || err != nil || len(out.Result) == 0 {
		return false, ctx.Err()
	}
	return true, contract.Decode(out.Result, c.Out)
}
