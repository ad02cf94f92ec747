package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/starter/compare"
	"weft/starter/fork"
	"weft/starter/history"
	"weft/starter/input"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/usage"
)

func (a *app) fork(ctx context.Context, args []string) error {
	if a.flags.from == "" {
		return usage.Errorf("missing -from; usage: starter fork ID -from NODE")
	}
	set, err := input.Pairs("-set", a.flags.sets)
	if err := errors.Join(err, runs.CheckID(a.flags.id), a.flags.checkPair()); err != nil {
		return usage.Error{Text: err.Error()}
	}
	r, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer r.Client.Close()
	old, err := runtree.Read(ctx, history.From(r.Client), r.ID, r.RunID)
	if err != nil {
		return err
	}
	o, err := a.forkOptions()
	if err != nil {
		return err
	}
	o.Set = set
	in, err := fork.Input(ctx, r, old, *o)
	if err != nil {
		return err
	}
	id, queue := cmp.Or(a.flags.id, runs.NewID(in.Flow.Plan.Name)), cmp.Or(a.flags.taskQueue, r.Queue)
	run, err := r.Start(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: queue, Priority: a.flags.inheritedPriority(r.Priority), WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL}, in)
	if runs.Is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
		return usage.Errorf("a run with the id %q is already open; choose another -id", id)
	}
	if err != nil {
		return fmt.Errorf("start the run %q: %w", id, err)
	}
	if k := in.Fork; k != nil {
		a.say("fork: %s continues from %s#%d of %s with %d recorded executions", id, plaintext.Line(k.Node, 200), k.Step, args[0], len(k.Executions))
	} else {
		a.say("fork: %s restarts %s with the same input", id, args[0])
	}
	if a.flags.detach {
		a.detached(id)
		return nil
	}
	return a.followFork(ctx, r, r.Started(run, queue))
}

func (a *app) forkOptions() (*fork.Options, error) {
	o := &fork.Options{From: a.flags.from, File: a.flags.Flow, MaxSteps: a.flags.maxSteps, Say: a.say}
	var err error
	if a.flags.Flow != "" {
		cfg, err := a.load()
		if err != nil {
			return nil, err
		}
		if o.Flow, err = a.compile(cfg, a.flags.Flow, true); err != nil {
			return nil, err
		}
	}
	if o.Script, err = a.reader().Script(a.flags.Script); err != nil {
		return nil, err
	}
	if a.flags.model != "" || o.Script != nil {
		if o.Model, err = a.model(); err != nil {
			return nil, err
		}
	}
	o.Override, err = input.Pairs("-override", a.flags.overrides)
	return o, err
}

// followFork follows a fork to its end, and shows it beside the run from which it came.
func (a *app) followFork(ctx context.Context, old, run *runs.Run) error {
	ended := a.newFollower(run).toTheEnd(ctx)
	if code, ok := errors.AsType[exitCode](ended); ok && code == exitDetached {
		return ended
	}
	if table, err := compared(ctx, old.Connection, old.ID, run.ID); err == nil && !a.flags.asJSON() {
		fmt.Fprint(a.mask.Writer(a.stderr), compare.Text(table))
	} else {
		a.say("compare them with: starter compare %s %s", old.Quoted(), run.Quoted())
	}
	return ended
}
