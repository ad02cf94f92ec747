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

// maxRows bounds the table that the Web UI shows of a run.
const maxRows = 20

// show tells Temporal's Web UI how the run stands: a table of nodes under User Metadata. It leaves nothing in history.
func (f *flowRun) show(ctx workflow.Context) {
	if !f.nested {
		workflow.SetCurrentDetails(ctx, details(f))
	}
}

// failureDetails says why a run failed, where, and what to do.
func failureDetails(f *contract.Failure) string {
	where := ""
	if f.Node != "" {
		tick, id := code(contract.ExecutionID(f.Node, f.Step, 0))
		where = " at " + tick + id + tick
	}
	if f.At != "" {
		where += " (" + inCell.Replace(f.At) + ")"
	}
	text := fmt.Sprintf("**Failed**%s: %s: %s\n\n", where, inCell.Replace(f.Class), inCell.Replace(textutil.Cut(f.Text, 1000)))
	if f.Remedy != "" {
		text += "To fix it: " + inCell.Replace(textutil.Cut(f.Remedy, 500)) + "\n\n"
	}
	return text
}

// details is a Markdown table of the nodes that have run, run or wait. It is empty while nothing is known.
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
		tick, id := code(textutil.Cut(id, 80))
		write(&b, "| ", tick, id, tick, " | ", cell(f.run.Flow.Nodes[node].Name), " | ", state, " |\n")
	}
	asks := map[string]string{}
	if f.inbox != nil {
		for i := range f.inbox.Requests {
			asks[f.inbox.Requests[i].Execution] = "**waiting** for an answer"
		}
	}
	for _, l := range []struct {
		list  []*schedule.Execution
		state string
	}{
		{f.sched.Running, "**running**"},
		{f.sched.Waiting, "waits for branches that may still come"},
		{f.sched.Joins, "a join, waits until nothing can reach it"},
	} {
		live += len(l.list)
		for _, x := range l.list[:min(len(l.list), maxRows-rows)] {
			id, node := f.sched.ID(x), x.Node
			if c := chainOf(f, x); c != nil && c.now != "" {
				id, node = c.now, f.run.Graph.Index(c.next.Node)
			}
			row(id, node, cmp.Or(asks[id], l.state))
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
	if left := finished + f.dropped + live - rows; left > 0 {
		fmt.Fprintf(&b, "\n%d more\n", left)
	}
	fallbacksTable(f, &b)
	requestsTable(f, &b)
	return b.String()
}

// heading says which flow runs and what it has used: calls, tokens in and out, and of the former those from a provider's cache.
func heading(f *flowRun, b *strings.Builder) {
	name, between, u := f.run.Flow.Name, " · ", &f.run.Budget.Usage
	if f.run.Flow.Revision != "" {
		name += " " + f.run.Flow.Revision
		if f.run.Flow.Description != "" {
			between = ": " + inCell.Replace(textutil.Cut(f.run.Flow.Description, 300)) + "\n\n"
		}
	}
	tick, model := code(f.run.Shared.Model)
	write(b, "**", cell(name), "**", between, "model ", tick, model, tick, " · ",
		strconv.Itoa(u.Calls), " model calls, ", strconv.Itoa(u.Input), " + ", strconv.Itoa(u.Output), " tokens")
	if u.Cached > 0 && u.Input > 0 {
		fmt.Fprintf(b, ", %d %% of the input cached", u.Cached*100/u.Input)
	}
	b.WriteString("\n\n| execution | node | state |\n|---|---|---|\n")
}

func write(b *strings.Builder, parts ...string) {
	for _, p := range parts {
		b.WriteString(p)
	}
}

// fallbacksTable lists which models could not answer, and which were asked instead.
func fallbacksTable(f *flowRun, b *strings.Builder) {
	for i := range f.run.Budget.Usage.Fallbacks {
		s := &f.run.Budget.Usage.Fallbacks[i]
		if i == 0 {
			b.WriteString("\n| switched from | to | why | times |\n|---|---|---|---|\n")
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d |\n", cell(cmp.Or(s.From, "others")), cell(s.To), cell(s.Class), s.Times)
	}
}

// doneState is how an execution ended.
func doneState(e *contract.Execution) string {
	switch {
	case e.NoRoute:
		return "done, no condition said yes"
	case e.Exhausted:
		return "done, tool calls used up"
	case e.OmittedMessages > 0:
		return fmt.Sprintf("done, %d early messages no longer sent", e.OmittedMessages)
	}
	return "done"
}

// requestsTable lists what the run waits for, each with what to send as an Update or a signal of the kind's name.
func requestsTable(f *flowRun, b *strings.Builder) {
	if f.inbox == nil || len(f.inbox.Requests) == 0 {
		return
	}
	answers := "answers"
	if len(f.inbox.Requests) == 1 {
		answers = "answer"
	}
	fmt.Fprintf(b, "\n**Waits for %d %s.** Send the JSON as an Update, or a signal, of the kind's name.\n\n| kind | asked | JSON |\n|---|---|---|\n",
		len(f.inbox.Requests), answers)
	for i := range f.inbox.Requests {
		if i == maxRows {
			fmt.Fprintf(b, "\n%d more\n", len(f.inbox.Requests)-i)
			return
		}
		q := &f.inbox.Requests[i]
		fmt.Fprintf(b, "| %s | %s | `%s` |\n", q.Kind, inCell.Replace(textutil.Cut(q.Text, 200)), inbox.Example(q))
	}
}

// cell is text as a cell of a Markdown table shows it, to the sign: names are authors', and what is asked is a model's. The Web UI
// takes HTML and links as they stand, which could hide a part of a call from whoever allows it.
func cell(s string) string {
	if s = textutil.Cut(s, 80); strings.ContainsAny(s, "|\r\n`\\*_[<&~$-:") {
		return inCell.Replace(s)
	}
	return s
}

// code is text in a fixed font, where no sign has a meaning, and what stands on both sides of it. A bar or a backtick would end it.
func code(s string) (tick, text string) {
	if s == "" || strings.ContainsAny(s, "|`\r\n") {
		return "", inCell.Replace(s)
	}
	return "`", s
}

// Made once: making them costs more than the whole table. A carriage return ends a line of
// Markdown, too; two hyphens become a dash, and an address a link, in which a backslash is no escape.
var inCell = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "--", `\-\-`, "://", `\://`, "|", `\|`, "`", "\\`",
	`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, "&", `\&`, "~", `\~`, "$", `\$`)
