package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/starter/runs"
)

// Request writes a request with the commands that answer it.
func Request(out io.Writer, q *runs.Request) {
	line := func(label, format string, args ...any) { line(out, "  ", label, format, args...) }
	fmt.Fprintf(out, "%s  %s\n", q.Kind, plaintext.Lines(q.ID))
	due := ""
	if q.DueAt != nil {
		due = ", until " + q.DueAt.Local().Format(time.DateTime) + "; no answer means no"
	}
	line("waits", "%s, since %s%s", progress.Span(q.Seconds), q.OpenedAt.Local().Format(time.DateTime), due)
	if where := whereOf(&q.Request); where != "" {
		line("node", "%s", where)
	}
	line("asked", "%s", plaintext.Line(q.Text, 2000))
	if q.Tool != "" {
		tool := plaintext.Line(q.Tool, 100)
		tool += plaintext.If(q.Connection != "", ", of connection %s", plaintext.Line(q.Connection, 200))
		line("tool", "%s", tool)
	}
	switch {
	case len(q.Arguments) > 0:
		line("arguments", "%s", plaintext.Line(string(q.Arguments), 4000))
	case q.Call != nil:
		line("arguments", "long; they are in: starter transcript %s", plaintext.ShellQuote(q.Of))
	}
	for i, c := range q.Commands {
		line([]string{"answer", "or"}[min(i, 1)], "%s", plaintext.Lines(c))
	}
}

func whereOf(q *contract.Request) string {
	if q.Node == "" {
		return ""
	}
	where := plaintext.Line(q.Node, 200)
	where += plaintext.If(q.Step > 0, ", step %d", q.Step)
	where += plaintext.If(q.At != "", ", %s", plaintext.Line(q.At, 300))
	return where
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
			node = plaintext.Line(q.Node, 60)
			node += plaintext.If(q.At != "", " %s", plaintext.Line(q.At, 100))
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

// Failure says why a run failed: class, place, text, what led there, what to do.
func Failure(id string, f *contract.Failure) []string {
	out := []string{fmt.Sprintf("starter: run %s failed: %s", id, f.Class)}
	add := func(label, format string, args ...any) {
		out = append(out, fmt.Sprintf("  %-8s%s", label, fmt.Sprintf(format, args...)))
	}
	var where []string
	if f.Node != "" {
		where = append(where, fmt.Sprintf("node %q", plaintext.Line(f.Node, 200)))
		if f.Step > 0 {
			where = append(where, fmt.Sprintf("step %d", f.Step))
		}
	}
	if f.At != "" {
		where = append(where, plaintext.Line(f.At, 300))
	}
	if len(where) > 0 {
		add("where:", "%s", strings.Join(where, ", "))
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
		add("", "%s: all conditions said no", plaintext.Line(n, 200))
	}
	for _, q := range f.Answers {
		reason := plaintext.If(q.Reason != "", " (%s)", plaintext.Line(q.Reason, 300))
		add("", "%s asked %q: %s%s", plaintext.Line(q.Execution, 200), plaintext.Line(q.Question, 300), plaintext.YesNo(q.Yes), reason)
	}
	if f.Remedy != "" {
		add("remedy:", "%s", plaintext.Line(f.Remedy, 1000))
	}
	return out
}
