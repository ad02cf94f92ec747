package why

import (
	"fmt"
	"strings"

	"weft/starter/plaintext"
)

var words = map[string]string{Done: "ran", Running: "runs", Waiting: "waits", Failed: "failed", Stopped: "was stopped", NotRun: "did not run"}

// Text shows a report as text; one shows the edges out of nodes, too.
func Text(r *Report, one bool) string {
	var b strings.Builder
	head := fmt.Sprintf("run %s", plaintext.Lines(r.Run))
	if r.Place != "" {
		head = fmt.Sprintf("sub-agent %s, %s", plaintext.Line(r.Place, 300), head)
	}
	if r.Flow != "" {
		head += " of " + plaintext.Line(r.Flow, 200)
	}
	fmt.Fprintf(&b, "%s: %s\n", head, r.Status)
	if f := r.Failure; f != nil {
		fmt.Fprintf(&b, "  failed: %s\n", plaintext.Line(f.Class+": "+f.Error(), 1000))
	}
	for i := range r.Nodes {
		nodeText(&b, &r.Nodes[i], one)
	}
	for _, id := range r.Gone {
		fmt.Fprintf(&b, "the history of %s is not kept any more\n", plaintext.Lines(id))
	}
	for i := range r.SubAgents {
		b.WriteByte('\n')
		b.WriteString(Text(&r.SubAgents[i], one))
	}
	return b.String()
}

func nodeText(b *strings.Builder, n *Node, one bool) {
	place := ""
	if n.At != "" {
		place = " (" + plaintext.Line(n.At, 300) + ")"
	}
	fmt.Fprintf(b, "\n%s %s%s\n", plaintext.Line(n.Node, 200), words[n.State], place)
	if n.State == NotRun && len(n.Refused) == 0 {
		b.WriteString("  no edge leads to it\n")
	}
	for i := range n.Refused {
		edgeText(b, "  ", &n.Refused[i], true)
	}
	for i := range n.Executions {
		executionText(b, n, i, one)
	}
}

func executionText(b *strings.Builder, n *Node, i int, one bool) {
	e := &n.Executions[i]
	fmt.Fprintf(b, "  %s %s", plaintext.Line(e.Execution, 200), words[e.State])
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	b.WriteByte('\n')
	for k := range e.Because {
		edgeText(b, "    came by ", &e.Because[k], false)
	}
	if len(e.Absent) > 0 {
		when := "before it"
		if i > 0 {
			when = fmt.Sprintf("between %s and it", plaintext.Line(n.Executions[i-1].Execution, 200))
		}
		fmt.Fprintf(b, "    %s did not run %s\n", plaintext.Line(strings.Join(e.Absent, ", "), 1000), when)
	}
	for _, w := range e.Waits {
		verb := "waits"
		if e.State == Stopped {
			verb = "waited"
		}
		fmt.Fprintf(b, "    %s for %s\n", verb, w.Text)
		for _, c := range w.Commands {
			fmt.Fprintf(b, "      answer with: %s\n", plaintext.Lines(c))
		}
	}
	for k := range e.Left {
		if x := &e.Left[k]; one || x.Result != Taken {
			edgeText(b, "    ", x, true)
		}
	}
}

// edgeText shows an edge; outcome adds what became of it, and where it leads.
func edgeText(b *strings.Builder, lead string, e *Edge, outcome bool) {
	name := "edge " + plaintext.Line(e.Edge, 100)
	if outcome {
		name = fmt.Sprintf("%s %s, %s → %s", e.Result, name, plaintext.Line(e.From, 200), plaintext.Line(e.To, 200))
	} else {
		name += " from " + plaintext.Line(e.From, 200)
	}
	fmt.Fprintf(b, "%s%s: %s\n", lead, name, e.Text)
}
