package plan

import (
	"regexp"
	"slices"
)

// KindBranch chooses one of its edges by a value; configured by [Branch].
const KindBranch Kind = "branch"

// Branch configures a node of [KindBranch]: the one value that it takes is written as text, and
// the edges are taken that have the branch of the first case with that text.
//
// Sources: Agent Spec's BranchingNode.
type Branch struct {
	Cases []Case `json:"cases,omitempty"`
	// Default is the branch where no case has the text.
	Default string `json:"default"`
}

// Case is a text and the branch that it leads to.
type Case struct {
	Text   string `json:"text"`
	Branch string `json:"branch"`
}

// KindSay sends a message to the clients that follow the run; configured by [Say].
const KindSay Kind = "say"

// Say configures a node of [KindSay]. What is said is the node's output, and part of the flow's
// conversation.
//
// Sources: Agent Spec's OutputMessageNode.
type Say struct {
	// Text may hold placeholders, {{NAME}}, of the values that the node takes.
	Text string `json:"text"`
}

// KindProgram runs a program of the worker's; configured by [Program].
//
// Sources: the blueprint dialect's procedural agents.
const KindProgram Kind = "program"

// Program configures a node of [KindProgram]. It names what a folder has that the worker's
// operator trusts, and never a file of its own: a plan may come from anybody. The node's output is
// the JSON that the program prints, or an object with its return_code, stdout and stderr.
type Program struct {
	// Script is a script of the folder, scripts/NAME; File is the file that its script.json names,
	// and SHA the file's SHA-256 in hexadecimal, empty where no one has looked.
	Script string `json:"script,omitempty"`
	File   string `json:"file,omitempty"`
	SHA    string `json:"sha256,omitempty"`
	// Agent is the agent of the folder, agents/NAME, whose agent.json has Command.
	Agent   string `json:"agent,omitempty"`
	Command string `json:"command,omitempty"`
	// Argv are Command's words; Args come behind them, and are made of the run's parameters when it
	// starts.
	Argv []string `json:"argv,omitempty"`
	Args []string `json:"args,omitempty"`
	// Seconds is how long it may run, at least 1; then it ends with the code 124.
	Seconds int `json:"seconds"`
}

// program checks a node of kind program.
func (c *checker) program(n *Node) {
	switch p := n.Program; {
	case p == nil || (p.Script == "") == (p.Agent == ""):
		c.add("node %q has no program or two: want program.script or program.agent", n.ID)
	case p.Script != "" && p.File == "", p.Agent != "" && len(p.Argv) == 0:
		c.add("node %q: want program.file with a script, and program.argv with an agent", n.ID)
	case p.Seconds < 1 || p.Seconds > maxLimit:
		c.add("node %q: program.seconds is %d, want 1 to %d", n.ID, p.Seconds, maxLimit)
	}
}

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
