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

// Run holds the state and the services of a workflow run.
type Run struct {
	Transcript *transcript.Transcript
	Sizes      *Sizes
	Flow       *plan.Flow
	Source     plan.Source
	Hash       string // the plan's hash
	Graph      *schedule.Graph
	Shared     contract.Shared
	// Root is the workflow id that prefixes the ids of children.
	Root         string
	Budget       Budget
	Conversation transcript.Conversation
	Log          *ExecutionLog
	Watch        watch.Watchers
	Policy       *ContinuePolicy
	Requests     *Requests
	grant        *encodedGrant
	// branch is the first node of a branch that runs in its flow's run, alongside others.
	branch string
	// idPrefix prefixes the ids of the calls and threads of a nested flow, see [Run.Nested].
	idPrefix string
	// ParentJournal is the journal of the node that runs a nested flow, to which the flow adds the size of its state; else nil.
	ParentJournal *journal.Journal
}

// New returns a run that does not receive messages yet.
func New(ctx workflow.Context) *Run {
	ex := workflow.GetInfo(ctx).WorkflowExecution
	r := &Run{Transcript: transcript.New(ex.ID, ex.RunID), Sizes: &Sizes{}, Log: &ExecutionLog{}, Watch: watch.Of(ctx), grant: &encodedGrant{},
		Policy: &ContinuePolicy{yield: workflow.GetSignalChannel(ctx, contract.SignalYield)},
		Requests: &Requests{waiting: map[string]*pendingRequest{},
			replies: workflow.GetSignalChannel(ctx, contract.SignalReply), steer: workflow.GetSignalChannel(ctx, contract.SignalSteer)}}
	r.Requests.Asker, r.Conversation = remoteAsker{r.Requests}, transcript.NewConversation(r.Transcript)
	r.Requests.run, r.Policy.run, r.Sizes.run, r.Budget.run = r, r, r, r
	return r
}

// InPlace returns the Run of a branch that begins at a node and runs in this run. It has its own budget and conversation.
func (r *Run) InPlace(node string) *Run {
	r.Shared.Sessions() // creates the map, so that both share it
	b := *r
	b.branch, b.Budget, b.Conversation = node, Budget{run: &b}, transcript.NewConversation(b.Transcript)
	return &b
}

// Nested returns the Run of a called flow that runs in this run, with the workflow id that it would have as a child run. The size
// of its state is added to the journal above.
func (r *Run) Nested(id string, above *journal.Journal) *Run {
	b := *r
	b.ParentJournal = above
	b.Root, b.idPrefix = id, r.idPrefix+strings.TrimPrefix(id, r.Root+"/")+"/"
	b.Transcript = r.Transcript.Within(b.idPrefix)
	b.branch, b.Budget, b.Conversation, b.Log = "", Budget{run: &b}, transcript.NewConversation(b.Transcript), &ExecutionLog{}
	return &b
}

// Answer registers the queries that every run answers.
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

// planAnswer answers the query for the plan, which may not fit if its encoding is longer than in the input.
func (r *Run) planAnswer() (*plan.Flow, error) {
	if n, err := contract.Size(r.Flow); err != nil || n > r.Sizes.Limit() {
		return nil, fmt.Errorf("the plan is %d bytes, at most %d fit into a query result; read it from the run's input", n, r.Sizes.Limit())
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

// Failed adds the execution's node and position to an error, unless it has a node already.
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

// ToApplicationError turns an error into one that a workflow may return.
func ToApplicationError(err error) error {
	if err == nil || contract.Cancelled(err) || workflow.IsContinueAsNewError(err) {
		return err
	}
	return contract.FailureOf(err).ApplicationError()
}

// Home returns the run that holds the content to which the flow's messages refer.
func (r *Run) Home() contract.Run {
	return contract.Run{Workflow: r.Shared.Input.Workflow, Run: r.Shared.Input.Run}
}
