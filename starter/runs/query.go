package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/transcript"
	"weft/starter/usage"
	"weft/workflows/plan"
)

// NoAnswerError is the error of a query that no worker answers.
type NoAnswerError struct {
	ID, Status, Queue  string
	Namespace, Address string
	Cause              error
}

// Error describes the problem and the remedy.
func (n *NoAnswerError) Error() string { return n.Problem() + "; start one with: bin/worker" }

// Problem describes the run and the task queue without a remedy.
func (n *NoAnswerError) Problem() string {
	return fmt.Sprintf("the run %q is %s, but no worker responds for it on task queue %q, namespace %s at %s (%v)", n.ID, n.Status, n.Queue, n.Namespace, n.Address, n.Cause)
}

func (r *Run) noAnswer(cause error) error {
	return &NoAnswerError{r.ID, history.StatusName(r.Status), r.Queue, r.Namespace, r.Address, cause}
}

// Query queries the run's worker. The error is a [*NoAnswerError] if no worker answers in time.
func (r *Run) Query(ctx context.Context, query string, out any, args ...any) error {
	timeout := r.queryTimeout()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	value, err := r.Client.QueryWorkflow(ctx, r.ID, r.RunID, query, args...)
	switch {
	case Is[*serviceerror.QueryFailed](err) && len(args) == 0:
		return usage.Errorf("the run %q does not support the query %q: %v; is it a run of a flow?", r.ID, query, err)
	case err != nil:
		// The server may end the call slightly before the deadline, with various errors.
		if took := time.Since(start); ctx.Err() != nil || Is[*serviceerror.DeadlineExceeded](err) || took > timeout*9/10 {
			err = fmt.Errorf("no answer within %v", max(took.Round(time.Second), time.Second))
		}
		return r.noAnswer(err)
	}
	if err := value.Get(out); err != nil {
		return fmt.Errorf("read the %s of %q: %w", query, r.ID, err)
	}
	return nil
}

func (r *Run) queryTimeout() time.Duration {
	if r.Open() {
		return cmp.Or(r.QueryTimeout, CallTimeout)
	}
	return cmp.Or(r.QueryTimeout, ClosedTimeout)
}

// QueryStatus queries the run's worker for its status.
func (r *Run) QueryStatus(ctx context.Context) (*contract.Status, error) {
	st := &contract.Status{}
	return st, r.Query(ctx, contract.QueryStatus, st)
}

