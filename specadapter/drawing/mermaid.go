package drawing

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"weft/workflows/plan"
)

// Mermaid draws a flow as a Mermaid flowchart: conditions label their edges, deferred
// joins are hexagons and say so, exit nodes have a double border and say so. With the
// states of a run, nodes say theirs and are coloured. Ids and texts of the author are
// escaped; whatever they hold, the drawing stays one. Sub-agents are not drawn.
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
	for _, l := range looks {
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

// drawnNode is a node's shape and text: its name, its id where that differs, and its marks.
func drawnNode(n *plan.Node, id string, states States) string {
	text := drawnText(n.Name)
	if id != n.ID {
		text += "<br/>" + drawnText(n.ID)
	}
	if marks := marksOf(n, states); len(marks) > 0 {
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

// drawnIDs gives every node an id that Mermaid accepts: the author's, or id_ and a number.
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

// maxDrawn is how many characters of a text are drawn.
const maxDrawn = 120

// drawnText escapes all but letters, digits and harmless punctuation as Mermaid's entity codes.
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
