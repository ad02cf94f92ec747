package contract

import (
	"encoding/json"
	"time"
)

// SuspendedExecution is an execution that stopped in its middle and goes on in another run: its state at the
// last boundary, and the steps by which it has reached outside itself since. At most one of Agent, Map and
// Outcome is set; an execution that had not come to a boundary has none.
type SuspendedExecution struct {
	// Agent is the state of an agent after its last turn.
	Agent *AgentState `json:"agent,omitempty"`
	// Map is the state of a node that runs flows, after the last of them that ended.
	Map *MapState `json:"map,omitempty"`
	// Outcome is what the node gave, where its edges are being judged.
	Outcome *NodeOutcome `json:"outcome,omitempty"`
	// Steps are in the order in which they were asked for.
	Steps []JournalStep `json:"steps,omitempty"`
	// Held is the result of a chain that has ended and waits for room in the history.
	Held *HeldResult `json:"held,omitempty"`
}

// The states of a [JournalStep].
const (
	// StepDone: Result is the step's result.
	StepDone = "done"
	// StepFailed: Failure is the step's outcome.
	StepFailed = "failed"
	// StepWaiting: the step failed with Failure, and waits for an operator.
	StepWaiting = "waiting"
	// StepSuspended: the step is an agent or a run below, which came back with Execution or Run.
	StepSuspended = "suspended"
)

// JournalStep is a step of an execution: an activity, a child, a request, a command to a session, messages
// that were taken.
type JournalStep struct {
	// ID names the step within its execution.
	ID string `json:"id"`
	// Hash is that of what was asked, without what differs from run to run.
	Hash   string `json:"hash,omitempty"`
	Status string `json:"status"`
	// Result is the step's result as JSON.
	Result  json.RawMessage `json:"result,omitempty"`
	Failure *Failure        `json:"failure,omitempty"`
	// Attempts counts the calls that failed with something that an operator must fix.
	Attempts int `json:"attempts,omitempty"`
	// Execution and Run are what an agent, or a run below, goes on with.
	Execution *SuspendedExecution `json:"execution,omitempty"`
	Run       *RunSnapshot        `json:"run,omitempty"`
	// Held is the result of a run below that waits for room in the history.
	Held *HeldResult `json:"held,omitempty"`
	// Task is the task of a tool's that the step waits for.
	Task *OpenTask `json:"task,omitempty"`
}

// OpenTask is a task of a tool's that is under way, as the call that cancels it, and the task queue of the one worker that
// can make that, if there is one.
type OpenTask struct {
	Cancel ToolInput `json:"cancel"`
	Queue  string    `json:"queue,omitempty"`
}

// NodeOutcome is an execution whose edges are being judged.
type NodeOutcome struct {
	Execution Execution `json:"execution"`
	// SHA names the node's output.
	SHA string `json:"sha256"`
}

// AgentState is an agent's execution between two turns.
type AgentState struct {
	// Messages are those of its conversation; models know the first Called of them.
	Messages []ThreadMessage `json:"messages"`
	Called   int             `json:"called"`
	// Turn counts model calls; Left is the budget of tool calls, Exhausted that it is spent.
	Turn      int  `json:"turn"`
	Left      int  `json:"left"`
	Exhausted bool `json:"exhausted,omitempty"`
	// Errors counts tool errors in a row, Repairs answers that were sent back.
	Errors  int `json:"errors,omitempty"`
	Repairs int `json:"repairs,omitempty"`
	// Refused are the answers behind the node, once no edge was taken and it was asked for its output.
	Refused []Answer `json:"refused,omitempty"`
	// StartLen is how many messages a shared conversation had when the agent began.
	StartLen int `json:"start_len,omitempty"`
	// Think is set where the next call is for a thought; Results counts tool results for it.
	Think   bool `json:"think,omitempty"`
	Results int  `json:"results,omitempty"`
	// Active is the member that has the conversation.
	Active string `json:"active,omitempty"`
	// Sent is what models are sent of the messages, Summaries how many were made for it.
	Sent      []Sent `json:"sent,omitempty"`
	Summaries int    `json:"summaries,omitempty"`
	// Starts counts the runs that its calls started, so that each has an id of its own.
	Starts []StartCount `json:"starts,omitempty"`
	// Served are the sessions that served its own calls, by server.
	Served map[string]ServerSession `json:"served,omitempty"`
	// Conversations are those in which the agents of the node ask each other; of an agent that was asked
	// itself, those that have grown since.
	Conversations []SideConversation `json:"conversations,omitempty"`
}

