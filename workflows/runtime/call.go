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
	"weft/workflows/journal"
	"weft/workflows/serverrequest"
	"weft/workflows/wait"
)

// Call describes one activity call, which [Run.Invoke] makes.
type Call struct {
	// Activity is the activity type; Args are its arguments: a [converter.RawValue] each, once the call is admitted.
	Activity string
	Args     []any
	// ID names the call within its run; Summary is shown in Temporal's Web UI.
	ID, Summary string
	// What names the arguments in failures.
	What    string
	Options workflow.ActivityOptions
	// At is the execution that makes the call; nil at the run's entry.
	At *Execution
	// Model is set for a model call.
	Model *ModelCall
	// Result limits the size of the result.
	Result ResultSize
	// Waiting is the call's step in Journal if the call may wait for an operator; nil if a failure is its outcome.
	Waiting *contract.JournalStep
	Journal *journal.Journal
	// Once forbids repeating a call whose outcome is unknown; with AskUnknown, an operator decides whether to repeat it.
	Once, AskUnknown bool
	// Remote is set for an external activity.
	Remote *contract.ExternalActivity
	// Queue, if set, is the task queue of the worker that has the server's session. If that worker does not start the call, any
	// worker may.
	Queue string
	// ServerRequests, if set, receives the requests that the server sends during the call.
	ServerRequests *serverrequest.Queue
	// Local, if positive, allows the call to be made as a local activity. It limits the recorded bytes of argument and result.
	Local int
	// Out receives the result.
	Out any
}

// ModelCall describes what a model call may spend.
type ModelCall struct {
	// Bytes is the size of the conversation to send.
	Bytes int
	// Once, if not nil, is set to true if the budget does not allow a second call after an invalid answer; Others is the number of
	// calls still to be made together with this one.
	Once   *bool
	Others int
}

// invoker makes a call. Each step around a call is an invoker that calls the next one.
type invoker func(ctx workflow.Context, c *Call) error

// Invoke makes a call. All activities are called here: it reserves budget, waits for an operator if necessary, ensures that
// arguments and result fit into the history, counts usage, and turns a timeout after a cancellation into a cancellation.
func (r *Run) Invoke(ctx workflow.Context, c *Call) error {
	return r.withBudget(r.withOperatorRetry(r.withSizes(r.withUsage(asCancellation(r.schedule)))))(ctx, c)
}

// schedule schedules the activity and waits for it.
func (r *Run) schedule(ctx workflow.Context, c *Call) error {
	o := c.Options
	o.ActivityID, o.Summary = contract.ShortenID(r.idPrefix+c.ID), wait.Summary(r.summary(c))
	if done, err := r.callLocally(ctx, c, o.Summary); done || err != nil {
		return err
	}
	if c.ServerRequests != nil {
		defer r.Requests.ServerCalls.Begin(ctx, o.ActivityID, c.ServerRequests)()
	}
	if c.Queue != "" {
		o.TaskQueue, o.ScheduleToStartTimeout = c.Queue, sessionQueueTimeout
	}
	began := workflow.Now(ctx)
	err := result(ctx, workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), c.Activity, c.Args...), c.Out)
	switch f := contract.FailureOf(err); {
	case f == nil:
	case f.Limit != nil && f.Final:
		return r.scheduleAtTurn(ctx, c, f, began)
	case c.Queue != "" && contract.NotStarted(err) && !c.OutcomeUnknown(f):
		anyWorker := *c
		anyWorker.Queue = ""
		return r.schedule(ctx, &anyWorker)
	}
	return err
}

// result waits for the result of an activity or a child, and decodes it.
func result(ctx workflow.Context, f workflow.Future, to any) error {
	var raw converter.RawValue
	if err := wait.Get(ctx, f, &raw); err != nil {
		return err
	}
	return decode(ctx, raw, to)
}

// SideEffect records the result of f, and decodes the recorded one.
func SideEffect(ctx workflow.Context, f func() any, to any) error {
	var raw converter.RawValue
	if err := workflow.SideEffect(ctx, func(workflow.Context) any { return f() }).Get(&raw); err != nil {
		return err
	}
	return decode(ctx, raw, to)
}

