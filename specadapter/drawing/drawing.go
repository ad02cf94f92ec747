// Package drawing draws flows, and the progress of their runs, as Mermaid and as SVG.
//
// It reads only plans. Text written by an author is untrusted and always escaped. The output
// is deterministic.
//
// Start at [Mermaid] and [SVG].
package drawing

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"weft/workflows/plan"
)

// State is the progress of a run at a node.
type State string

// The states. A node that a run has not reached has none.
const (
	Running State = "running"
	Waiting State = "waiting"
	Done    State = "done"
	Failed  State = "failed"
	// Stopped is the state of a node that was running when its run ended.
	Stopped State = "stopped"
)

// unreached is shown for a node without a state.
const unreached State = "not reached"

// Progress is a node's state and its number of executions.
type Progress struct {
	State State
	Runs  int
}

// States maps the ids of a run's nodes to their progress; nil draws a flow without a run.
type States map[string]Progress

func (s States) of(node string) State {
	if p, ok := s[node]; ok && p.State != "" {
		return p.State
	}
	return unreached
}

type nodeStyle struct {
	state               State
	class, fill, stroke string
}

var nodeStyles = []nodeStyle{
	{Running, "running", "#fff1b8", "#ad6800"},
	{Waiting, "waiting", "#d6e4ff", "#1d39c4"},
	{Done, "done", "#d9f7be", "#237804"},
	{Failed, "failed", "#ffccc7", "#a8071a"},
	{Stopped, "stopped", "#ffe7ba", "#873800"},
	{unreached, "unreached", "#f5f5f5", "#8c8c8c"},
}

// annotations returns the annotations of a node in addition to its name.
func annotations(n *plan.Node, states States) []string {
	var marks []string
	if n.Kind != "" && n.Kind != plan.KindAgent {
		marks = append(marks, string(n.Kind))
	}
	if n.Deferred {
		marks = append(marks, "deferred join")
	}
	if n.Exit {
		marks = append(marks, "exit")
	}
	if states == nil {
		return marks
	}
	text := string(states.of(n.ID))
	if runs := states[n.ID].Runs; runs > 1 {
		text += fmt.Sprintf(", ran %d times", runs)
	}
	return append(marks, text)
}

// edgeText returns the label of an edge, or "".
func edgeText(e *plan.Edge) string {
	text := e.Question
	if e.Branch != "" {
		text = e.Branch
	}
	if e.Compare != nil {
		text = e.Compare.Text
	}
	if e.Pass != nil && text != "" {
		text += ", "
	}
	if e.Pass != nil {
		text += "passes " + strings.Join(e.Pass.Path, ".")
	}
	return text
}

// Mermaid draws a flow as a Mermaid flowchart: conditions label their edges, deferred
// joins are hexagons, exit nodes have a double border, and both are also labelled. With the
// states of a run, nodes are labelled and coloured by state. All ids and texts of the author
// are escaped, so that they cannot break the flowchart. Sub-agents are not drawn.
func Mermaid(f *plan.Flow, states States) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	if f.Revision != "" {
		fmt.Fprintf(&b, "    %%%% %s %s\n", drawnText(f.Name), drawnText(f.Revision))
	}
	if f.Revision != "" && f.Description != "" {
		fmt.Fprintf(&b, "    %%%% %s\n", drawnText(f.Description))
	}
	ids := drawnIDs(f)
	b.WriteString("    START([START])\n")
	for i := range f.Nodes {
		n := &f.Nodes[i]
		fmt.Fprintf(&b, "    %s\n", drawnNode(n, ids[n.ID], states))
	}
	b.WriteString("    END([END])\n")
	for i := range f.Edges {
		e := &f.Edges[i]
		arrow := "-->"
		if text := edgeText(e); text != "" {
			arrow = `-->|"` + drawnText(text) + `"|`
		}
		fmt.Fprintf(&b, "    %s %s %s\n", ids[e.From], arrow, ids[e.To])
	}
	for _, l := range nodeStyles {
		var members []string
		for i := range f.Nodes {
			if states != nil && states.of(f.Nodes[i].ID) == l.state {
				members = append(members, ids[f.Nodes[i].ID])
			}
		}
		if len(members) > 0 {
			fmt.Fprintf(&b, "    classDef %s fill:%s,stroke:%s\n    class %s %s\n", l.class, l.fill, l.stroke, strings.Join(members, ","), l.class)
		}
	}
	return b.String()
}

// drawnNode returns a node's shape and text: its name, its id if it differs, and its annotations.
func drawnNode(n *plan.Node, id string, states States) string {
	text := drawnText(n.Name)
	if id != n.ID {
		text += "<br/>" + drawnText(n.ID)
	}
	if marks := annotations(n, states); len(marks) > 0 {
		text += "<br/>(" + strings.Join(marks, ", ") + ")"
	}
	open, closing := `["`, `"]`
	switch {
	case n.Deferred:
		open, closing = `{{"`, `"}}`
	case n.Exit:
		open, closing = `[["`, `"]]`
	}
	return id + open + text + closing
}

var (
	plainID  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)
	reserved = regexp.MustCompile(`(?i)^(graph|flowchart|subgraph|end|start|direction|class|classdef|style|linkstyle|click|default|call|href|interpolate|_self|_blank|_parent|_top|tb|td|bt|rl|lr|id_[0-9]+)$`)
)

// drawnIDs returns ids that Mermaid accepts: the author's, or id_ and a number.
func drawnIDs(f *plan.Flow) map[string]string {
	ids := map[string]string{plan.Start: plan.Start, plan.End: plan.End}
	for i := range f.Nodes {
		id := f.Nodes[i].ID
		if plainID.MatchString(id) && !reserved.MatchString(id) {
			ids[id] = id
		} else {
			ids[id] = fmt.Sprintf("id_%d", i+1)
		}
	}
	return ids
}

// maxDrawn is the maximum number of characters of a text.
const maxDrawn = 120

// drawnText escapes all characters but letters, digits and safe punctuation as Mermaid's entity codes.
func drawnText(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range strings.Join(strings.Fields(s), " ") {
		if n++; n > maxDrawn {
			b.WriteString("...")
			break
		}
		switch {
		case r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune(" .,:!?'+-_/", r):
			b.WriteRune(r)
		case r >= 0x80 && unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
