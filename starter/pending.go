package main

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/worker/config"
)

// pausedText says that somebody has paused a call of a workflow at Temporal, and how it goes on; ""
// where nobody has.
func pausedText(p *workflowpb.PendingActivityInfo, workflow string) string {
	if !p.GetPaused() {
		return ""
	}
	text := "it is paused at Temporal"
	if m := p.GetPauseInfo().GetManual(); m != nil {
		text += " by " + orDash(plaintext.Line(m.GetIdentity(), 200))
		if m.GetReason() != "" {
			text += ": " + plaintext.Line(m.GetReason(), 300)
		}
	}
	return fmt.Sprintf("%s; it goes on with: temporal activity unpause --workflow-id %s --activity-id %s", text, plaintext.ShellQuote(workflow), plaintext.ShellQuote(p.GetActivityId()))
}

// heldCalls says, a line each, which calls of an open run and of its branches wait: for their turn,
// or for another attempt.
func heldCalls(ctx context.Context, t *config.Temporal, id string, about about) []string {
	if about.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := t.Client.DescribeWorkflowExecution(ctx, id, about.run)
	if err != nil {
		return nil
	}
	var out []string
	add := func(id string, all []*workflowpb.PendingActivityInfo) {
		for _, p := range all {
			if text := heldText(p, id, time.Now()); text != "" {
				out = append(out, plaintext.Line(p.GetActivityId()+": "+text, 600))
			}
		}
	}
	add(id, d.GetPendingActivities())
	children := d.GetPendingChildren()
	for _, c := range children[:min(len(children), mostBranches)] {
		if of, err := t.Client.DescribeWorkflowExecution(ctx, c.GetWorkflowId(), c.GetRunId()); err == nil {
			add(c.GetWorkflowId(), of.GetPendingActivities())
		}
	}
	return out
}

// heldText is why a call is not under way; "" where it is.
func heldText(p *workflowpb.PendingActivityInfo, workflow string, now time.Time) string {
	if paused := pausedText(p, workflow); paused != "" {
		return paused
	}
	if waiting := history.Waiting(p); waiting != "" {
		return waiting
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
