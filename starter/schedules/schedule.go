// Package schedules creates, describes and lists the schedules that start runs of flows.
package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"
)

// What a schedule does.
const (
	Active = "active"
	Paused = "paused"
)

const nextShown = 5

// Schedule is a schedule as -output json prints it.
type Schedule struct {
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
	// Next are the next times, Runs the last runs, the oldest first, Open the ids of open ones.
	Next []time.Time `json:"next"`
	Runs []Run       `json:"runs"`
	Open []string    `json:"open"`
	// Started, Skipped and Missed count starts: made, left out because a run was open, and too
	// late to be made up for.
	Started int `json:"started"`
	Skipped int `json:"skipped"`
	Missed  int `json:"missed"`
}

// Run is a run that a schedule started: Due is when it was to start.
type Run struct {
	Run     string    `json:"run"`
	Due     time.Time `json:"due"`
	Started time.Time `json:"started"`
}

func describe(c *runs.Connection, name string, d *client.ScheduleDescription) *Schedule {
	action := d.Schedule.Action.(*client.ScheduleWorkflowAction) // find has checked it
	memo := func(key string) string {
		p, _ := action.Memo[key].(*commonpb.Payload)
		if p == nil {
			return ""
		}
		if one, err := c.Codec.Decode([]*commonpb.Payload{p}); err == nil {
			p = one[0]
		}
		return history.Text(p)
	}
	s := &Schedule{Schedule: name, Flow: memo(contract.MemoFlow), FlowHash: memo(contract.MemoHash), State: Active, Note: d.Schedule.State.Note,
		When: whenOf(d.Schedule.Spec), Timezone: d.Schedule.Spec.TimeZoneName, Overlap: overlapName(d.Schedule.Policy.Overlap), TaskQueue: action.TaskQueue,
		Next: []time.Time{}, Runs: []Run{}, Open: []string{},
		Started: d.Info.NumActions, Skipped: d.Info.NumActionsSkippedOverlap, Missed: d.Info.NumActionsMissedCatchupWindow}
	if d.Schedule.State.Paused {
		s.State = Paused
	} else {
		s.Next = append(s.Next, d.Info.NextActionTimes[:min(nextShown, len(d.Info.NextActionTimes))]...)
	}
	for _, r := range d.Info.RecentActions {
		if r.StartWorkflowResult != nil {
			s.Runs = append(s.Runs, Run{r.StartWorkflowResult.WorkflowID, r.ScheduleTime, r.ActualTime})
		}
	}
	for _, r := range d.Info.RunningWorkflows {
		s.Open = append(s.Open, r.WorkflowID)
	}
	return s
}

// Text writes a schedule as text.
func Text(out io.Writer, s *Schedule) {
	state := s.State
	state += plaintext.If(s.Note != "", ": %s", plaintext.Line(s.Note, 500))
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
		mark := plaintext.If(slices.Contains(s.Open, r.Run), "  open")
		line("run", fmt.Sprintf("%s  %s%s", r.Started.Local().Format(time.DateTime), plaintext.Line(r.Run, 300), mark))
	}
}

func whenText(s *Schedule) string {
	when := plaintext.Line(strings.Join(s.When, "; "), 500)
	when += plaintext.If(s.Timezone != "", " (%s)", plaintext.Line(s.Timezone, 100))
	return when
}

// Table writes schedules as columns.
func Table(out io.Writer, all []*Schedule) {
	var rows [][]string
	for _, s := range all {
		next, last := "-", "-"
		if len(s.Next) > 0 {
			next = s.Next[0].Local().Format(time.DateTime)
		}
		if n := len(s.Runs); n > 0 {
			last = s.Runs[n-1].Started.Local().Format(time.DateTime)
		}
		rows = append(rows, []string{plaintext.Line(s.Schedule, 200), cmp.Or(plaintext.Line(s.Flow, 60), "-"), s.State, textutil.Cut(whenText(s), 80), next, last})
	}
	plaintext.Table(out, []string{"NAME", "FLOW", "STATE", "WHEN", "NEXT", "LAST"}, rows)
}

