// Package report formats statuses, requests, failures and tables for users.
package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/starter/runs"
)

func line(out io.Writer, indent, label, format string, args ...any) {
	fmt.Fprintf(out, "%s%-10s%s\n", indent, label, fmt.Sprintf(format, args...))
}

// Status writes a run's status. calls describes the waiting calls.
func Status(out io.Writer, r *runs.Run, st *contract.Status, calls []string) {
	line := func(label, format string, args ...any) { line(out, "", label, format, args...) }
	line("run", "%s", r.ID)
	line("status", "%s", st.Status)
	if l := st.Flow; l != nil {
		line("flow", "%s%s%s", plaintext.Line(l.Name, 200), plaintext.If(l.Version != "", " %s", plaintext.Line(l.Version, 100)),
			plaintext.If(l.Description != "", ": %s", plaintext.Line(l.Description, 300)))
	}
	if st.Model != "" {
		line("model", "%s", progress.ModelLabel(st.Model))
	}
	line("usage", "%s", usageText(st.Usage))
	for _, s := range st.Usage.Fallbacks {
		line("fallback", "%s%s", cmp.Or(plaintext.If(s.From != "", "from %s to %s: %s", plaintext.Line(s.From, 100), plaintext.Line(s.To, 100), plaintext.Line(s.Class, 40)),
			"between other models"), plaintext.If(s.Times > 1, " (%d times)", s.Times))
	}
	if st.Budget != nil {
		line("budget", "%s", budgetText(st.Budget))
	}
	for _, l := range []struct {
		label string
		items []string
	}{{"limited", st.Limited}, {"running", st.Running}, {"tasks", st.Tasks}, {"waiting", st.Waiting}, {"pending joins", st.PendingJoins}} {
		if len(l.items) > 0 {
			line(l.label, "%s", plaintext.Line(strings.Join(l.items, ", "), 2000))
		}
	}
	finished(line, st)
	for _, c := range st.Conflicts {
		line("conflict", "%s: kept what %s wrote, dropped what %s wrote", plaintext.Line(c.Key, 200), plaintext.Line(c.Kept.Exec, 200), plaintext.Line(c.Dropped.Exec, 200))
	}
	if st.Session != nil {
		session(st.Session, line)
	}
	conversation(st.Conversation, line)
	for i := range st.Requests {
		q := &st.Requests[i]
		line("request", "%s %s: %s", q.Kind, plaintext.Lines(q.ID), plaintext.Line(r.Reworded(q.Text), 500))
		line("", "answer with: %s", r.Commands(q)[0])
	}
	for i := range st.Inbox {
		line("unread", "%s", Unread(&st.Inbox[i]))
	}
	if st.Rejected > 0 {
		line("rejected", "%d signals that match no request; the last:", st.Rejected)
	}
	for _, why := range st.RejectionReasons {
		line("", "%s", plaintext.Line(why, 600))
	}
	for _, call := range calls {
		line("call", "%s", call)
	}
}

// finished lists the executions that have finished.
func finished(line func(label, format string, args ...any), st *contract.Status) {
	if st.Dropped > 0 {
		line("done", "%d earlier executions, which the run no longer lists", st.Dropped)
	}
	for _, e := range st.Executions {
		line("done", "%s", plaintext.Line(fmt.Sprintf("%s, step %d", e.Node, e.Step)+
			plaintext.If(e.Occurrence > 1, ", execution %d", e.Occurrence)+
			plaintext.If(e.NoRoute, ", no condition held")+
			plaintext.If(e.Exhausted, ", its budget of tool calls was spent")+
			plaintext.If(e.OmittedMessages > 0, ", %d early messages were no longer sent", e.OmittedMessages), 400))
	}
}

func conversation(messages []contract.Message, line func(label, format string, args ...any)) {
	for i := range messages {
		m := &messages[i]
		for _, c := range m.Calls {
			line(m.Role, "calls %s", plaintext.Line(c.Name, 100))
		}
		if m.Text != "" {
			line(m.Role, "%s%s", plaintext.If(m.Name != "", "%s: ", plaintext.Line(m.Name, 100)), plaintext.Line(m.Text, 300))
		}
	}
}

const microsPerUnit = 1_000_000

func usageText(u contract.Usage) string {
	cached, cost := "", ""
	if u.Cached > 0 && u.Input > 0 {
		cached = fmt.Sprintf(" (%d %% of it from a provider's cache)", u.Cached*100/u.Input)
	}
	if u.Cost != 0 {
		cost = fmt.Sprintf(", cost %d.%06d", u.Cost/microsPerUnit, u.Cost%microsPerUnit)
		cost += plaintext.If(u.Unpriced > 0, " without %d calls that have no price", u.Unpriced)
	}
	return fmt.Sprintf("%d model calls, %d input%s and %d output tokens%s", u.Calls, u.Input, cached, u.Output, cost) +
		plaintext.If(u.Stopped > 0, "; %d more were interrupted", u.Stopped) +
		plaintext.If(u.Cut > 0, "; the answers of %d more were cut", u.Cut)
}

