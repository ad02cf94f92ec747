package plan

import (
	"regexp"
	"slices"
)

// KindBranch selects its outgoing edges by a value; configured by [Branch].
const KindBranch Kind = "branch"

// Branch configures a node of [KindBranch]: it compares the text of its only input with the cases and takes the edges
// with the branch of the first match.
//
// Sources: Agent Spec's BranchingNode.
type Branch struct {
	Cases []Case `json:"cases,omitempty"`
	// Default is the branch if no case matches.
	Default string `json:"default"`
}

// Case maps a text to a branch.
type Case struct {
	Text   string `json:"text"`
	Branch string `json:"branch"`
}

// KindSay sends a message to the clients that follow the run; configured by [Say].
const KindSay Kind = "say"

// Say configures a node of [KindSay]. The message is the node's output, and part of the flow's conversation.
//
// Sources: Agent Spec's OutputMessageNode.
type Say struct {
	// Text may contain placeholders, {{NAME}}, for the node's inputs.
	Text string `json:"text"`
}

// KindProgram runs a program on the worker; configured by [Program].
//
// Sources: the blueprint dialect's procedural agents.
const KindProgram Kind = "program"

// Program configures a node of [KindProgram]. It refers to a program in a folder that the worker's operator trusts, never
// to a file of the plan, because plans are untrusted. The node's output is the JSON that the program prints, or an object
// with its return_code, stdout and stderr.
type Program struct {
	// Script is a script of the folder, scripts/NAME. File is the file that its script.json specifies, and SHA the file's
	// SHA-256 in hexadecimal, empty if it was not computed.
	Script string `json:"script,omitempty"`
	File   string `json:"file,omitempty"`
	SHA    string `json:"sha256,omitempty"`
	// Agent is an agent of the folder, agents/NAME, whose agent.json specifies Command.
	Agent   string `json:"agent,omitempty"`
	Command string `json:"command,omitempty"`
	// Argv is Command split into words. Args are appended; they are computed from the run's parameters when it starts.
	Argv []string `json:"argv,omitempty"`
	Args []string `json:"args,omitempty"`
	// Seconds is the time limit, at least 1, after which the program is killed with code 124.
	Seconds int `json:"seconds"`
}

// program checks a node of kind program.
func (c *checker) program(n *Node) {
	switch p := n.Program; {
	case p == nil || (p.Script == "") == (p.Agent == ""):
		c.add("node %q must have exactly one of program.script and program.agent", n.ID)
	case p.Script != "" && p.File == "", p.Agent != "" && len(p.Argv) == 0:
		c.add("node %q: program.script requires program.file, and program.agent requires program.argv", n.ID)
	case p.Seconds < 1 || p.Seconds > maxLimit:
		c.add("node %q: program.seconds must be 1 to %d, got %d", n.ID, maxLimit, p.Seconds)
	}
}

// KindPass outputs its named inputs, or values computed from them; configured by [Pass].
const KindPass Kind = "pass"

// Pass configures a node of [KindPass]: the entry or exit of a flow with named values, or a computation without a call.
//
// Sources: Agent Spec's StartNode and EndNode; the nodes for templates, regular expressions and variables of WayFlow's
// plugins.
type Pass struct {
	// Branch, at a flow's exit, is the branch that the calling node takes.
	Branch string `json:"branch,omitempty"`
	// Text, if set, is the node's only output. It may contain placeholders, {{NAME}}, for the node's inputs.
	Text *string `json:"text,omitempty"`
	// Match, if set, computes the node's only output from its only input.
	Match *Match `json:"match,omitempty"`
	// Store, if set, executes its only operation, with the node's inputs, on collections in the run's state; see
	// [StoresPort].
	Store *Connection `json:"store,omitempty"`
}

// Ports whose names begin with a dot are not outputs of their nodes, except at a flow's exit. StoresPort holds the
// collections of a run, and ChangesPort the changes that a called flow has made to them.
const (
	StoresPort  = ".stores"
	ChangesPort = ".changes"
)

// Match finds the matches of a regular expression in a text. A match is the text of the expression's group, a list of
// texts if there are several groups, or the entire match if there is none. Empty matches are ignored.
type Match struct {
	// Pattern is an expression in the syntax of package regexp.
	Pattern string `json:"pattern"`
	// Want is one of [Wants]: the first or the last match, or nothing if there is none, or a list of all matches.
	Want string `json:"want"`
}

// Wants are the values of [Match.Want].
var Wants = []string{"first", "last", "all"}

// pass checks a node of kind pass.
func (c *checker) pass(n *Node) {
	p := n.Pass
	if (p.Text != nil || p.Match != nil) && len(n.Ports.Out) != 1 {
		c.add("node %q computes one value, but has %d outputs", n.ID, len(n.Ports.Out))
	}
	if p.Store != nil && len(p.Store.Operations) != 1 {
		c.add("node %q must have one operation on collections, got %d", n.ID, len(p.Store.Operations))
	}
	if p.Match == nil {
		return
	}
	if len(n.Ports.In) != 1 {
		c.add("node %q must have one input to match, got %d", n.ID, len(n.Ports.In))
	}
	if _, err := regexp.Compile(p.Match.Pattern); err != nil {
		c.add("node %q: pass.match.pattern: %v", n.ID, err)
	}
	c.oneOf(n, "pass.match.want", p.Match.Want, Wants)
}

