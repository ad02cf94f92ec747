package main

import (
	"context"
	"fmt"

	"weft/starter/compare"
	"weft/starter/history"
	"weft/starter/runtree"
	"weft/worker/config"
)

// compare shows two runs side by side.
func (a *app) compare(ctx context.Context, args []string) error {
	temporal, err := a.remote(ctx)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	table, err := a.besides(ctx, temporal, args[0], args[1])
	if err != nil {
		return err
	}
	if a.flags.asJSON() {
		a.object(table)
		return nil
	}
	fmt.Fprint(a.stdout, compare.Text(table))
	return nil
}

// besides reads the histories of two runs.
func (a *app) besides(ctx context.Context, t *config.Temporal, ids ...string) (*compare.Table, error) {
	var trees [2]*runtree.Tree
	for side, id := range ids {
		about, err := a.describe(ctx, t, id)
		if err != nil {
			return nil, err
		}
		if trees[side], err = runtree.Read(ctx, history.From(t.Client), id, about.run); err != nil {
			return nil, err
		}
	}
	return compare.Of([2]string(ids), trees), nil
}
