package workflows

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule"
)

// run is what a workflow run of either type works with.
type run struct {
	store  *store
	guard  guard
	flow   *plan.Flow
	source plan.Source
	g      *schedule.Graph
	shared contract.Shared
	// root is the workflow id with which the ids of children begin.
	root  string
	usage contract.Usage
	// held is what of the budget is reserved.
	reserved     spent
	conversation conversation
	// log is for forks.
	log executionLog
	// sessions are those that the run's agent has started; nil in a branch.
	sessions *session
	watch    watchers
	pace
	space
	requests
}

// newRun is a run that does not listen yet.
func newRun(ctx workflow.Context) *run {
	return &run{store: newStore(ctx), watch: watchersOf(ctx), pace: newPace(ctx), space: newSpace(ctx), requests: newRequests(ctx)}
}

// answer registers the queries of every run.
func (r *run) answer(ctx workflow.Context, status func() contract.Status, state func() contract.View) error {
	handlers := []struct {
		name string
		fn   any
	}{
		{contract.QueryTranscript, r.store.transcript},
		{contract.QueryContent, r.store.piece},
		{contract.QueryExecutions, r.pastPage},
		{contract.QueryStatus, func() (contract.Status, error) { return fitting(status()), nil }},
		{contract.QueryPlan, r.planAnswer},
		{contract.QueryWatching, func() (contract.Watching, error) { return contract.Watching{Seconds: contract.WatchedFor}, nil }},
		{contract.QueryState, func() (map[string]json.RawMessage, error) {
			out := map[string]json.RawMessage{}
			total := 0
			v := state()
			for i := range v.State {
				e := &v.State[i]
				value, ok := r.store.valueOf(e)
				n := max(e.Size, len(e.Value)) // in a payload
				if !ok || total+n > maxPayload-envelope {
					value, _ = json.Marshal(fmt.Sprintf("(%d bytes, not shown here)", n))
					n = len(value)
				}
				total += n + inPayload(e.Key)
				out[e.Key] = value
			}
			return out, nil
		}},
	}
	for _, h := range handlers {
		if err := workflow.SetQueryHandler(ctx, h.name, h.fn); err != nil {
			return fmt.Errorf("register query %s: %w", h.name, err)
		}
	}
	return nil
}

// planAnswer answers the query plan. A flow that came in signs which take more bytes here than they did
// then may not fit.
func (r *run) planAnswer() (*plan.Flow, error) {
	if n, err := size(r.flow); err != nil || n > r.guard.limit() {
		return nil, fmt.Errorf("the plan is %d bytes, at most %d go into the answer of a query: the run's input has it", n, r.guard.limit())
	}
	return r.flow, nil
}

// execution is one execution of a node under way.
type execution struct {
	node *plan.Node
	// id is node#step; n is the step.
	id            string
	n, occurrence int
	// lineage is the last deferred join that the execution's branch has passed.
	lineage string
	// order is the node's place among the flow's declarations.
	order int
	// strand is the chain that the execution belongs to.
	strand string
	view   *contract.View
	// suspended is set where the execution goes on in its middle.
	suspended *contract.SuspendedExecution
	// journal holds the steps since the last boundary; state is what the execution was there, once it yields.
	journal *journal
	state   contract.SuspendedExecution
}

// suspend is what an execution that yielded goes on with.
func (x *execution) suspend() (*contract.SuspendedExecution, error) {
	var err error
	x.state.Steps, err = x.journal.snapshot()
	return &x.state, err
}

// fail makes a failure at the execution's node.
func (r *run) fail(x *execution, class, remedy, format string, args ...any) *contract.Failure {
	return &contract.Failure{
		Class: class, Text: fmt.Sprintf(format, args...), Remedy: remedy,
		Node: x.node.ID, Step: x.n, At: r.source.At(plan.NodePath(x.node.ID)),
	}
}

// failed places an error from an activity or a child at the execution's node, unless it
// has a place already.
func (r *run) failed(x *execution, err error) error {
	if contract.Cancelled(err) {
		return err
	}
	f := contract.FailureOf(err)
	if f.Node == "" {
		f.Node, f.Step, f.At = x.node.ID, x.n, r.source.At(plan.NodePath(x.node.ID))
	}
	return f
}

// boundSummary keeps a summary under Temporal's 400 bytes.
func boundSummary(s string) string {
	if len(s) <= 200 {
		return s
	}
	return strings.ToValidUTF8(s[:197], "") + "…"
}

// wire turns an error into what a workflow returns.
func wire(err error) error {
	if err == nil || contract.Cancelled(err) || workflow.IsContinueAsNewError(err) {
		return err
	}
	return contract.FailureOf(err).Wire()
}

// gone is the error of a query for something that the run does not have: of class transcript_lost.
func notFound(format string, args ...any) error {
	return (&contract.Failure{Class: contract.ClassTranscriptLost, Text: fmt.Sprintf("this run has no "+format, args...)}).Wire()
}
