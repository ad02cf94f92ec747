package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/worker/config"
)

// What a schedule does.
const (
	scheduleActive = "active"
	schedulePaused = "paused"
)

// nextShown is how many of the times to come are shown.
const nextShown = 5

// scheduled is a schedule as -output json prints it.
type scheduled struct {
	Schedule string `json:"schedule"`
	Flow     string `json:"flow"`
	// FlowHash is that of the plan that its runs run.
	FlowHash string `json:"flow_hash"`
	// State is active or paused; Note says why.
	State string `json:"state"`
	Note  string `json:"note,omitempty"`
	// When are the times in the words of -cron and -every.
	When      []string `json:"when"`
	Timezone  string   `json:"timezone,omitempty"`
	Overlap   string   `json:"overlap"`
	TaskQueue string   `json:"task_queue"`
	// Next are the times to come, Runs the last that it started, the oldest first, and Open
	// the ids of those that it knows as open.
	Next []time.Time    `json:"next"`
	Runs []scheduledRun `json:"runs"`
	Open []string       `json:"open"`
	// Started, Skipped and Missed count starts: made, left out because a run was open, and too
	// late to be made up for.
	Started int `json:"started"`
	Skipped int `json:"skipped"`
	Missed  int `json:"missed"`
}

// scheduledRun is a run that a schedule started: Due is when it was to start.
type scheduledRun struct {
	Run     string    `json:"run"`
	Due     time.Time `json:"due"`
	Started time.Time `json:"started"`
}

func stateOf(d *client.ScheduleDescription) string {
	if d.Schedule.State.Paused {
		return schedulePaused
	}
	return scheduleActive
}

// scheduledOf puts a schedule into the starter's words.
func scheduledOf(t *config.Temporal, name string, d *client.ScheduleDescription) *scheduled {
	action := d.Schedule.Action.(*client.ScheduleWorkflowAction) // describeSchedule has looked
	memo := func(key string) string {
		p, _ := action.Memo[key].(*commonpb.Payload)
		if p == nil {
			return ""
		}
		if one, err := t.Codec.Decode([]*commonpb.Payload{p}); err == nil {
			p = one[0]
		}
		return text(p)
	}
	s := &scheduled{Schedule: name, Flow: memo(contract.MemoFlow), FlowHash: memo(contract.MemoHash), State: stateOf(d), Note: d.Schedule.State.Note,
		When: whenOf(d.Schedule.Spec), Timezone: d.Schedule.Spec.TimeZoneName, Overlap: overlapName(d.Schedule.Policy.Overlap), TaskQueue: action.TaskQueue,
		Next: []time.Time{}, Runs: []scheduledRun{}, Open: []string{},
		Started: d.Info.NumActions, Skipped: d.Info.NumActionsSkippedOverlap, Missed: d.Info.NumActionsMissedCatchupWindow}
	if s.State == scheduleActive {
		s.Next = append(s.Next, d.Info.NextActionTimes[:min(nextShown, len(d.Info.NextActionTimes))]...)
	}
	for _, r := range d.Info.RecentActions {
		if r.StartWorkflowResult != nil {
			s.Runs = append(s.Runs, scheduledRun{r.StartWorkflowResult.WorkflowID, r.ScheduleTime, r.ActualTime})
		}
	}
	for _, r := range d.Info.RunningWorkflows {
		s.Open = append(s.Open, r.WorkflowID)
	}
	return s
}

// showHandle shows a schedule that was just made.
func (a *app) showHandle(ctx context.Context, t *config.Temporal, handle client.ScheduleHandle) error {
	d, err := describeSchedule(ctx, t, handle)
	if err != nil {
		return err
	}
	s := scheduledOf(t, handle.GetID(), d)
	if s.State == scheduleActive && len(s.Next) == 0 {
		a.say("warning: the schedule %s has no future times and starts nothing; change them with -replace", plaintext.ShellQuote(s.Schedule))
	}
	a.printSchedule(s)
	return nil
}

func (a *app) printSchedule(s *scheduled) {
	if a.flags.asJSON() {
		a.object(s)
		return
	}
	writeSchedule(a.stdout, s)
}

