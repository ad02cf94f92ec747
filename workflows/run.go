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
	transcript *transcript
	sizes      sizes
	flow       *plan.Flow
	source     plan.Source
	// hash is the plan's.
	hash   string
	graph  *schedule.Graph
	shared contract.Shared
	// root is the workflow id with which the ids of children begin.
	root         string
	budget       budget
	conversation conversation
	// log is for forks.
	log      executionLog
	watch    watchers
	policy   continuePolicy
	space    space
	requests requests
}

// newRun is a run that does not listen yet.
func newRun(ctx workflow.Context) *run {
	r := &run{transcript: newTranscript(ctx), watch: watchersOf(ctx), policy: newContinuePolicy(ctx), space: newSpace(ctx), requests: newRequests(ctx)}
	return r.link()
}

// link makes the parts of a run know it.
func (r *run) link() *run {
	r.requests.asker = remote{&r.requests}
	r.requests.run, r.policy.run, r.space.run, r.conversation.run, r.log.run, r.budget.run = r, r, r, r, r, r
	return r
}

// answer registers the queries of every run.
func (r *run) answer(ctx workflow.Context, status func() contract.Status, state func() contract.View) error {
	handlers := []struct {
		name string
		fn   any
	}{
		{contract.QueryTranscript, r.transcript.page},
		{contract.QueryContent, r.transcript.contentPage},
		{contract.QueryPast, r.log.page},
		{contract.QueryStatus, func() (contract.Status, error) { return fitting(status()), nil }},
		{contract.QueryPlan, r.planAnswer},
		{contract.QueryWatching, func() (contract.Watching, error) { return contract.Watching{Seconds: contract.WatchedFor}, nil }},
		{contract.QueryState, func() (map[string]json.RawMessage, error) {
			out := map[string]json.RawMessage{}
			total := 0
			v := state()
			for i := range v.State {
				e := &v.State[i]
				value, ok := r.transcript.valueOf(e)
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
	if n, err := size(r.flow); err != nil || n > r.sizes.limit() {
		return nil, fmt.Errorf("the plan is %d bytes, at most %d go into the answer of a query: the run's input has it", n, r.sizes.limit())
	}
	return r.flow, nil
}

// fail makes a failure at the execution's node.
func (r *run) fail(x *execution, class, remedy, format string, args ...any) *contract.Failure {
	return &contract.Failure{
		Class: class, Text: fmt.Sprintf(format, args...), Remedy: remedy,
		Node: x.node.ID, Step: x.step, At: r.source.At(plan.NodePath(x.node.ID)),
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
		f.Node, f.Step, f.At = x.node.ID, x.step, r.source.At(plan.NodePath(x.node.ID))
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

// home is the flow's run, which holds what messages refer to.
func (r *run) home() contract.Run {
	return contract.Run{Workflow: r.shared.Input.Workflow, Run: r.shared.Input.Run}
}

// ref names something that this run stores.
func (r *run) ref(sha string) contract.ContentRef {
	return contract.ContentRef{Workflow: r.transcript.workflow, Run: r.transcript.run, SHA: sha}
}

// fitting is a status as the answer of a query holds it. Of what has no room the oldest conflicts and
// executions are left out, then what can be read elsewhere, last the requests behind the first.
func fitting(s contract.Status) contract.Status {
	for n, err := size(s); err == nil && n > maxPayload; n, err = size(s) {
		switch {
		case len(s.Conflicts) > 0:
			s.Conflicts = s.Conflicts[(len(s.Conflicts)+1)/2:]
		case len(s.Executions) > 0:
			half := (len(s.Executions) + 1) / 2
			s.Executions, s.Dropped = s.Executions[half:], s.Dropped+half
		case len(s.Waits)+len(s.Inbox) > 0:
			s.Waits, s.Inbox = nil, nil
		case len(s.Requests) > 1:
			half := len(s.Requests) / 2
			s.MoreRequests += len(s.Requests) - half
			s.Requests = s.Requests[:half]
		default:
			return s
		}
	}
	return s
}