// CurrentStatus queries a run's status. If no worker answers for a closed run, it reads and also returns the transcript.
func (r *Run) CurrentStatus(ctx context.Context) (*contract.Status, *transcript.Transcript, error) {
	st, err := r.QueryStatus(ctx)
	var read *transcript.Transcript
	if Is[*NoAnswerError](err) && !r.Open() {
		if read, err = transcript.Read(ctx, history.From(r.Client), r.ID, r.RunID); err == nil {
			st = read.Status()
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if !r.Open() {
		st.Status = history.StatusName(r.Status) // a terminated run cannot record its status or close its requests
		st.Requests, st.MoreRequests = nil, 0
	}
	return st, read, nil
}

// maxBranches is the maximum number of branches that are queried. For the others, only the first node is known.
const maxBranches = 100

// AddBranches queries the branches of an open run and adds their progress to its status, which has only their first nodes.
func (r *Run) AddBranches(ctx context.Context, st *contract.Status) {
	if !r.Open() || len(st.Running) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	d, err := r.Client.DescribeWorkflowExecution(ctx, r.ID, r.RunID)
	if err != nil {
		return
	}
	children := map[string]string{}
	for _, c := range d.GetPendingChildren() {
		children[c.GetWorkflowId()] = c.GetRunId()
	}
	var running []string
	queried := 0
	for _, exec := range st.Running {
		id := r.ID + "/" + exec
		branch := &contract.Status{}
		if child, ok := children[id]; ok && queried < maxBranches {
			queried++
			if branch, err = r.InTree(id, child, r.Status).QueryStatus(ctx); err != nil {
				queried, branch = maxBranches, &contract.Status{}
			}
		}
		if len(branch.Running) == 0 {
			running = append(running, exec)
			continue
		}
		running = append(running, branch.Running...)
		st.Executions = append(st.Executions, branch.Executions...)
	}
	st.Running = running
}

// Paused describes who paused an activity in Temporal, and how to resume it; "" if it is not paused.
func Paused(p *workflowpb.PendingActivityInfo, workflow string) string {
	if !p.GetPaused() {
		return ""
	}
	m := p.GetPauseInfo().GetManual()
	return fmt.Sprintf("it is paused in Temporal%s%s; resume it with: temporal activity unpause --workflow-id %s --activity-id %s",
		plaintext.If(m != nil, " by %s", cmp.Or(plaintext.Line(m.GetIdentity(), 200), "-")), plaintext.If(m.GetReason() != "", ": %s", plaintext.Line(m.GetReason(), 300)),
		plaintext.ShellQuote(workflow), plaintext.ShellQuote(p.GetActivityId()))
}

// PendingCalls describes the calls of an open run and its branches that wait for a limit or their next attempt.
func (r *Run) PendingCalls(ctx context.Context) []string {
	if !r.Open() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	d, err := r.Client.DescribeWorkflowExecution(ctx, r.ID, r.RunID)
	if err != nil {
		return nil
	}
	var out []string
	add := func(id string, all []*workflowpb.PendingActivityInfo) {
		for _, p := range all {
			if text := pendingText(p, id, time.Now()); text != "" {
				out = append(out, plaintext.Line(p.GetActivityId()+": "+text, 600))
			}
		}
	}
	add(r.ID, d.GetPendingActivities())
	children := d.GetPendingChildren()
	for _, c := range children[:min(len(children), maxBranches)] {
		if child, err := r.Client.DescribeWorkflowExecution(ctx, c.GetWorkflowId(), c.GetRunId()); err == nil {
			add(c.GetWorkflowId(), child.GetPendingActivities())
		}
	}
	return out
}

// pendingText describes why a call has not started; "" if it has.
func pendingText(p *workflowpb.PendingActivityInfo, workflow string, now time.Time) string {
	if text := cmp.Or(Paused(p, workflow), history.Waiting(p)); text != "" {
		return text
	}
	if p.GetState() != enumspb.PENDING_ACTIVITY_STATE_SCHEDULED || p.GetLastFailure() == nil {
		return ""
	}
	next := "soon"
	if wait := p.GetScheduledTime().AsTime().Sub(now); wait > 0 {
		next = fmt.Sprintf("in %.0f s", wait.Seconds()+0.5)
	}
	return fmt.Sprintf("attempt %d %s, after %s", p.GetAttempt(), next, history.FailureText(p.GetLastFailure()))
}

// ReceiptTimeout is the maximum time to wait for the receipt of an answer.
const ReceiptTimeout = time.Minute

// ErrNoReceipt is the error of an Update that no worker accepted in time.
var ErrNoReceipt = errors.New("no receipt")

// Signal sends a signal.
func (r *Run) Signal(ctx context.Context, name string, arg any) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return r.Client.SignalWorkflow(ctx, r.ID, "", name, arg)
}

// Update sends an Update and waits for its receipt, or returns [ErrNoReceipt] after [ReceiptTimeout].
func (r *Run) Update(ctx context.Context, name string, arg any) (*contract.Receipt, error) {
	limited, cancel := within(ctx, ReceiptTimeout)
	defer cancel()
	h, err := r.Client.UpdateWorkflow(limited, client.UpdateWorkflowOptions{
		WorkflowID: r.ID, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	var receipt contract.Receipt
	if err == nil {
		err = h.Get(limited, &receipt)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = ErrNoReceipt
	}
	return &receipt, err
}

// within returns a context that is cancelled after d. It has no deadline, because the server would respond to that first.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// Plan queries a worker for the run's flow.
func (r *Run) Plan(ctx context.Context) (*plan.Flow, error) {
	flow := &plan.Flow{}
	if err := r.Query(ctx, contract.QueryPlan, flow); err != nil {
		return nil, err
	}
	if len(flow.Nodes) == 0 {
		return nil, fmt.Errorf("the run %q has %w yet; try again when it has started its first node", r.ID, ErrNoPlan)
	}
	return flow, nil
}

// Resume sends a prompt to a session and waits for its turn, or with detach until it is accepted. It sends the prompt again if the
// session continues as new.
func (r *Run) Resume(ctx context.Context, in contract.PromptInput, detach bool) (*contract.Turn, error) {
	stage := client.WorkflowUpdateStageCompleted
	if detach {
		stage = client.WorkflowUpdateStageAccepted
	}
	for try := 1; ; try++ {
		limited, cancel := within(ctx, ReceiptTimeout)
		h, err := r.Client.UpdateWorkflow(limited, client.UpdateWorkflowOptions{
			WorkflowID: r.ID, UpdateID: fmt.Sprintf("%s/%.8s/%d", in.ID, in.Hash(), try), UpdateName: contract.UpdatePrompt, Args: []any{in}, WaitForStage: stage})
		turn := contract.Turn{ID: in.ID, Status: contract.TurnQueued}
		if err == nil && detach {
			cancel()
			return &turn, refusal(ctx, h)
		}
		for err == nil {
			if err = h.Get(limited, &turn); err == nil || limited.Err() == nil || ctx.Err() != nil {
				break
			}
			// The prompt was accepted, and its turn is still running.
			cancel()
			limited, cancel = within(ctx, ReceiptTimeout)
			err = nil
		}
		late := limited.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && late:
			return nil, ErrNoReceipt
		case err != nil:
			return nil, err
		case turn.Done():
			return &turn, nil
		}
	}
}

// refusal returns the error of a rejected Update, nil if it was accepted. The handle of a rejected Update has
// its error; with a cancelled context, Get does not call the server.
func refusal(ctx context.Context, h client.WorkflowUpdateHandle) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if err := h.Get(ctx, nil); Is[*temporal.ApplicationError](err) {
		return err
	}
	return nil
}

// Turns queries a session for its turns. The error is a [*NoAnswerError] if no worker answers in time.
func (r *Run) Turns(ctx context.Context) ([]contract.Turn, error) {
	limited, cancel := within(ctx, r.queryTimeout())
	defer cancel()
	value, err := r.Client.QueryWorkflow(limited, r.ID, "", contract.QueryTurns)
	switch {
	case err == nil:
	case ctx.Err() != nil || Is[*serviceerror.QueryFailed](err) || Is[*serviceerror.NotFound](err) || Is[*serviceerror.Unavailable](err):
		return nil, err
	default:
		// The server reports a missing worker, or its own timeout, with various errors.
		return nil, r.noAnswer(errors.New("the query got no answer"))
	}
	var out []contract.Turn
	err = value.Get(&out)
	return out, err
}

// AwaitFirstTurn waits for the end of a session's first turn; it returns nil if ctx is done first.
func (r *Run) AwaitFirstTurn(ctx context.Context) *contract.Turn {
	for ctx.Err() == nil {
		turns, _ := r.Turns(ctx)
		for i := range turns {
			if t := &turns[i]; t.Done() && t.N == 1 {
				_ = Sleep(ctx, TurnInterval) // its last events may not have arrived yet
				return t
			}
		}
		_ = Sleep(ctx, TurnInterval)
	}
	return nil
}

// TurnInterval is the interval between two queries for a session's turns.
const TurnInterval = 500 * time.Millisecond
