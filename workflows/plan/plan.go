// Package plan is the intermediate representation of a flow: adapters produce it and the interpreter runs it.
//
// A plan is data: JSON in, JSON out, with no reference to a source file, the environment or a default that is chosen
// later. It is the workflow's input, so it stays in event history permanently. It never contains a secret, only names
// that activities resolve. The package imports only the standard library, so that adapters do not depend on Temporal.
//
// Start at [Flow].
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Version is the format written by this build. A plan with a higher version is rejected.
const Version = 1

// Start and End are the ids that edges use for a flow's entry and exit. No node may have either id.
const (
	Start = "START"
	End   = "END"
)

// Flow is a complete agent graph, with all defaults resolved.
//
// Sources: Continuum's GraphDefinition.
type Flow struct {
	// Version is the plan format; see [Version].
	Version int `json:"version"`
	// ID is the author's id, which connections of kind agent refer to. May be empty.
	ID          string `json:"id,omitempty"`
	Name        string `json:"name"`
	Dialect     string `json:"dialect"`
	Description string `json:"description,omitempty"`
	// Revision is the author's version of the flow, for display.
	Revision string `json:"revision,omitempty"`
	// Model is the default model of the nodes, if the run does not specify one.
	Model string `json:"model,omitempty"`
	// Nodes are in declaration order, which determines the order of outputs and breaks ties.
	Nodes []Node `json:"nodes"`
	// Edges are in declaration order, which breaks ties at joins.
	Edges []Edge `json:"edges"`
	// Connections are declared in the flow's document. Other connections are resolved from the run's input and then from
	// the worker's configuration.
	Connections []Connection `json:"connections,omitempty"`
	// Agents are the flows that nodes of this one can call as sub-agents.
	Agents []Flow `json:"agents,omitempty"`
	// Inputs, if set, declare the parameters of a run. Otherwise the input is text.
	Inputs *Inputs `json:"inputs,omitempty"`
	// Hooks, if set, run before and after each run.
	Hooks *Hooks `json:"hooks,omitempty"`
	// Choice selects which of a node's edges are taken: all whose condition holds, or [ChooseFirst].
	Choice string `json:"choice,omitempty"`
	// NoRoute, if set, fails a run if no edge of a node can be taken.
	NoRoute *NoRoute `json:"no_route,omitempty"`
	// Values, if set, means that typed values are passed along the edges.
	Values *Values `json:"values,omitempty"`
	Meter  *Meter  `json:"meter,omitempty"`
	Limits Limits  `json:"limits"`
	Policy Policy  `json:"policy"`
}

// Kind is the type of a node.
type Kind string

// The node kinds.
const (
	// KindAgent calls a model, which may call tools until it answers; configured by [Agent].
	KindAgent Kind = "agent"
	// KindAsk asks a user and waits for the answer, which is the node's output; configured by [Ask].
	KindAsk Kind = "ask"
)

// Node is one step of a flow. The field named after its kind is set.
//
// Sources: Continuum's AgentNode.
type Node struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Exit marks a node whose output can be the run's result.
	Exit bool `json:"exit,omitempty"`
	// Deferred makes the node wait for its arrivals: it runs once for all of them, when neither a live branch nor a
	// waiting node that precedes it can still reach it.
	Deferred bool `json:"deferred,omitempty"`
	// Choice, if set, overrides [Flow.Choice].
	Choice string `json:"choice,omitempty"`
	// StateKey is the state key that the node's value is written to; if empty, the value is passed along the edges.
	StateKey  string     `json:"state_key,omitempty"`
	Cost      *Cost      `json:"cost,omitempty"`
	Agent     *Agent     `json:"agent,omitempty"`
	Ask       *Ask       `json:"ask,omitempty"`
	Transform *Transform `json:"transform,omitempty"`
	Merge     *Merge     `json:"merge,omitempty"`
	// Ports are set in flows with named values.
	Ports  *Ports  `json:"ports,omitempty"`
	Pass   *Pass   `json:"pass,omitempty"`
	Branch *Branch `json:"branch,omitempty"`
	Say    *Say    `json:"say,omitempty"`
	// Tool is the tool of a node of [KindTool].
	Tool *Tool `json:"tool,omitempty"`
	Call *Call `json:"call,omitempty"`
	// Program is the program of a node of [KindProgram].
	Program *Program `json:"program,omitempty"`
	// Component identifies, as in the document, the agent that the node belongs to, or the nested flow that begins with
	// it.
	Component *Component `json:"component,omitempty"`
}

