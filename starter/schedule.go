package main

import (
	"context"

	"weft/starter/plaintext"
	"weft/starter/schedules"
	"weft/starter/usage"
)

func (a *app) createSchedule(ctx context.Context, args []string) error {
	if err := schedules.CheckName(args[0]); err != nil {
		return err
	}
	if a.flags.Flow == "" {
		return usage.Errorf("missing -flow; usage: starter schedule create NAME -flow FILE -cron EXPRESSION")
	}
	if _, err := a.flags.Spec(); err != nil {
		return err
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	in, err := a.input(ctx)
	if err != nil {
		return err
	}
	if err := a.mayStart(cfg, in.Flow.Plan); err != nil {
		return err
	}
	// The input stays with the schedule: a store deletes what has not been stored for long.
	inline := *cfg
	inline.Store.Dir, inline.Store.Bucket = "", ""
	c, err := a.connect(ctx, &inline)
	if err != nil {
		return err
	}
	action, err := c.ScheduleAction(ctx, args[0], cfg.TaskQueue, in)
	if err != nil {
		return err
	}
	action.Priority = a.flags.temporalPriority()
	s, err := schedules.Create(ctx, c, schedules.Options{Name: args[0], Times: a.flags.Times, Action: action, Note: a.flags.reason, Paused: a.flags.paused, Replace: a.flags.replace})
	if err != nil {
		return err
	}
	if a.dev != nil && a.dev.Embedded {
		a.say("the embedded server stops with the last command that uses it; starts missed until then are caught up later")
	}
	if s.State == schedules.Active && len(s.Next) == 0 {
		a.say("warning: the schedule %s has no future times and starts nothing; change them with -replace", plaintext.ShellQuote(s.Schedule))
	}
	a.show(s, func() { schedules.Text(a.stdout, s) })
	return nil
}

func (a *app) listSchedules(ctx context.Context, _ []string) error {
	c, err := a.remote(ctx)
	if err != nil {
		return err
	}
	all, more, err := schedules.List(ctx, c, a.flags.limit)
	if err != nil {
		return err
	}
	emit(a, all, all, func() {
		if len(all) == 0 {
			a.say("no schedules start flows")
			return
		}
		schedules.Table(a.stdout, all)
	})
	if more {
		a.sayMore()
	}
	return nil
}
