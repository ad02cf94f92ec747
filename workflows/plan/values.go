package plan

import "encoding/json"

// The kinds of nodes that neither call a model nor wait: they run in the workflow itself.
const (
	// KindTransform makes a value of the one that comes in; configured by [Transform].
	KindTransform Kind = "transform"
	// KindMerge makes one value of those of parallel nodes; configured by [Merge].
	KindMerge Kind = "merge"
)

// ChooseFirst is the [Flow.Choice] that takes the first edge, in order, whose condition holds; later
// ones are not looked at. Otherwise all that hold are taken.
const ChooseFirst = "first"

// ChooseAll is the [Node.Choice] that takes all edges that hold, whatever the flow's choice is.
const ChooseAll = "all"

// Values say that typed values flow along the edges: each node is given its predecessor's and
// leaves its own. The values are those of package value.
//
// Sources: Koog's FlowAgentInput.
type Values struct {
	// Read is the way in which a run's typed input is read; see package value.
	Read string `json:"read"`
	// Default is the value, as JSON, of a run that is given nothing; absent: the text "".
	Default json.RawMessage `json:"default,omitempty"`
	// Missing, if set, is why a run that is given nothing fails.
	Missing string `json:"missing,omitempty"`
	// Named reports whether values have names: nodes take and leave them by their [Ports], and a run
	// is given them as params, from which InKey takes them. The run's text, if there is one, is
	// what a person said first.
	Named bool `json:"named,omitempty"`
	// Printed is how messages write values, by type; others are written as JSON.
	Printed []Printed `json:"printed,omitempty"`
}

// Printed says how messages write the values of a type.
type Printed struct {
	// Type is int, double, string, boolean, critique or array_ and one of the first four.
	Type string `json:"type"`
	// Template is the text; {data} stands for the value, or for success, feedback and input.
	Template string `json:"template"`
}

// NoRoute makes a run fail where none of a node's conditions holds.
type NoRoute struct {
	// Text, if set, is the failure's; {node} and {value} stand for these.
	Text string `json:"text,omitempty"`
}

// Meter bounds the steps of a whole run as a dialect counts them.
type Meter struct {
	Limit int `json:"limit"`
	// Base is what a run costs that visits no node; its last step is that of the run's end.
	Base int `json:"base,omitempty"`
	// Text is the failure's.
	Text string `json:"text"`
}

// Cost is what a node adds to its flow's [Meter]: for each visit, each round of tool calls and
// each time that the model is reminded of the node's [Finish].
type Cost struct {
	Visit  int `json:"visit"`
	Round  int `json:"round,omitempty"`
	Remind int `json:"remind,omitempty"`
	// Forked makes it count for the rest of the run only if a [Merge] picks the node's
	// result; until then each of the parallel nodes counts for itself.
	Forked bool `json:"forked,omitempty"`
}

// Compare is a condition on a value: taken when the operation holds between the part of the
// source's value that Path names and Value.
type Compare struct {
	// Text is the condition as the author would say it.
	Text string `json:"text"`
	// Key is the state key of the value; empty: the one that flows.
	Key  string   `json:"key,omitempty"`
	Path []string `json:"path,omitempty"`
	// Op, Value and Rules are those of package value.
	Op    string          `json:"op"`
	Value json.RawMessage `json:"value"`
	Rules string          `json:"rules"`
	// Fail, if set, is why it cannot be evaluated: a mistake that its dialect finds only then.
	Fail string `json:"fail,omitempty"`
}

// Select is the part of a value that goes on.
type Select struct {
	Path  []string `json:"path,omitempty"`
	Rules string   `json:"rules"`
}

// Transform configures a node of [KindTransform]. Without Select the value stays as it is.
type Transform struct {
	Select *Select `json:"select,omitempty"`
	// Fail, if set, is why every execution fails: a mistake that its dialect finds only then.
	Fail string `json:"fail,omitempty"`
}

// Merge configures a node of [KindMerge]: Results are what parallel nodes left. Without Pick
// the value is a list of all of them.
type Merge struct {
	Results []Result `json:"results"`
	// Input is the state key of the value that all of them were given.
	Input string `json:"input"`
	// Pick is the index of the result that goes on, if Compare is absent or holds for its
	// Field: output, input or name. If not, the node fails.
	Pick    *int     `json:"pick,omitempty"`
	Field   string   `json:"field,omitempty"`
	Compare *Compare `json:"compare,omitempty"`
	// Fail, if set, is why every execution fails.
	Fail string `json:"fail,omitempty"`
}

// Result is what a parallel node leaves.
type Result struct {
	Node string `json:"node"`
	Name string `json:"name"`
	Key  string `json:"key"`
}

// The conversations of an agent.
const (
	// ConversationFlow is one conversation that all such nodes continue.
	ConversationFlow = "flow"
	// ConversationFork is a copy of the flow's. Where a [Merge] picks the node's result, the
	// flow's goes on with what was said in it.
	ConversationFork = "fork"
)

