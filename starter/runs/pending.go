package runs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"weft/starter/history"
	"weft/starter/plaintext"
)

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