// Component identifies a part of a document that is not a node of the plan.
type Component struct {
	ID          string `json:"id,omitempty"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Ask configures a node of [KindAsk].
type Ask struct {
	// Text is the question, shown to the user.
	Text string `json:"text"`
	// Timeout, if positive, is how long to wait; after that the node fails.
	Timeout Seconds `json:"timeout,omitempty"`
	// Silent omits the question from the conversation.
	Silent bool `json:"silent,omitempty"`
}

// Edge is control flow from one node to another.
//
// Sources: Continuum's AgentEdge.
type Edge struct {
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to"`
	// Question, if set, is a yes/no question to a model about From's output; the edge is taken on yes. If empty, there is
	// no question. Source: condition_prompt.
	Question string `json:"question,omitempty"`
	// Compare, if set, is a condition on a value instead.
	Compare *Compare `json:"compare,omitempty"`
	// Pass, if set, transforms the value that is passed along the edge.
	Pass *Select `json:"pass,omitempty"`
	// Branch, if set, is the branch of From that takes the edge.
	Branch string `json:"branch,omitempty"`
}

// Agent configures a node of [KindAgent].
type Agent struct {
	// Prompt is only the author's text; it guides filtered state writes.
	Prompt string `json:"prompt"`
	// System is the complete system message: preamble, prompt and output rules.
	System string `json:"system"`
	Tools  []Tool `json:"tools,omitempty"`
	// Starts are the agents that [SessionTools] can start.
	Starts []Startable `json:"starts,omitempty"`
	// CallbackWhenSettled delays the callbacks of sessions that the agent starts until those wait for no callbacks
	// themselves, and delivers the result of their last turn. Otherwise they call back when the requested turn has ended.
	CallbackWhenSettled bool `json:"callback_when_settled,omitempty"`
	// Builtins are the names of tools offered by the interpreter, in the order in which the model sees them; see the
	// Builtin constants.
	Builtins []string `json:"builtins,omitempty"`
	// MaxCalls is the budget of tool calls of one execution, at least 1. When it is spent, the model is called once more,
	// without tools. Source: max_iterations.
	MaxCalls int `json:"max_calls"`
	// MaxErrors is how many consecutive tool errors fail the node, at least 1.
	MaxErrors int `json:"max_errors"`
	// Output, if set, requests JSON; otherwise the answer's text is the output.
	Output *Output `json:"output,omitempty"`
	// Params, if set, are the parameters of the model calls.
	Params *Params `json:"params,omitempty"`
	// Model, if set, is the node's own model, provider/model.
	Model string `json:"model,omitempty"`
	// Retry, if set, specifies how model calls are retried.
	Retry *Retry `json:"retry,omitempty"`
	// Remote, if set, is a remote agent that is called instead of a model.
	Remote *Remote `json:"remote,omitempty"`
	// Opening, if set, replaces the node's first message, which by default contains the run's input and the latest
	// outputs of earlier nodes.
	Opening []Piece `json:"opening,omitempty"`
	// Conversation is one of the Conversation constants; empty means the node has its own.
	Conversation string     `json:"conversation,omitempty"`
	Finish       *Finish    `json:"finish,omitempty"`
	React        *React     `json:"react,omitempty"`
	Toolboxes    *Toolboxes `json:"toolboxes,omitempty"`
	// Chat makes an answer without tool calls a question to the user, whose reply continues the conversation.
	Chat *Chat `json:"chat,omitempty"`
	// MaxTurns, if positive, limits the model calls of one execution; the node fails if it needs more.
	MaxTurns int `json:"max_turns,omitempty"`
	// Sequential executes the calls of one answer one after the other.
	Sequential bool `json:"sequential,omitempty"`
	// NoTool, if set, is the answer to a call of an unknown tool, {tool}.
	NoTool string `json:"no_tool,omitempty"`
	// CallsAsText shows the model, as text, calls of tools that the node does not offer, such as those of other nodes in
	// one conversation.
	CallsAsText bool `json:"calls_as_text,omitempty"`
	// Members are further agents in the node. Ask is the tool by which the agent asks some of them, Handoff the tool by
	// which it hands its conversation over.
	Members []Member  `json:"members,omitempty"`
	Ask     *Contacts `json:"ask,omitempty"`
	Handoff *Contacts `json:"handoff,omitempty"`
	// Context handles a conversation that grows too long, Long single messages that are too long. MoreContexts and
	// MoreLong are then applied in order.
	Context      *Context  `json:"context,omitempty"`
	Long         *Long     `json:"long,omitempty"`
	MoreContexts []Context `json:"more_contexts,omitempty"`
	MoreLong     []Long    `json:"more_long,omitempty"`
}

