package plan

// KindTool calls one tool with the values that it takes; configured by [Node.Tool].
//
// Sources: Agent Spec's ToolNode.
const KindTool Kind = "tool"

// KindCall runs other flows, each as a run of its own; configured by [Call].
const KindCall Kind = "call"

// Call configures a node of [KindCall]. Each flow is given those of the node's values whose names
// it declares, and what the flows leave is what the node leaves, by name.
//
// Sources: Agent Spec's MapNode, ParallelMapNode, ParallelFlowNode and CatchExceptionNode, and AgentNode over
// a Flow.
type Call struct {
	// Flows are ids in [Flow.Agents]: several of them, or one with Over.
	Flows []string `json:"flows"`
	// Over are the values that are lists: the flow runs once for each place in them, and lists
	// must have one length. Other values are the same for all runs. With Map and nothing to go
	// over, the flow runs once.
	Over []string `json:"over,omitempty"`
	Map  bool     `json:"map,omitempty"`
	// Reduce say what becomes of the values that the runs of a Map leave.
	Reduce []Reduce `json:"reduce,omitempty"`
	// Unpack makes values of each element of the one list of Over; an object stands for the list of its members then, each
	// with _key and _value.
	Unpack []Unpack `json:"unpack,omitempty"`
	// AtOnce is how many runs there are at a time, at least 1.
	AtOnce int `json:"at_once"`
	// Apart keeps the flows from the conversation: they have one of their own, of which nothing
	// comes back, and the node leaves by no branch of theirs.
	Apart bool `json:"apart,omitempty"`
	// Catch, if set, goes on where the flow fails.
	Catch *Catch `json:"catch,omitempty"`
}

// Unpack gives each run a value under a name: the element of the list, or what is at a path of members in it.
type Unpack struct {
	Name string   `json:"name"`
	Path []string `json:"path,omitempty"`
}

// Reduce makes one value of those that the runs leave under a name.
type Reduce struct {
	Name string `json:"name"`
	// How is one of [Reducers].
	How string `json:"how"`
}

// Reducers are the values of [Reduce.How]: a list of all, or a number of numbers.
var Reducers = []string{"append", "sum", "average", "max", "min"}

// Catch is how a node goes on whose flow failed: with the defaults of what it leaves.
type Catch struct {
	// Branch is the branch that is taken then, by failures of a class in On the one there. Other failures fail the node, if
	// Branch is empty.
	Branch string `json:"branch,omitempty"`
	On     []Case `json:"on,omitempty"`
	// Info names the value that says what went wrong, and Class the one with the failure's class; where nothing failed,
	// Info is null, and with Class both have their defaults.
	Info  string `json:"info"`
	Class string `json:"class,omitempty"`
}

// To is the branch that a failure of a class takes; empty: none catches it.
func (k *Catch) To(class string) string {
	for _, on := range k.On {
		if on.Text == class {
			return on.Branch
		}
	}
	return k.Branch
}

func (c *checker) call(n *Node) {
	k := n.Call
	if k.AtOnce < 1 {
		c.add("node %q: call.at_once is %d, want 1 or more", n.ID, k.AtOnce)
	}
	for _, id := range k.Flows {
		if c.whole.SubFlow(id) == nil && c.f.SubFlow(id) == nil {
			c.add("node %q calls the unknown flow %q", n.ID, id)
		}
	}
	if k.Map && len(k.Flows) != 1 || !k.Map && len(k.Over) > 0 {
		c.add("node %q iterates with %d flows, want one, and map", n.ID, len(k.Flows))
	}
	if len(k.Unpack) > 0 && len(k.Over) != 1 {
		c.add("node %q unpacks elements of %d lists, want one", n.ID, len(k.Over))
	}
	for _, r := range k.Reduce {
		c.oneOf(n, "the reducer of "+r.Name, r.How, Reducers)
	}
}