// List returns schedules of flows by name, at most limit, 0 for all, and reports whether there are more.
func List(ctx context.Context, c *runs.Connection, limit int) (all []*Schedule, more bool, err error) {
	all = []*Schedule{}
	list, err := c.Client.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 200})
	for err == nil && list.HasNext() {
		var entry *client.ScheduleListEntry
		if entry, err = list.Next(); err != nil || entry.WorkflowType.Name != contract.WorkflowFlow {
			continue
		}
		if more = limit > 0 && len(all) == limit; more {
			break
		}
		d, err := find(ctx, c, c.Client.ScheduleClient().GetHandle(ctx, entry.ID))
		switch {
		case runs.Is[usage.Error](err):
			continue // it was deleted meanwhile
		case err != nil:
			return nil, false, err
		}
		all = append(all, describe(c, entry.ID, d))
	}
	if err != nil {
		return nil, false, fmt.Errorf("list the schedules in namespace %q at %s: %w", c.Namespace, c.Address, err)
	}
	slices.SortFunc(all, func(x, y *Schedule) int { return strings.Compare(x.Schedule, y.Schedule) })
	return all, more, nil
}

// Options are those of a new schedule.
type Options struct {
	Name string
	Times
	Action *client.ScheduleWorkflowAction
	Note   string
	Paused bool
	// Replace updates an existing schedule: whether that is paused, and what is not given, stays as it was.
	Replace bool
}

// CheckName refuses what cannot be a schedule's name.
func CheckName(name string) error {
	const most = runs.MaxID - 30
	if name == "" || strings.ContainsFunc(name, plaintext.Unprintable) || len(name) > most {
		return usage.Errorf("invalid schedule name %.100q: want printable ASCII, from 1 to %d bytes", name, most)
	}
	return nil
}

// Create creates or replaces a schedule, and describes it.
func Create(ctx context.Context, c *runs.Connection, o Options) (*Schedule, error) {
	spec, err := o.Spec()
	if err != nil {
		return nil, err
	}
	handle, err := c.Client.ScheduleClient().Create(ctx, client.ScheduleOptions{ID: o.Name, Spec: spec, Action: o.Action, Overlap: o.policy(),
		CatchupWindow: o.Catchup, Paused: o.Paused, Note: o.Note})
	switch {
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning) && o.Replace:
		handle = c.Client.ScheduleClient().GetHandle(ctx, o.Name)
		err = o.replace(ctx, c, handle, &spec)
	case errors.Is(err, temporal.ErrScheduleAlreadyRunning):
		return nil, usage.Errorf("the schedule %q already exists; update it with -replace, or use another name", o.Name)
	}
	if runs.Is[*serviceerror.InvalidArgument](err) {
		return nil, usage.Errorf("Temporal rejected the schedule %q: %v; fix the flags", o.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("create the schedule %q: %w", o.Name, err)
	}
	d, err := find(ctx, c, handle)
	if err != nil {
		return nil, err
	}
	return describe(c, o.Name, d), nil
}

func (o *Options) replace(ctx context.Context, c *runs.Connection, handle client.ScheduleHandle, spec *client.ScheduleSpec) error {
	if _, err := find(ctx, c, handle); err != nil {
		return err
	}
	return handle.Update(ctx, client.ScheduleUpdateOptions{DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
		s := in.Description.Schedule
		s.Action, s.Spec = o.Action, spec
		if o.Overlap != "" {
			s.Policy.Overlap = o.policy()
		}
		if o.Catchup > 0 {
			s.Policy.CatchupWindow = o.Catchup
		}
		if o.Paused {
			s.State.Paused = true
		}
		if o.Note != "" {
			s.State.Note = o.Note
		}
		return &client.ScheduleUpdate{Schedule: &s}, nil
	}})
}

func find(ctx context.Context, c *runs.Connection, handle client.ScheduleHandle) (*client.ScheduleDescription, error) {
	ctx, cancel := context.WithTimeout(ctx, runs.CallTimeout)
	defer cancel()
	d, err := handle.Describe(ctx)
	if runs.Is[*serviceerror.NotFound](err) {
		return nil, usage.Errorf("no schedule %q in namespace %q at %s; list schedules with: starter schedule list", handle.GetID(), c.Namespace, c.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("describe the schedule %q: %w", handle.GetID(), err)
	}
	if action, ok := d.Schedule.Action.(*client.ScheduleWorkflowAction); !ok || action.Workflow != contract.WorkflowFlow {
		return nil, usage.Errorf("the schedule %q does not start flows; use: temporal schedule", handle.GetID())
	}
	return d, nil
}
