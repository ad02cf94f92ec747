package plan

import "encoding/json"

// The kinds of nodes that neither call a model nor wait. They run in the workflow itself.
const (
	// KindTransform computes a value from its input; configured by [Transform].
	KindTransform Kind = "transform"
	// KindMerge combines the values of parallel nodes; configured by [Merge].
	KindMerge Kind = "merge"
)

// ChooseFirst is the [Flow.Choice] that takes only the first edge, in order, whose condition holds; later conditions are
// not evaluated. By default all edges whose condition holds are taken.
const ChooseFirst = "first"

// ChooseAll is the [Node.Choice] that takes all edges whose condition holds, whatever the flow's choice is.
const ChooseAll = "all"

// Values means that typed values are passed along the edges: each node gets its predecessor's value and outputs its own.
// The values are those of package value.
//
// Sources: Koog's FlowAgentInput.
type Values struct {
	// Read is how a run's typed input is parsed; see package value.
	Read string `json:"read"`
	// Default is the value, as JSON, of a run without input; if absent, the empty string.
	Default json.RawMessage `json:"default,omitempty"`
	// Missing, if set, is the error of a run without input.
	Missing string `json:"missing,omitempty"`
	// Named means that values have names: nodes get and output them by their [Ports]. A run gets them as params, which
	// are stored under [InKey]. The run's text, if any, is the user's first message.
	Named bool `json:"named,omitempty"`
	// Printed specifies how messages format values, by type; others are formatted as JSON.
	Printed []Printed `json:"printed,omitempty"`
}

// Printed specifies how messages format the values of a type.
type Printed struct {
	// Type is int, double, string, boolean, critique, or array_ followed by one of the first four.
	Type string `json:"type"`
	// Template is the text; {data} is replaced by the value, or {success}, {feedback} and {input} by those.
	Template string `json:"template"`
}

// NoRoute makes a run fail if none of a node's conditions holds.
type NoRoute struct {
	// Text, if set, is the failure's text; {node} and {value} are replaced.
	Text string `json:"text,omitempty"`
}

// Meter limits the steps of an entire run as a dialect counts them.
type Meter struct {
	Limit int `json:"limit"`
	// Base is the cost of a run that visits no node; its last step is that of the run's end.
	Base int `json:"base,omitempty"`
	// Text is the failure's text.
	Text string `json:"text"`
}

// Cost is what a node adds to its flow's [Meter]: for each visit, each round of tool calls and each reminder of the
// node's [Finish].
type Cost struct {
	Visit  int `json:"visit"`
	Round  int `json:"round,omitempty"`
	Remind int `json:"remind,omitempty"`
	// Forked makes the cost count for the rest of the run only if a [Merge] picks the node's result; until then it counts
	// only for that parallel node.
	Forked bool `json:"forked,omitempty"`
}

// Compare is a condition on a value: it holds if Op holds between the part of the source's value at Path and Value.
type Compare struct {
	// Text is the condition in the author's notation.
	Text string `json:"text"`
	// Key is the state key of the value; if empty, it is the value passed along the edges.
	Key  string   `json:"key,omitempty"`
	Path []string `json:"path,omitempty"`
	// Op, Value and Rules are those of package value.
	Op    string          `json:"op"`
	Value json.RawMessage `json:"value"`
	Rules string          `json:"rules"`
	// Fail, if set, is why the condition cannot be evaluated: an error that its dialect detects only then.
	Fail string `json:"fail,omitempty"`
}

// Select is the part of a value that is passed on.
type Select struct {
	Path  []string `json:"path,omitempty"`
	Rules string   `json:"rules"`
}

// Transform configures a node of [KindTransform]. Without Select the value is unchanged.
type Transform struct {
	Select *Select `json:"select,omitempty"`
	// Fail, if set, is why every execution fails: an error that its dialect detects only then.
	Fail string `json:"fail,omitempty"`
}

// Merge configures a node of [KindMerge]: Results are the outputs of parallel nodes. Without Pick the value is a list of
// all of them.
type Merge struct {
	Results []Result `json:"results"`
	// Input is the state key of the common input of these nodes.
	Input string `json:"input"`
	// Pick is the index of the result that is passed on, if Compare is absent or holds for its Field: output, input or
	// name. Otherwise the node fails.
	Pick    *int     `json:"pick,omitempty"`
	Field   string   `json:"field,omitempty"`
	Compare *Compare `json:"compare,omitempty"`
	// Fail, if set, is why every execution fails.
	Fail string `json:"fail,omitempty"`
}

