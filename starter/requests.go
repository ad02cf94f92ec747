package main

import (
	"context"
	"fmt"
	"time"

	"weft/starter/plaintext"
	"weft/starter/report"
	"weft/starter/runs"
	"weft/starter/usage"
)

func (a *app) requests(ctx context.Context, r *runs.Run, _ []string) error {
	list := []runs.Request{}
	if r.Open() {
		st, err := a.reported(ctx, r)
		if err != nil {
			return err
		}
		for i := range st.Requests {
			list = append(list, r.Request("", &st.Requests[i], time.Now()))
		}
	} else {
		a.say("%s", r.Closed(ctx))
	}
	emit(a, list, list, func() {
		for i := range list {
			if i > 0 {
				fmt.Fprintln(a.stdout)
			}
			report.Request(a.stdout, &list[i])
		}
		if len(list) == 0 && r.Open() {
			a.say("the run %q has no open requests", r.ID)
		}
	})
	return nil
}

func (a *app) list(ctx context.Context, _ []string) error {
	if a.flags.waiting && a.flags.all {
		return usage.Errorf("-waiting and -all cannot be combined: closed runs wait for nothing")
	}
	c, err := a.remote(ctx)
	if err != nil {
		return err
	}
	defer c.Client.Close()
	wanted := runs.Filter{Flow: a.flags.name, Status: a.flags.status, Closed: a.flags.all, Limit: a.flags.limit}
	if a.flags.waiting {
		return a.waiting(ctx, c, wanted)
	}
	all, more, err := c.List(ctx, wanted)
	if err != nil {
		return err
	}
	emit(a, all, all, func() { a.table(all) })
	if more {
		a.sayMore()
	}
	return nil
}

func (a *app) sayMore() {
	a.say("there are more; see them with: -limit %d, or -limit 0 for all", a.flags.limit*4)
}

func (a *app) table(all []runs.Summary) {
	if len(all) > 0 {
		report.Runs(a.stdout, all)
		return
	}
	what := "open runs; -all lists those that have ended too"
	if a.flags.all || a.flags.status != "" {
		what = "runs"
	}
	if a.flags.name != "" || a.flags.status != "" {
		what = "such " + what
	}
	a.say("there are no %s", what)
}

// waiting prints what open runs wait for, the longest waits first in each run.
func (a *app) waiting(ctx context.Context, c *runs.Connection, wanted runs.Filter) error {
	if !a.flags.has("limit") {
		wanted.Limit = 0
	}
	all, more, err := c.List(ctx, wanted)
	if err != nil {
		return err
	}
	box := c.Requests(ctx, all)
	entries := make([]any, 0, len(box.Requests)+len(box.Silent))
	for _, q := range box.Requests {
		entries = append(entries, q)
	}
	for _, s := range box.Silent {
		entries = append(entries, s)
	}
	emit(a, box, entries, func() {
		if len(box.Requests) == 0 {
			a.say("no open run waits for an answer")
			return
		}
		report.Requests(a.stdout, box.Requests)
	})
	for i, s := range box.Silent {
		if i == runs.MaxConcurrent {
			a.say("no answer: %d more runs; -output json names them", len(box.Silent)-i)
			break
		}
		a.say("no answer: %s", plaintext.Line(s.Error, 1000))
	}
	if more {
		a.say("only the %d youngest runs were asked; leave out -limit to ask all", wanted.Limit)
	}
	if len(box.Silent) > 0 {
		a.say("starter: of %d open runs %d did not answer; what they wait for is not in the list", len(all), len(box.Silent))
		return exitCode(exitFailed)
	}
	return nil
}
