package main

import (
	"context"
	"fmt"

	"weft/activities/contract"
	"weft/starter/plaintext"
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

// recordings reads recordings, with the flow that is to be played in the place of theirs.
func (a *app) recordings(names []string) ([]*rehearse.Recording, error) {
	var flow *contract.FlowRef
	if a.flags.Flow != "" {
		cfg, err := a.load()
		if err != nil {
			return nil, err
		}
		res, err := a.compile(cfg, a.flags.Flow, true)
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
			return nil, usage.Errorf("%s: its plan is of version %d, this build knows %d; update starter", name, r.Run.Flow.Plan.Version, plan.Version)
		}
		if flow != nil {
			r.Run.Flow = *flow
		}
		out = append(out, r)
	}
	return out, nil
}

// tested says what came of one recording.
func tested(r *rehearse.Report) string {
	if r.OK {
		turns := ""
		if r.Turns > 0 {
			turns = fmt.Sprintf("%d turns, ", r.Turns)
		}
		return fmt.Sprintf("ok    %s: %d calls, %s%s\n", plaintext.Line(r.File, 500), r.Calls, turns, r.Status)
	}
	d := r.First
	where := ""
	if d.Node != "" {
		where = fmt.Sprintf(", node %s, step %d", plaintext.Line(d.Node, 200), d.Step)
		if d.FlowAt != "" {
			where += " (" + plaintext.Line(d.FlowAt, 300) + ")"
		}
	}
	if d.Call != "" {
		where += ", call " + plaintext.Line(d.Call, 300)
	}
	text := fmt.Sprintf("FAIL  %s:%d: %s%s\n  expected: %s\n  got:      %s\n", plaintext.Line(d.File, 500), d.Line, d.What, where, plaintext.Line(d.Expected, 700), plaintext.Line(d.Got, 700))
	if r.Others > 0 {
		text += fmt.Sprintf("  and %d more behind it\n", r.Others)
	}
	return text
}
