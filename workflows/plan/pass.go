package plan

import (
	"regexp"
	"slices"
)

// KindPass leaves the values that it takes, by their names, or what is made of them; configured by [Pass].
const KindPass Kind = "pass"

// Pass configures a node of [KindPass]: where values come into a flow, where they leave it, and what is made of values
// without a call.
//
// Sources: Agent Spec's StartNode and EndNode; the nodes for templates, regular expressions and variables of
// WayFlow's plugins.
type Pass struct {
	// Branch, at a flow's exit, is where the caller of the flow goes on.
	Branch string `json:"branch,omitempty"`
	// Text, if set, is the node's one output. It may hold placeholders, {{NAME}}, of the values that the node takes.
	Text *string `json:"text,omitempty"`
	// Match, if set, gives the node's one output: what it finds in the node's one value.
	Match *Match `json:"match,omitempty"`
	// Store, if set, makes its one operation, with the values that the node takes, on collections that the run has in its
	// state, see [StoresPort].
	Store *Connection `json:"store,omitempty"`
}

// Ports whose names begin with a point are no outputs of their nodes but at a flow's exit. StoresPort has the collections of
// a run, and ChangesPort what a flow that another one calls has changed of them since it began.
const (
	StoresPort  = ".stores"
	ChangesPort = ".changes"
)

// Match finds the matches of a regular expression in a text. A match is the text of the expression's group, a list of texts
// with several groups, or the whole text without any. Empty matches do not count.
type Match struct {
	// Pattern is an expression in the syntax of Go's package regexp.
	Pattern string `json:"pattern"`
	// Want is one of [Wants]: the first match or the last, nothing where there is none, or a list of all.
	Want string `json:"want"`
}

// Wants are the values of [Match.Want].
var Wants = []string{"first", "last", "all"}

// passes checks a node of kind pass.
func (c *checker) passes(n *Node) {
	p := n.Pass
	if (p.Text != nil || p.Match != nil) && len(n.Ports.Out) != 1 {
		c.add("node %q makes one value, but has %d outputs", n.ID, len(n.Ports.Out))
	}
	if p.Store != nil && len(p.Store.Operations) != 1 {
		c.add("node %q has %d operations on collections, want one", n.ID, len(p.Store.Operations))
	}
	if p.Match == nil {
		return
	}
	if len(n.Ports.In) != 1 {
		c.add("node %q looks for matches in %d values, want one", n.ID, len(n.Ports.In))
	}
	if _, err := regexp.Compile(p.Match.Pattern); err != nil {
		c.add("node %q: pass.match.pattern: %v", n.ID, err)
	}
	c.oneOf(n, "pass.match.want", p.Match.Want, Wants)
}

// named checks a node that works on values with names.
func (c *checker) named(n *Node) {
	configured := map[Kind]bool{
		KindPass: n.Pass != nil, KindBranch: n.Branch != nil && len(n.Branch.Default) > 0,
		KindSay: n.Say != nil, KindTool: n.Tool != nil && n.Tool.Name != "", KindCall: n.Call != nil && len(n.Call.Flows) > 0,
	}
	switch {
	case n.Ports == nil:
		c.add("node %q is of kind %q, but takes no values by name", n.ID, n.Kind)
	case !configured[n.Kind]:
		c.add("node %q has no configuration of its kind %q", n.ID, n.Kind)
	case n.Kind == KindBranch && len(n.Ports.In) != 1:
		c.add("node %q branches on %d values, want one", n.ID, len(n.Ports.In))
	case n.Kind == KindPass:
		c.passes(n)
	case n.Kind == KindCall:
		c.call(n)
	}
}

// oneOf checks a text of a node that has few values.
func (c *checker) oneOf(n *Node, field, text string, of []string) {
	if !slices.Contains(of, text) {
		c.add("node %q: %s is %q, want one of %v", n.ID, field, text, of)
	}
}
