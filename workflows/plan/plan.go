// Package plan is the intermediate representation of a flow: adapters produce it
// and the interpreter runs it.
//
// A plan is data: JSON in, JSON out, no reference to a source file, the
// environment or a default that code decides later. It is the workflow's input,
// so it stays in event history permanently. It never holds a secret, only names that
// activities resolve. The package imports only the standard library, so that
// adapters do not depend on Temporal.
//
// Start at [Flow].
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Version is the format written by this build. A plan with a higher one is refused.
const Version = 1

// Start and End are the ids that edges use for a flow's entry and exit. No node has
// either of them.
const (
	Start = "START"
	End   = "END"
)

// Flow is one agent graph, complete: every default is resolved.
//
// Sources: Continuum's GraphDefinition.
type Flow struct {
	// Version is the format, see the constant.
	Version int `json:"version"`
	// ID is the author's id. Connections of kind agent refer to it. May be empty.
	ID          string `json:"id,omitempty"`
	Name        string `json:"name"`
	Dialect     string `json:"dialect"`
	Description string `json:"description,omitempty"`
	// Revision is the author's own version of the flow, for readers.
	Revision string `json:"revision,omitempty"`
	// Model is the model of nodes that name none, where the run names none either.
	Model string `json:"model,omitempty"`
	// Nodes are in declaration order, which orders outputs and breaks ties.
	Nodes []Node `json:"nodes"`
	// Edges are in declaration order, which breaks ties at joins.
	Edges []Edge `json:"edges"`
	// Connections are those that the flow's document declares. Others are resolved
	// from the run's input and then from the worker's configuration.
	Connections []Connection `json:"connections,omitempty"`
	// Agents are the flows that nodes of this one can call as sub-agents.
	Agents []Flow `json:"agents,omitempty"`
	// Inputs, if set, declare the parameters of a run. Without them a run is given text.
	Inputs *Inputs `json:"inputs,omitempty"`
	// Hooks, if set, are run before and after each run.
	Hooks *Hooks `json:"hooks,omitempty"`
	// Choice says which of a node's edges are taken: all that hold, or [ChooseFirst].
	Choice string `json:"choice,omitempty"`
	// NoRoute, if set, fails a run where no edge of a node holds.
	NoRoute *NoRoute `json:"no_route,omitempty"`
	// Values, if set, say that typed values flow along the edges.
	Values *Values `json:"values,omitempty"`
	Meter  *Meter  `json:"meter,omitempty"`
	Limits Limits  `json:"limits"`
	Policy Policy  `json:"policy"`
}

// Kind says what a node does.
type Kind string

// The node kinds.
const (
	// KindAgent is a model that may call tools until it answers; configured by [Agent].
	KindAgent Kind = "agent"
	// KindAsk asks a person and waits for the answer, which is the node's output;
	// configured by [Ask].
	KindAsk Kind = "ask"
)

// Node is one step of a flow. The field named like its kind is set.
//
// Sources: Continuum's AgentNode.
type Node struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Exit marks a node whose output can be the run's result.
	Exit bool `json:"exit,omitempty"`
	// Deferred makes an edge into the node arm it; it runs once for all arrivals when
	// neither a live branch nor an armed node that comes before it can still reach it.
	Deferred bool `json:"deferred,omitempty"`
	// Choice, if set, is the node's own; see [Flow.Choice].
	Choice string `json:"choice,omitempty"`
	// StateKey is the state key that the node's value is written to; empty: it flows on.
	StateKey  string     `json:"state_key,omitempty"`
	Cost      *Cost      `json:"cost,omitempty"`
	Agent     *Agent     `json:"agent,omitempty"`
	Ask       *Ask       `json:"ask,omitempty"`
	Transform *Transform `json:"transform,omitempty"`
	Merge     *Merge     `json:"merge,omitempty"`
	// Ports are set in flows whose values have names.
	Ports  *Ports  `json:"ports,omitempty"`
	Pass   *Pass   `json:"pass,omitempty"`
	Branch *Branch `json:"branch,omitempty"`
	Say    *Say    `json:"say,omitempty"`
	// Tool is the tool of a node of [KindTool].
	Tool *Tool `json:"tool,omitempty"`
	Call *Call `json:"call,omitempty"`
	// Program is the program of a node of [KindProgram].
	Program *Program `json:"program,omitempty"`
	// Component is what the document says of the agent that the node is about, or of the flow in this one that begins with it.
	Component *Component `json:"component,omitempty"`
}

