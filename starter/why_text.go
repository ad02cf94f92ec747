package main

import (
	"fmt"
	"strings"
)

// whyWords are the states of nodes in words.
var whyWords = map[string]string{whyDone: "ran", whyRunning: "runs", whyWaiting: "waits", whyFailed: "failed", whyStopped: "was stopped", whyNotRun: "did not run"}

// whyText shows a report as text. one says that a single node was asked for: then the edges
// out of it are shown too.
func whyText(r *whyReport, one bool) string {
	var b strings.Builder
	head := fmt.Sprintf("run %s", printable(r.Run))
	if r.Place != "" {
		head = fmt.Sprintf("sub-agent %s, %s", clean(r.Place, 300), head)
	}
	if r.Flow != "" {
		head += " of " + clean(r.Flow, 200)
	}
	fmt.Fprintf(&b, "%s: %s\n", head, r.Status)
	if f := r.Failure; f != nil {
		fmt.Fprintf(&b, "  failed: %s\n", clean(f.Class+": "+f.Error(), 1000))
	}
	for i := range r.Nodes {
		whyNodeText(&b, &r.Nodes[i], one)
	}
	for _, id := range r.Gone {
		fmt.Fprintf(&b, "the history of %s is not kept any more\n", printable(id))
	}
	for i := range r.SubAgents {
		b.WriteByte('\n')
		b.WriteString(whyText(&r.SubAgents[i], one))
	}
	return b.String()
}

func whyNodeText(b *strings.Builder, n *whyNode, one bool) {
	place := ""
	if n.At != "" {
		place = " (" + clean(n.At, 300) + ")"
	}
	fmt.Fprintf(b, "\n%s %s%s\n", clean(n.Node, 200), whyWords[n.State], place)
	if n.State == whyNotRun && len(n.Refused) == 0 {
		b.WriteString("  no edge leads to it\n")
	}
	for i := range n.Refused {
		whyEdgeText(b, "  ", &n.Refused[i], true)
	}
	for i := range n.Executions {
		whyExecutionText(b, n, i, one)
	}
}

// whyExecutionText shows the i-th execution of a node.
func whyExecutionText(b *strings.Builder, n *whyNode, i int, one bool) {
	e := &n.Executions[i]
	fmt.Fprintf(b, "  %s %s", clean(e.Execution, 200), whyWords[e.State])
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	b.WriteByte('\n')
	for k := range e.Because {
		whyEdgeText(b, "    came by ", &e.Because[k], false)
	}
	if len(e.Absent) > 0 {
		when := "before it"
		if i > 0 {
			when = fmt.Sprintf("between %s and it", clean(n.Executions[i-1].Execution, 200))
		}
		fmt.Fprintf(b, "    %s did not run %s\n", clean(strings.Join(e.Absent, ", "), 1000), when)
	}
	for _, w := range e.Waits {
		verb := "waits"
		if e.State == whyStopped {
			verb = "waited"
		}
		fmt.Fprintf(b, "    %s for %s\n", verb, w.Text)
		for _, c := range w.Commands {
			fmt.Fprintf(b, "      answer with: %s\n", printable(c))
		}
	}
	for k := range e.Left {
		if x := &e.Left[k]; one || x.Result != edgeTaken {
			whyEdgeText(b, "    ", x, true)
		}
	}
}

// whyEdgeText shows an edge; outcome says whether what became of it is said, and where it
// leads.
func whyEdgeText(b *strings.Builder, lead string, e *whyEdge, outcome bool) {
	name := "edge " + clean(e.Edge, 100)
	if outcome {
		name = fmt.Sprintf("%s %s, %s → %s", e.Result, name, clean(e.From, 200), clean(e.To, 200))
	} else {
		name += " from " + clean(e.From, 200)
	}
	fmt.Fprintf(b, "%s%s: %s\n", lead, name, e.Text)
}