// Piece is a part of the message with which an agent begins: a text, or what From names,
// between Before and After. A piece without content is left out with both.
type Piece struct {
	Text string `json:"text,omitempty"`
	// From is one of the constants.
	From   string `json:"from,omitempty"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// What a [Piece] is taken from.
const (
	// FromInput is the run's input.
	FromInput = "input"
	// FromValue is the value that the predecessor left; nothing at the run's start.
	FromValue = "value"
	// FromOutputs are the latest outputs of earlier nodes, but that of the predecessor.
	FromOutputs = "outputs"
	// FromPorts are the values that the node takes by name: one alone as text, several as a
	// JSON object. Where that is empty, the piece's text is used.
	FromPorts = "ports"
)

// Finish makes an agent end by calling a tool with its result; the model must call some tool
// each time.
//
// Sources: Koog's finalize_task_result.
type Finish struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments. Checked reports whether they must match it; with Fit, once they are cast: see
	// [Output.Fit].
	Schema  json.RawMessage `json:"schema"`
	Checked bool            `json:"checked,omitempty"`
	Fit     bool            `json:"fit,omitempty"`
	// Read is the way in which the value is read; see package value.
	Read string `json:"read"`
	// Free leaves it to the model whether it calls a tool.
	Free bool `json:"free,omitempty"`
	// Keys are the members of the arguments that hold the value where they stand alone;
	// without any of them the arguments themselves are the value.
	Keys []string `json:"keys,omitempty"`
	// Only refuses arguments that have none of Keys.
	Only bool `json:"only,omitempty"`
	// Critique makes a critique result of isCorrect and feedback, with the value that came in.
	Critique bool `json:"critique,omitempty"`
	// InvalidReply is the answer to arguments that give no value; {error} says why.
	InvalidReply string `json:"invalid_reply"`
	// Reminders is how often in an execution, or with PerRun in a run, an answer that calls no
	// tool is answered with Reminder; then the node fails with Failure.
	Reminders int    `json:"reminders,omitempty"`
	Reminder  string `json:"reminder,omitempty"`
	Failure   string `json:"failure"`
	PerRun    bool   `json:"per_run,omitempty"`
}

// React makes an agent think before it acts: it is asked with Prompt, without tools, at first
// and after every Interval tool results.
type React struct {
	Interval int    `json:"interval"`
	Prompt   string `json:"prompt"`
	// Act, if set, is said to the model between a thought and an act.
	Act string `json:"act,omitempty"`
}

// Toolboxes are connections whose tools a node gets by what they offer at the run's start: the run
// adds them to the node's tools. Of several tools of one name the first connection's is taken.
type Toolboxes struct {
	Connections []string `json:"connections"`
	// All takes all tools, else Names.
	All   bool     `json:"all,omitempty"`
	Names []string `json:"names,omitempty"`
	// Confirm are those of the connections whose tools all need a person's yes.
	Confirm []string `json:"confirm,omitempty"`
	// Lenient leaves out names that no connection offers; else the run fails.
	Lenient bool `json:"lenient,omitempty"`
}

// The transports of an MCP server's connection; empty is streamable HTTP.
const (
	TransportSSE   = "sse"
	TransportStdio = "stdio"
)

// Header is a header of a connection's requests.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Secret reports whether the value holds ${env.NAME}, which the worker alone replaces, where its
	// operator lets the variable go to the server's host.
	Secret bool `json:"secret,omitempty"`
	// Required refuses a run's start that leaves another placeholder in the value.
	Required bool `json:"required,omitempty"`
}

// values checks what the flow says of values, and what its nodes and edges say of them.
func (c *checker) values() {
	f := c.f
	if f.Choice != "" && f.Choice != ChooseFirst && f.Choice != ChooseAll {
		c.add("choice is %q, want %q or nothing", f.Choice, ChooseFirst)
	}
	if f.Meter != nil && f.Meter.Limit < 1 {
		c.add("meter.limit is %d, want 1 or more", f.Meter.Limit)
	}
	for i := range f.Edges {
		c.valueEdge(i, &f.Edges[i])
	}
}

// valueEdge checks what an edge says of values.
func (c *checker) valueEdge(i int, e *Edge) {
	switch {
	case e.Compare != nil && e.Question != "":
		c.add("edge %d has both a question and a comparison", i+1)
	case e.Compare != nil && c.f.Values == nil:
		c.add("edge %d compares a value, but the flow has none", i+1)
	case e.Compare != nil && !json.Valid(e.Compare.Value):
		c.add("edge %d compares with invalid JSON", i+1)
	case e.Pass != nil && e.From == Start:
		c.add("edge %d comes from %s and changes a value; change the run's value instead", i+1, Start)
	case e.Pass != nil && (c.f.Values == nil || c.f.Choice != ChooseFirst):
		c.add("edge %d changes a value, which requires values and the choice %q", i+1, ChooseFirst)
	}
}

// pure checks a node that runs in the workflow itself.
func (c *checker) pure(n *Node) {
	switch {
	case c.f.Values == nil:
		c.add("node %q is of kind %q, but no values flow in the flow", n.ID, n.Kind)
	case n.Kind == KindTransform && n.Transform == nil, n.Kind == KindMerge && (n.Merge == nil || len(n.Merge.Results) == 0):
		c.add("node %q has no configuration of its kind %q", n.ID, n.Kind)
	case n.Kind == KindMerge && n.Merge.Pick != nil && (*n.Merge.Pick < 0 || *n.Merge.Pick >= len(n.Merge.Results)) && n.Merge.Fail == "":
		c.add("node %q picks result %d of %d", n.ID, *n.Merge.Pick, len(n.Merge.Results))
	}
}

// finish checks how an agent ends and thinks.
func (c *checker) finish(n *Node) {
	a := n.Agent
	if f := a.Finish; f != nil && (f.Name == "" || !json.Valid(f.Schema)) {
		c.add("node %q has a finish tool without a name or a schema", n.ID)
	}
	if a.React != nil && a.React.Interval < 1 {
		c.add("node %q: react.interval is %d, want 1 or more", n.ID, a.React.Interval)
	}
	if a.MaxTurns < 0 {
		c.add("node %q: max_turns is %d, want 0 or more", n.ID, a.MaxTurns)
	}
}

// Ports are the values that a node takes and leaves by name. A flow with such nodes has
// [Values.Named]. What a node leaves is written to state keys, from where others take it; of
// several that write one key the last one counts.
//
// Sources: Agent Spec's inputs, outputs and DataFlowEdge.
type Ports struct {
	In  []In  `json:"in,omitempty"`
	Out []Out `json:"out,omitempty"`
	// Clear, if set, is a prefix: what is written under such keys is forgotten before the node
	// leaves its own values.
	Clear string `json:"clear,omitempty"`
}

// In is a value that a node takes.
type In struct {
	Name string `json:"name"`
	// Key is the state key of the value; empty: there is only the default.
	Key string `json:"key,omitempty"`
	// Type is what the value is made to be before the node has it; see package value.
	Type json.RawMessage `json:"type,omitempty"`
	// Default is the value where nothing has been written; absent: the node fails then.
	Default json.RawMessage `json:"default,omitempty"`
}

// Out is a value that a node leaves.
type Out struct {
	Name string `json:"name"`
	// Keys are the state keys to which it is written; there may be none.
	Keys []string `json:"keys,omitempty"`
	// Write is one of [Writes]: what becomes of a value that is already under the keys. Where none is, it is the default
	// for all but overwrite.
	Write string `json:"write,omitempty"`
	// Type and Default are as those of [In]; the default replaces what the node does not
	// give.
	Type    json.RawMessage `json:"type,omitempty"`
	Default json.RawMessage `json:"default,omitempty"`
}

// Writes are the values of [Out.Write]: the new value takes the place of the old one, which is the meaning of none; a list is
// extended by a list, or an object by the members of another; a list is extended by one value.
var Writes = []string{"overwrite", "merge", "insert"}

// InKey is the state key of a run's own input with a name.
func InKey(name string) string { return "$in/" + name }

// ports checks what a node takes and leaves.
func (c *checker) ports(n *Node) {
	if n.Ports == nil {
		return
	}
	if c.f.Values == nil || !c.f.Values.Named {
		c.add("node %q takes values by name, but the flow has no named values", n.ID)
	}
	names := map[string]bool{}
	for _, in := range n.Ports.In {
		if in.Name == "" || names[in.Name] {
			c.add("node %q has an input without a name, or two named %q", n.ID, in.Name)
		}
		names[in.Name] = true
		c.portJSON(n, in.Name, in.Type, in.Default)
	}
	names = map[string]bool{}
	for _, out := range n.Ports.Out {
		if out.Name == "" || names[out.Name] {
			c.add("node %q has an output without a name, or two named %q", n.ID, out.Name)
		}
		names[out.Name] = true
		c.portJSON(n, out.Name, out.Type, out.Default)
		if out.Write != "" {
			c.oneOf(n, "the write of output "+out.Name, out.Write, Writes)
			if len(out.Keys) != 1 {
				c.add("node %q writes its output %q to %d state keys by %s, want one", n.ID, out.Name, len(out.Keys), out.Write)
			}
		}
		for _, k := range out.Keys {
			if len(k) < 2 || k[0] != '$' {
				c.add("node %q writes its output %q to the state key %q, want one that begins with $", n.ID, out.Name, k)
			}
		}
	}
}

func (c *checker) portJSON(n *Node, name string, parts ...json.RawMessage) {
	for _, p := range parts {
		if len(p) > 0 && !json.Valid(p) {
			c.add("node %q has an invalid type or default of %q: not JSON", n.ID, name)
		}
	}
}
