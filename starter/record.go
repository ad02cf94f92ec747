package main

import (
	"context"

	"weft/starter/history"
	"weft/starter/recording"
	"weft/starter/runs"
	"weft/starter/usage"
)

// record prints a closed run, from its histories, as a recording for starter test.
func (a *app) record(ctx context.Context, r *runs.Run, _ []string) error {
	if r.Open() {
		return notClosed(ctx, r)
	}
	raw, warnings, err := recording.Record(ctx, history.From(r.Client), r.ID, r.RunID, a.mask)
	for _, w := range warnings {
		a.say("warning: %s", w)
	}
	if runs.Is[*recording.NoPlanError](err) {
		return usage.Error{Text: err.Error()}
	}
	if err != nil {
		return err
	}
	return a.writeUnmasked(raw)
}

// notClosed is the error of a run that has not ended.
func notClosed(ctx context.Context, r *runs.Run) error {
	for e, err := range history.NewTail(r.Client, history.Run{Workflow: &history.Workflow{ID: r.ID}, RunID: r.RunID}).Events(ctx) {
		if s, ok := e.Data.(*history.Started); err == nil && ok && s.IsSession() {
			return usage.Errorf("the session %q is still open; a recording is made of a whole one: end it with starter stop %s, then record it", r.ID, r.Quoted())
		}
		break
	}
	return usage.Errorf("the run %q has not ended; a recording is made of a whole run: wait for it with starter follow %s, or end it with starter cancel %s", r.ID, r.Quoted(), r.Quoted())
}
