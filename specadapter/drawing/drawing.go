// Package drawing draws flows, and the progress of their runs, as Mermaid and as SVG.
//
// It reads only plans. Text written by an author is untrusted and always escaped. The output
// is deterministic.
//
// Start at [Mermaid] and [SVG].
package drawing

import (
	"strings"

	"fmt"

	"weft/workflows/plan"
)

// State is the progress of a run at a node.
type State string

// The states. A node that a run has not come to has none.
const (
	Running State = "running"
	Waiting State = "waiting"
	Done    State = "done"
	Failed  State = "failed"
	// Stopped is the state of a node that was under way when its run ended.
	Stopped State = "stopped"
)

// unreached is the state of a node that has none.
const unreached State = "not reached"

// Progress is a node's state, and how often the node has run.
type Progress struct {
	State State
	Runs  int
}

// States are the states of a run's nodes by their ids; nil is a drawing without a run.
type States map[string]Progress

func (s States) of(node string) State {
	if p, ok := s[node]; ok && p.State != "" {
		return p.State
	}
	return unreached
}

type look struct {
	state               State
	class, fill, stroke string
}

var looks = []look{
	{Running, "running", "#fff1b8", "#ad6800"},
	{Waiting, "waiting", "#d6e4ff", "#1d39c4"},
	{Done, "done", "#d9f7be", "#237804"},
	{Failed, "failed", "#ffccc7", "#a8071a"},
	{Stopped, "stopped", "#ffe7ba", "#873800"},
	{unreached, "unreached", "#f5f5f5", "#8c8c8c"},
}

// marksOf is what is said of a node beyond its name.
func marksOf(n *plan.Node, states States) []string {
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

// edgeText is what is written at an edge, or "".
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
