// Package runs finds, lists, starts, queries and answers runs of flows through Temporal. It prints nothing.
package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/specadapter/drawing"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/transcript"
	"weft/starter/usage"
	"weft/worker/config"
	"weft/workflows/plan"
)

const (
	// CallTimeout is the timeout of one call to Temporal or query to a run's worker.
	CallTimeout = 10 * time.Second
	// ClosedTimeout is the timeout of a query to a closed run, whose history can be read instead.
	ClosedTimeout = 3 * time.Second
)

// Connection is a connection to Temporal.
type Connection struct {
	*config.Temporal
	// Starter begins the command lines in messages: "starter ", with -dev if that was used.
	Starter string
	// Reword, if set, adapts remedies in failures and requests to this command.
	Reword func(text string) string
	// HandlePanic, if set, is deferred by goroutines and reports their panics.
	HandlePanic func()
}

// Reworded returns the text of a failure or a request, adapted by Reword.
func (c *Connection) Reworded(text string) string {
	if c == nil || c.Reword == nil {
		return text
	}
	return c.Reword(text)
}

// Run describes a workflow execution of a flow.
type Run struct {
	*Connection
	ID, RunID, Queue string
	// First is the first run id of the workflow's continue-as-new chain; "" if unknown.
	First  string
	Status enumspb.WorkflowExecutionStatus
	// QueryTimeout is the timeout of a query; zero means [CallTimeout], or [ClosedTimeout] if the run is closed.
	QueryTimeout time.Duration
	// Events is the length of its history.
	Events   int64
	Priority temporal.Priority
}

// types are the workflow types of Weft: the namespace may contain others.
var types = []string{contract.WorkflowFlow, contract.WorkflowBranch, contract.WorkflowWebhookDelivery, contract.WorkflowHeldResult}

// Find describes the latest run of a workflow.
func (c *Connection) Find(ctx context.Context, id string) (*Run, error) {
	d, err := c.Describe(ctx, id, "")
	if Is[*serviceerror.NotFound](err) {
		return nil, usage.Errorf("run %q not found in namespace %q at %s; check the id, or TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE", id, c.Namespace, c.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("describe the run %q: %w", id, err)
	}
	info := d.GetWorkflowExecutionInfo()
	if kind := info.GetType().GetName(); kind != "" && !slices.Contains(types, kind) {
		return nil, usage.Errorf("%q is not a run of Weft: its workflow type is %q; list runs with: %slist -all", id, plaintext.Line(kind, 100), c.Starter)
	}
	p := info.GetPriority()
	return &Run{Connection: c, ID: id, RunID: info.GetExecution().GetRunId(), First: info.GetFirstRunId(), Queue: info.GetTaskQueue(), Status: info.GetStatus(), Events: info.GetHistoryLength(),
		Priority: temporal.Priority{PriorityKey: int(p.GetPriorityKey()), FairnessKey: p.GetFairnessKey(), FairnessWeight: p.GetFairnessWeight()}}, nil
}

// FromFirst returns the run with the first run id of its chain, if Temporal still retains that history.
func (r *Run) FromFirst(ctx context.Context) *Run {
	out := *r
	if r.First != "" {
		if _, err := r.Describe(ctx, r.ID, r.First); err == nil {
			out.RunID = r.First
		}
	}
	return &out
}

// Open reports whether the run has not closed.
func (r *Run) Open() bool { return r.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING }

// Quoted returns the id for a command line.
func (r *Run) Quoted() string { return plaintext.ShellQuote(r.ID) }

// WithReplayTimeout returns a copy of the run whose queries leave its worker time to replay it.
func (r *Run) WithReplayTimeout() *Run {
	out := *r
	out.QueryTimeout = replayTimeout
	return &out
}

// InTree returns another workflow of the run's tree.
func (r *Run) InTree(id, runID string, status enumspb.WorkflowExecutionStatus) *Run {
	return &Run{Connection: r.Connection, ID: id, RunID: runID, Queue: r.Queue, Status: status, QueryTimeout: cmp.Or(r.QueryTimeout, ClosedTimeout)}
}

// Describe describes a run of a workflow, or its latest run if run is "".
func (c *Connection) Describe(ctx context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return c.Client.DescribeWorkflowExecution(ctx, id, run)
}

// Closed describes how a closed run ended, with the command that shows more.
func (r *Run) Closed(ctx context.Context) string {
	text := fmt.Sprintf("the run %q is already closed: %s", r.ID, history.StatusName(r.Status))
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	err := r.Client.GetWorkflow(ctx, r.ID, r.RunID).Get(ctx, nil)
	if f := contract.FailureOf(err); f != nil && f.Class != contract.ClassCancelled && ctx.Err() == nil {
		text += fmt.Sprintf(" (%s: %s)", plaintext.Line(f.Class, 100), plaintext.Line(f.Text, 500))
	}
	return text + "; see: " + r.Starter + "result " + r.Quoted()
}

// Pollers returns the workers that polled a task queue recently.
func (c *Connection) Pollers(ctx context.Context, queue string) ([]*taskqueuepb.PollerInfo, error) {
	d, err := c.Client.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: c.Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
	})
	return d.GetPollers(), err
}

