// Package contract defines what crosses the boundary between workflows, activities and
// clients: names, wire types and error classes.
//
// Everything here can be in a history that is years old: fields are added, never
// renamed. It imports Temporal's error types and the plan, never an implementation.
//
// Start at [RunInput] and [RunResult], then [ModelInput].
package contract

import (
	"encoding/json"
	"strings"

	"weft/workflows/plan"
)

// Version is the wire contract's version, the field v of [RunInput].
const Version = 1

// TaskQueue is where workers poll unless configured otherwise.
const TaskQueue = "weft"

// ScriptModel is the model that answers from the run's script. In a run of it, it answers for
// nodes with models of their own too. Under further names, "script/backup", it plays several
// models of a list.
const ScriptModel = "script"

// Scripted reports whether a reference is to the scripted model.
func Scripted(ref string) bool { return ref == ScriptModel || strings.HasPrefix(ref, ScriptModel+"/") }

// ScriptedAll reports whether all models of a list are scripted, so that a script answers for a whole
// run.
func ScriptedAll(list string) bool {
	found := false
	for ref := range strings.SplitSeq(list, ",") {
		if ref = strings.TrimSpace(ref); ref != "" && !Scripted(ref) {
			return false
		}
		found = found || ref != ""
	}
	return found
}

// NoModel stands for the run's model where there is none and no part of the flow asks it.
const NoModel = "none"

// Workflow types.
const (
	WorkflowFlow   = "Flow"
	WorkflowBranch = "Branch"
	// WorkflowHeldResult holds a model's answer that has no room in the history of the run that asked, until it has.
	WorkflowHeldResult = "HeldResult"
)

// Activity types.
const (
	ActivityCompileFlow           = "CompileFlow"
	ActivityListTools             = "ListTools"
	ActivityCallModel             = "CallModel"
	ActivityCallTool              = "CallTool"
	ActivityEvaluateCondition     = "EvaluateCondition"
	ActivityCondenseValue         = "CondenseValue"
	ActivitySummariseConversation = "SummariseConversation"
	ActivityValidateAnswer        = "ValidateAnswer"
	ActivityFetchResult           = "FetchResult"
	// ActivityCallLocally is a local activity: it makes a [LocalCall].
	ActivityCallLocally = "CallLocally"
)

// Queries, answered by every run of either workflow type.
const (
	// QueryStatus takes nothing and returns a [Status].
	QueryStatus = "status"
	// QueryTranscript takes a [TranscriptQuery] and returns a [TranscriptPage].
	QueryTranscript = "transcript"
	// QueryContent takes a [ContentQuery] and returns a [ContentPage].
	QueryContent = "content"
	// QueryState takes nothing and returns the state as a JSON object.
	QueryState = "state"
	// QueryTurns takes nothing and returns the list of [Turn] of a session, with results. Behind
	// them come the prompts that wait in line, without a number.
	QueryTurns = "turns"
	// QueryPlan takes nothing and returns the [plan.Flow] that runs.
	QueryPlan = "plan"
	// QueryWatching takes nothing and returns a [Watching]: it tells the worker that somebody
	// watches what the run's calls answer while they do. It changes nothing of the run.
	QueryWatching = "watching"
)

// WatchedFor is how many seconds a worker believes a watcher that asked [QueryWatching] once.
const WatchedFor = 10

// Watching is the answer to [QueryWatching].
type Watching struct {
	// Seconds is how long new text of the run's calls comes at once; ask again before they are over.
	Seconds int `json:"seconds"`
}