// writeSchedule shows a schedule as text.
func writeSchedule(out io.Writer, s *scheduled) {
	state := s.State
	if s.Note != "" {
		state += ": " + plaintext.Line(s.Note, 500)
	}
	fmt.Fprintf(out, "%s  %s\n", plaintext.Line(s.Schedule, 200), state)
	line := func(label, text string) { fmt.Fprintf(out, "  %-9s %s\n", label, text) }
	line("flow", fmt.Sprintf("%s, hash %s", plaintext.Line(s.Flow, 200), plaintext.Line(s.FlowHash, 100)))
	line("when", whenText(s))
	line("overlap", s.Overlap)
	line("queue", plaintext.Line(s.TaskQueue, 200))
	for i, at := range s.Next {
		line([]string{"next", ""}[min(i, 1)], at.Local().Format(time.DateTime))
	}
	line("started", fmt.Sprintf("%d, skipped %d, missed %d", s.Started, s.Skipped, s.Missed))
	for _, r := range s.Runs {
		mark := ""
		if slices.Contains(s.Open, r.Run) {
			mark = "  open"
		}
		line("run", fmt.Sprintf("%s  %s%s", r.Started.Local().Format(time.DateTime), plaintext.Line(r.Run, 300), mark))
	}
}

func whenText(s *scheduled) string {
	when := plaintext.Line(strings.Join(s.When, "; "), 500)
	if s.Timezone != "" {
		when += " (" + plaintext.Line(s.Timezone, 100) + ")"
	}
	return when
}

// listSchedules lists the schedules of flows.
func (a *app) listSchedules(ctx context.Context, _ []string) error {
	t, err := a.remote(ctx)
	if err != nil {
		return err
	}
	defer t.Client.Close()
	all, more, err := a.findSchedules(ctx, t)
	if err != nil {
		return err
	}
	switch a.flags.output {
	case outputJSON:
		a.object(all)
	case outputLines:
		for _, s := range all {
			a.object(s)
		}
	default:
		if len(all) == 0 {
			a.say("no schedules start flows")
			return nil
		}
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tFLOW\tSTATE\tWHEN\tNEXT\tLAST")
		for _, s := range all {
			next, last := "-", "-"
			if len(s.Next) > 0 {
				next = s.Next[0].Local().Format(time.DateTime)
			}
			if n := len(s.Runs); n > 0 {
				last = s.Runs[n-1].Started.Local().Format(time.DateTime)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", plaintext.Line(s.Schedule, 200), orDash(plaintext.Line(s.Flow, 60)), s.State, plaintext.Cut(whenText(s), 80), next, last)
		}
		w.Flush()
	}
	if more {
		a.say("there are more; see them with: -limit %d, or -limit 0 for all", a.flags.limit*4)
	}
	return nil
}

// findSchedules gives at most -limit schedules of flows, and reports whether there are more.
func (a *app) findSchedules(ctx context.Context, t *config.Temporal) ([]*scheduled, bool, error) {
	all := []*scheduled{}
	failed := func(err error) error {
		return fmt.Errorf("list the schedules in namespace %q at %s: %w", t.Namespace, t.Address, err)
	}
	list, err := t.Client.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: pageRuns})
	if err != nil {
		return nil, false, failed(err)
	}
	for list.HasNext() {
		entry, err := list.Next()
		if err != nil {
			return nil, false, failed(err)
		}
		if entry.WorkflowType.Name != contract.WorkflowFlow {
			continue
		}
		if a.flags.limit > 0 && len(all) == a.flags.limit {
			return all, true, nil
		}
		d, err := describeSchedule(ctx, t, t.Client.ScheduleClient().GetHandle(ctx, entry.ID))
		var missing badInput
		switch {
		case errors.As(err, &missing):
			continue // it was deleted meanwhile
		case err != nil:
			return nil, false, err
		}
		all = append(all, scheduledOf(t, entry.ID, d))
	}
	slices.SortFunc(all, func(x, y *scheduled) int { return strings.Compare(x.Schedule, y.Schedule) })
	return all, false, nil
}