// Result is the output of a parallel node.
type Result struct {
	Node string `json:"node"`
	Name string `json:"name"`
	Key  string `json:"key"`
}

// The values of [Agent.Conversation].
const (
	// ConversationFlow is one conversation that all such nodes share.
	ConversationFlow = "flow"
	// ConversationFork is a copy of the flow's conversation. If a [Merge] picks the node's result, the flow's
	// conversation continues with the messages added to the copy.
	ConversationFork = "fork"
)

// Piece is a part of an agent's first message: Text, or the content of From between Before and After. If From has no
// content, Before and After are omitted too.
type Piece struct {
	Text string `json:"text,omitempty"`
	// From is one of the From constants.
	From   string `json:"from,omitempty"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// The values of [Piece.From].
const (
	// FromInput is the run's input.
	FromInput = "input"
	// FromValue is the predecessor's output; nothing at the run's start.
	FromValue = "value"
	// FromOutputs are the latest outputs of earlier nodes, except the predecessor's.
	FromOutputs = "outputs"
	// FromPorts are the node's named inputs: a single one as text, several as a JSON object. If that is empty, the
	// piece's text is used.
	FromPorts = "ports"
)

// Finish makes an agent end by calling a tool with its result; the model must call a tool in each turn.
//
// Sources: Koog's finalize_task_result.
type Finish struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments. Checked means that they must match it, with Fit after conversion; see
	// [Output.Fit].
	Schema  json.RawMessage `json:"schema"`
	Checked bool            `json:"checked,omitempty"`
	Fit     bool            `json:"fit,omitempty"`
	// Read is how the value is parsed; see package value.
	Read string `json:"read"`
	// Free lets the model answer without calling a tool.
	Free bool `json:"free,omitempty"`
	// Keys are members of the arguments that contain the value if they are the only member; otherwise the arguments
	// themselves are the value.
	Keys []string `json:"keys,omitempty"`
	// Only rejects arguments that have none of Keys.
	Only bool `json:"only,omitempty"`
	// Critique makes a critique result from isCorrect, feedback and the node's input.
	Critique bool `json:"critique,omitempty"`
	// InvalidReply is the answer to arguments without a valid value; {error} is replaced by the reason.
	InvalidReply string `json:"invalid_reply"`
	// Reminders is how often in an execution, or in a run if PerRun is set, an answer without a tool call is answered
	// with Reminder; after that the node fails with Failure.
	Reminders int    `json:"reminders,omitempty"`
	Reminder  string `json:"reminder,omitempty"`
	Failure   string `json:"failure"`
	PerRun    bool   `json:"per_run,omitempty"`
}

// React makes an agent reason before it acts: the model is called with Prompt, without tools, at first and after every
// Interval tool results.
type React struct {
	Interval int    `json:"interval"`
	Prompt   string `json:"prompt"`
	// Act, if set, is the user message between a thought and an action.
	Act string `json:"act,omitempty"`
}

// Toolboxes are connections whose tools are added to the node's when a run starts. If several tools have the same name,
// the first connection's is used.
type Toolboxes struct {
	Connections []string `json:"connections"`
	// All adds all tools; otherwise only Names are added.
	All   bool     `json:"all,omitempty"`
	Names []string `json:"names,omitempty"`
	// Confirm are the connections whose tools all need a user's approval.
	Confirm []string `json:"confirm,omitempty"`
	// Lenient ignores names that no connection offers; otherwise the run fails.
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
	// Secret means that the value contains ${env.NAME}, which only the worker replaces, if its operator allows the
	// variable to be sent to the server's host.
	Secret bool `json:"secret,omitempty"`
	// Required rejects the start of a run that leaves any other placeholder in the value.
	Required bool `json:"required,omitempty"`
}

// values checks the settings for values in the flow and its edges.
func (c *checker) values() {
	f := c.f
	if f.Choice != "" && f.Choice != ChooseFirst && f.Choice != ChooseAll {
		c.add("choice must be %q or empty, got %q", ChooseFirst, f.Choice)
	}
	if f.Meter != nil && f.Meter.Limit < 1 {
		c.add("meter.limit must be at least 1, got %d", f.Meter.Limit)
	}
	for i := range f.Edges {
		c.valueEdge(i, &f.Edges[i])
	}
}

// valueEdge checks an edge's settings for values.
func (c *checker) valueEdge(i int, e *Edge) {
	switch {
	case e.Compare != nil && e.Question != "":
		c.add("edge %d has both a question and a comparison", i+1)
	case e.Compare != nil && c.f.Values == nil:
		c.add("edge %d compares a value, but the flow has no values", i+1)
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
		c.add("node %q is of kind %q, but the flow has no values", n.ID, n.Kind)
	case n.Kind == KindTransform && n.Transform == nil, n.Kind == KindMerge && (n.Merge == nil || len(n.Merge.Results) == 0):
		c.add("node %q has no configuration of its kind %q", n.ID, n.Kind)
	case n.Kind == KindMerge && n.Merge.Pick != nil && (*n.Merge.Pick < 0 || *n.Merge.Pick >= len(n.Merge.Results)) && n.Merge.Fail == "":
		c.add("node %q picks result %d of %d", n.ID, *n.Merge.Pick, len(n.Merge.Results))
	}
}

// finish checks an agent's Finish, React and MaxTurns.
func (c *checker) finish(n *Node) {
	a := n.Agent
	if f := a.Finish; f != nil && (f.Name == "" || !json.Valid(f.Schema)) {
		c.add("node %q has a finish tool without a name or a schema", n.ID)
	}
	if a.React != nil && a.React.Interval < 1 {
		c.add("node %q: react.interval must be at least 1, got %d", n.ID, a.React.Interval)
	}
	if a.MaxTurns < 0 {
		c.add("node %q: max_turns must not be negative, got %d", n.ID, a.MaxTurns)
	}
}

// Ports are a node's named inputs and outputs. A flow with such nodes has [Values.Named]. Outputs are written to state
// keys, from which other nodes read them; the last write to a key wins.
//
// Sources: Agent Spec's inputs, outputs and DataFlowEdge.
type Ports struct {
	In  []In  `json:"in,omitempty"`
	Out []Out `json:"out,omitempty"`
	// Clear, if set, is a prefix: state keys with it are deleted before the node writes its own outputs.
	Clear string `json:"clear,omitempty"`
}

// In is a named input of a node.
type In struct {
	Name string `json:"name"`
	// Key is the state key of the value; if empty, the value is always the default.
	Key string `json:"key,omitempty"`
	// Type is the type that the value is converted to; see package value.
	Type json.RawMessage `json:"type,omitempty"`
	// Default is the value if nothing has been written; if absent, the node fails then.
	Default json.RawMessage `json:"default,omitempty"`
}

// Out is a named output of a node.
type Out struct {
	Name string `json:"name"`
	// Keys are the state keys to which it is written; may be empty.
	Keys []string `json:"keys,omitempty"`
	// Write is one of [Writes]: how the value is combined with the existing one. If there is none, the default takes its
	// place, except for overwrite.
	Write string `json:"write,omitempty"`
	// Type and Default are as in [In]; the default replaces a value that the node does not output.
	Type    json.RawMessage `json:"type,omitempty"`
	Default json.RawMessage `json:"default,omitempty"`
}

// Writes are the values of [Out.Write]: the new value replaces the old one, which is the default; a list is extended by a
// list, or an object by the members of another; a list is extended by one value.
var Writes = []string{"overwrite", "merge", "insert"}

// InKey returns the state key of a run's own input with a name.
func InKey(name string) string { return "$in/" + name }

// ports checks a node's named inputs and outputs.
func (c *checker) ports(n *Node) {
	if n.Ports == nil {
		return
	}
	if c.f.Values == nil || !c.f.Values.Named {
		c.add("node %q has ports, but the flow has no named values", n.ID)
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
			c.oneOf(n, "write of output "+out.Name, out.Write, Writes)
			if len(out.Keys) != 1 {
				c.add("node %q: output %q with write %s must have one state key, got %d", n.ID, out.Name, out.Write, len(out.Keys))
			}
		}
		for _, k := range out.Keys {
			if len(k) < 2 || k[0] != '$' {
				c.add("node %q: the state key of output %q must begin with $, got %q", n.ID, out.Name, k)
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
