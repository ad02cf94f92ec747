package main

import (
	"context"
	"fmt"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/recording"
	"weft/starter/runs"
	"weft/starter/usage"
	"weft/worker/rehearse"
	"weft/workflows/plan"
)

// test plays recordings again, without network, and says where each first becomes another run.
func (a *app) test(_ context.Context, args []string) error {
	recordings, err := a.recordings(args)
	if err != nil {
		return err
	}
	reports := []*rehearse.Report{}
	failed := 0
	for _, r := range recordings {
		rep, err := rehearse.Play(r)
		if err != nil {
			return err
		}
		reports = append(reports, rep)
		if !rep.OK {
			failed++
		}
		if !a.flags.asJSON() {
			fmt.Fprint(a.stdout, tested(rep))
		} else if a.flags.output == outputLines {
			a.object(rep)
		}
	}
	if a.flags.output == outputJSON {
		a.object(map[string]any{"files": reports, "failed": failed})
	}
	if failed > 0 {
		return exitCode(exitFailed)
	}
	return nil
}

func (a *app) recordings(names []string) ([]*rehearse.Recording, error) {
	var flow *contract.FlowRef
	if a.flags.Flow != "" {
		res, err := a.compile(a.flags.Flow, true)
		if err != nil {
			return nil, err
		}
		flow = &contract.FlowRef{Plan: res.Flow, Source: &res.Source}
	}
	var out []*rehearse.Recording
	for _, name := range names {
		data, err := a.reader().File("the recording", name)
		if err != nil {
			return nil, err
		}
		r, err := rehearse.Read(name, data)
		if err != nil {
			return nil, usage.Error{Text: err.Error()}
		}
		if r.Run.Flow.Plan.Version > plan.Version {
			return nil, usage.Errorf("%s: its plan has version %d, this build supports %d; update starter", name, r.Run.Flow.Plan.Version, plan.Version)
		}
		if flow != nil {
			r.Run.Flow = *flow
		}
		out = append(out, r)
	}
	return out, nil
}

func tested(r *rehearse.Report) string {
	if r.OK {
		turns := plaintext.If(r.Turns > 0, "%d turns, ", r.Turns)
		return fmt.Sprintf("ok    %s: %d calls, %s%s\n", plaintext.Line(r.File, 500), r.Calls, turns, r.Status)
	}
	d := r.First
	where := ""
	if d.Node != "" {
		where = fmt.Sprintf(", node %s, step %d", plaintext.Line(d.Node, 200), d.Step)
		where += plaintext.If(d.FlowAt != "", " (%s)", plaintext.Line(d.FlowAt, 300))
	}
	where += plaintext.If(d.Call != "", ", call %s", plaintext.Line(d.Call, 300))
	text := fmt.Sprintf("FAIL  %s:%d: %s%s\n  expected: %s\n  got:      %s\n", plaintext.Line(d.File, 500), d.Line, d.What, where, plaintext.Line(d.Expected, 700), plaintext.Line(d.Got, 700))
	text += plaintext.If(r.Others > 0, "  and %d more after it\n", r.Others)
	return text
}

func (a *app) record(ctx context.Context, r *runs.Run, _ []string) error {
	if r.Open() {
		return notClosed(ctx, r)
	}
	raw, warnings, err := recording.Record(ctx, history.From(r.Client), r.ID, r.RunID, a.mask)
	for _, w := range warnings {
		a.say("warning: %s", w)
	}
	if err != nil {
		return err
	}
	return a.writeUnmasked(raw)
}

func notClosed(ctx context.Context, r *runs.Run) error {
	for e, err := range history.NewTail(r.Client, history.Run{Workflow: &history.Workflow{ID: r.ID}, RunID: r.RunID}).Events(ctx) {
		if s, ok := e.Data.(*history.Started); err == nil && ok && s.IsSession() {
			return usage.Errorf("the session %q is still open; only closed sessions can be recorded: close it with starter stop %s, then record it", r.ID, r.Quoted())
		}
		break
	}
	return usage.Errorf("the run %q has not ended; only closed runs can be recorded: wait for it with starter follow %s, or cancel it with starter cancel %s", r.ID, r.Quoted(), r.Quoted())
}
