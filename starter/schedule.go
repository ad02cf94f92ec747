package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities"
	"weft/activities/contract"
	"weft/specadapter/source"
	"weft/worker/config"
)

// scheduleAction is a row of the table of what schedule does.
type scheduleAction struct {
	name string
	// named says that it wants the name of a schedule.
	named bool
	// flags are those that it understands beside those of every action.
	flags []string
	run   func(a *app, ctx context.Context, name string) error
}

// Flags of a schedule: what its runs are started with, and when.
var (
	scheduledFlags = []string{"flow", "input", "input-json", "image", "param", "params", "scope", "state", "script", "model", "on-error", "task-queue", "max-steps", "budget", "allow-commands",
		"dialect", "profile", "components", "component", "priority", "tenant", "weight"}
	whenFlags   = []string{"cron", "every", "timezone", "jitter", "catchup", "overlap", "paused", "replace", "reason"}
	createFlags = slices.Concat(scheduledFlags, whenFlags)
)

func scheduleActions() []scheduleAction {
	return []scheduleAction{
		{"create", true, createFlags, (*app).createSchedule},
		{"list", false, []string{"limit"}, (*app).listSchedules},
		{"show", true, nil, (*app).showSchedule},
		{"pause", true, []string{"reason"}, (*app).pauseSchedule},
		{"unpause", true, []string{"reason"}, (*app).pauseSchedule},
		{"trigger", true, []string{"overlap"}, (*app).triggerSchedule},
		{"delete", true, nil, (*app).deleteSchedule},
	}
}

// schedule starts runs at times: it makes, shows and ends Temporal's schedules.
func (a *app) schedule(ctx context.Context, args []string) error {
	for _, action := range scheduleActions() {
		if action.name == args[0] {
			name, err := action.check(a, args[1:])
			if err != nil {
				return err
			}
			a.action = action.name
			return action.run(a, ctx, name)
		}
	}
	names := actionNames()
	if near := source.NewSuggester(names).Nearest(args[0]); near != "" {
		return bad("schedule does not know %q; did you mean %s?", args[0], near)
	}
	return bad("schedule does not know %q; want one of %s", args[0], strings.Join(names, ", "))
}

// check refuses flags and arguments that an action does not take, and gives the schedule's name.
func (s *scheduleAction) check(a *app, args []string) (string, error) {
	name := ""
	switch {
	case s.named && len(args) == 0:
		return "", bad("schedule %s wants the schedule's name; usage: starter schedule %s NAME", s.name, s.name)
	case !s.named && len(args) > 0:
		return "", bad("schedule %s does not take %q", s.name, args[0])
	case s.named:
		name = args[0]
	}
	unfit := strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
	if s.named && (name == "" || unfit || len(name) > maxID-30) {
		return "", bad("%.100q cannot be a schedule's name: want printable ASCII, from 1 to %d bytes", name, maxID-30)
	}
	for _, f := range a.flags.given {
		if !slices.Contains(outputFlags, f) && !slices.Contains(s.flags, f) {
			return "", bad("-%s means nothing for schedule %s; leave it out", f, s.name)
		}
	}
	return name, nil
}

// createSchedule compiles a flow and hands it to Temporal with the times of its runs. Each of
// them runs what was compiled now.
func (a *app) createSchedule(ctx context.Context, name string) error {
	if a.flags.flow == "" {
		return bad("there is no flow; usage: starter schedule create NAME -flow FILE -cron EXPRESSION")
	}
	spec, specErr := a.flags.spec()
	overlap, overlapErr := a.flags.policy()
	if err := errors.Join(specErr, overlapErr); err != nil {
		return badInput{err.Error()}
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
	action.Priority = a.flags.shares()
	handle, err := t.Client.ScheduleClient().Create(ctx, client.ScheduleOptions{ID: name, Spec: spec, Action: action, Overlap: overlap,
		CatchupWindow: a.flags.catchup, Paused: a.flags.paused, Note: a.flags.reason})
	switch {
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning) && a.flags.replace:
		handle = t.Client.ScheduleClient().GetHandle(ctx, name)
		err = a.replaceSchedule(ctx, t, handle, action, &spec)
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning):
		return bad("there is a schedule %q already; look at it with: %sschedule show %s, put this flow into it with -replace, or choose another name", name, a.self(), quoted(name))
	}
	if refused(err) {
		return bad("Temporal refuses the schedule %q: %v; correct it", name, err)
	}
	if err != nil {
		return fmt.Errorf("create the schedule %q: %w", name, err)
	}
	if a.dev != nil && a.dev.embedded {
		a.say("the embedded Temporal ends with the last command that uses it: until then alone runs are started; missed ones are made up for")
	}
	return a.showHandle(ctx, t, handle)
}

