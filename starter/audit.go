package main

import (
	"context"
	"errors"
	"fmt"

	"weft/starter/audit"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"
)

func (a *app) audit(ctx context.Context, r *runs.Run, _ []string) error {
	l := audit.NewReader(r.ID)
	if err := l.Read(ctx, history.From(r.Client), r.RunID); err != nil {
		if part, ok := errors.AsType[*audit.PartError](err); ok {
			return usage.Errorf("%q is a part of another run, which has its requests; use: starter audit %s", part.Run, plaintext.ShellQuote(part.Root))
		}
		return err
	}
	addOpen(ctx, r, l)
	out := l.Trail()
	out.Status = history.StatusName(r.Status)
	emit(a, out, out.Requests, func() { fmt.Fprint(a.stdout, audit.Text(out)) })
	if out.Incomplete != "" {
		a.say("warning: %s", out.Incomplete)
	}
	return nil
}

// addOpen adds what an open run waits for, as its worker knows it.
func addOpen(ctx context.Context, r *runs.Run, l *audit.Reader) {
	if l.Ended = !r.Open(); l.Ended {
		return
	}
	st, err := r.Below(r.ID, r.RunID, r.Status).Reported(ctx)
	if err != nil {
		l.Lacks(fmt.Sprintf("no worker answers for the run %q: what it waits for itself and nobody has answered is not shown", r.ID))
		return
	}
	l.AddOpen(st)
}
