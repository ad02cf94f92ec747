package main

import (
	"context"
	"fmt"

	"weft/starter/compare"
	"weft/starter/history"
	"weft/starter/runs"
	"weft/starter/runtree"
)

func (a *app) compare(ctx context.Context, args []string) error {
	c, err := a.remote(ctx)
	if err != nil {
		return err
	}
	defer c.Client.Close()
	table, err := compared(ctx, c, args[0], args[1])
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

func compared(ctx context.Context, c *runs.Connection, ids ...string) (*compare.Table, error) {
	var trees [2]*runtree.Tree
	for side, id := range ids {
		r, err := c.Find(ctx, id)
		if err != nil {
			return nil, err
		}
		if trees[side], err = runtree.Read(ctx, history.From(c.Client), id, r.RunID); err != nil {
			return nil, err
		}
	}
	return compare.Of([2]string(ids), trees), nil
}
