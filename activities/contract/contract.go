// Package contract defines what crosses the boundary between workflows, activities and clients: names, wire types and
// failure classes.
//
// Any of it can appear in the history of a run that started long ago: fields are added, never renamed. The package
// imports Temporal's error types and the plan, but no implementation.
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

// TaskQueue is the task queue that workers poll by default.
const TaskQueue = "weft"

// ScriptModel is the model whose answers come from the run's script. If it is the run's model, it also answers for nodes
// that specify a model of their own. Names with a suffix, such as "script/backup", stand for several models of a list.
const ScriptModel = "script"

// Scripted reports whether a model reference denotes the scripted model.
func Scripted(ref string) bool { return ref == ScriptModel || strings.HasPrefix(ref, ScriptModel+"/") }

// ScriptedAll reports whether all models of a comma-separated list are scripted, so that a script answers for the entire
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

// NoModel stands for the run's model if there is none and no part of the flow needs it.
const NoModel = "none"

// Workflow types.
const (
	WorkflowFlow   = "Flow"
	WorkflowBranch = "Branch"
	// WorkflowHeldResult holds a model result that does not fit in the caller's history until the caller can fetch it.
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
	// ActivityCallLocally is a local activity that executes a [LocalCall].
	ActivityCallLocally = "CallLocally"
)

// Queries, answered by every run of type Flow or Branch.
const (
	// QueryStatus takes nothing and returns a [Status].
	QueryStatus = "status"
	// QueryTranscript takes a [TranscriptQuery] and returns a [TranscriptPage].
	QueryTranscript = "transcript"
	// QueryContent takes a [ContentQuery] and returns a [ContentPage].
	QueryContent = "content"
	// QueryState takes nothing and returns the state as a JSON object.
	QueryState = "state"
	// QueryTurns takes nothing and returns the [Turn] list of a session, with results, followed by queued prompts, which
	// have no number.
	QueryTurns = "turns"
	// QueryPlan takes nothing and returns the [plan.Flow] being run.
	QueryPlan = "plan"
	// QueryWatching takes nothing and returns a [Watching]. It tells the worker that a client is following the partial
	// answers of the run's calls. It does not change the run.
	QueryWatching = "watching"
)

// WatchedFor is how many seconds a worker sends heartbeats more often after one [QueryWatching].
const WatchedFor = 10

// Watching is the answer to [QueryWatching].
type Watching struct {
	// Seconds is how long new text of the run's calls is sent without delay; repeat the query before then.
	Seconds int `json:"seconds"`
}