// replaceSchedule puts what is to be started, and when, into a schedule. Whether it is paused,
// and what was not given, stays as it was.
func (a *app) replaceSchedule(ctx context.Context, t *config.Temporal, handle client.ScheduleHandle, action *client.ScheduleWorkflowAction, spec *client.ScheduleSpec) error {
	if _, err := describeSchedule(ctx, t, handle); err != nil {
		return err
	}
	overlap, err := a.flags.policy()
	if err != nil {
		return err
	}
	return handle.Update(ctx, client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
		s := in.Description.Schedule
		s.Action, s.Spec = action, spec
		if a.flags.overlap != "" {
			s.Policy.Overlap = overlap
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

// scheduleOf connects and looks for a schedule. The caller closes the client.
func (a *app) scheduleOf(ctx context.Context, name string) (*config.Temporal, client.ScheduleHandle, *client.ScheduleDescription, error) {
	t, err := a.remote(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	handle := t.Client.ScheduleClient().GetHandle(ctx, name)
	d, err := describeSchedule(ctx, t, handle)
	if err != nil {
		t.Client.Close()
		return nil, nil, nil, err
	}
	return t, handle, d, nil
}

// describeSchedule asks Temporal for a schedule, and refuses one that starts no flows.
func describeSchedule(ctx context.Context, t *config.Temporal, handle client.ScheduleHandle) (*client.ScheduleDescription, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := handle.Describe(ctx)
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return nil, bad("there is no schedule %q in namespace %q at %s; those that there are: starter schedule list", handle.GetID(), t.Namespace, t.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the schedule %q: %w", handle.GetID(), err)
	}
	if action, ok := d.Schedule.Action.(*client.ScheduleWorkflowAction); !ok || action.Workflow != contract.WorkflowFlow {
		return nil, bad("the schedule %q starts no flows; it is not one of starter's, so use: temporal schedule", handle.GetID())
	}
	return d, nil
}

// pauseSchedule pauses a schedule, or ends that.
func (a *app) pauseSchedule(ctx context.Context, name string) error {
	t, handle, d, err := a.scheduleOf(ctx, name)
	if err != nil {
		return err
	}
	defer t.Client.Close()
	pause := a.action == "pause"
	if d.Schedule.State.Paused == pause {
		a.say("the schedule %s is %s already", quoted(name), stateOf(d))
		return nil
	}
	note := cmp.Or(a.flags.reason, a.action+"d by "+a.by())
	if pause {
		err = handle.Pause(ctx, client.SchedulePauseOptions{Note: note})
	} else {
		err = handle.Unpause(ctx, client.ScheduleUnpauseOptions{Note: note})
	}
	if err != nil {
		return fmt.Errorf("%s the schedule %q: %w", a.action, name, err)
	}
	if pause {
		a.say("paused %s: it starts no runs; those that are open go on; end it with: %sschedule unpause %s", quoted(name), a.self(), quoted(name))
	} else {
		a.say("%s starts runs again", quoted(name))
	}
	return nil
}

// deleteSchedule deletes a schedule.
func (a *app) deleteSchedule(ctx context.Context, name string) error {
	t, handle, d, err := a.scheduleOf(ctx, name)
	if err != nil {
		return err
	}
	defer t.Client.Close()
	if err := handle.Delete(ctx); err != nil {
		return fmt.Errorf("delete the schedule %q: %w", name, err)
	}
	a.say("deleted %s; its open runs (%d) go on", quoted(name), len(d.Info.RunningWorkflows))
	return nil
}