// Component is how a document identifies a part that is no node of the plan.
type Component struct {
	ID          string `json:"id,omitempty"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Ask configures a node of [KindAsk].
type Ask struct {
	// Text is the question, shown to the person who answers.
	Text string `json:"text"`
	// Timeout, if positive, is how long to wait; then the node fails.
	Timeout Seconds `json:"timeout,omitempty"`
	// Silent leaves the question out of the conversation: no one wrote it.
	Silent bool `json:"silent,omitempty"`
}

// Edge is control flow from one node to another.
//
// Sources: Continuum's AgentEdge.
type Edge struct {
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to"`
	// Question, if set, is a yes/no question to a model about From's output; the edge
	// is taken on yes. Empty: always taken. Source: condition_prompt.
	Question string `json:"question,omitempty"`
	// Compare, if set, is a condition on a value instead.
	Compare *Compare `json:"compare,omitempty"`
	// Pass, if set, changes the value that flows along the edge.
	Pass *Select `json:"pass,omitempty"`
	// Branch, if set, is the branch by which From must leave: the edge is taken by no other.
	Branch string `json:"branch,omitempty"`
}

// Agent configures a node of [KindAgent].
type Agent struct {
	// Prompt is the author's text alone; it guides filtered state writes.
	Prompt string `json:"prompt"`
	// System is the whole system message: preamble, prompt and output rules.
	System string `json:"system"`
	Tools  []Tool `json:"tools,omitempty"`
	// Starts are the agents that [SessionTools] start.
	Starts []Startable `json:"starts,omitempty"`
	// CallbackWhenSettled has sessions that it starts call back when they wait for no callbacks of their own
	// any more, with the result of their last turn; absent, when the turn asked for has ended.
	CallbackWhenSettled bool `json:"callback_when_settled,omitempty"`
	// Builtins are the tools that the interpreter itself offers, by name, in the order
	// in which the model sees them; see the Builtin constants.
	Builtins []string `json:"builtins,omitempty"`
	// MaxCalls is the budget of tool calls of one execution, at least 1. When it is
	// spent the model is asked once more, without tools. Source: max_iterations.
	MaxCalls int `json:"max_calls"`
	// MaxErrors is how many tool errors in a row fail the node, at least 1.
	MaxErrors int `json:"max_errors"`
	// Output, if set, asks for JSON; absent, the answer's text is the output.
	Output *Output `json:"output,omitempty"`
	// Params, if set, are the parameters of the model's calls.
	Params *Params `json:"params,omitempty"`
	// Model, if set, is the node's own, provider/model.
	Model string `json:"model,omitempty"`
	// Retry, if set, says how calls of the model are repeated.
	Retry *Retry `json:"retry,omitempty"`
	// Remote, if set, is an agent that runs elsewhere, asked in place of a model.
	Remote *Remote `json:"remote,omitempty"`
	// Opening, if set, replaces the message with which the node begins: the run's input and
	// the latest outputs of earlier nodes.
	Opening []Piece `json:"opening,omitempty"`
	// Conversation is the node's own, or one of the constants.
	Conversation string     `json:"conversation,omitempty"`
	Finish       *Finish    `json:"finish,omitempty"`
	React        *React     `json:"react,omitempty"`
	Toolboxes    *Toolboxes `json:"toolboxes,omitempty"`
	// Chat makes an answer in words a question to a person, whose answer goes on the
	// conversation.
	Chat *Chat `json:"chat,omitempty"`
	// MaxTurns, if positive, is how many model calls one execution may make; one more fails
	// it.
	MaxTurns int `json:"max_turns,omitempty"`
	// Sequential makes the calls of one answer one after the other.
	Sequential bool `json:"sequential,omitempty"`
	// NoTool, if set, is the answer to a call of a tool that there is not, {tool}.
	NoTool string `json:"no_tool,omitempty"`
	// CallsAsText shows the model calls of tools that the node does not offer, such as those of
	// other nodes in one conversation, as texts.
	CallsAsText bool `json:"calls_as_text,omitempty"`
	// Members are other agents that work in the node. Ask is the tool by which the agent asks
	// some of them, Handoff the one by which it hands its conversation over.
	Members []Member  `json:"members,omitempty"`
	Ask     *Contacts `json:"ask,omitempty"`
	Handoff *Contacts `json:"handoff,omitempty"`
	// Context is what becomes of a conversation that grows too long, Long of single messages.
	// What it leaves goes through those of MoreContexts, or MoreLong, in order.
	Context      *Context  `json:"context,omitempty"`
	Long         *Long     `json:"long,omitempty"`
	MoreContexts []Context `json:"more_contexts,omitempty"`
	MoreLong     []Long    `json:"more_long,omitempty"`
}

