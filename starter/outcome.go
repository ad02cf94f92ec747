package main

import (
	"context"
	"strings"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/starter/report"
	"weft/starter/runs"
)

// conclude prints the outcome of a closed run: the result, or why there is none.
func (a *app) conclude(ctx context.Context, r *runs.Run) error {
	var res contract.RunResult
	if err := r.Client.GetWorkflow(ctx, r.ID, r.RunID).Get(ctx, &res); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return a.noResult(ctx, r, err)
	}
	if contract.ScriptedAll(res.Model) {
		a.say("the result below comes from scripted answers, not from a model")
	}
	for _, m := range res.UnreadMessages {
		a.say("unread: no model call has had the message %s", report.Unread(&m))
	}
	if a.flags.asJSON() {
		a.object(res)
		return nil
	}
	if res.ResultText == nil && res.ResultData == nil {
		a.say("the session was stopped before its last turn had a result")
		return nil
	}
	a.printResult(res.ResultText, res.ResultData)
	return nil
}

// printResult prints a result: what is JSON stays JSON, and what holds no secret stays as it is.
func (a *app) printResult(value *string, data []byte) {
	text := string(data)
	if value != nil {
		text = *value
	}
	text = string(a.mask.JSON([]byte(text)))
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_ = a.writeUnmasked([]byte(text))
}

func (a *app) noResult(ctx context.Context, r *runs.Run, err error) error {
	end := r.Failure(ctx, err)
	switch end.Status {
	case runs.Terminated:
		a.say("starter: run %s was %s", r.ID, plaintext.Line(end.Text, 1000))
	case runs.Cancelled:
		a.say("starter: run %s was cancelled", r.ID)
	default:
		a.explain(r.ID, &end.Failure)
	}
	if a.flags.asJSON() {
		a.object(end)
	}
	if end.Status == runs.Cancelled || end.Status == runs.Terminated {
		return exitCode(exitCancelled)
	}
	return exitCode(exitFailed)
}

func (a *app) explain(id string, f *contract.Failure) {
	for _, line := range report.Failure(id, f) {
		a.say("%s", line)
	}
}
