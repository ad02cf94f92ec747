package main

import (
	"context"
	"fmt"

	"weft/starter/history"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/why"
)

func (a *app) why(ctx context.Context, r *runs.Run, args []string) error {
	t, err := runtree.Read(ctx, history.From(r.Client), r.ID, r.RunID)
	if err != nil {
		return err
	}
	facts, err := why.Gather(ctx, r, t)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		if facts, err = why.Select(facts, args[0]); err != nil {
			return err
		}
	}
	report := why.Explain(facts, t.Missing)
	if a.flags.asJSON() {
		a.object(report)
		return nil
	}
	if report.FromHistory {
		a.say("no worker answers for the run; this is from its history, which does not have nodes that make no calls")
	}
	fmt.Fprint(a.stdout, why.Text(&report, len(args) > 0))
	return nil
}
