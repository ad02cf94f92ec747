package contract

import (
	"encoding/json"
	"time"
)

// SuspendedExecution is an execution that was suspended and continues in another run: its state at the last boundary, and
// its side effects since. At most one of Agent, Map and Outcome is set; none is if the execution had not reached a
// boundary.
type SuspendedExecution struct {
	// Agent is the state of an agent after its last turn.
	Agent *AgentState `json:"agent,omitempty"`
	// Map is the state of a node that runs flows, after the last of them that ended.
	Map *MapState `json:"map,omitempty"`
	// Outcome is the node's outcome, if the conditions of its edges are being evaluated.
	Outcome *NodeOutcome `json:"outcome,omitempty"`
	// Steps are in the order in which they were started.
	Steps []JournalStep `json:"steps,omitempty"`
	// Held is the result of a chain that has ended and waits for room in the history.
	Held *HeldResult `json:"held,omitempty"`
}

// The states of a [JournalStep].
const (
	// StepDone means that Result is the step's result.
	StepDone = "done"
	// StepFailed means that the step failed with Failure.
	StepFailed = "failed"
	// StepWaiting means that the step failed with Failure and waits for an operator.
	StepWaiting = "waiting"
	// StepSuspended means that the step is an agent or a child run that was suspended, with Execution or Run.
	StepSuspended = "suspended"
)

// JournalStep is a step of an execution: an activity, a child workflow, a request, a command to a session, or received
// messages.
type JournalStep struct {
	// ID identifies the step within its execution.
	ID string `json:"id"`
	// Hash is the hash of the step's input, without what differs between runs.
	Hash   string `json:"hash,omitempty"`
	Status string `json:"status"`
	// Result is the step's result as JSON.
	Result  json.RawMessage `json:"result,omitempty"`
	Failure *Failure        `json:"failure,omitempty"`
	// Attempts counts the calls that failed with something that an operator must fix.
	Attempts int `json:"attempts,omitempty"`
	// Execution and Run are the state from which an agent or a child run continues.
	Execution *SuspendedExecution `json:"execution,omitempty"`
	Run       *RunSnapshot        `json:"run,omitempty"`
	// Held is the result of a child run that waits for room in the history.
	Held *HeldResult `json:"held,omitempty"`
	// Task is the tool's task that the step waits for.
	Task *OpenTask `json:"task,omitempty"`
}

// OpenTask is a tool's task in progress: the call that cancels it, and the task queue of the only worker that can make
// that call, if any.
type OpenTask struct {
	Cancel ToolInput `json:"cancel"`
	Queue  string    `json:"queue,omitempty"`
}

// NodeOutcome is an execution whose outgoing edges are being evaluated.
type NodeOutcome struct {
	Execution Execution `json:"execution"`
	// SHA is the hash of the node's output.
	SHA string `json:"sha256"`
}

// AgentState is the state of an agent's execution between two turns.
type AgentState struct {
	// Messages are those of its conversation; the first Called of them have been sent to a model.
	Messages []ThreadMessage `json:"messages"`
	Called   int             `json:"called"`
	// Turn counts model calls; Left is the remaining budget of tool calls, Exhausted that it is spent.
	Turn      int  `json:"turn"`
	Left      int  `json:"left"`
	Exhausted bool `json:"exhausted,omitempty"`
	// Errors counts consecutive tool errors, Repairs answers that were sent back.
	Errors  int `json:"errors,omitempty"`
	Repairs int `json:"repairs,omitempty"`
	// Refused are the answers to the conditions of the node's edges, none of which was taken, so that the node was asked
	// for its output.
	Refused []Answer `json:"refused,omitempty"`
	// StartLen is the length of a shared conversation when the agent began.
	StartLen int `json:"start_len,omitempty"`
	// Think means that the next model call is for a thought; Results counts the tool results since the last one.
	Think   bool `json:"think,omitempty"`
	Results int  `json:"results,omitempty"`
	// Active is the member that has the conversation.
	Active string `json:"active,omitempty"`
	// Sent is what models are sent of the messages, Summaries how many summaries were made for it.
	Sent      []Sent `json:"sent,omitempty"`
	Summaries int    `json:"summaries,omitempty"`
	// Starts counts the runs that its calls started, so that each gets a unique id.
	Starts []StartCount `json:"starts,omitempty"`
	// Served are the sessions that served its own calls, by server.
	Served map[string]ServerSession `json:"served,omitempty"`
	// Conversations are those in which the agents of the node ask each other; for an agent that is being asked, those
	// that have grown since.
	Conversations []SideConversation `json:"conversations,omitempty"`
}

