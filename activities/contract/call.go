package contract

import (
	"encoding/json"
	"strings"

	"weft/workflows/plan"
)

// Profile holds what all calls of one node execution have in common. It enters history once, with the first call that
// uses it, and is then referred to by its hash.
type Profile struct {
	// Model is provider/model, or a comma-separated list, in which the next model is used if one cannot answer.
	Model string `json:"model"`
	// Node is the node's id, for scripts, logs and spans.
	Node   string `json:"node"`
	System string `json:"system,omitempty"`
	// Builtins are offered to the model before Tools.
	Builtins []string      `json:"builtins,omitempty"`
	Tools    []ProfileTool `json:"tools,omitempty"`
	// Output, if set, makes the call extract and validate JSON from an answer without tool calls.
	Output *plan.Output `json:"output,omitempty"`
	Params *plan.Params `json:"params,omitempty"`
	// Finish, if set, is the tool that ends the node.
	Finish *plan.Finish `json:"finish,omitempty"`
	// Remote, if set, is a remote agent that is called instead of a model.
	Remote *RemoteAgent `json:"remote,omitempty"`
	// Script is the script of the model "script".
	Script *ContentRef `json:"script,omitempty"`
	// CallsAsText replaces calls of tools that are not offered, and their results, with text.
	CallsAsText bool `json:"calls_as_text,omitempty"`
	// Home is the flow's run: it holds the content that messages refer to without naming a run.
	Home Run `json:"home"`
	// Contacts are the tools by which the agent addresses other agents of its node. Signed means that messages name the
	// agent that wrote them.
	Contacts []ToolSpec `json:"contacts,omitempty"`
	Signed   bool       `json:"signed,omitempty"`
}

// RemoteAgent is a [plan.Remote] with its connection.
type RemoteAgent struct {
	Connection plan.Connection `json:"connection"`
	PollMillis int             `json:"poll_millis,omitempty"`
}