// SideConversation is one in which a member of a node is asked. Thread is absent where nobody was asked yet,
// or where the last question failed.
type SideConversation struct {
	Name string `json:"name"`
	// Questions counts what was asked; Active is the member that has the conversation.
	Questions int             `json:"questions"`
	Active    string          `json:"active"`
	Thread    string          `json:"thread,omitempty"`
	Messages  []ThreadMessage `json:"messages,omitempty"`
	Called    int             `json:"called,omitempty"`
	Sent      []Sent          `json:"sent,omitempty"`
}

// StartCount says how often an agent's calls with an id started a run.
type StartCount struct {
	ID string `json:"id"`
	N  int    `json:"n"`
}

// MapState is a node that runs flows, after the last of them that ended. They are in their order; one that
// has not ended is empty.
type MapState struct {
	Flows []FlowOutcome `json:"flows"`
}

// FlowOutcome is what the run of a flow below a node gave: Data and Branch, or a Failure that was caught.
type FlowOutcome struct {
	Done    bool            `json:"done,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Branch  string          `json:"branch,omitempty"`
	Failure string          `json:"failure,omitempty"`
	Class   string          `json:"class,omitempty"`
	// Conversation is what was said in it, until the node's conversation has it.
	Conversation *Conversation `json:"conversation,omitempty"`
}

// ToolReply is what a tool call gave: a stored message, or text.
type ToolReply struct {
	Message json.RawMessage `json:"message,omitempty"`
	Text    string          `json:"text,omitempty"`
	Parts   []Part          `json:"parts,omitempty"`
	// Failed marks an error for the model to see; Free, one that does not count.
	Failed bool `json:"failed,omitempty"`
	Free   bool `json:"free,omitempty"`
	// Input is that of a [ToolResult].
	Input *InputRequired `json:"input,omitempty"`
	// Task is that of a [ToolResult], Started when it began.
	Task    *Task      `json:"task,omitempty"`
	Started *time.Time `json:"started,omitempty"`
	// Session is that of a [ToolResult].
	Session ServerSession `json:"server_session,omitzero"`
	// Conversations are, where a member was asked, the conversations that have grown by it.
	Conversations []SideConversation `json:"conversations,omitempty"`
}

// Spent is what the call took, with the models that could not answer before the one that did.
func (r *ModelResult) Spent() Usage { return r.Usage.with(r.Model, r.Fallbacks) }

// Spent is what the call took.
func (r *JudgeResult) Spent() Usage { return r.Usage.with(r.Model, r.Fallbacks) }

// Spent is what the call took.
func (r *CondenseResult) Spent() Usage { return r.Usage.with("", r.Fallbacks) }

// Spent is what the call took.
func (r *SummariseResult) Spent() Usage { return r.Usage.with("", r.Fallbacks) }

func (u Usage) with(model string, list []Fallback) Usage {
	u.Fallbacks = nil
	u.AddFallbacks(model, list)
	return u
}

// weighed is the share of every call that has a fixed length, with room.
const weighed = 2 << 10

// Weight is about how many bytes the result holds.
func (r *ModelResult) Weight() int { return weighed + len(r.Message) }

// Weight is about how many bytes the reply holds.
func (r *ToolReply) Weight() int {
	n := len(r.Message) + len(r.Text)
	for i := range r.Conversations {
		for _, m := range r.Conversations[i].Messages {
			n += len(m.Raw)
		}
	}
	return n
}
