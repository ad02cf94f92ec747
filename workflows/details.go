package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/inbox"
	"weft/workflows/schedule"
)

// maxRows limits the rows of each table in the Web UI.
const maxRows = 20

// updateDetails updates the run's details in Temporal's Web UI: a table of nodes under User Metadata. It adds nothing to the history.
func (f *flowRun) updateDetails(ctx workflow.Context) {
	if !f.nested {
		workflow.SetCurrentDetails(ctx, details(f))
	}
}

// failureDetails formats a failure as Markdown: its position, class, text and remedy.
func failureDetails(f *contract.Failure) string {
	where := ""
	if f.Node != "" {
		delimiter, id := code(contract.ExecutionID(f.Node, f.Step, 0))
		where = " at " + delimiter + id + delimiter
	}
	if f.At != "" {
		where += " (" + cellEscaper.Replace(f.At) + ")"
	}
	text := fmt.Sprintf("**Failed**%s: %s: %s\n\n", where, cellEscaper.Replace(f.Class), cellEscaper.Replace(textutil.Cut(f.Text, 1000)))
	if f.Remedy != "" {
		text += "To fix it: " + cellEscaper.Replace(textutil.Cut(f.Remedy, 500)) + "\n\n"
	}
	return text
}

// details returns a Markdown table of the nodes that have run, are running or wait. It is empty before the flow is known.
func details(f *flowRun) string {
	if f.run.Graph == nil {
		return ""
	}
	var b strings.Builder
	b.Grow(512)
	heading(f, &b)
	rows, live := 0, 0
	row := func(id string, node int, state string) {
		rows++
		delimiter, id := code(textutil.Cut(id, 80))
		writeAll(&b, "| ", delimiter, id, delimiter, " | ", cell(f.run.Flow.Nodes[node].Name), " | ", state, " |\n")
	}
	requests := map[string]string{}
	if f.inbox != nil {
		for i := range f.inbox.Requests {
			requests[f.inbox.Requests[i].Execution] = "**waiting** for an answer"
		}
	}
	for _, l := range []struct {
		list  []*schedule.Execution
		state string
	}{
		{f.sched.Running, "**running**"},
		{f.sched.Waiting, "waiting for branches that may still arrive"},
		{f.sched.Joins, "join, waiting until no branch can reach it"},
	} {
		live += len(l.list)
		for _, x := range l.list[:min(len(l.list), maxRows-rows)] {
			id, node := f.sched.ID(x), x.Node
			if c := chainOf(f, x); c != nil && c.currentID != "" {
				id, node = c.currentID, f.run.Graph.Index(c.next.Node)
			}
			row(id, node, cmp.Or(requests[id], l.state))
		}
	}
	finished := 0
	for _, part := range slices.Backward(traces(f)) {
		finished += len(part)
		for i := len(part) - 1; i >= 0 && rows < maxRows; i-- {
			e := &part[i]
			row(contract.ExecutionID(e.Node, e.Step, e.Occurrence), f.run.Graph.Index(e.Node), doneState(e))
		}
	}
	if more := finished + f.dropped + live - rows; more > 0 {
		fmt.Fprintf(&b, "\n%d more\n", more)
	}
	fallbacksTable(f, &b)
	requestsTable(f, &b)
	return b.String()
}

// heading writes the flow's name, its model and the usage: calls, input and output tokens, and the share of cached input.
func heading(f *flowRun, b *strings.Builder) {
	name, separator, u := f.run.Flow.Name, " · ", &f.run.Budget.Usage
	if f.run.Flow.Revision != "" {
		name += " " + f.run.Flow.Revision
		if f.run.Flow.Description != "" {
			separator = ": " + cellEscaper.Replace(textutil.Cut(f.run.Flow.Description, 300)) + "\n\n"
		}
	}
	delimiter, model := code(f.run.Shared.Model)
	writeAll(b, "**", cell(name), "**", separator, "model ", delimiter, model, delimiter, " · ",
		strconv.Itoa(u.Calls), " model calls, ", strconv.Itoa(u.Input), " + ", strconv.Itoa(u.Output), " tokens")
	if u.Cached > 0 && u.Input > 0 {
		fmt.Fprintf(b, ", %d %% of the input cached", u.Cached*100/u.Input)
	}
	b.WriteString("\n\n| execution | node | state |\n|---|---|---|\n")
}

func writeAll(b *strings.Builder, parts ...string) {
	for _, p := range parts {
		b.WriteString(p)
	}
}

// fallbacksTable lists the models that failed, and the models that replaced them.
func fallbacksTable(f *flowRun, b *strings.Builder) {
	for i := range f.run.Budget.Usage.Fallbacks {
		s := &f.run.Budget.Usage.Fallbacks[i]
		if i == 0 {
			b.WriteString("\n| switched from | to | why | times |\n|---|---|---|---|\n")
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d |\n", cell(cmp.Or(s.From, "others")), cell(s.To), cell(s.Class), s.Times)
	}
}

// doneState describes how an execution ended.
func doneState(e *contract.Execution) string {
	switch {
	case e.NoRoute:
		return "done, no condition was met"
	case e.Exhausted:
		return "done, tool calls used up"
	case e.OmittedMessages > 0:
		return fmt.Sprintf("done, %d early messages no longer sent", e.OmittedMessages)
	}
	return "done"
}

// requestsTable lists the open requests, each with the JSON to send as an Update or a signal of the kind's name.
func requestsTable(f *flowRun, b *strings.Builder) {
	if f.inbox == nil || len(f.inbox.Requests) == 0 {
		return
	}
	answers := "answers"
	if len(f.inbox.Requests) == 1 {
		answers = "answer"
	}
	fmt.Fprintf(b, "\n**Waiting for %d %s.** Send the JSON as an Update or signal of the kind's name.\n\n| kind | request | JSON |\n|---|---|---|\n",
		len(f.inbox.Requests), answers)
	for i := range f.inbox.Requests {
		if i == maxRows {
			fmt.Fprintf(b, "\n%d more\n", len(f.inbox.Requests)-i)
			return
		}
		q := &f.inbox.Requests[i]
		fmt.Fprintf(b, "| %s | %s | `%s` |\n", q.Kind, cellEscaper.Replace(textutil.Cut(q.Text, 200)), inbox.Example(q))
	}
}

// cell escapes text for a cell of a Markdown table. Names come from authors and requests from models: HTML or links, which the
// Web UI renders, could hide a part of a call from the user who approves it.
func cell(s string) string {
	if s = textutil.Cut(s, 80); strings.ContainsAny(s, "|\r\n`\\*_[<&~$-:") {
		return cellEscaper.Replace(s)
	}
	return s
}

// code returns the delimiter and the text of a code span. Text that would end the span is escaped, without a delimiter.
func code(s string) (delimiter, text string) {
	if s == "" || strings.ContainsAny(s, "|`\r\n") {
		return "", cellEscaper.Replace(s)
	}
	return "`", s
}

// Built once: building it costs more than the table. A carriage return ends a line of Markdown, too; two hyphens become a
// dash, and a URL a link, in which a backslash does not escape.
var cellEscaper = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "--", `\-\-`, "://", `\://`, "|", `\|`, "`", "\\`",
	`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, "&", `\&`, "~", `\~`, "$", `\$`)