// ProfileTool is a tool as offered by a node.
type ProfileTool struct {
	Name        string `json:"name"`
	As          string `json:"as"`
	Description string `json:"description,omitempty"`
	// Catalogue refers to the [Catalogue] that contains the tool's schema.
	Catalogue ContentRef `json:"catalogue"`
	// Alone means that Description replaces the catalogue's. Schema, if set, replaces the catalogue's.
	Alone  bool            `json:"alone,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

// Run identifies a run.
type Run struct {
	Workflow string `json:"workflow_id"`
	Run      string `json:"run_id"`
}

// ProfileRef refers to a profile. Body is set in the first call that uses it.
type ProfileRef struct {
	ContentRef
	Body json.RawMessage `json:"body,omitempty"`
}

// TailEntry is a message after the base of a [ModelInput]. Message is set for short messages written by the workflow;
// others are referred to by their hash alone.
type TailEntry struct {
	SHA     string          `json:"sha256"`
	Message json.RawMessage `json:"message,omitempty"`
}

// ThreadRecord is a side effect by which a run records messages of a thread for readers of its history: those from an
// index on that appear in no model call. A message that another event or history contains is referred to by its hash
// alone.
type ThreadRecord struct {
	Thread string `json:"thread"`
	// Execution is the execution, node#step, that added the last message.
	Execution string      `json:"execution"`
	From      int         `json:"from"`
	Messages  []TailEntry `json:"messages"`
	// Inherited is how many of the thread's first messages come from the parent run.
	Inherited int `json:"inherited,omitempty"`
	// Below means that the messages come from child flows of the execution, whose records contain them.
	Below bool `json:"below,omitempty"`
	// Aside records what the execution also adds to the flow's conversation.
	Aside *ThreadRecord `json:"aside,omitempty"`
}

// ModelInput is the input of the activity CallModel: one completion of Base followed by Tail.
type ModelInput struct {
	CallKey
	Profile ProfileRef `json:"profile"`
	// Base is the thread as of the previous model call; Tail holds the messages since.
	Base Head        `json:"base"`
	Tail []TailEntry `json:"tail,omitempty"`
	// Inherited is [ThreadRecord.Inherited].
	Inherited int `json:"inherited,omitempty"`
	// Sent, if set, selects what the model is sent of the messages; absent means all of them.
	Sent *Sent `json:"sent,omitempty"`
	// NoTools forbids tool calls, for the last call after a budget is spent.
	NoTools bool `json:"no_tools,omitempty"`
	// Step is the execution's step, for scripts.
	Step int `json:"step"`
	// MaxResultBytes is [ToolInput.MaxResultBytes]. Without a store, a larger answer is held.
	MaxResultBytes int `json:"max_result_bytes,omitempty"`
}

// Sent is what a model is sent of a conversation that is too long for it: Note replaces the first Skip messages, and
// Texts replace the texts of single messages.
type Sent struct {
	Skip  int        `json:"skip,omitempty"`
	Note  string     `json:"note,omitempty"`
	Texts []SentText `json:"texts,omitempty"`
	// Key names the policy in a snapshot. Tokens is how many a model counted for the first Counted messages, as they were
	// sent.
	Key     string `json:"key,omitempty"`
	Tokens  int    `json:"tokens,omitempty"`
	Counted int    `json:"counted,omitempty"`
	// Context is [ModelResult.Context] of the last answer that had one.
	Context int `json:"context,omitempty"`
}

// SentText replaces the text of one message.
type SentText struct {
	Index int    `json:"index"`
	Text  string `json:"text"`
}

// SummariseInput is the input of the activity SummariseConversation: it summarizes the messages in [From, To) of Base
// followed by Tail.
type SummariseInput struct {
	CallKey
	Model        string       `json:"model"`
	Script       *ContentRef  `json:"script,omitempty"`
	Node         string       `json:"node"`
	Step         int          `json:"step"`
	Instructions string       `json:"instructions"`
	Params       *plan.Params `json:"params,omitempty"`
	Base         Head         `json:"base"`
	Tail         []TailEntry  `json:"tail,omitempty"`
	From         int          `json:"from"`
	To           int          `json:"to"`
	// Before is the summary of the messages before From.
	Before string `json:"before,omitempty"`
	// Home is [Profile.Home].
	Home Run `json:"home"`
}

// SummariseResult is the result of the activity SummariseConversation.
type SummariseResult struct {
	Text      string     `json:"text"`
	Usage     Usage      `json:"usage"`
	Fallbacks []Fallback `json:"fallbacks,omitempty"`
}

// ModelResult is the result of the activity CallModel.
type ModelResult struct {
	Offloading `json:"-"`
	// Message is the assistant's message, encoded. It is hashed and stored byte for byte.
	Message json.RawMessage `json:"message"`
	Model   string          `json:"model,omitempty"`
	// Stop is the provider's stop reason: stop, length, tool_calls or content_filter.
	Stop string `json:"stop,omitempty"`
	// Checked is set if the profile asks for JSON and the message contains no tool call, or if the message calls a finish
	// tool whose arguments are validated.
	Checked   *Checked `json:"checked,omitempty"`
	Usage     Usage    `json:"usage"`
	LatencyMS int64    `json:"latency_ms,omitempty"`
	Attempt   int32    `json:"attempt,omitempty"`
	// Context is the model's context size in tokens, including the answer, as reported by its server; 0 if it is not
	// reported.
	Context int `json:"context_tokens,omitempty"`
	// Asks means that a remote agent needs an answer from the user before it can continue.
	Asks bool `json:"asks,omitempty"`
	// Fallbacks are the models that were tried before the one that answered.
	Fallbacks []Fallback `json:"fallbacks,omitempty"`
	// Held, if set, refers to the complete result; only Usage and Model are set here.
	Held *HeldResult `json:"held,omitempty"`
}

// Fallback is a model that could not answer and the reason for which the next model of the list was tried.
type Fallback struct {
	// Model is provider/model; Class is one of the classes of a [Failure]. To is the model tried next.
	Model string `json:"model"`
	Class string `json:"class"`
	Text  string `json:"text"`
	To    string `json:"to,omitempty"`
}

// Heartbeat is the detail of a call's heartbeats, visible to clients while the call is pending.
type Heartbeat struct {
	// Text is the end of the partial answer, as much as fits in the heartbeat's 4 KiB of JSON.
	Text string `json:"text,omitempty"`
	// Attempt is the attempt that Text belongs to, from 1.
	Attempt int32 `json:"attempt"`
	// Task is the remote agent's task for the call, which a later attempt resumes.
	Task string `json:"task,omitempty"`
	// Unsent is an attempt that ended before the call was sent, so that the next attempt may send it.
	Unsent int32 `json:"unsent,omitempty"`
	// Spent is the usage of earlier attempts whose answers were cut off.
	Spent *Usage `json:"spent,omitempty"`
	// Waiting is what the call waits for before it is sent, such as a rate limit.
	Waiting string `json:"waiting,omitempty"`
}

// Checked is the outcome of extracting and validating JSON. If Errors is empty, Data is valid. If both are empty, the
// output has not been requested yet.
type Checked struct {
	Data   json.RawMessage `json:"data,omitempty"`
	Errors []FieldError    `json:"errors,omitempty"`
}

// FieldError is a validation error at one place in a JSON value.
type FieldError struct {
	// Path is the place, such as $.items.0.title; $ is the entire value.
	Path       string `json:"path"`
	Message    string `json:"message"`
	SchemaPath string `json:"schema_path,omitempty"`
}

// ErrorList joins problems, each preceded by its path.
func ErrorList(problems []FieldError, sep string) string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.Path+": "+p.Message)
	}
	return strings.Join(lines, sep)
}

// Offloading marks a result to be offloaded to the store. It is not encoded.
type Offloading struct {
	// Offloaded is set if the result is offloaded whatever its size, because it does not fit in the caller's history.
	Offloaded bool
}

// Offload marks the result to be offloaded.
func (o *Offloading) Offload() { o.Offloaded = true }

// IsOffloaded reports whether the result is to be offloaded.
func (o *Offloading) IsOffloaded() bool { return o.Offloaded }

// JudgeInput is the input of the activity EvaluateCondition: one yes/no question.
type JudgeInput struct {
	CallKey
	Model    string      `json:"model"`
	Script   *ContentRef `json:"script,omitempty"`
	Question string      `json:"question"`
	// Node and Name identify the edge's source; Node is START for the run's entry.
	Node string `json:"node"`
	Name string `json:"name,omitempty"`
	Step int    `json:"step"`
	// Output is the source node's last message; absent for START.
	Output *ContentRef `json:"output,omitempty"`
	// Input is the run's input.
	Input Part `json:"input"`
	// State is a JSON object of the short values; Long refers to the others, which Home or the judge's own run holds.
	State json.RawMessage `json:"state,omitempty"`
	Long  []LongValue     `json:"long,omitempty"`
	Home  Run             `json:"home"`
	// Once means that an answer that is neither yes nor no is not requested again, because the run's budget has no call
	// left for that.
	Once bool `json:"once,omitempty"`
}

// LongValue is a state key whose value is stored as a message's text.
type LongValue struct {
	Key string `json:"key"`
	SHA string `json:"sha256"`
}

// JudgeResult is the result of the activity EvaluateCondition.
type JudgeResult struct {
	Yes       bool       `json:"yes"`
	Reason    string     `json:"reason,omitempty"`
	Model     string     `json:"model,omitempty"`
	Usage     Usage      `json:"usage"`
	Fallbacks []Fallback `json:"fallbacks,omitempty"`
}

// CondenseInput is the input of the activity CondenseValue: it shortens a value to what a node needs, for
// set_state_filtered.
type CondenseInput struct {
	CallKey
	Model  string      `json:"model"`
	Script *ContentRef `json:"script,omitempty"`
	Node   string      `json:"node"`
	Step   int         `json:"step"`
	Prompt string      `json:"prompt"`
	Key    string      `json:"key"`
	// Call is the assistant's message that contains the value, CallID the call in it.
	Call   ContentRef `json:"call"`
	CallID string     `json:"call_id"`
}

// CondenseResult is the result of the activity CondenseValue.
type CondenseResult struct {
	Value     json.RawMessage `json:"value"`
	Usage     Usage           `json:"usage"`
	Fallbacks []Fallback      `json:"fallbacks,omitempty"`
}

// LocalCall is a call of an activity that the run's own worker executes within the workflow task, without a server.
type LocalCall struct {
	// ID identifies the call within its run; Activity is the activity's type.
	ID, Activity string
	Argument     json.RawMessage
	Grant        *Grant
	// MaxBytes limits what is recorded of the call: its argument and its result.
	MaxBytes int
}

// LocalResult is what is recorded of a [LocalCall]. If it has no result, the call is made as a regular activity.
type LocalResult struct {
	ID       string          `json:"id,omitempty"`
	Activity string          `json:"activity,omitempty"`
	Argument json.RawMessage `json:"argument,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
}
