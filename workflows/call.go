package workflows

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// call describes one activity call. [run.invoke] makes it.
type call struct {
	// activity is the activity's type; args are what it is given.
	activity string
	args     []any
	// id names the call within its run; summary is shown in Temporal's Web UI.
	id, summary string
	// what names the arguments in the failure of a call that is too large.
	what    string
	options workflow.ActivityOptions
	// at is the execution that makes the call; nil at the run's entry.
	at *execution
	// model is set where the call asks a model.
	model *modelCall
	// result says how much the call may add to the history.
	result resultSize
	// waiting is the call's step in journal, where the call may wait for an operator; nil where a failure
	// is the call's outcome.
	waiting *contract.JournalStep
	journal *journal
	// once is set where a call whose outcome is unknown is not repeated.
	once bool
	// remote is set for an activity of another worker.
	remote *contract.Elsewhere
	// out receives the result.
	out any
}

// modelCall is what a call that asks a model may spend.
type modelCall struct {
	// bytes is the size of the conversation that is sent.
	bytes int
	// once, if not nil, is set where the budget has no second call for an answer that cannot be read;
	// others counts calls that are to be made beside this one.
	once   *bool
	others int
}

// invoker makes a call. Each step around a call is an invoker that calls the next one.
type invoker func(ctx workflow.Context, c *call) error

// invoke makes a call. It is the only way to an activity: the budget is reserved, an operator is waited
// for, the arguments are measured and room is kept for the result, what the call spent is counted, and a
// call that was cancelled ends as cancelled.
func (r *run) invoke(ctx workflow.Context, c *call) error {
	return r.budgeted(r.retriedByOperator(r.sized(r.counted(cancellable(r.schedule)))))(ctx, c)
}

// schedule schedules the activity and waits for it.
func (r *run) schedule(ctx workflow.Context, c *call) error {
	o := c.options
	o.ActivityID, o.Summary = contract.BoundID(c.id), boundSummary(c.summary)
	args := c.args
	if c.remote != nil && c.remote.Key {
		args = append(args[:len(args):len(args)], contract.CallKey{IdempotencyKey: r.transcript.run + "/" + o.ActivityID})
	}
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), c.activity, args...).Get(ctx, c.out)
}
