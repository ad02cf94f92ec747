package runs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/transcript"
	"weft/starter/usage"
)

// NoAnswerError is the error of a question that no worker answers.
type NoAnswerError struct {
	ID, Status, Queue  string
	Namespace, Address string
	Cause              error
}

// Error says who does not answer and what to do.
func (n *NoAnswerError) Error() string { return n.Problem() + "; start one with: bin/worker" }

// Problem says who does not answer.
func (n *NoAnswerError) Problem() string {
	return fmt.Sprintf("the run %q is %s, but no worker answers for it on task queue %q, namespace %s at %s (%v)", n.ID, n.Status, n.Queue, n.Namespace, n.Address, n.Cause)
}

func (r *Run) noAnswer(cause error) error {
	return &NoAnswerError{r.ID, history.StatusName(r.Status), r.Queue, r.Namespace, r.Address, cause}
}

// Query asks the run's worker. The error is a [*NoAnswerError] if nobody answers.
func (r *Run) Query(ctx context.Context, query string, out any, args ...any) error {
	patience := r.patience()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	asked := time.Now()
	value, err := r.Client.QueryWorkflow(ctx, r.ID, r.RunID, query, args...)
	switch {
	case Is[*serviceerror.QueryFailed](err) && len(args) == 0:
		return usage.Errorf("the run %q answers no query %q: %v; is it a run of a flow?", r.ID, query, err)
	case err != nil:
		// The server may end the call a little before this side does, in various words.
		if took := time.Since(asked); ctx.Err() != nil || Is[*serviceerror.DeadlineExceeded](err) || took > patience*9/10 {
			err = fmt.Errorf("no answer within %v", max(took.Round(time.Second), time.Second))
		}
		return r.noAnswer(err)
	}
	if err := value.Get(out); err != nil {
		return fmt.Errorf("read the %s of %q: %w", query, r.ID, err)
	}
	return nil
}

func (r *Run) patience() time.Duration {
	switch {
	case r.Patience > 0:
		return r.Patience
	case r.Open():
		return CallTimeout
	}
	return ClosedTimeout
}

// Reported asks the run's worker for its status.
func (r *Run) Reported(ctx context.Context) (*contract.Status, error) {
	st := &contract.Status{}
	return st, r.Query(ctx, contract.QueryStatus, st)
}

// Standing returns a run's status, for a closed run without a worker from its transcript, which is returned, too.
func (r *Run) Standing(ctx context.Context) (*contract.Status, *transcript.Transcript, error) {
	st, err := r.Reported(ctx)
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
		st.Status = history.StatusName(r.Status) // a run that was terminated could not note it
	}
	return st, read, nil
}

// maxBranches bounds the branches that are asked. Of others their first node is known.
const maxBranches = 100

// AddBranches adds the progress of branches that answer to the status of an open run, which knows their first nodes.
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
	asked := 0
	for _, exec := range st.Running {
		id := r.ID + "/" + exec
		of := &contract.Status{}
		if child, known := children[id]; known && asked < maxBranches {
			asked++
			if of, err = r.Below(id, child, r.Status).Reported(ctx); err != nil {
				asked, of = maxBranches, &contract.Status{}
			}
		}
		if len(of.Running) == 0 {
			running = append(running, exec)
			continue
		}
		running = append(running, of.Running...)
		st.Executions = append(st.Executions, of.Executions...)
	}
	st.Running = running
}

// Paused says who has paused a call of a workflow at Temporal, and how it goes on; "" if it is not.
func Paused(p *workflowpb.PendingActivityInfo, workflow string) string {
	if !p.GetPaused() {
		return ""
	}
	text := "it is paused at Temporal"
	if m := p.GetPauseInfo().GetManual(); m != nil {
		text += " by " + cmp.Or(plaintext.Line(m.GetIdentity(), 200), "-")
		if m.GetReason() != "" {
			text += ": " + plaintext.Line(m.GetReason(), 300)
		}
	}
	return fmt.Sprintf("%s; it goes on with: temporal activity unpause --workflow-id %s --activity-id %s", text, plaintext.ShellQuote(workflow), plaintext.ShellQuote(p.GetActivityId()))
}

// PendingCalls describes the calls, of an open run and its branches, that wait for a limit or another attempt.
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
		if of, err := r.Client.DescribeWorkflowExecution(ctx, c.GetWorkflowId(), c.GetRunId()); err == nil {
			add(c.GetWorkflowId(), of.GetPendingActivities())
		}
	}
	return out
}

// pendingText says why a call has not begun; "" if it has.
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