// RunInput starts a run of workflow type Flow.
type RunInput struct {
	// V is the contract's version, 1.
	V    int     `json:"v"`
	Flow FlowRef `json:"flow"`
	// Input is the text given to the flow.
	Input string `json:"input,omitempty"`
	// Media are files that the models get with the input, whatever form that has: images, documents, recordings.
	Media []Media `json:"images,omitempty"`
	// Params is a JSON object with the inputs that the flow declares, in the client's order.
	// A flow that declares none is refused with any.
	Params json.RawMessage `json:"params,omitempty"`
	// Components and ComponentIDs are Flow's, where a client writes them beside it.
	Components   []Document    `json:"components,omitempty"`
	ComponentIDs []ComponentID `json:"component_ids,omitempty"`
	// Scope is a JSON object with values of placeholders, such as ${scope.tenant}, that no model
	// is told as such. A flow without declared inputs has none.
	Scope json.RawMessage `json:"scope,omitempty"`
	// Value is the input of a flow in which typed values flow, in place of Input: JSON, where
	// 42 is an integer and 42.0 a double.
	Value json.RawMessage `json:"value,omitempty"`
	// State holds keys that the state has from the start.
	State map[string]json.RawMessage `json:"state,omitempty"`
	// History is the conversation before this run, as get_chat_history returns it.
	History []ChatMessage `json:"history,omitempty"`
	// Model is provider/model, or several of them, separated by commas: the next one is
	// asked where one cannot answer. Empty takes the worker's default.
	Model string `json:"model,omitempty"`
	// Script is what the model "script" answers; see activities/llm. Kept by reference.
	Script json.RawMessage `json:"script,omitempty"`
	// DataConnections are looked at before the flow's and the worker's own.
	DataConnections []DataConnection `json:"data_connections,omitempty"`
	// Principal is who starts the run, as far as its client says so.
	Principal *Principal `json:"principal,omitempty"`
	// MaxSteps, if positive, replaces the plan's limit.
	MaxSteps int `json:"max_steps,omitempty"`
	// Budget bounds what the run may spend on models, within what the worker allows.
	Budget *Budget `json:"budget,omitempty"`
	// OnError is what happens when something fails that an operator must fix, an expired
	// key for example: "wait" (the default) waits with a request of kind retry, "fail" fails
	// the run.
	OnError string `json:"on_error,omitempty"`
	// Session keeps the run open when its agent has answered: it takes further prompts by the
	// Update or the signal [UpdatePrompt], until [UpdateCloseSession]. The flow must be of one agent.
	Session bool `json:"session,omitempty"`
	// Parent is the workflow id of the session that hears how each turn of this one ended; set
	// by the interpreter.
	Parent string `json:"parent,omitempty"`
	// Depth is how many runs are above this one; set by the interpreter.
	Depth int `json:"depth,omitempty"`
	// MaxEvents, if positive, is the history length from which the run continues as new;
	// 0 leaves it to the server's suggestion.
	MaxEvents int `json:"max_events,omitempty"`
	// Snapshot is what the run before this one carried over; set by the interpreter.
	Snapshot *RunSnapshot `json:"snapshot,omitempty"`
	// Fork, if set, begins the run in the middle of another.
	Fork *ForkedFrom `json:"fork,omitempty"`
	// Owner is the workflow id of the run that owns the tree's requests; set by the
	// interpreter.
	Owner string `json:"owner,omitempty"`
	// FirstRun is that of [Shared].
	FirstRun string `json:"first_run,omitempty"`
	// MaxPayload is that of [Shared], from the run above; set by the interpreter.
	MaxPayload int `json:"max_payload,omitempty"`
	// Entries is that of [Shared]; set by the interpreter.
	Entries bool `json:"entries,omitempty"`
	// MaxResultBytes is how many bytes the run brings back to the one above without asking; 0 means any; set
	// by the interpreter.
	MaxResultBytes int `json:"max_result_bytes,omitempty"`
	// Grant is that of the tree; set by the interpreter.
	Grant *Grant `json:"grant,omitempty"`
	// ServerSessions are those of [Shared]; set by the interpreter.
	ServerSessions map[string]ServerSession `json:"server_sessions,omitempty"`
	// ScriptRef names the script of the run above; set by the interpreter.
	ScriptRef *ContentRef `json:"script_ref,omitempty"`
	// Unchecked takes params as they are, for a hook; set by the interpreter.
	Unchecked bool `json:"unchecked,omitempty"`
	// Conversation is the conversation of the run above; set by the interpreter.
	Conversation *Conversation `json:"conversation,omitempty"`
}

