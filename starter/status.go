package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"weft/activities/contract"
	"weft/worker/config"
)

// status asks a run where it stands. Its worker answers, even after the run's end.
func (a *app) status(ctx context.Context, args []string) error {
	temporal, err := a.remote(ctx)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	about, err := a.describe(ctx, temporal, args[0])
	if err != nil {
		return err
	}
	st, err := ask(ctx, temporal, args[0], about)
	if err != nil {
		return err
	}
	if about.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		// A run that was terminated could not notice it.
		st.Status = statusName(about.status)
	}
	if a.flags.output == "json" {
		raw, err := json.MarshalIndent(st, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the status: %w", err)
		}
		fmt.Fprintf(a.stdout, "%s\n", raw)
		return nil
	}
	a.print(args[0], st)
	return nil
}

func ask(ctx context.Context, t *config.Temporal, id string, about about) (*contract.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	value, err := t.Client.QueryWorkflow(ctx, id, about.run, contract.QueryStatus)
	var refused *serviceerror.QueryFailed
	switch {
	case errors.As(err, &refused):
		return nil, bad("the run %q answers no query %q: %v; is it a run of a flow?", id, contract.QueryStatus, err)
	case ctx.Err() != nil:
		err = fmt.Errorf("no answer within %v", callTimeout)
		fallthrough
	case err != nil:
		return nil, fmt.Errorf("the run %q is %s, but no worker answers for it on task queue %q (%w); start one with: bin/worker",
			id, statusName(about.status), about.queue, err)
	}
	var st contract.Status
	if err := value.Get(&st); err != nil {
		return nil, fmt.Errorf("read the status of %q: %w", id, err)
	}
	return &st, nil
}

// print shows a status as text.
func (a *app) print(id string, st *contract.Status) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(a.stdout, "%-10s%s\n", label, fmt.Sprintf(format, args...))
	}
	line("run", "%s", id)
	line("status", "%s", st.Status)
	if st.Model != "" {
		line("model", "%s", modelLabel(st.Model))
	}
	line("usage", "%d model calls, %d input and %d output tokens", st.Usage.Calls, st.Usage.Input, st.Usage.Output)
	for _, l := range []struct {
		label string
		items []string
	}{{"running", st.Running}, {"waiting", st.Waiting}, {"armed", st.Armed}} {
		if len(l.items) > 0 {
			line(l.label, "%s", clean(strings.Join(l.items, ", "), 2000))
		}
	}
	for _, e := range st.Executions {
		text := fmt.Sprintf("%s, step %d", e.Node, e.Step)
		if e.Nth > 1 {
			text += fmt.Sprintf(", execution %d", e.Nth)
		}
		if e.NoRoute {
			text += ", all conditions said no"
		}
		if e.Exhausted {
			text += ", its budget of tool calls was spent"
		}
		line("done", "%s", clean(text, 400))
	}
	for _, c := range st.Conflicts {
		line("conflict", "%s: kept what %s wrote, dropped what %s wrote", clean(c.Key, 200), clean(c.Kept.Exec, 200), clean(c.Dropped.Exec, 200))
	}
}
