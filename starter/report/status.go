// Package report writes what commands print for people: statuses, requests, failures and tables.
package report

import (
	"fmt"
	"io"
	"strings"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/starter/runs"
)

func line(out io.Writer, indent, label, format string, args ...any) {
	fmt.Fprintf(out, "%s%-10s%s\n", indent, label, fmt.Sprintf(format, args...))
}

// Status writes a run's status. calls describes those that wait.
func Status(out io.Writer, r *runs.Run, st *contract.Status, calls []string) {
	line := func(label, format string, args ...any) { line(out, "", label, format, args...) }
	line("run", "%s", r.ID)
	line("status", "%s", st.Status)
	if st.Flow != nil {
		line("flow", "%s", flowText(st.Flow))
	}
	if st.Model != "" {
		line("model", "%s", progress.ModelLabel(st.Model))
	}
	line("usage", "%s", usageText(st.Usage))
	for i := range st.Usage.Fallbacks {
		line("fallback", "%s", switchedText(&st.Usage.Fallbacks[i]))
	}
	if st.Budget != nil {
		line("budget", "%s", budgetText(st.Budget))
	}
	for _, l := range []struct {
		label string
		items []string
	}{{"running", st.Running}, {"waiting", st.Waiting}, {"pending joins", st.PendingJoins}} {
		if len(l.items) > 0 {
			line(l.label, "%s", plaintext.Line(strings.Join(l.items, ", "), 2000))
		}
	}
	for i := range st.Executions {
		line("done", "%s", plaintext.Line(executionText(&st.Executions[i]), 400))
	}
	for _, c := range st.Conflicts {
		line("conflict", "%s: kept what %s wrote, dropped what %s wrote", plaintext.Line(c.Key, 200), plaintext.Line(c.Kept.Exec, 200), plaintext.Line(c.Dropped.Exec, 200))
	}
	if st.Session != nil {
		session(st.Session, line)
	}
	for i := range st.Requests {
		q := &st.Requests[i]
		line("request", "%s %s: %s", q.Kind, plaintext.Lines(q.ID), plaintext.Line(q.Text, 300))
		line("", "answer with: %s", r.Commands(q)[0])
	}
	for i := range st.Inbox {
		line("unread", "%s", Unread(&st.Inbox[i]))
	}
	if st.Rejected > 0 {
		line("rejected", "%d signals that answer nothing; the last:", st.Rejected)
	}
	for _, why := range st.RejectionReasons {
		line("", "%s", plaintext.Line(why, 600))
	}
	for _, call := range calls {
		line("call", "%s", call)
	}
}

func executionText(e *contract.Execution) string {
	return fmt.Sprintf("%s, step %d", e.Node, e.Step) +
		plaintext.If(e.Occurrence > 1, ", execution %d", e.Occurrence) +
		plaintext.If(e.NoRoute, ", all conditions said no") +
		plaintext.If(e.Exhausted, ", its budget of tool calls was spent") +
		plaintext.If(e.OmittedMessages > 0, ", %d early messages were no longer sent", e.OmittedMessages)
}

func flowText(l *contract.FlowLabel) string {
	return plaintext.Line(l.Name, 200) +
		plaintext.If(l.Version != "", " %s", plaintext.Line(l.Version, 100)) +
		plaintext.If(l.Description != "", ": %s", plaintext.Line(l.Description, 300))
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
		plaintext.If(u.Stopped > 0, "; %d more were stopped under way", u.Stopped)
}

func switchedText(s *contract.FallbackCount) string {
	text := "between other models"
	if s.From != "" {
		text = fmt.Sprintf("from %s to %s: %s", plaintext.Line(s.From, 100), plaintext.Line(s.To, 100), plaintext.Line(s.Class, 40))
	}
	text += plaintext.If(s.Times > 1, " (%d times)", s.Times)
	return text
}

func budgetText(b *contract.Allowance) string {
	var parts []string
	if b.Calls > 0 {
		parts = append(parts, fmt.Sprintf("%d model calls", b.Calls))
	}
	if b.Tokens > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", b.Tokens))
	}
	if b.Cost > 0 {
		parts = append(parts, fmt.Sprintf("cost %.6f", float64(b.Cost)/microsPerUnit))
	}
	return "at most " + strings.Join(parts, ", ")
}

func session(s *contract.SessionStatus, line func(label, format string, args ...any)) {
	text := fmt.Sprintf("%d", s.Turns)
	if s.Turn != nil {
		text += ", the last one " + s.Turn.Status
	}
	text += plaintext.If(s.Queued > 0, ", %d prompts queued", s.Queued)
	text += plaintext.If(s.Callbacks > 0, ", %d callbacks waiting", s.Callbacks)
	line("turns", "%s", text)
	for _, c := range s.Children {
		line("session", "%s: %s, %s", plaintext.Line(c.ID, 300), plaintext.Line(c.Agent, 100), c.Status)
	}
}

// Unread shows a message that no model call has had.
func Unread(m *contract.Inbound) string {
	return fmt.Sprintf("%q", plaintext.Line(m.Text, 100)) +
		plaintext.If(m.Node != "", " to %s", plaintext.Line(m.Node, 200)) +
		plaintext.If(m.By != "", " by %s", plaintext.Line(m.By, 100))
}
