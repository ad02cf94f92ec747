package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"weft/specadapter"
	"weft/starter/history"
	"weft/starter/impact"
	"weft/starter/plaintext"
	"weft/starter/runtree"
	"weft/worker/config"
)

// impact says what an edited flow means to the open runs of the flow with its name.
func (a *app) impact(ctx context.Context, _ []string) error {
	if a.flags.flow == "" {
		return bad("missing -flow; usage: starter impact -flow FILE")
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	res, err := a.compile(cfg, a.flags.flow, true)
	if err != nil {
		return err
	}
	temporal, err := a.connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	if a.flags.name == "" {
		a.flags.name = res.Flow.Name
	}
	wanted, err := a.filter(ctx, temporal)
	if err != nil {
		return err
	}
	wanted.limit = 0
	runs, _, err := findRuns(ctx, temporal, wanted)
	if err != nil {
		return err
	}
	out := []impact.Run{}
	for _, r := range runs {
		x, err := a.impactOn(ctx, temporal, r.ID, res)
		if err != nil {
			x = impact.Run{Run: r.ID, Impact: impact.Unknown, Because: []impact.Node{{Text: err.Error()}}}
		}
		out = append(out, x)
	}
	switch a.flags.output {
	case outputJSON:
		a.object(out)
	case outputLines:
		for _, x := range out {
			a.object(x)
		}
	default:
		a.impactTable(out)
	}
	return nil
}

// impactOn says what the new flow means to one run.
func (a *app) impactOn(ctx context.Context, t *config.Temporal, id string, res *specadapter.Result) (impact.Run, error) {
	about, err := a.describe(ctx, t, id)
	if err != nil {
		return impact.Run{}, err
	}
	read, err := runtree.Read(ctx, history.From(t.Client), id, about.run)
	if err != nil {
		return impact.Run{}, err
	}
	all, err := a.facts(ctx, t, about, read)
	if err != nil {
		return impact.Run{}, err
	}
	return impact.Weigh(all[0], res.Flow, &res.Source), nil
}

// impactTable prints runs as lines.
func (a *app) impactTable(all []impact.Run) {
	if len(all) == 0 {
		a.say("no open runs of the flow %q; set another with -name", plaintext.Line(a.flags.name, 200))
		return
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, x := range all {
		if len(x.Because) == 0 {
			fmt.Fprintf(w, "%s\t%s\t\n", x.Impact, plaintext.Line(x.Run, 200))
		}
		for i, n := range x.Because {
			what, run := x.Impact, plaintext.Line(x.Run, 200)
			if i > 0 {
				what, run = "", ""
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", what, run, plaintext.Line(impact.Line(&n), 500))
		}
	}
	w.Flush()
}
