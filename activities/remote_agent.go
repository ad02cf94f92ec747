package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"weft/activities/contract"
	"weft/activities/tool/a2a"
)

// remote sends a remote agent the users' messages since its last answer. A later attempt continues the task of
// an earlier one; it does not resend a message that the agent may have received.
func (a *Activities) remote(ctx context.Context, in *contract.ModelInput, p *contract.Profile, messages []contract.Message, beats *heartbeats) (*contract.ModelResult, error) {
	if err := a.mayCall(ctx, p.Remote.Connection, "", ""); err != nil {
		return nil, err
	}
	turn := a2a.Turn{Key: in.IdempotencyKey, Started: beats.task, Poll: time.Duration(p.Remote.PollMillis) * time.Millisecond}
	text, last := contract.WrittenSince(messages, func(m *contract.Message) bool { return a2a.IsSession(m.Provider, p.Remote.Connection.URL) })
	if turn.Text = text; last != nil {
		turn.Session = last.Provider
	}
	if activity.HasHeartbeatDetails(ctx) {
		var b contract.Heartbeat
		if err := activity.GetHeartbeatDetails(ctx, &b); err == nil {
			turn.Task = b.Task
		}
	}
	id := activity.GetInfo(ctx).ActivityID
	turn.Lost, turn.Again = earlierSent(ctx), id != contract.CallID(id)
	start := time.Now()
	answer, err := a.deps.Tools.Converse(ctx, p.Remote.Connection, turn)
	if errors.Is(err, a2a.ErrNoTask) {
		return nil, lostAttempt(ctx, "the message to the agent")
	}
	if err != nil {
		return nil, beats.outcome(err, false)
	}
	out := &contract.ModelResult{Model: p.Model, Stop: "stop", LatencyMS: time.Since(start).Milliseconds(), Attempt: activity.GetInfo(ctx).Attempt, Asks: answer.Asks}
	m := contract.Message{Role: contract.RoleAssistant, Text: answer.Text, Provider: answer.Session}
	a.maskMessage(&m)
	if p.Output != nil && !answer.Asks {
		if out.Checked, err = checkLone(ctx, p.Output, m.Text); err != nil {
			return nil, err
		}
	}
	return a.finish(ctx, in, out, &m)
}