// The tools that the interpreter offers. Their effects are on workflow state; only
// BuiltinSetStateFiltered and BuiltinCallSubAgent lead to calls outside.
const (
	BuiltinGetState         = "get_state"
	BuiltinSetState         = "set_state"
	BuiltinSetStateFiltered = "set_state_filtered"
	BuiltinListStateKeys    = "list_state_keys"
	BuiltinGetChatHistory   = "get_chat_history"
	BuiltinCallSubAgent     = "call_sub_agent"
	// BuiltinReadResource is offered where the worker's settings of a connection allow it, and by no flow.
	BuiltinReadResource = "read_resource"
)

// Builtins are all names of tools that the interpreter offers, in the order in which
// a model sees them.
var Builtins = []string{
	BuiltinGetState, BuiltinSetState, BuiltinSetStateFiltered, BuiltinListStateKeys,
	BuiltinGetChatHistory, BuiltinCallSubAgent,
}

// Tool is a tool that a node may call.
//
// Sources: Continuum's ToolBinding.
type Tool struct {
	// Name is the tool's name at its connection.
	Name string `json:"name"`
	// As is the name that the model sees: letters, digits, _ and -, at most 64, unique
	// in the node.
	As string `json:"as"`
	// Description is the author's; empty means the connection's own. It stands before that one, or Alone.
	Description string `json:"description,omitempty"`
	Alone       bool   `json:"alone,omitempty"`
	// Connection is the id of the connection that has the tool. Empty: the worker knows the
	// tool by its name, from its configuration or as a function of its own.
	Connection string `json:"connection,omitempty"`
	// Confirm makes every call wait for a person's yes.
	Confirm bool `json:"confirm,omitempty"`
	// ArgumentsSchema, if set, is the JSON Schema of the arguments object as the author declares it. It takes the
	// place of the connection's: models are shown it, its defaults replace missing arguments, and a call with
	// arguments that do not fit it is not made. An MCP server whose tool cannot take them does not have the tool.
	ArgumentsSchema json.RawMessage `json:"arguments_schema,omitempty"`
	// Outputs are the values that the author declares that it returns, without keys.
	Outputs []Out `json:"outputs,omitempty"`
}

// Output asks a node's answer to be JSON.
//
// Sources: Continuum's BLUEPRINT response format.
type Output struct {
	// Schema is a JSON Schema (draft 7) in the author's key order. Empty: any JSON.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Repairs is how often a wrong answer is sent back with its errors.
	Repairs int `json:"repairs"`
	// IfLast, if set, asks for the output once no edge behind the node is taken. Until then, the node may answer anything.
	IfLast string `json:"if_last,omitempty"`
	// ValueMember, if set, is a member of the object that is wanted: an answer that is not an object with
	// it is taken as its value.
	ValueMember string `json:"value_member,omitempty"`
	// Fit makes an answer's members what the schema wants before they are checked: see value.Fitted.
	Fit bool `json:"fit,omitempty"`
	// Style is how errors name places: [StyleFramework] or [StyleDocumented].
	Style string `json:"style,omitempty"`
}

// Chat is how an agent talks with a person.
type Chat struct {
	// First is what the person is asked where no one has said anything; empty: the agent begins.
	First string `json:"first"`
	// WhenAsked leaves it to a remote agent whether an answer of its is a question; else every one is.
	WhenAsked bool `json:"when_asked,omitempty"`
}

// The kinds of a connection.
const (
	ConnectionMCP   = "mcp"
	ConnectionAgent = "agent"
	// ConnectionClient marks tools that a client of the run executes.
	ConnectionClient = "client"
	// ConnectionLocal is what a worker resolves a connection to where its own functions are
	// the tools; no document declares one.
	ConnectionLocal = "local"
	// ConnectionActivity is what a worker resolves a tool to that is an activity on another task
	// queue; no document declares one.
	ConnectionActivity = "activity"
)