// FlowRef is a flow as a document, as a plan or by name.
type FlowRef struct {
	// Text is a document in any dialect; an activity compiles it and history keeps
	// the plan.
	Text string `json:"text,omitempty"`
	// Name is the file name of Text, for messages and to choose the parser. Without Text
	// and Plan it names a flow of the worker's own folder, with or without extension.
	Name string `json:"name,omitempty"`
	// Dialect and Profile are as on the command line; empty means detect and default.
	Dialect string `json:"dialect,omitempty"`
	Profile string `json:"profile,omitempty"`
	// Plan is a compiled flow.
	Plan   *plan.Flow   `json:"plan,omitempty"`
	Source *plan.Source `json:"source,omitempty"`
	// Components are documents with components that Text refers to by their ids. Only
	// dialects that know such references take any.
	Components []Document `json:"components,omitempty"`
	// ComponentIDs say which component of which of Components stands for an id.
	ComponentIDs []ComponentID `json:"component_ids,omitempty"`
	// Files are what lies around Text, for dialects whose flows are folders. Their names, and
	// Name, are paths with slashes from one and the same place.
	Files []Document `json:"files,omitempty"`
}

// Document is a text beside a flow's own.
type Document struct {
	// Name is the file name of Text, for messages and to choose the parser.
	Name string `json:"name"`
	Text string `json:"text"`
}

// ComponentID means that the component under Key, in the document Name of
// [FlowRef.Components], is what a flow's document means by ID.
type ComponentID struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Key  string `json:"key"`
}

// ChatMessage is one message of the conversation before a run.
type ChatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// RunResult is the result of a run. A run that fails ends with a [Failure] instead.
type RunResult struct {
	Offloading `json:"-"`
	// Held is set where the run above has no room for the result: it fetches it from the closed run. Nothing
	// else is set then.
	Held *HeldResult `json:"held,omitempty"`
	// Status is "completed", or "stopped" for a session, which ends no other way.
	Status string `json:"status"`
	// ResultText and ResultData exclude each other: the result as text, or as JSON
	// where the flow asks for JSON or its typed value is no string.
	ResultText *string         `json:"result_text"`
	ResultData json.RawMessage `json:"result_data,omitempty"`
	// ResultNode is the node that gave the result.
	ResultNode string `json:"result_node,omitempty"`
	// ExitOutputs are the outputs of all executions of exit nodes, by step and
	// declaration.
	ExitOutputs []ExitOutput `json:"exit_outputs"`
	// NoRoute are the executions, node#step, whose conditions were all false: their branch
	// ended there.
	NoRoute  []string `json:"no_route,omitempty"`
	Usage    Usage    `json:"usage"`
	FlowHash string   `json:"flow_hash"`
	// Model is the model that the run used where a node names none.
	Model string `json:"model,omitempty"`
	// Unread are messages to the run that no model call has had.
	UnreadMessages []Inbound `json:"unread_messages,omitempty"`
	// Turns are those of a session, the last ones with their results.
	Turns []Turn `json:"turns,omitempty"`
	// Yielded is what a sub-agent goes on with in another run; the interpreter alone sees it.
	Yielded *RunSnapshot `json:"yielded,omitempty"`
	// Conversation is what was said in a run below another; the interpreter alone sees it.
	Conversation *Conversation `json:"conversation,omitempty"`
	// ServerSessions are those of [Shared] as a run below another leaves them; the interpreter alone sees them.
	ServerSessions map[string]ServerSession `json:"server_sessions,omitempty"`
}