// namedValues checks a node that operates on named values.
func (c *checker) namedValues(n *Node) {
	configured := map[Kind]bool{
		KindPass: n.Pass != nil, KindBranch: n.Branch != nil && len(n.Branch.Default) > 0,
		KindSay: n.Say != nil, KindTool: n.Tool != nil && n.Tool.Name != "", KindCall: n.Call != nil && len(n.Call.Flows) > 0,
	}
	switch {
	case n.Ports == nil:
		c.add("node %q of kind %q must have ports", n.ID, n.Kind)
	case !configured[n.Kind]:
		c.add("node %q has no configuration of its kind %q", n.ID, n.Kind)
	case n.Kind == KindBranch && len(n.Ports.In) != 1:
		c.add("node %q must have one input to branch on, got %d", n.ID, len(n.Ports.In))
	case n.Kind == KindPass:
		c.pass(n)
	case n.Kind == KindCall:
		c.call(n)
	}
}

// oneOf checks that a field has one of a few values.
func (c *checker) oneOf(n *Node, field, text string, allowed []string) {
	if !slices.Contains(allowed, text) {
		c.add("node %q: %s must be one of %v, got %q", n.ID, field, allowed, text)
	}
}

// KindTool calls one tool with the node's inputs; configured by [Node.Tool].
//
// Sources: Agent Spec's ToolNode.
const KindTool Kind = "tool"

// KindCall runs other flows as child runs; configured by [Call].
const KindCall Kind = "call"

// Call configures a node of [KindCall]. Each flow gets those of the node's inputs that it declares, and the flows'
// outputs are the node's outputs, by name.
//
// Sources: Agent Spec's MapNode, ParallelMapNode, ParallelFlowNode and CatchExceptionNode, and AgentNode over a Flow.
type Call struct {
	// Flows are ids in [Flow.Agents]: several of them, or one with Over.
	Flows []string `json:"flows"`
	// Over names the inputs that are lists: the flow runs once per index, and the lists must have the same length. Other
	// inputs are the same for all runs. If Map is set and Over is empty, the flow runs once.
	Over []string `json:"over,omitempty"`
	Map  bool     `json:"map,omitempty"`
	// Reduce specifies how the outputs of a Map's runs are combined.
	Reduce []Reduce `json:"reduce,omitempty"`
	// Unpack computes inputs from each element of the only list of Over. An object stands for the list of its members,
	// each with _key and _value.
	Unpack []Unpack `json:"unpack,omitempty"`
	// AtOnce is the maximum number of concurrent runs, at least 1.
	AtOnce int `json:"at_once"`
	// Apart isolates the flows from the conversation: they have one of their own, which is discarded, and the node takes
	// none of their branches.
	Apart bool `json:"apart,omitempty"`
	// Catch, if set, handles a failure of the flow.
	Catch *Catch `json:"catch,omitempty"`
}

// Unpack passes each run an input: the element of the list, or the value at a path of members in it.
type Unpack struct {
	Name string   `json:"name"`
	Path []string `json:"path,omitempty"`
}

// Reduce combines the values that the runs output under one name.
type Reduce struct {
	Name string `json:"name"`
	// How is one of [Reducers].
	How string `json:"how"`
}

// Reducers are the values of [Reduce.How]: a list of all values, or a number computed from numbers.
var Reducers = []string{"append", "sum", "average", "max", "min"}

// Catch lets a node continue with the defaults of its outputs after its flow has failed.
type Catch struct {
	// Branch is the branch to take after a failure; On overrides it by failure class. If Branch is empty, failures of
	// other classes fail the node.
	Branch string `json:"branch,omitempty"`
	On     []Case `json:"on,omitempty"`
	// Info names the output that describes the failure, and Class the one with its class. If nothing failed, Info is
	// null, or both have their defaults if Class is set.
	Info  string `json:"info"`
	Class string `json:"class,omitempty"`
}

// To returns the branch to take for a failure class, or "" if the failure is not caught.
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
		c.add("node %q: call.at_once must be at least 1, got %d", n.ID, k.AtOnce)
	}
	for _, id := range k.Flows {
		if c.root.SubFlow(id) == nil && c.f.SubFlow(id) == nil {
			c.add("node %q calls the unknown flow %q", n.ID, id)
		}
	}
	if k.Map && len(k.Flows) != 1 || !k.Map && len(k.Over) > 0 {
		c.add("node %q: call.over and call.map require each other and a single flow, got %d flows", n.ID, len(k.Flows))
	}
	if len(k.Unpack) > 0 && len(k.Over) != 1 {
		c.add("node %q: call.unpack requires one list in call.over, got %d", n.ID, len(k.Over))
	}
	for _, r := range k.Reduce {
		c.oneOf(n, "the reducer of "+r.Name, r.How, Reducers)
	}
}
