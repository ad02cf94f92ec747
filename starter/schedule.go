package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

type scheduleFlags struct {
	cron, every       []string
	timezone, overlap string
}

// overlaps are the values of -overlap: Temporal's names in lower case.
var overlaps = []string{"skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other", "allow_all"}

// options returns Temporal's options for the flags. It validates only what Temporal does not.
func (f *scheduleFlags) options(name string) (client.ScheduleOptions, error) {
	const maxName = runs.MaxID - 30 // a run's id also has the start time
	o := client.ScheduleOptions{ID: name, Spec: client.ScheduleSpec{CronExpressions: f.cron, TimeZoneName: f.timezone}}
	switch {
	case name == "" || strings.ContainsFunc(name, plaintext.Unprintable) || len(name) > maxName:
		return o, usage.Errorf("invalid schedule name %.100q: expected printable ASCII, from 1 to %d bytes", name, maxName)
	case len(f.cron)+len(f.every) == 0:
		return o, usage.Errorf("missing times; set -cron \"0 9 * * 1-5\" or -every 6h")
	case f.timezone != "" && len(f.cron) == 0:
		return o, usage.Errorf("-timezone requires -cron")
	}
	for _, interval := range f.every {
		o.Spec.CronExpressions = append(o.Spec.CronExpressions, "@every "+interval)
	}
	o.Overlap = enumspb.ScheduleOverlapPolicy(enumspb.ScheduleOverlapPolicy_value["SCHEDULE_OVERLAP_POLICY_"+strings.ToUpper(f.overlap)])
	return o, nil
}

func (a *app) createSchedule(ctx context.Context, args []string) error {
	name := args[0]
	o, err := a.flags.options(name)
	if err != nil {
		return err
	}
	if a.flags.Flow == "" {
		return usage.Errorf("missing -flow; usage: starter schedule create NAME -flow FILE -cron EXPRESSION")
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	flow, in, err := a.input(ctx, cfg)
	if err != nil {
		return err
	}
	if err := a.approveCommands(cfg, flow); err != nil {
		return err
	}
	in.Principal = a.principal()
	// The schedule contains the input itself: a store would delete it after some time.
	inline := *cfg
	inline.Store.Dir, inline.Store.Bucket = "", ""
	c, err := a.connect(ctx, &inline)
	if err != nil {
		return err
	}
	action, err := c.ScheduleAction(ctx, name, cfg.TaskQueue, flow, in)
	if err != nil {
		return err
	}
	action.Priority = a.flags.temporalPriority()
	o.Action = action
	next, err := addSchedule(ctx, c, o)
	if err != nil {
		return err
	}
	if a.dev != nil && a.dev.Embedded {
		a.say("the embedded server stops with the last command that uses it; it makes up for missed starts when it runs again")
	}
	if len(next) == 0 {
		a.say("warning: the schedule %s has no future times and starts nothing", plaintext.ShellQuote(name))
	}
	a.show(map[string]any{"schedule": name, "next": next}, func() {
		fmt.Fprintln(a.stdout, name)
		for _, at := range next {
			fmt.Fprintf(a.stdout, "  next  %s\n", at.Local().Format(time.DateTime))
		}
	})
	a.say("temporal schedule describe, toggle, trigger and delete take --schedule-id %s", plaintext.ShellQuote(name))
	return nil
}

// addSchedule creates a schedule and returns its next times.
func addSchedule(ctx context.Context, c *runs.Connection, o client.ScheduleOptions) ([]time.Time, error) {
	handle, err := c.Client.ScheduleClient().Create(ctx, o)
	switch {
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning):
		return nil, usage.Errorf("the schedule %q already exists; delete it with: temporal schedule delete --schedule-id %s; or use another name", o.ID, plaintext.ShellQuote(o.ID))
	case runs.Is[*serviceerror.InvalidArgument](err):
		return nil, usage.Errorf("Temporal rejected the schedule %q: %v; fix the flags", o.ID, err)
	case err != nil:
		return nil, fmt.Errorf("create the schedule %q: %w", o.ID, err)
	}
	d, err := handle.Describe(ctx)
	if err != nil {
		return nil, fmt.Errorf("describe the schedule %q: %w", o.ID, err)
	}
	return append([]time.Time{}, d.Info.NextActionTimes...), nil
}
