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

// answer polls a run and answers its requests: in every round all known requests, the newest first,
// each twice by signal and once by Update, and a request that does not exist.
func (l *lane) answer(ctx context.Context, f *chaosFlow, id string) {
	if f.answer == nil {
		return
	}
	var known []contract.Request
	for ctx.Err() == nil {
		queryCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
		v, err := l.client.QueryWorkflow(queryCtx, id, "", contract.QueryStatus)
		cancel()
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
			l.send(ctx, id, q.Kind, f.answer(q))
		}
		if len(known) > 0 {
			_ = l.client.SignalWorkflow(ctx, id, "", contract.RequestConfirm, map[string]any{"id": "nobody", "approve": false})
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// prompt sends a session its prompts: each after the previous turn has ended, and all earlier ones
// again in every round, the newest first. Then it closes the session.
func (l *lane) prompt(ctx context.Context, f *chaosFlow, id string) {
	for f.prompts != nil && ctx.Err() == nil {
		for i, text := range slices.Backward(f.prompts[:min(len(f.prompts), l.turns(ctx, id))]) {
			l.send(ctx, id, contract.UpdatePrompt, contract.PromptInput{ID: string(rune('a' + i)), Prompt: text})
		}
		if l.turns(ctx, id) > len(f.prompts)+f.callbacks {
			l.send(ctx, id, contract.UpdateCloseSession, contract.CloseSessionInput{Reason: "enough"})
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// turns counts the ended turns of a session.
func (l *lane) turns(ctx context.Context, id string) int {
	queryCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var turns []contract.Turn
	if v, err := l.client.QueryWorkflow(queryCtx, id, "", contract.QueryTurns); err != nil || v.Get(&turns) != nil {
		return 0
	}
	return len(slices.DeleteFunc(turns, func(t contract.Turn) bool { return !t.Done() }))
}

// send sends a message by Update, between two signals. Errors do not matter: the next round sends it again.
func (l *lane) send(ctx context.Context, id, name string, arg any) {
	_ = l.client.SignalWorkflow(ctx, id, "", name, arg)
	updateCtx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if u, err := l.client.UpdateWorkflow(updateCtx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageAccepted}); err == nil {
		_ = u.Get(updateCtx, nil)
	}
	_ = l.client.SignalWorkflow(ctx, id, "", name, arg)
}

// normalized removes times and the id of the run, and the usage of turns if nested sessions call back: which turn it counts for depends on timing.
func normalized(f *chaosFlow, r *contract.RunResult, id string) (*contract.RunResult, error) {
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
	return &out, json.Unmarshal(replaceRunID(raw, id), &out)
}

// anyRunID replaces the id of any run.
const anyRunID = "no-run-id"

// replaceRunID replaces the id of a run with [anyRunID], so that runs can be compared.
func replaceRunID(raw []byte, id string) []byte {
	return bytes.ReplaceAll(raw, []byte(id), []byte(anyRunID))
}
