package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
)

// answer answers a run's requests: the newest first, each of them twice by signal and once by
// Update, every time that it looks, besides answers to nothing.
func (l *lane) answer(ctx context.Context, f *chaosFlow, id string) {
	if f.answer == nil {
		return
	}
	var known []contract.Request
	for ctx.Err() == nil {
		asked, stop := context.WithTimeout(ctx, 5*time.Second)
		v, err := l.client.QueryWorkflow(asked, id, "", contract.QueryStatus)
		stop()
		var s contract.Status
		if err == nil && v.Get(&s) == nil {
			if s.Status != contract.StatusRunning && s.Status != contract.StatusWaiting && s.Status != contract.StatusIdle {
				return
			}
			for _, q := range s.Requests {
				if !slices.ContainsFunc(known, func(k contract.Request) bool { return k.ID == q.ID }) {
					known = append(known, q)
				}
			}
		}
		for _, q := range slices.Backward(known) {
			l.say(ctx, id, q.Kind, f.answer(q))
		}
		if len(known) > 0 {
			_ = l.client.SignalWorkflow(ctx, id, "", contract.RequestConfirm, map[string]any{"id": "nobody", "approve": false})
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// prompt gives a session its prompts: each when the turn before it has ended, and those before it
// again, the newest first, every time that it looks. Then it stops the session.
func (l *lane) prompt(ctx context.Context, f *chaosFlow, id string) {
	for f.prompts != nil && ctx.Err() == nil {
		for i, text := range slices.Backward(f.prompts[:min(len(f.prompts), l.turns(ctx, id))]) {
			l.say(ctx, id, contract.UpdatePrompt, contract.PromptInput{ID: string(rune('a' + i)), Prompt: text})
		}
		if l.turns(ctx, id) > len(f.prompts)+f.callbacks {
			l.say(ctx, id, contract.UpdateCloseSession, contract.CloseSessionInput{Reason: "enough"})
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// turns counts the turns of a session that have ended.
func (l *lane) turns(ctx context.Context, id string) int {
	asked, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	var turns []contract.Turn
	if v, err := l.client.QueryWorkflow(asked, id, "", contract.QueryTurns); err != nil || v.Get(&turns) != nil {
		return 0
	}
	return len(slices.DeleteFunc(turns, func(t contract.Turn) bool { return !t.Done() }))
}

// say says something by Update, between two signals. Whether one of them comes through does not matter:
// the next round says it again.
func (l *lane) say(ctx context.Context, id, name string, what any) {
	_ = l.client.SignalWorkflow(ctx, id, "", name, what)
	update, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if u, err := l.client.UpdateWorkflow(update, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: []any{what}, WaitForStage: client.WorkflowUpdateStageAccepted}); err == nil {
		_ = u.Get(update, nil)
	}
	_ = l.client.SignalWorkflow(ctx, id, "", name, what)
}

// timeless is a result without times and without the run's id, which are others each time. What sessions
// below told while a turn was under way is of that turn's usage; where they call back, that is another time.
func timeless(f *chaosFlow, r *contract.RunResult, id string) (*contract.RunResult, error) {
	for i := range r.Turns {
		r.Turns[i].StartedAt, r.Turns[i].EndedAt = nil, nil
		if f.callbacks > 0 {
			r.Turns[i].Usage = nil
		}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var out contract.RunResult
	return &out, json.Unmarshal(anyRun(raw, id), &out)
}

// noRun stands for the id of whatever run it is.
const noRun = "no-run-id"

// anyRun is what names a run as if all runs had one id.
func anyRun(raw []byte, id string) []byte { return bytes.ReplaceAll(raw, []byte(id), []byte(noRun)) }
