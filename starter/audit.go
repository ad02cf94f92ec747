package main

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/starter/audit"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/worker/config"
)

// audit prints what a run asked, and who answered what. It is read from history; a worker adds
// what is open.
func (a *app) audit(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	l := audit.NewReader(args[0])
	if err := l.Read(ctx, history.From(temporal.Client), about.run); err != nil {
		var part *audit.PartError
		if errors.As(err, &part) {
			return bad("%q is a part of another run, which has its requests; use: starter audit %s", part.Run, plaintext.ShellQuote(part.Root))
		}
		return err
	}
	a.stillOpen(ctx, temporal, args[0], about, l)
	out := l.Trail()
	out.Status = history.StatusName(about.status)
	switch a.flags.output {
	case outputJSON:
		a.object(out)
	case outputLines:
		for _, r := range out.Requests {
			a.object(r)
		}
	default:
		fmt.Fprint(a.stdout, audit.Text(out))
	}
	if out.Incomplete != "" {
		a.say("warning: %s", out.Incomplete)
	}
	return nil
}

// stillOpen adds what an open run waits for, as its worker knows it.
func (a *app) stillOpen(ctx context.Context, t *config.Temporal, id string, about about, l *audit.Reader) {
	if l.Ended = about.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING; l.Ended {
		return
	}
	var st contract.Status
	about.patience = closedTimeout
	if err := ask(ctx, t, id, about, contract.QueryStatus, &st); err != nil {
		l.Lacks(fmt.Sprintf("no worker answers for the run %q: what it waits for itself and nobody has answered is not shown", id))
		return
	}
	l.AddOpen(&st)
}
