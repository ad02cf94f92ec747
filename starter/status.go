package main

import (
	"context"
	"encoding/json"

	"weft/activities/contract"
	"weft/starter/report"
	"weft/starter/runs"
	"weft/starter/transcript"
)

// status prints where a run stands. Its worker answers, even after the run's end.
func (a *app) status(ctx context.Context, r *runs.Run, _ []string) error {
	st, _, err := a.standing(ctx, r)
	if err != nil {
		return err
	}
	if a.flags.asJSON() {
		a.object(st)
		return nil
	}
	r.AddBranches(ctx, st)
	report.Status(a.stdout, r, st, r.PendingCalls(ctx))
	return nil
}

// standing returns a run's status, with its transcript if that answers instead of a worker.
func (a *app) standing(ctx context.Context, r *runs.Run) (*contract.Status, *transcript.Transcript, error) {
	answered := a.whileSilent(ctx, r)
	st, read, err := r.Standing(ctx)
	answered()
	if read != nil {
		a.say("no worker answers for the run; this is from its history")
	}
	return st, read, err
}

func (a *app) state(ctx context.Context, r *runs.Run, _ []string) error {
	values := map[string]json.RawMessage{}
	answered := a.whileSilent(ctx, r)
	err := r.Query(ctx, contract.QueryState, &values)
	answered()
	if err == nil {
		a.object(values)
	}
	return err
}
