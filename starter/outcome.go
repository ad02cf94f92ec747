package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/worker/config"
)

// How a run without a result ended.
const (
	endFailed     = "failed"
	endCancelled  = "cancelled"
	endTerminated = "terminated"
	endTimedOut   = "timed_out"
)

// ending is what -output json prints in place of a result.
type ending struct {
	// Status is one of the constants above; a result's is "completed".
	Status string `json:"status"`
	Run    string `json:"run"`
	contract.Failure
}

// conclude prints the outcome of a closed run: the result, or why there is none.
func (a *app) conclude(ctx context.Context, t *config.Temporal, id, run string) error {
	var res contract.RunResult
	if err := t.Client.GetWorkflow(ctx, id, run).Get(ctx, &res); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return a.noResult(ctx, t, id, run, err)
	}
	if contract.ScriptedAll(res.Model) {
		a.say("the result below comes from scripted answers, not from a model")
	}
	for _, m := range res.Unread {
		a.say("unread: no model call has had the message %s", unreadLine(&m))
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
func (a *app) printResult(words *string, data []byte) {
	text := string(data)
	if words != nil {
		text = *words
	}
	text = string(a.mask.JSON([]byte(text)))
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_ = a.exactly([]byte(text))
}

// noResult says how a run ended that has no result.
func (a *app) noResult(ctx context.Context, t *config.Temporal, id, run string, err error) error {
	end := ending{Status: statusOf(err), Run: id, Failure: *contract.FailureOf(err)}
	switch end.Status {
	case endTerminated:
		if why := terminatedWhy(ctx, t, id, run); why != "" {
			end.Text += ": " + why
		}
		a.say("starter: run %s was %s", id, plaintext.Line(end.Text, 1000))
	case endCancelled:
		a.say("starter: run %s was cancelled", id)
	default:
		a.explain(id, &end.Failure)
	}
	if a.flags.asJSON() {
		a.object(end)
	}
	if end.Status == endCancelled || end.Status == endTerminated {
		return coded(exitCancelled)
	}
	return coded(exitFailed)
}

// statusOf is how the error of a closed run says that it ended.
func statusOf(err error) string {
	var missing *temporal.TerminatedError
	var late *temporal.TimeoutError
	var own *temporal.ApplicationError
	switch {
	case errors.As(err, &missing):
		return endTerminated
	case contract.Cancelled(err):
		return endCancelled
	case !errors.As(err, &own) && errors.As(err, &late):
		return endTimedOut
	}
	return endFailed
}

// terminatedWhy is the reason that was given for the end of a run, or "".
func terminatedWhy(ctx context.Context, t *config.Temporal, id, run string) string {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return history.TerminationReason(ctx, t.Client, id, run)
}

// explain says why a run failed: class, place, text, what led there, what to do.
func (a *app) explain(id string, f *contract.Failure) {
	a.say("starter: run %s failed: %s", id, f.Class)
	if f.Node != "" {
		where := fmt.Sprintf("node %q", plaintext.Line(f.Node, 200))
		if f.Step > 0 {
			where += fmt.Sprintf(", step %d", f.Step)
		}
		if f.At != "" {
			where += ", " + plaintext.Line(f.At, 300)
		}
		a.say("  where:  %s", where)
	} else if f.At != "" {
		a.say("  where:  %s", plaintext.Line(f.At, 300))
	}
	what, more := f.Text, f.Diagnostics
	if len(more) > 0 && what == strings.Join(more, "; ") {
		what, more = more[0], more[1:]
	}
	a.say("  what:   %s", plaintext.Line(what, 2000))
	for _, d := range more {
		a.say("          %s", plaintext.Line(d, 500))
	}
	if len(f.Data) > 0 {
		a.say("          it left %s", plaintext.Line(string(f.Data), 2000))
	}
	for _, e := range f.Errors {
		a.say("          %s: %s", plaintext.Line(e.Path, 200), plaintext.Line(e.Message, 500))
	}
	for _, n := range f.NoRoute {
		a.say("          %s: all conditions said no", plaintext.Line(n, 200))
	}
	for _, q := range f.Answers {
		a.say("          %s", answerLine(q))
	}
	if f.Remedy != "" {
		a.say("  remedy: %s", plaintext.Line(f.Remedy, 1000))
	}
}

func answerLine(q contract.Answer) string {
	line := fmt.Sprintf("%s asked %q: %s", plaintext.Line(q.Execution, 200), plaintext.Line(q.Question, 300), plaintext.YesNo(q.Yes))
	if q.Reason != "" {
		line += " (" + plaintext.Line(q.Reason, 300) + ")"
	}
	return line
}