// RunInput starts a run of workflow type Flow.
type RunInput struct {
	// V is the contract's version, 1.
	V    int     `json:"v"`
	Flow FlowRef `json:"flow"`
	// Input is the flow's input as text.
	Input string `json:"input,omitempty"`
	// Media are files that models get with the input, whatever its form: images, documents, recordings.
	Media []Media `json:"images,omitempty"`
	// Params is a JSON object with the inputs that the flow declares, in the client's order. It must be empty if the flow
	// declares none.
	Params json.RawMessage `json:"params,omitempty"`
	// Components and ComponentIDs are those of Flow, for clients that write them next to it.
	Components   []Document    `json:"components,omitempty"`
	ComponentIDs []ComponentID `json:"component_ids,omitempty"`
	// Scope is a JSON object with values of placeholders, such as ${scope.tenant}, that are not passed to models by name.
	// It applies only to flows that declare inputs.
	Scope json.RawMessage `json:"scope,omitempty"`
	// Value is the input of a flow with typed values, instead of Input: JSON, in which 42 is an integer and 42.0 a
	// double.
	Value json.RawMessage `json:"value,omitempty"`
	// State is the initial state.
	State map[string]json.RawMessage `json:"state,omitempty"`
	// History is the conversation before this run, as get_chat_history returns it.
	History []ChatMessage `json:"history,omitempty"`
	// Model is provider/model, or a comma-separated list, in which the next model is used if one cannot answer. Empty
	// means the worker's default.
	Model string `json:"model,omitempty"`
	// Script holds the answers of the model "script"; see activities/llm. It is stored by reference.
	Script json.RawMessage `json:"script,omitempty"`
	// DataConnections take precedence over those of the flow and the worker.
	DataConnections []DataConnection `json:"data_connections,omitempty"`
	// Principal is who starts the run, as claimed by the client.
	Principal *Principal `json:"principal,omitempty"`
	// MaxSteps, if positive, replaces the plan's limit.
	MaxSteps int `json:"max_steps,omitempty"`
	// Budget limits what the run spends on models, within the worker's limits.
	Budget *Budget `json:"budget,omitempty"`
	// OnError selects what happens on a failure that an operator must fix, such as an expired key: "wait" (the default)
	// waits with a request of kind retry, "fail" fails the run.
	OnError string `json:"on_error,omitempty"`
	// Session keeps the run open after its agent has answered: it accepts further prompts by the Update or signal
	// [UpdatePrompt], until [UpdateCloseSession]. The flow must consist of one agent.
	Session bool `json:"session,omitempty"`
	// Parent is the workflow id of the session that is notified when a turn of this one ends; set by the interpreter.
	Parent string `json:"parent,omitempty"`
	// Depth is the number of ancestor runs; set by the interpreter.
	Depth int `json:"depth,omitempty"`
	// MaxEvents, if positive, is the history length at which the run continues as new; 0 uses the server's suggestion.
	MaxEvents int `json:"max_events,omitempty"`
	// Snapshot is the state carried over from the run that continued as new; set by the interpreter.
	Snapshot *RunSnapshot `json:"snapshot,omitempty"`
	// Fork, if set, starts the run in the middle of another.
	Fork *ForkedFrom `json:"fork,omitempty"`
	// Owner is the workflow id of the run that owns the requests of the tree; set by the interpreter.
	Owner string `json:"owner,omitempty"`
	// FirstRun is [Shared.FirstRun]; set by the interpreter.
	FirstRun string `json:"first_run,omitempty"`
	// MaxPayload is [Shared.MaxPayload] of the parent run; set by the interpreter.
	MaxPayload int `json:"max_payload,omitempty"`
	// Entries is [Shared.Entries]; set by the interpreter.
	Entries bool `json:"entries,omitempty"`
	// MaxResultBytes is the room reserved for the result in the parent's history, in bytes; a larger one is held, see
	// [HeldResult]. 0 means no limit. Set by the interpreter.
	MaxResultBytes int `json:"max_result_bytes,omitempty"`
	// Grant is the grant of the tree; set by the interpreter.
	Grant *Grant `json:"grant,omitempty"`
	// ServerSessions is [Shared.ServerSessions]; set by the interpreter.
	ServerSessions map[string]ServerSession `json:"server_sessions,omitempty"`
	// ScriptRef names the parent run's script; set by the interpreter.
	ScriptRef *ContentRef `json:"script_ref,omitempty"`
	// Unchecked skips validation of Params, for a hook; set by the interpreter.
	Unchecked bool `json:"unchecked,omitempty"`
	// Conversation is the parent run's conversation; set by the interpreter.
	Conversation *Conversation `json:"conversation,omitempty"`
}

// FlowRef specifies a flow by its document, its plan or its name.
type FlowRef struct {
	// Text is a document in any dialect; an activity compiles it, and history keeps the plan.
	Text string `json:"text,omitempty"`
	// Name is the file name of Text, used in messages and to select the parser. Without Text and Plan it is the name of a
	// flow in the worker's folder, with or without extension.
	Name string `json:"name,omitempty"`
	// Dialect and Profile are as on the command line; empty means detected and default.
	Dialect string `json:"dialect,omitempty"`
	Profile string `json:"profile,omitempty"`
	// Plan is a compiled flow.
	Plan   *plan.Flow   `json:"plan,omitempty"`
	Source *plan.Source `json:"source,omitempty"`
	// Components are documents with components that Text refers to by id, for dialects with such references.
	Components []Document `json:"components,omitempty"`
	// ComponentIDs map ids to components in Components.
	ComponentIDs []ComponentID `json:"component_ids,omitempty"`
	// Files are the other files of a flow that consists of a folder. Their names and Name are slash-separated paths
	// relative to one folder.
	Files []Document `json:"files,omitempty"`
}

