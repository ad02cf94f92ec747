package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities"
	"weft/activities/contract"
	"weft/worker/config"
)

// createSchedule compiles a flow and hands it to Temporal with the times of its runs. Each of
// them runs what was compiled now.
func (a *app) createSchedule(ctx context.Context, args []string) error {
	name := args[0]
	spec, err := a.scheduleSpec(name)
	if err != nil {
		return err
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	in, _, err := a.input(ctx, cfg)
	if err != nil {
		return err
	}
	if err := a.mayStart(cfg, in.Flow.Plan); err != nil {
		return err
	}
	// The input stays with the schedule: a store forgets what nobody has stored for long.
	inline := *cfg
	inline.Store.Dir, inline.Store.Bucket = "", ""
	t, err := a.connect(ctx, &inline)
	if err != nil {
		return err
	}
	defer t.Client.Close()
	action, err := scheduledStart(ctx, t, name, cfg.TaskQueue, in)
	if err != nil {
		return err
	}
	action.Priority = a.flags.temporalPriority()
	handle, err := t.Client.ScheduleClient().Create(ctx, client.ScheduleOptions{ID: name, Spec: spec, Action: action, Overlap: a.flags.policy(),
		CatchupWindow: a.flags.catchup, Paused: a.flags.paused, Note: a.flags.reason})
	switch {
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning) && a.flags.replace:
		handle = t.Client.ScheduleClient().GetHandle(ctx, name)
		err = a.replaceSchedule(ctx, t, handle, action, &spec)
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning):
		return bad("there is a schedule %q already; update it with -replace, or choose another name", name)
	}
	if refused(err) {
		return bad("Temporal refuses the schedule %q: %v; fix the flags", name, err)
	}
	if err != nil {
		return fmt.Errorf("create the schedule %q: %w", name, err)
	}
	if a.dev != nil && a.dev.embedded {
		a.say("the embedded server stops with the last command that uses it; starts missed until then are caught up later")
	}
	return a.showHandle(ctx, t, handle)
}

// scheduleSpec checks a schedule's name and flags and returns its times.
func (a *app) scheduleSpec(name string) (spec client.ScheduleSpec, err error) {
	unprintable := strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
	if name == "" || unprintable || len(name) > maxID-30 {
		return spec, bad("%.100q cannot be a schedule's name: want printable ASCII, from 1 to %d bytes", name, maxID-30)
	}
	if a.flags.flow == "" {
		return spec, bad("missing -flow; usage: starter schedule create NAME -flow FILE -cron EXPRESSION")
	}
	return a.flags.spec()
}

// replaceSchedule puts what is to be started, and when, into a schedule. Whether it is paused,
// and what was not given, stays as it was.
func (a *app) replaceSchedule(ctx context.Context, t *config.Temporal, handle client.ScheduleHandle, action *client.ScheduleWorkflowAction, spec *client.ScheduleSpec) error {
	if _, err := describeSchedule(ctx, t, handle); err != nil {
		return err
	}
	return handle.Update(ctx, client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
		s := in.Description.Schedule
		s.Action, s.Spec = action, spec
		if a.flags.overlap != "" {
			s.Policy.Overlap = a.flags.policy()
		}
		if a.flags.catchup > 0 {
			s.Policy.CatchupWindow = a.flags.catchup
		}
		if a.flags.paused {
			s.State.Paused = true
		}
		if a.flags.reason != "" {
			s.State.Note = a.flags.reason
		}
		return &client.ScheduleUpdate{Schedule: &s}, nil
	}})
}

// scheduledStart is how a schedule starts its runs: as the starter does, with those search
// attributes that the namespace has.
func scheduledStart(ctx context.Context, t *config.Temporal, name, queue string, in *contract.RunInput) (*client.ScheduleWorkflowAction, error) {
	o := client.StartWorkflowOptions{ID: name, TaskQueue: queue}
	values, err := dress(&o, in)
	if err != nil {
		return nil, err
	}
	if state, err := activities.NewAttributes(t.Client).Of(ctx, t.Namespace); err == nil {
		o.TypedSearchAttributes = attributed(state.Registered, values)
	}
	return &client.ScheduleWorkflowAction{ID: name, Workflow: contract.WorkflowFlow, Args: []any{in}, TaskQueue: queue,
		Memo: o.Memo, TypedSearchAttributes: o.TypedSearchAttributes, StaticSummary: o.StaticSummary, StaticDetails: o.StaticDetails}, nil
}

// describeSchedule asks Temporal for a schedule, and refuses one that starts no flows.
func describeSchedule(ctx context.Context, t *config.Temporal, handle client.ScheduleHandle) (*client.ScheduleDescription, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := handle.Describe(ctx)
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return nil, bad("there is no schedule %q in namespace %q at %s; list schedules with: starter schedule list", handle.GetID(), t.Namespace, t.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("describe the schedule %q: %w", handle.GetID(), err)
	}
	if action, ok := d.Schedule.Action.(*client.ScheduleWorkflowAction); !ok || action.Workflow != contract.WorkflowFlow {
		return nil, bad("the schedule %q does not start flows; use: temporal schedule", handle.GetID())
	}
	return d, nil
}