// ExitOutput is what one execution of an exit node gave.
type ExitOutput struct {
	Node string          `json:"node"`
	Step int             `json:"step"`
	Text string          `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
	// OmittedBytes is the size of Text or Data where it is left out because the result would not
	// fit with it.
	OmittedBytes int `json:"omitted_bytes,omitempty"`
	// Exhausted means that the node's budget of tool calls ended it.
	Exhausted bool `json:"iterations_exhausted,omitempty"`
	// Truncated means that the model stopped at its length limit.
	Truncated bool `json:"truncated,omitempty"`
}

// Usage counts tokens and calls. Cached and CacheWrite are parts of Input, Reasoning is one
// of Output.
type Usage struct {
	Calls     int `json:"calls"`
	Input     int `json:"input_tokens"`
	Output    int `json:"output_tokens"`
	Cached    int `json:"cached_tokens,omitempty"`
	Reasoning int `json:"reasoning_tokens,omitempty"`
	// CacheWrite are tokens of the input that were stored for later calls.
	CacheWrite int `json:"cache_write_tokens,omitempty"`
	// Cost is in millionths of the currency of the worker's price table. Unpriced are the
	// calls that a table has no price for.
	Cost     int64 `json:"cost_micros,omitempty"`
	Unpriced int   `json:"unpriced_calls,omitempty"`
	// Stopped are calls that were cancelled under way, beside Calls: their provider may charge
	// them, but nobody was told of how many tokens.
	Stopped int `json:"stopped_calls,omitempty"`
	// Cut are calls whose answers ended too early, beside Calls: their tokens count where their provider said how many.
	Cut int `json:"cut_calls,omitempty"`
	// Runs are the runs below that models started, at any depth.
	Runs int `json:"runs,omitempty"`
	// Declared are the runs below that flows declare, at any depth: branches, elements of maps, called flows.
	Declared int `json:"declared_runs,omitempty"`
	// Fallbacks are the calls that another model of a list had to answer, sorted by their names.
	Fallbacks []FallbackCount `json:"fallbacks,omitempty"`
}

// Made are all calls that a provider may have been asked for.
func (u Usage) Made() int { return u.Calls + u.Stopped + u.Cut }

// Spent is what the usage takes of a budget.
func (u Usage) Spent() Budget {
	return Budget{Calls: u.Made(), Tokens: u.Input + u.Output, Cost: u.Cost, Runs: u.Runs, Declared: u.Declared}
}

// counts are the counters, but for the cost.
func (u *Usage) counts() []*int {
	return []*int{&u.Calls, &u.Input, &u.Output, &u.Cached, &u.Reasoning, &u.CacheWrite, &u.Unpriced, &u.Stopped, &u.Cut, &u.Runs, &u.Declared}
}

// Add counts another's tokens and calls too.
func (u *Usage) Add(o Usage) {
	for i, n := range o.counts() {
		*u.counts()[i] += *n
	}
	u.Cost += o.Cost
	for _, s := range o.Fallbacks {
		u.Fallbacks = count(u.Fallbacks, s)
	}
}

// Less is what is left without another's tokens and calls.
func (u Usage) Less(o Usage) Usage {
	for i, n := range o.counts() {
		*u.counts()[i] -= *n
	}
	u.Cost, u.Fallbacks = u.Cost-o.Cost, without(u.Fallbacks, o.Fallbacks)
	return u
}

// Beyond is what a usage has more than another, field by field; what it has less counts as nothing.
func (u Usage) Beyond(o Usage) Usage {
	d := u.Less(o)
	for _, n := range d.counts() {
		*n = max(0, *n)
	}
	d.Cost = max(0, d.Cost)
	return d
}

// CompileFlowInput asks for what a run must know before its first node: the plan of a
// document, and the model where none is named.
type CompileFlowInput struct {
	Flow  FlowRef `json:"flow"`
	Model string  `json:"model,omitempty"`
	// Root is set by root runs, which publish what they are.
	Root *StartFacts `json:"root,omitempty"`
	// Params, Scope and Input are the run's, for a flow that declares inputs.
	Params json.RawMessage `json:"params,omitempty"`
	Scope  json.RawMessage `json:"scope,omitempty"`
	// Unchecked leaves out the check of the parameters; Replaced means that they stand for others,
	// with which the plan's placeholders have been replaced.
	Unchecked bool   `json:"unchecked,omitempty"`
	Replaced  bool   `json:"replaced,omitempty"`
	Input     string `json:"input,omitempty"`
}

// CompileFlowResult pins the plan and the model in history.
type CompileFlowResult struct {
	// Plan is absent where the input already had one and declares no inputs.
	Plan   *plan.Flow  `json:"plan,omitempty"`
	Source plan.Source `json:"source"`
	Hash   string      `json:"hash"`
	// Model is provider/model.
	Model string `json:"model"`
	// Publish is absent where the input's Root was.
	Publish *Publish `json:"publish,omitempty"`
	// Warnings are the diagnostics that did not keep the document from compiling.
	Warnings []string `json:"warnings,omitempty"`
	// Input is the text that a flow with declared inputs is given.
	Input *string `json:"input,omitempty"`
}
