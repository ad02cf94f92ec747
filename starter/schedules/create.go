package schedules

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"
)

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
		return usage.Errorf("%.100q cannot be a schedule's name: want printable ASCII, from 1 to %d bytes", name, most)
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
		return nil, usage.Errorf("there is a schedule %q already; update it with -replace, or choose another name", o.Name)
	}
	if runs.Is[*serviceerror.InvalidArgument](err) {
		return nil, usage.Errorf("Temporal refuses the schedule %q: %v; fix the flags", o.Name, err)
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

// find asks Temporal for a schedule, and refuses one that does not start flows.
func find(ctx context.Context, c *runs.Connection, handle client.ScheduleHandle) (*client.ScheduleDescription, error) {
	ctx, cancel := context.WithTimeout(ctx, runs.CallTimeout)
	defer cancel()
	d, err := handle.Describe(ctx)
	if runs.Is[*serviceerror.NotFound](err) {
		return nil, usage.Errorf("there is no schedule %q in namespace %q at %s; list schedules with: starter schedule list", handle.GetID(), c.Namespace, c.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("describe the schedule %q: %w", handle.GetID(), err)
	}
	if action, ok := d.Schedule.Action.(*client.ScheduleWorkflowAction); !ok || action.Workflow != contract.WorkflowFlow {
		return nil, usage.Errorf("the schedule %q does not start flows; use: temporal schedule", handle.GetID())
	}
	return d, nil
}
