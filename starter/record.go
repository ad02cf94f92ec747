package main

import (
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/recording"
)

// record prints a run that has ended as a recording: a script, and what else starter test needs
// to play it again. It reads histories only.
func (a *app) record(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	if about.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return a.unended(ctx, temporal.Client, args[0], about.run)
	}
	raw, warnings, err := recording.Record(ctx, history.From(temporal.Client), args[0], about.run, a.mask)
	for _, w := range warnings {
		a.say("warning: %s", w)
	}
	var unusable *recording.NoPlanError
	switch {
	case errors.As(err, &unusable):
		return badInput{err.Error()}
	case err != nil:
		return err
	}
	return a.exactly(raw)
}

// unended says why a run that has not ended is not recorded.
func (a *app) unended(ctx context.Context, c client.Client, id, run string) error {
	for e, err := range history.NewTail(c, history.Run{Workflow: &history.Workflow{ID: id}, RunID: run}).Events(ctx) {
		if s, ok := e.Data.(*history.Started); err == nil && ok && s.IsSession() {
			return bad("the session %q is still open; a recording is made of a whole one: end it with starter stop %s, then record it", id, plaintext.ShellQuote(id))
		}
		break
	}
	return bad("the run %q has not ended; a recording is made of a whole run: wait for it with starter watch %s, or end it with starter cancel %s", id, plaintext.ShellQuote(id), plaintext.ShellQuote(id))
}