// The tools offered by the interpreter. They act on workflow state; only BuiltinSetStateFiltered and BuiltinCallSubAgent
// make calls outside of it.
const (
	BuiltinGetState         = "get_state"
	BuiltinSetState         = "set_state"
	BuiltinSetStateFiltered = "set_state_filtered"
	BuiltinListStateKeys    = "list_state_keys"
	BuiltinGetChatHistory   = "get_chat_history"
	BuiltinCallSubAgent     = "call_sub_agent"
	// BuiltinReadResource is offered if the worker's settings for a connection allow it; flows cannot declare it.
	BuiltinReadResource = "read_resource"
)

// Builtins lists the tools that flows can declare, in the order in which a model sees them.
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
	// As is the name that the model sees: at most 64 letters, digits, _ and -, unique in the node.
	As string `json:"as"`
	// Description is the author's. It precedes the connection's own, or replaces it if Alone. Empty means only the
	// connection's own.
	Description string `json:"description,omitempty"`
	Alone       bool   `json:"alone,omitempty"`
	// Connection is the id of the tool's connection. If empty, the worker resolves the tool by name, from its
	// configuration or its own functions.
	Connection string `json:"connection,omitempty"`
	// Confirm requires a user's approval for every call.
	Confirm bool `json:"confirm,omitempty"`
	// ArgumentsSchema, if set, is the author's JSON Schema of the arguments object. It replaces the connection's: models
	// see it, its defaults replace missing arguments, and a call with arguments that do not match it is not made. A tool
	// of an MCP server that cannot accept them counts as missing.
	ArgumentsSchema json.RawMessage `json:"arguments_schema,omitempty"`
	// Outputs are the return values that the author declares, without keys.
	Outputs []Out `json:"outputs,omitempty"`
}

// Output requires a node's answer to be JSON.
//
// Sources: Continuum's BLUEPRINT response format.
type Output struct {
	// Schema is a JSON Schema (draft 7) in the author's key order. If empty, any JSON is valid.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Repairs is how often an invalid answer is sent back with its errors.
	Repairs int `json:"repairs"`
	// IfLast, if set, requests the output only after no outgoing edge of the node was taken. Until then, any answer is
	// valid.
	IfLast string `json:"if_last,omitempty"`
	// ValueMember, if set, is a member of the requested object: an answer that is not an object with this member is taken
	// as its value.
	ValueMember string `json:"value_member,omitempty"`
	// Fit converts an answer's members to the schema's types before validation; see value.Fitted.
	Fit bool `json:"fit,omitempty"`
	// Style is how errors denote places: [StyleFramework] or [StyleDocumented].
	Style string `json:"style,omitempty"`
}

// Chat configures how an agent talks with a user.
type Chat struct {
	// First is the question to the user if the conversation is empty; if First is empty, the agent begins.
	First string `json:"first"`
	// WhenAsked lets a remote agent decide whether an answer is a question; otherwise every answer is.
	WhenAsked bool `json:"when_asked,omitempty"`
}

// The kinds of a connection.
const (
	ConnectionMCP   = "mcp"
	ConnectionAgent = "agent"
	// ConnectionClient marks tools that a client of the run executes.
	ConnectionClient = "client"
	// ConnectionLocal is the kind that a worker resolves a connection to if the tools are its own functions; documents
	// cannot declare it.
	ConnectionLocal = "local"
	// ConnectionActivity is the kind that a worker resolves a tool to if it is an activity on another task queue;
	// documents cannot declare it.
	ConnectionActivity = "activity"
)

