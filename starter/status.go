package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/worker/config"
)

// status asks a run where it stands. Its worker answers, even after the run's end.
func (a *app) status(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	answered := a.whileSilent(ctx, temporal, about)
	st, read, err := standing(ctx, temporal, args[0], about)
	answered()
	if err != nil {
		return err
	}
	if read != nil {
		a.say("no worker answers for the run; this is from its history")
	}
	if a.flags.asJSON() {
		a.object(st)
		return nil
	}
	withBranches(ctx, temporal, args[0], about, st)
	a.print(args[0], st)
	for _, call := range heldCalls(ctx, temporal, args[0], about) {
		fmt.Fprintf(a.stdout, "%-10s%s\n", "call", call)
	}
	return nil
}

// state prints the values that a run's nodes share.
func (a *app) state(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	values := map[string]json.RawMessage{}
	answered := a.whileSilent(ctx, temporal, about)
	err = ask(ctx, temporal, args[0], about, contract.QueryState, &values)
	answered()
	if err != nil {
		return err
	}
	a.object(values)
	return nil
}

// noAnswer is the error of a question that no worker answers.
type noAnswer struct {
	id, status, queue  string
	namespace, address string
	cause              error
}

// Error says who does not answer and what to do.
func (n *noAnswer) Error() string {
	return fmt.Sprintf("the run %q is %s, but no worker answers for it on task queue %q, namespace %s at %s (%v); start one with: bin/worker",
		n.id, n.status, n.queue, n.namespace, n.address, n.cause)
}

// ask asks a run's worker. Where history can answer too, it waits for less long. The error
// is [*noAnswer] where nobody answers.
func ask(ctx context.Context, t *config.Temporal, id string, about about, query string, out any) error {
	patience := callTimeout
	if about.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		patience = closedTimeout
	}
	if about.patience > 0 {
		patience = about.patience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	value, err := t.Client.QueryWorkflow(ctx, id, about.run, query)
	var refused *serviceerror.QueryFailed
	switch {
	case errors.As(err, &refused):
		return bad("the run %q answers no query %q: %v; is it a run of a flow?", id, query, err)
	case err != nil:
		// The server may end the call a little before this side does, in various words.
		var late *serviceerror.DeadlineExceeded
		if took := time.Since(began); ctx.Err() != nil || errors.As(err, &late) || took > patience*9/10 {
			err = fmt.Errorf("no answer within %v", max(took.Round(time.Second), time.Second))
		}
		return &noAnswer{id, history.StatusName(about.status), about.queue, t.Namespace, t.Address, err}
	}
	if err := value.Get(out); err != nil {
		return fmt.Errorf("read the %s of %q: %w", query, id, err)
	}
	return nil
}

// costOf is what the worker's price table says of the calls; "" where it has no price.
func costOf(u contract.Usage) string {
	if u.Cost == 0 {
		return ""
	}
	text := fmt.Sprintf(", cost %d.%06d", u.Cost/1_000_000, u.Cost%1_000_000)
	if u.Unpriced > 0 {
		text += fmt.Sprintf(" without %d calls that have no price", u.Unpriced)
	}
	return text
}

// usageText is what was used, and how much of the input a provider's cache held.
func usageText(u contract.Usage) string {
	cached := ""
	if u.Cached > 0 && u.Input > 0 {
		cached = fmt.Sprintf(" (%d %% of it from a provider's cache)", u.Cached*100/u.Input)
	}
	text := fmt.Sprintf("%d model calls, %d input%s and %d output tokens%s", u.Calls, u.Input, cached, u.Output, costOf(u))
	if u.Stopped > 0 {
		text += fmt.Sprintf("; %d more were stopped under way", u.Stopped)
	}
	return text
}

// switchedText is a way from model to model, and how often it was gone.
func switchedText(s *contract.Switched) string {
	text := "between other models"
	if s.From != "" {
		text = fmt.Sprintf("from %s to %s: %s", plaintext.Line(s.From, 100), plaintext.Line(s.To, 100), plaintext.Line(s.Class, 40))
	}
	if s.Times > 1 {
		text += fmt.Sprintf(" (%d times)", s.Times)
	}
	return text
}

// print shows a status as text.
func (a *app) print(id string, st *contract.Status) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(a.stdout, "%-10s%s\n", label, fmt.Sprintf(format, args...))
	}
	line("run", "%s", id)
	line("status", "%s", st.Status)
	if l := st.Flow; l != nil {
		line("flow", "%s", flowLine(l))
	}
	if st.Model != "" {
		line("model", "%s", progress.ModelLabel(st.Model))
	}
	line("usage", "%s", usageText(st.Usage))
	for i := range st.Usage.Switched {
		line("switched", "%s", switchedText(&st.Usage.Switched[i]))
	}
	if st.Budget != nil {
		line("budget", "%s", budgetText(st.Budget))
	}
	for _, l := range []struct {
		label string
		items []string
	}{{"running", st.Running}, {"waiting", st.Waiting}, {"armed", st.Armed}} {
		if len(l.items) > 0 {
			line(l.label, "%s", plaintext.Line(strings.Join(l.items, ", "), 2000))
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
		if e.LeftOut > 0 {
			text += fmt.Sprintf(", %d early messages were no longer sent", e.LeftOut)
		}
		line("done", "%s", plaintext.Line(text, 400))
	}
	for _, c := range st.Conflicts {
		line("conflict", "%s: kept what %s wrote, dropped what %s wrote", plaintext.Line(c.Key, 200), plaintext.Line(c.Kept.Exec, 200), plaintext.Line(c.Dropped.Exec, 200))
	}
	printSession(st.Session, line)
	a.printDesk(id, st, line)
}

// flowLine is a flow's name with what its author says of it.
func flowLine(l *contract.FlowLabel) string {
	text := plaintext.Line(l.Name, 200)
	if l.Version != "" {
		text += " " + plaintext.Line(l.Version, 100)
	}
	if l.Description != "" {
		text += ": " + plaintext.Line(l.Description, 300)
	}
	return text
}

// printDesk shows what a run waits for, what it has not read, and what it could not take.
func (a *app) printDesk(id string, st *contract.Status, line func(label, format string, args ...any)) {
	for i := range st.Requests {
		q := &st.Requests[i]
		line("request", "%s %s: %s", q.Kind, plaintext.Lines(q.ID), plaintext.Line(q.Text, 300))
		line("", "answer with: %s", a.answers(id, q)[0])
	}
	for _, m := range st.Inbox {
		line("unread", "%s", unreadLine(&m))
	}
	if st.Rejected > 0 {
		line("rejected", "%d signals that answer nothing; the last:", st.Rejected)
	}
	for _, why := range st.Rejects {
		line("", "%s", plaintext.Line(why, 600))
	}
}

// unreadLine shows a message that no model call has had.
func unreadLine(m *contract.Inbound) string {
	line := fmt.Sprintf("%q", plaintext.Line(m.Text, 100))
	if m.Node != "" {
		line += " to " + plaintext.Line(m.Node, 200)
	}
	if m.By != "" {
		line += " by " + plaintext.Line(m.By, 100)
	}
	return line
}
