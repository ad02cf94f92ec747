package runtime

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/schedule"
	"weft/workflows/transcript"
	"weft/workflows/watch"
)

// Run is what a workflow run of either type works with.
type Run struct {
	Transcript *transcript.Transcript
	Sizes      *Sizes
	Flow       *plan.Flow
	Source     plan.Source
	Hash       string // the plan's
	Graph      *schedule.Graph
	Shared     contract.Shared
	// Root is the workflow id with which the ids of children begin.
	Root         string
	Budget       Budget
	Conversation transcript.Conversation
	Log          *ExecutionLog
	Watch        watch.Watchers
	Policy       *ContinuePolicy
	Requests     *Requests
	grant        *encodedGrant
	// branch is the first node of a branch that runs in this run beside others.
	branch string
	// place stands before the ids of calls and threads of a flow that runs in the run of the node that calls it.
	place string
	// Above is the journal in which that node counts what such a flow would carry; nil for any other.
	Above *journal.Journal
}

// New is a run that does not listen yet.
func New(ctx workflow.Context) *Run {
	ex := workflow.GetInfo(ctx).WorkflowExecution
	r := &Run{Transcript: transcript.New(ex.ID, ex.RunID), Sizes: &Sizes{}, Log: &ExecutionLog{}, Watch: watch.Of(ctx), grant: &encodedGrant{},
		Policy: &ContinuePolicy{yield: workflow.GetSignalChannel(ctx, contract.SignalYield)},
		Requests: &Requests{waiting: map[string]*pendingRequest{},
			replies: workflow.GetSignalChannel(ctx, contract.SignalReply), steer: workflow.GetSignalChannel(ctx, contract.SignalSteer)}}
	r.Requests.Asker, r.Conversation = remote{r.Requests}, transcript.NewConversation(r.Transcript)
	r.Requests.run, r.Policy.run, r.Sizes.run, r.Budget.run = r, r, r, r
	return r
}

// InPlace returns what a branch works with that runs in this run and begins at a node. Its budget and conversation are its own.
func (r *Run) InPlace(node string) *Run {
	r.Shared.Sessions() // is one map for both
	b := *r
	b.branch, b.Budget, b.Conversation = node, Budget{run: &b}, transcript.NewConversation(b.Transcript)
	return &b
}

// Nested returns what a flow works with that runs in this run, under the workflow id that it would have as a run of its own.
// What it would carry counts in the journal above.
func (r *Run) Nested(id string, above *journal.Journal) *Run {
	b := *r
	b.Above = above
	b.Root, b.place = id, r.place+strings.TrimPrefix(id, r.Root+"/")+"/"
	b.Transcript = r.Transcript.Within(b.place)
	b.branch, b.Budget, b.Conversation, b.Log = "", Budget{run: &b}, transcript.NewConversation(b.Transcript), &ExecutionLog{}
	return &b
}

// Answer registers the queries of every run.
func (r *Run) Answer(ctx workflow.Context, status func() contract.Status, state func() contract.View) error {
	set := func(name string, handler any) error { return workflow.SetQueryHandler(ctx, name, handler) }
	return cmp.Or(
		set(contract.QueryTranscript, r.Transcript.Page),
		set(contract.QueryContent, r.Transcript.ContentPage),
		set(contract.QueryExecutions, r.Log.page),
		set(contract.QueryStatus, func() (contract.Status, error) { return status().Fitting(), nil }),
		set(contract.QueryPlan, r.planAnswer),
		set(contract.QueryWatching, func() (contract.Watching, error) { return contract.Watching{Seconds: contract.WatchedFor}, nil }),
		set(contract.QueryState, func() (map[string]json.RawMessage, error) { return r.Transcript.Values(state()), nil }))
}

// planAnswer answers the query plan. A flow whose characters take more bytes here than they did in the input may not fit.
func (r *Run) planAnswer() (*plan.Flow, error) {
	if n, err := contract.Size(r.Flow); err != nil || n > r.Sizes.Limit() {
		return nil, fmt.Errorf("the plan is %d bytes, at most %d go into the answer of a query: the run's input has it", n, r.Sizes.Limit())
	}
	return r.Flow, nil
}

// Fail returns a failure at the execution's node; x is nil at the run's entry.
func (r *Run) Fail(x *Execution, class, remedy, format string, args ...any) *contract.Failure {
	f := contract.Failf(class, remedy, format, args...)
	if x == nil {
		f.Node = plan.Start
		return f
	}
	_ = r.Failed(x, f)
	return f
}

// Failed places an error at the execution's node, unless it has a place already.
func (r *Run) Failed(x *Execution, err error) error {
	if contract.Cancelled(err) {
		return err
	}
	f := contract.FailureOf(err)
	if f.Node == "" {
		f.Node, f.Step, f.At = x.Node.ID, x.Step, r.Source.At(plan.NodePath(x.Node.ID))
	}
	return f
}

// ToApplicationError turns an error into what a workflow returns.
func ToApplicationError(err error) error {
	if err == nil || contract.Cancelled(err) || workflow.IsContinueAsNewError(err) {
		return err
	}
	return contract.FailureOf(err).ApplicationError()
}

// Home is the flow's run, which holds what messages refer to.
func (r *Run) Home() contract.Run {
	return contract.Run{Workflow: r.Shared.Input.Workflow, Run: r.Shared.Input.Run}
}