// Document is a document that accompanies a flow's own.
type Document struct {
	// Name is the file name of Text, used in messages and to select the parser.
	Name string `json:"name"`
	Text string `json:"text"`
}

// ComponentID resolves ID in a flow's document to the component under Key in the document Name of [FlowRef.Components].
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
	// Held is set if the result does not fit in the parent's history: the parent fetches it from the closed run. No other
	// field is set then.
	Held *HeldResult `json:"held,omitempty"`
	// Status is "completed", or "stopped" for a session, which has no other status.
	Status string `json:"status"`
	// ResultText and ResultData are mutually exclusive: the result is JSON if the flow asks for JSON or its typed value
	// is not a string; otherwise it is text.
	ResultText *string         `json:"result_text"`
	ResultData json.RawMessage `json:"result_data,omitempty"`
	// ResultNode is the node that produced the result.
	ResultNode string `json:"result_node,omitempty"`
	// ExitOutputs are the outputs of all executions of exit nodes, ordered by step and declaration.
	ExitOutputs []ExitOutput `json:"exit_outputs"`
	// NoRoute lists the executions, node#step, whose conditions were all false, which ended their branch.
	NoRoute  []string `json:"no_route,omitempty"`
	Usage    Usage    `json:"usage"`
	FlowHash string   `json:"flow_hash"`
	// Model is the model used for nodes that do not specify one.
	Model string `json:"model,omitempty"`
	// UnreadMessages are messages to the run that no model call has read.
	UnreadMessages []Inbound `json:"unread_messages,omitempty"`
	// Turns are the turns of a session, the last ones with their results.
	Turns []Turn `json:"turns,omitempty"`
	// Yielded is the snapshot from which a sub-agent continues in another run; only for the interpreter.
	Yielded *RunSnapshot `json:"yielded,omitempty"`
	// Conversation is the conversation of a child run; only for the interpreter.
	Conversation *Conversation `json:"conversation,omitempty"`
	// ServerSessions is [Shared.ServerSessions] when a child run ends; only for the interpreter.
	ServerSessions map[string]ServerSession `json:"server_sessions,omitempty"`
}

