package plan

// KindPass leaves the values that it takes, by their names; configured by [Pass].
const KindPass Kind = "pass"

// Pass configures a node of [KindPass]: where values come into a flow, and where they leave it.
//
// Sources: Agent Spec's StartNode and EndNode.
type Pass struct {
	// Branch, at a flow's exit, is where the caller of the flow goes on.
	Branch string `json:"branch,omitempty"`
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
	case n.Kind == KindCall:
		c.call(n)
	}
}