// decode decodes a result that history holds.
func decode(ctx workflow.Context, raw converter.RawValue, to any) error {
	argument.AssertReadable(ctx, raw)
	switch p := raw.Payload(); {
	case contract.Unread(p) != nil:
		return contract.Unread(p)
	case string(p.GetMetadata()[converter.MetadataEncoding]) == converter.MetadataEncodingJSON:
		return contract.Decode(p.GetData(), to)
	case p != nil: // an external activity's result in another encoding
		return converter.GetDefaultDataConverter().FromPayload(p, to)
	}
	return nil
}

// scheduleAtTurn repeats a call, first scheduled at began, after its failure f that its turn in the limiter's queue has not come. It
// waits for the turn, and schedules the call with the remaining attempts and time.
func (r *Run) scheduleAtTurn(ctx workflow.Context, c *Call, f *contract.Failure, began time.Time) error {
	pause := time.Duration(f.Limit.Millis) * time.Millisecond
	retry, policy := *c, *c.Options.RetryPolicy
	policy.MaximumAttempts -= f.Limit.Failed
	retry.Options.RetryPolicy = &policy
	retry.Options.ScheduleToCloseTimeout -= workflow.Now(ctx).Sub(began) + pause
	if retry.Options.ScheduleToCloseTimeout <= 0 {
		return f
	}
	if f.Usage != nil && c.Model != nil {
		r.Budget.Usage.Add(*f.Usage)
	}
	defer r.Requests.AddTask(wait.Summary(fmt.Sprintf("%s %s, until %s", r.idPrefix+c.ID, f.Text, workflow.Now(ctx).Add(pause).UTC().Format(time.RFC3339))))()
	if err := wait.Sleep(ctx, pause, f.Text); err != nil {
		return err
	}
	return r.schedule(ctx, &retry)
}

// arguments returns the activity's arguments: the call's own, and the grant or, for an external activity, the idempotency key.
func (r *Run) arguments(c *Call) []any {
	switch {
	case c.Remote == nil && r.Shared.Grant != nil:
		return append(slices.Clip(c.Args), r.Shared.Grant)
	case c.Remote != nil && c.Remote.IdempotencyKey:
		return append(slices.Clip(c.Args), contract.CallKey{IdempotencyKey: r.IdempotencyKey(c.ID)})
	}
	return c.Args
}

// summary returns a call's summary, prefixed with the branch or the nested flow that makes it.
func (r *Run) summary(c *Call) string {
	switch {
	case r.idPrefix != "":
		return strings.TrimSuffix(r.idPrefix, "/") + " · " + c.Summary
	case r.branch != "" && c.At != nil && c.At.Node.ID != r.branch:
		return "branch " + r.branch + " · " + c.Summary
	}
	return c.Summary
}

// IdempotencyKey returns the key of the call with an id: the first run id of the root, the path of the flow's run below it, and the
// id. The key is the same for all attempts, after continue-as-new, and whether a branch or the flow's own run makes the call.
func (r *Run) IdempotencyKey(id string) string {
	return r.Shared.FirstRun + "/" + r.path() + contract.ShortenID(id)
}

// path returns the path from the owner to this run, "" in the owner's own flow; if the id is shortened, the path is the run's full id.
func (r *Run) path() string {
	if r.Root == r.Shared.Owner {
		return ""
	}
	return strings.TrimPrefix(r.Root, r.Shared.Owner+"/") + "/"
}

// Values of [Call.Local].
const (
	LocalBytes   = 32 << 10
	LocalCompile = 256 << 10
)

// localOptions limit a local activity, which blocks the rest of the run, to one short attempt.
var localOptions = workflow.LocalActivityOptions{StartToCloseTimeout: 2 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}}

// callLocally makes a call as a local activity and reports whether it succeeded. Any other call is left to an activity, with its
// retries and failures.
func (r *Run) callLocally(ctx workflow.Context, c *Call, summary string) (done bool, _ error) {
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
		ID: contract.ShortenID(r.idPrefix + c.ID), Activity: c.Activity, Argument: argument.Payload().GetData(), Grant: r.Shared.Grant, MaxBytes: c.Local,
	}), &out)
	if ctx.Err() != nil || err != nil || len(out.Result) == 0 {
		return false, ctx.Err()
	}
	return true, contract.Decode(out.Result, c.Out)
}