// ExitOutput is the output of one execution of an exit node.
type ExitOutput struct {
	Node string          `json:"node"`
	Step int             `json:"step"`
	Text string          `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
	// OmittedBytes is the size of Text or Data if it was omitted because the result would be too large.
	OmittedBytes int `json:"omitted_bytes,omitempty"`
	// Exhausted means that the node ended because its budget of tool calls was spent.
	Exhausted bool `json:"iterations_exhausted,omitempty"`
	// Truncated means that the model stopped at its length limit.
	Truncated bool `json:"truncated,omitempty"`
}

// Usage counts tokens and calls. Cached and CacheWrite are included in Input, Reasoning in Output.
type Usage struct {
	Calls     int `json:"calls"`
	Input     int `json:"input_tokens"`
	Output    int `json:"output_tokens"`
	Cached    int `json:"cached_tokens,omitempty"`
	Reasoning int `json:"reasoning_tokens,omitempty"`
	// CacheWrite counts input tokens that were cached for later calls.
	CacheWrite int `json:"cache_write_tokens,omitempty"`
	// Cost is in millionths of the currency of the worker's price table. Unpriced counts calls without a price in the
	// table.
	Cost     int64 `json:"cost_micros,omitempty"`
	Unpriced int   `json:"unpriced_calls,omitempty"`
	// Stopped counts calls that were cancelled in flight, in addition to Calls: the provider may charge for them, but
	// their tokens are unknown.
	Stopped int `json:"stopped_calls,omitempty"`
	// Cut counts calls whose answers were cut off, in addition to Calls: their tokens are included if the provider
	// reported them.
	Cut int `json:"cut_calls,omitempty"`
	// Runs counts descendant runs that models started.
	Runs int `json:"runs,omitempty"`
	// Declared counts descendant runs that flows declare: branches, elements of maps, called flows.
	Declared int `json:"declared_runs,omitempty"`
	// Fallbacks counts the calls for which another model of a list was used, sorted by model names.
	Fallbacks []FallbackCount `json:"fallbacks,omitempty"`
}

// Made returns the number of all calls that may have reached a provider.
func (u Usage) Made() int { return u.Calls + u.Stopped + u.Cut }

// Spent returns the part of a budget that the usage consumes.
func (u Usage) Spent() Budget {
	return Budget{Calls: u.Made(), Tokens: u.Input + u.Output, Cost: u.Cost, Runs: u.Runs, Declared: u.Declared}
}

// counts returns pointers to all counters except the cost.
func (u *Usage) counts() []*int {
	return []*int{&u.Calls, &u.Input, &u.Output, &u.Cached, &u.Reasoning, &u.CacheWrite, &u.Unpriced, &u.Stopped, &u.Cut, &u.Runs, &u.Declared}
}

// Add adds the tokens and calls of o.
func (u *Usage) Add(o Usage) {
	for i, n := range o.counts() {
		*u.counts()[i] += *n
	}
	u.Cost += o.Cost
	for _, s := range o.Fallbacks {
		u.Fallbacks = addFallback(u.Fallbacks, s)
	}
}

// Less returns u without the tokens and calls of o.
func (u Usage) Less(o Usage) Usage {
	for i, n := range o.counts() {
		*u.counts()[i] -= *n
	}
	u.Cost, u.Fallbacks = u.Cost-o.Cost, subtractFallbacks(u.Fallbacks, o.Fallbacks)
	return u
}

// Excess returns by how much u exceeds o, field by field, with 0 for fields that do not.
func (u Usage) Excess(o Usage) Usage {
	d := u.Less(o)
	for _, n := range d.counts() {
		*n = max(0, *n)
	}
	d.Cost = max(0, d.Cost)
	return d
}

// CompileFlowInput asks for what a run needs before its first node: the plan of a document, and the default model if none
// is specified.
type CompileFlowInput struct {
	Flow  FlowRef `json:"flow"`
	Model string  `json:"model,omitempty"`
	// Root is set by root runs, which publish memo fields and search attributes.
	Root *StartFacts `json:"root,omitempty"`
	// Params, Scope and Input are the run's, for a flow that declares inputs.
	Params json.RawMessage `json:"params,omitempty"`
	Scope  json.RawMessage `json:"scope,omitempty"`
	// Unchecked skips validation of the parameters. Replaced means that the plan's placeholders have already been filled
	// in, with other parameters.
	Unchecked bool   `json:"unchecked,omitempty"`
	Replaced  bool   `json:"replaced,omitempty"`
	Input     string `json:"input,omitempty"`
}

// CompileFlowResult records the plan and the model in history.
type CompileFlowResult struct {
	// Plan is absent if the input already had one that declares no inputs.
	Plan   *plan.Flow  `json:"plan,omitempty"`
	Source plan.Source `json:"source"`
	Hash   string      `json:"hash"`
	// Model is provider/model.
	Model string `json:"model"`
	// Publish is absent if the input had no Root.
	Publish *Publish `json:"publish,omitempty"`
	// Warnings are the diagnostics that did not prevent compilation.
	Warnings []string `json:"warnings,omitempty"`
	// Input is the text that a flow with declared inputs starts with.
	Input *string `json:"input,omitempty"`
}