// LastPoll returns the time when a worker last polled a task queue; zero if none did recently.
func (c *Connection) LastPoll(ctx context.Context, queue string) (last time.Time, err error) {
	all, err := c.Pollers(ctx, queue)
	for _, p := range all {
		if at := p.GetLastAccessTime().AsTime(); at.After(last) {
			last = at
		}
	}
	return last, err
}

// Is reports whether an error is or wraps one of type T.
func Is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// Unavailable reports whether an error means that Temporal is unavailable, or did not respond in time.
func Unavailable(err error) bool {
	return Is[*serviceerror.Unavailable](err) || Is[*serviceerror.DeadlineExceeded](err) || Is[*serviceerror.ResourceExhausted](err) || errors.Is(err, context.DeadlineExceeded)
}

// Every yields the time at intervals of d, until ctx is done.
func Every(ctx context.Context, d time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		ticker := time.NewTicker(d)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				if !yield(now) {
					return
				}
			}
		}
	}
}

// Sleep waits for d. If ctx is done first, it returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Statuses of a run that closed without a result.
const (
	Failed     = "failed"
	Cancelled  = "cancelled"
	Terminated = "terminated"
	TimedOut   = "timed_out"
)

// Ending is the output of -output json for a run that closed without a result.
type Ending struct {
	// Status is one of the constants above; results have "completed".
	Status string `json:"status"`
	Run    string `json:"run"`
	contract.Failure
}

// Failure returns the outcome of a run that closed with err.
func (r *Run) Failure(ctx context.Context, err error) Ending {
	end := Ending{Status: EndStatus(err), Run: r.ID, Failure: *contract.FailureOf(err)}
	if end.Status == Terminated {
		ctx, cancel := context.WithTimeout(ctx, CallTimeout)
		defer cancel()
		if reason := history.TerminationReason(ctx, r.Client, r.ID, r.RunID); reason != "" {
			end.Text += ": " + reason
		}
	}
	return end
}

// EndStatus returns the status of a run that closed with err.
func EndStatus(err error) string {
	switch {
	case Is[*temporal.TerminatedError](err):
		return Terminated
	case contract.Cancelled(err):
		return Cancelled
	case !Is[*temporal.ApplicationError](err) && Is[*temporal.TimeoutError](err):
		return TimedOut
	}
	return Failed
}

// TurnFailure returns the failure of a turn without a result.
func TurnFailure(t *contract.Turn) *contract.Failure {
	if t.Failure != nil {
		return t.Failure
	}
	return &contract.Failure{Class: contract.ClassCancelled, Text: "the session was stopped"}
}

// Graph is a run's flow with the states of its nodes. FromHistory reports that no worker answered.
type Graph struct {
	Flow        *plan.Flow
	States      drawing.States
	FromHistory bool
}

// ErrNoPlan is the error for a run whose plan is unknown.
var ErrNoPlan = errors.New("no plan")

// Graph returns the run's graph, from its worker or, if none answers for a closed run, from its history.
func (r *Run) Graph(ctx context.Context) (*Graph, error) {
	st, read, err := r.CurrentStatus(ctx)
	if err != nil {
		return nil, err
	}
	var flow *plan.Flow
	if read == nil {
		flow, err = r.Plan(ctx)
	} else if flow = read.Root().Flow; flow == nil {
		err = fmt.Errorf("the history of the run %q has %w: the run failed before it was compiled, or the beginning of the history is no longer readable", r.ID, ErrNoPlan)
	}
	if err != nil {
		return nil, err
	}
	r.AddBranches(ctx, st)
	failed := ""
	if f := r.GetFailure(ctx); f != nil {
		failed = f.Node
	}
	return &Graph{flow, StatesOf(st, read, failed), read != nil}, nil
}

// GetFailure returns the failure of the run, nil if it did not fail.
func (r *Run) GetFailure(ctx context.Context) *contract.Failure {
	if r.Status != enumspb.WORKFLOW_EXECUTION_STATUS_FAILED {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if err := r.Client.GetWorkflow(ctx, r.ID, r.RunID).Get(ctx, nil); err != nil {
		return contract.FailureOf(err)
	}
	return nil
}

// StatesOf returns the states of nodes from a run's status, its transcript if no worker answered, and the node that failed, if any.
func StatesOf(st *contract.Status, read *transcript.Transcript, failed string) drawing.States {
	states := drawing.States{}
	put := func(node string, state drawing.State, runs int) {
		states[node] = drawing.Progress{State: state, Runs: states[node].Runs + runs}
	}
	for i := range st.Executions {
		put(st.Executions[i].Node, drawing.Done, 1)
	}
	if read != nil && st.Status != contract.StatusCompleted {
		for _, node := range read.Unfinished() {
			put(node, drawing.Stopped, 0)
		}
	}
	running := drawing.Stopped
	if st.Status == contract.StatusRunning || st.Status == contract.StatusWaiting || st.Status == contract.StatusIdle {
		running = drawing.Running
		for _, exec := range slices.Concat(st.PendingJoins, st.Waiting) {
			put(history.ExecutionOf(exec).Node, drawing.Waiting, 0)
		}
	}
	for _, exec := range st.Running {
		put(history.ExecutionOf(exec).Node, running, 1)
	}
	for i := range st.Requests {
		if node := st.Requests[i].Node; states[node].State == drawing.Running {
			put(node, drawing.Waiting, 0)
		}
	}
	if failed != "" {
		put(failed, drawing.Failed, 0)
	}
	return states
}