// Connection is a source of tools.
//
// Sources: Continuum's data_connections, type 1 (mcp) and 2 (agent).
type Connection struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	Kind        string `json:"kind"`
	Description string `json:"description,omitempty"`
	// URL is the MCP server's, over streamable HTTP or SSE. A document's URL is untrusted: the worker's policy decides
	// whether it is used.
	URL string `json:"url,omitempty"`
	// Transport is one of the Transport constants; Headers are sent with every request.
	Transport string   `json:"transport,omitempty"`
	Headers   []Header `json:"headers,omitempty"`
	// Secrets are headers whose values are names of the worker's secrets; if a header's name is empty, the secret is a
	// JSON object of headers. TLS refers to certificates in the same way. Neither ever contains a secret.
	Secrets []Header `json:"secrets,omitempty"`
	TLS     *TLS     `json:"tls,omitempty"`
	// Retry, if set, specifies how calls of the connection's tools are retried.
	Retry *Retry `json:"retry,omitempty"`
	// TimeoutSeconds, if positive, limits one attempt of a call. TimeoutAt is its position in the document, for messages.
	TimeoutSeconds int    `json:"timeout_seconds,omitempty"`
	TimeoutAt      string `json:"timeout_at,omitempty"`
	// Command is started with Args for the transport stdio, if the worker's operator allows it.
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Env are environment variables of the command, Dir is its working directory, an absolute path. The operator allows
	// them separately from the command.
	Env []Header `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"`
	// WholeResults shows models the JSON of an MCP tool's result, without the result's type and _meta, instead of its
	// text.
	WholeResults bool `json:"whole_results,omitempty"`
	// Agent is the id of a flow in [Flow.Agents].
	Agent string `json:"agent,omitempty"`
	// Tools are the tools of a connection of kind client.
	Tools []ClientTool `json:"tools,omitempty"`
	// Requests are the tools of a connection of kind http.
	Requests []Request `json:"requests,omitempty"`
	// Operations are the tools of a connection of kind database, Collections the collections that they use.
	Operations  []Operation  `json:"operations,omitempty"`
	Collections []Collection `json:"collections,omitempty"`
}

// ClientTool is a tool that a client of the run executes: a call opens a request, and the client's answer is the tool's
// result.
type ClientTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments object, Result that of the result. If absent, anything is valid.
	Schema json.RawMessage `json:"schema,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// Timeout, if positive, is how long a call waits for its result.
	Timeout Seconds `json:"timeout,omitempty"`
}

// Limits bound a run. All are at least 1.
type Limits struct {
	// MaxSteps is the highest step at which a node runs; a node's step is one more than its predecessor's.
	MaxSteps int `json:"max_steps"`
	// MaxStateBytes limits the total size of the state's keys and values.
	MaxStateBytes int `json:"max_state_bytes"`
	// MaxDepth limits the nesting of sub-agents; the root run has depth 0.
	MaxDepth int `json:"max_depth"`
	// FilterBytes is the size from which set_state_filtered condenses a value.
	FilterBytes int `json:"filter_bytes"`
}

// DefaultLimits are the limits of a flow that sets none.
var DefaultLimits = Limits{MaxSteps: 25, MaxStateBytes: 1 << 20, MaxDepth: 5, FilterBytes: 4 << 10}

// Policy holds the timeouts and retry bounds of a flow's activities.
type Policy struct {
	// ModelSeconds and ToolSeconds limit one attempt of a call.
	ModelSeconds int `json:"model_seconds"`
	ToolSeconds  int `json:"tool_seconds"`
	// HeartbeatSeconds is the heartbeat timeout of a call.
	HeartbeatSeconds int `json:"heartbeat_seconds"`
	// RetrySeconds limits all attempts of one call together.
	RetrySeconds int `json:"retry_seconds"`
	// FirstRetryMillis is the delay before the second attempt; it doubles up to one minute.
	FirstRetryMillis int `json:"first_retry_millis"`
	// Branches is [BranchesAsChildren], or empty: then branches and elements of maps that make few calls run within the
	// flow's own run.
	Branches string `json:"branches,omitempty"`
}

// BranchesAsChildren runs every parallel branch and every element of a map as a child workflow.
const BranchesAsChildren = "children"

// DefaultPolicy is the policy of a flow that sets none.
var DefaultPolicy = Policy{ModelSeconds: 600, ToolSeconds: 300, HeartbeatSeconds: 2, RetrySeconds: 3600, FirstRetryMillis: 500}

// Hash returns the SHA-256 of the flow's canonical JSON, in hexadecimal. Equivalent documents have equal hashes; source
// positions are not included.
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

// SubFlow returns the flow with an id among Agents and the flow itself, or nil.
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