func budgetText(b *contract.Allowance) string {
	parts := []string{plaintext.If(b.Calls > 0, "%d model calls", b.Calls), plaintext.If(b.Tokens > 0, "%d tokens", b.Tokens),
		plaintext.If(b.Cost > 0, "cost %.6f", float64(b.Cost)/microsPerUnit)}
	return "at most " + strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

func session(s *contract.SessionStatus, line func(label, format string, args ...any)) {
	last := ""
	if s.Turn != nil {
		last = ", the last one " + s.Turn.Status
	}
	line("turns", "%d%s%s%s", s.Turns, last, plaintext.If(s.Queued > 0, ", %d prompts queued", s.Queued), plaintext.If(s.Callbacks > 0, ", %d callbacks waiting", s.Callbacks))
	for _, c := range s.Children {
		line("session", "%s: %s, %s", plaintext.Line(c.ID, 300), plaintext.Line(c.Agent, 100), c.Status)
	}
}

// Unread formats a message that no model call has included.
func Unread(m *contract.Inbound) string {
	return fmt.Sprintf("%q", plaintext.Line(m.Text, 100)) +
		plaintext.If(m.Node != "", " to %s", plaintext.Line(m.Node, 200)) +
		plaintext.If(m.By != "", " by %s", plaintext.Line(m.By, 100))
}

// Request writes a request with the commands that answer it.
func Request(out io.Writer, q *runs.Request) {
	line := func(label, format string, args ...any) { line(out, "  ", label, format, args...) }
	fmt.Fprintf(out, "%s  %s\n", q.Kind, plaintext.Lines(q.ID))
	due := ""
	if q.DueAt != nil {
		due = ", until " + q.DueAt.Local().Format(time.DateTime) + "; no answer means no"
	}
	line("waits", "%s, since %s%s", progress.Span(q.Seconds), q.OpenedAt.Local().Format(time.DateTime), due)
	if q.Node != "" {
		line("node", "%s%s%s", plaintext.Line(q.Node, 200), plaintext.If(q.Step > 0, ", step %d", q.Step), plaintext.If(q.At != "", ", %s", plaintext.Line(q.At, 300)))
	}
	line("asked", "%s", plaintext.Line(q.Text, 2000))
	if q.Tool != "" {
		line("tool", "%s%s", plaintext.Line(q.Tool, 100), plaintext.If(q.Connection != "", ", of connection %s", plaintext.Line(q.Connection, 200)))
	}
	switch {
	case len(q.Arguments) > 0:
		line("arguments", "%s", plaintext.Line(string(textutil.Unescape(q.Arguments)), 4000))
	case q.Call != nil:
		line("arguments", "long; they are in: starter transcript %s", plaintext.ShellQuote(q.WorkflowID))
	}
	for i, c := range q.Commands {
		line([]string{"answer", "or"}[min(i, 1)], "%s", plaintext.Lines(c))
	}
}

// Requests writes requests as columns; the last one is the command that answers.
func Requests(out io.Writer, list []runs.Request) {
	var rows [][]string
	for i := range list {
		q := &list[i]
		due, node := "-", "-"
		if q.DueAt != nil {
			due = q.DueAt.Local().Format(time.DateTime)
		}
		if q.Node != "" {
			node = plaintext.Line(q.Node, 60) + plaintext.If(q.At != "", " %s", plaintext.Line(q.At, 100))
		}
		rows = append(rows, []string{cmp.Or(plaintext.Line(q.Flow, 60), "-"), q.Kind, progress.Span(q.Seconds), due, node, plaintext.Line(q.Text, 80), plaintext.Line(q.Commands[0], 1000)})
	}
	plaintext.Table(out, []string{"FLOW", "KIND", "WAITS", "DUE", "NODE", "ASKED", "ANSWER"}, rows)
}

// Runs writes runs as columns.
func Runs(out io.Writer, all []runs.Summary) {
	var rows [][]string
	for _, r := range all {
		rows = append(rows, []string{plaintext.Line(r.ID, 200), cmp.Or(plaintext.Line(r.Flow, 60), "-"), r.Status, r.Started.Local().Format(time.DateTime), progress.Span(r.Seconds)})
	}
	plaintext.Table(out, []string{"ID", "FLOW", "STATUS", "STARTED", "TOOK"}, rows)
}

// Failure formats the failure of a run: class, place, text, the path to it, and the remedy.
func Failure(id string, f *contract.Failure) []string {
	out := []string{fmt.Sprintf("starter: run %s failed: %s", id, f.Class)}
	add := func(label, format string, args ...any) {
		out = append(out, fmt.Sprintf("  %-8s%s", label, fmt.Sprintf(format, args...)))
	}
	where := plaintext.If(f.Node != "", ", node %q", plaintext.Line(f.Node, 200)) + plaintext.If(f.Node != "" && f.Step > 0, ", step %d", f.Step) +
		plaintext.If(f.At != "", ", %s", plaintext.Line(f.At, 300))
	if where != "" {
		add("where:", "%s", where[len(", "):])
	}
	what, more := f.Text, f.Diagnostics
	if len(more) > 0 && what == strings.Join(more, "; ") {
		what, more = more[0], more[1:]
	}
	add("what:", "%s", plaintext.Line(what, 2000))
	for _, d := range more {
		add("", "%s", plaintext.Line(d, 500))
	}
	if len(f.Data) > 0 {
		add("", "it left %s", plaintext.Line(string(f.Data), 2000))
	}
	for _, e := range f.Errors {
		add("", "%s: %s", plaintext.Line(e.Path, 200), plaintext.Line(e.Message, 500))
	}
	for _, n := range f.NoRoute {
		add("", "%s: no condition held", plaintext.Line(n, 200))
	}
	for _, q := range f.Answers {
		add("", "%s asked %q: %s%s", plaintext.Line(q.Execution, 200), plaintext.Line(q.Question, 300), plaintext.YesNo(q.Yes), plaintext.If(q.Reason != "", " (%s)", plaintext.Line(q.Reason, 300)))
	}
	if f.Remedy != "" {
		add("remedy:", "%s", plaintext.Line(f.Remedy, 1000))
	}
	return out
}