// SideConversation is a conversation in which a member of a node is asked. Thread is empty before the first question, or
// if the last question failed.
type SideConversation struct {
	Name string `json:"name"`
	// Questions counts the questions; Active is the member that has the conversation.
	Questions int             `json:"questions"`
	Active    string          `json:"active"`
	Thread    string          `json:"thread,omitempty"`
	Messages  []ThreadMessage `json:"messages,omitempty"`
	Called    int             `json:"called,omitempty"`
	Sent      []Sent          `json:"sent,omitempty"`
}

// StartCount is how often an agent's calls with an id started a run.
type StartCount struct {
	ID string `json:"id"`
	N  int    `json:"n"`
}

// MapState is the state of a node that runs flows, after the last of them that ended. Flows are in order; one that has
// not ended is empty.
type MapState struct {
	Flows []FlowOutcome `json:"flows"`
}

// FlowOutcome is the outcome of a flow run by a node: Data and Branch, or a Failure that was caught.
type FlowOutcome struct {
	Done    bool            `json:"done,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Branch  string          `json:"branch,omitempty"`
	Failure string          `json:"failure,omitempty"`
	Class   string          `json:"class,omitempty"`
	// Conversation is the flow's conversation, until it is appended to the node's.
	Conversation *Conversation `json:"conversation,omitempty"`
}

// ToolReply is the outcome of a tool call: a stored message, or text.
type ToolReply struct {
	Message json.RawMessage `json:"message,omitempty"`
	Text    string          `json:"text,omitempty"`
	Parts   []Part          `json:"parts,omitempty"`
	// Failed marks an error to be shown to the model; Free, one that is not counted as a tool error.
	Failed bool `json:"failed,omitempty"`
	Free   bool `json:"free,omitempty"`
	// Input is [ToolResult.Input].
	Input *InputRequired `json:"input,omitempty"`
	// Task is [ToolResult.Task], Started is when it began.
	Task    *Task      `json:"task,omitempty"`
	Started *time.Time `json:"started,omitempty"`
	// Session is [ToolResult.Session].
	Session ServerSession `json:"server_session,omitzero"`
	// Conversations are the conversations that a question to a member has extended.
	Conversations []SideConversation `json:"conversations,omitempty"`
}

// Spent returns the call's usage, including fallbacks.
func (r *ModelResult) Spent() Usage { return r.Usage.with(r.Model, r.Fallbacks) }

// Spent returns the call's usage, including fallbacks.
func (r *JudgeResult) Spent() Usage { return r.Usage.with(r.Model, r.Fallbacks) }

// Spent returns the call's usage, including fallbacks.
func (r *CondenseResult) Spent() Usage { return r.Usage.with("", r.Fallbacks) }

// Spent returns the call's usage, including fallbacks.
func (r *SummariseResult) Spent() Usage { return r.Usage.with("", r.Fallbacks) }

func (u Usage) with(model string, list []Fallback) Usage {
	u.Fallbacks = nil
	u.AddFallbacks(model, list)
	return u
}

// fixedWeight is an upper estimate of the fixed-size part of a call, in bytes.
const fixedWeight = 2 << 10

// Weight returns the approximate size of the result, in bytes.
func (r *ModelResult) Weight() int { return fixedWeight + len(r.Message) }

// Weight returns the approximate size of the reply, in bytes.
func (r *ToolReply) Weight() int {
	n := len(r.Message) + len(r.Text)
	for i := range r.Conversations {
		for _, m := range r.Conversations[i].Messages {
			n += len(m.Raw)
		}
	}
	return n
}