// Connection is where tools come from.
//
// Sources: Continuum's data_connections, type 1 (mcp) and 2 (agent).
type Connection struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Kind        string `json:"kind"`
	Description string `json:"description,omitempty"`
	// URL is the MCP server's, over streamable HTTP or SSE. A document's URL is
	// untrusted: the worker's policy decides whether it is called.
	URL string `json:"url,omitempty"`
	// Transport is one of the constants; Headers go with every request.
	Transport string   `json:"transport,omitempty"`
	Headers   []Header `json:"headers,omitempty"`
	// Secrets are headers whose values are names of secrets of the worker; without a name, the
	// secret is a JSON object of headers. TLS names certificates among them. Neither ever holds
	// a secret.
	Secrets []Header `json:"secrets,omitempty"`
	TLS     *TLS     `json:"tls,omitempty"`
	// Retry, if set, says how calls of the connection's tools are repeated.
	Retry *Retry `json:"retry,omitempty"`
	// TimeoutSeconds, if positive, bounds one attempt of a call. TimeoutAt is the place of the document that says so, for messages.
	TimeoutSeconds int    `json:"timeout_seconds,omitempty"`
	TimeoutAt      string `json:"timeout_at,omitempty"`
	// Command, with Args, is started for the transport stdio, where the worker's operator
	// allows it.
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Env are variables of the command's environment, Dir is its working directory, an absolute
	// path. The operator allows them apart from the command.
	Env []Header `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"`
	// WholeResults shows a model the JSON of what an MCP server's tools answer, without the
	// result's type and _meta, instead of the text in it.
	WholeResults bool `json:"whole_results,omitempty"`
	// Agent is the id of a flow in [Flow.Agents].
	Agent string `json:"agent,omitempty"`
	// Tools are those of a connection of kind client.
	Tools []ClientTool `json:"tools,omitempty"`
	// Requests are the tools of a connection of kind http.
	Requests []Request `json:"requests,omitempty"`
	// Operations are the tools of a connection of kind database, Collections what they work on.
	Operations  []Operation  `json:"operations,omitempty"`
	Collections []Collection `json:"collections,omitempty"`
}

// ClientTool is a tool that a client of the run executes: a call opens a request, and the
// client's answer is the tool's result.
type ClientTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments object, Result that of the result. Absent:
	// anything.
	Schema json.RawMessage `json:"schema,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// Timeout, if positive, is how long a call waits for its result.
	Timeout Seconds `json:"timeout,omitempty"`
}

// Limits bound a run. All are at least 1.
type Limits struct {
	// MaxSteps is the highest step at which a node runs; a node is one step after the
	// node that led to it.
	MaxSteps int `json:"max_steps"`
	// MaxStateBytes bounds all keys and values of the state together.
	MaxStateBytes int `json:"max_state_bytes"`
	// MaxDepth bounds how deep sub-agents nest; the root run has depth 0.
	MaxDepth int `json:"max_depth"`
	// FilterBytes is the size from which set_state_filtered condenses a value.
	FilterBytes int `json:"filter_bytes"`
}

// DefaultLimits are the limits of a flow that sets none.
var DefaultLimits = Limits{MaxSteps: 25, MaxStateBytes: 1 << 20, MaxDepth: 5, FilterBytes: 4 << 10}

// Policy holds the timeouts and retry bounds of a flow's activities.
type Policy struct {
	// ModelSeconds and ToolSeconds bound one attempt of a call.
	ModelSeconds int `json:"model_seconds"`
	ToolSeconds  int `json:"tool_seconds"`
	// HeartbeatSeconds is how long a silent call counts as alive.
	HeartbeatSeconds int `json:"heartbeat_seconds"`
	// RetrySeconds bounds all attempts of one call together.
	RetrySeconds int `json:"retry_seconds"`
	// FirstRetryMillis is the pause before the second attempt; it doubles from there to
	// a minute at most.
	FirstRetryMillis int `json:"first_retry_millis"`
	// Branches is [BranchesAsChildren], or empty: then branches and elements of maps that make few calls run in the flow's
	// own run.
	Branches string `json:"branches,omitempty"`
}

// BranchesAsChildren has every branch beside others, and every element of a map, run as a child workflow.
const BranchesAsChildren = "children"

// DefaultPolicy is the policy of a flow that sets none.
var DefaultPolicy = Policy{ModelSeconds: 600, ToolSeconds: 300, HeartbeatSeconds: 2, RetrySeconds: 3600, FirstRetryMillis: 500}

// Hash identifies the flow: the SHA-256 of its canonical JSON, in hexadecimal. Two
// documents that mean the same have the same hash; source positions are not part of it.
func (f *Flow) Hash() (string, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("encode plan %q: %w", f.Name, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Node returns the node with an id, or nil.
func (f *Flow) Node(id string) *Node {
	for i := range f.Nodes {
		if f.Nodes[i].ID == id {
			return &f.Nodes[i]
		}
	}
	return nil
}

// SubFlow returns the flow with an id among those that nodes can call, the flow itself
// included, or nil.
func (f *Flow) SubFlow(id string) *Flow {
	if id != "" && f.ID == id {
		return f
	}
	for i := range f.Agents {
		if f.Agents[i].ID == id {
			return &f.Agents[i]
		}
	}
	return nil
}
