package main

import (
	"cmp"
	"context"

	"weft/specadapter"
	"weft/starter/history"
	"weft/starter/impact"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/usage"
	"weft/starter/why"
)

// impact prints what an edited flow would change for the open runs of the flow with its name.
func (a *app) impact(ctx context.Context, _ []string) error {
	if a.flags.Flow == "" {
		return usage.Errorf("missing -flow; usage: starter impact -flow FILE")
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	res, err := a.compile(cfg, a.flags.Flow, true)
	if err != nil {
		return err
	}
	c, err := a.connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Client.Close()
	name := cmp.Or(a.flags.name, res.Flow.Name)
	all, _, err := c.List(ctx, runs.Filter{Flow: name})
	if err != nil {
		return err
	}
	out := []impact.Run{}
	for _, r := range all {
		x, err := impactOn(ctx, c, r.ID, res)
		if err != nil {
			x = impact.Run{Run: r.ID, Impact: impact.Unknown, Because: []impact.Node{{Text: err.Error()}}}
		}
		out = append(out, x)
	}
	emit(a, out, out, func() {
		if len(out) == 0 {
			a.say("no open runs of the flow %q; set another with -name", plaintext.Line(name, 200))
			return
		}
		impact.Table(a.stdout, out)
	})
	return nil
}

func impactOn(ctx context.Context, c *runs.Connection, id string, res *specadapter.Result) (impact.Run, error) {
	r, err := c.Find(ctx, id)
	if err != nil {
		return impact.Run{}, err
	}
	tree, err := runtree.Read(ctx, history.From(c.Client), id, r.RunID)
	if err != nil {
		return impact.Run{}, err
	}
	all, err := why.Gather(ctx, r, tree)
	if err != nil {
		return impact.Run{}, err
	}
	return impact.Weigh(all[0], res.Flow, &res.Source), nil
}
