package contract

import (
	"encoding/json"
	"strings"

	"weft/workflows/plan"
)

// Profile is what the calls of one node execution repeat. It enters history once, with
// the first call that uses it, and is named by its hash from then on.
type Profile struct {
	// Model is provider/model, or several of them, separated by commas: the next one is
	// asked where one cannot answer.
	Model string `json:"model"`
	// Node is the node's id, for scripts, logs and spans.
	Node   string `json:"node"`
	System string `json:"system,omitempty"`
	// Builtins are offered before Tools.
	Builtins []string      `json:"builtins,omitempty"`
	Tools    []ProfileTool `json:"tools,omitempty"`
	// Output, if set, makes the call extract and check JSON of an answer without tool
	// calls.
	Output *plan.Output `json:"output,omitempty"`
	Params *plan.Params `json:"params,omitempty"`
	// Finish, if set, is the tool by which the node ends.
	Finish *plan.Finish `json:"finish,omitempty"`
	// Remote, if set, is an agent that runs elsewhere, asked in place of a model.
	Remote *RemoteAgent `json:"remote,omitempty"`
	// Script is the script of the model "script".
	Script *ContentRef `json:"script,omitempty"`
	// CallsAsText makes texts of calls of tools that are not offered, and of their results.
	CallsAsText bool `json:"calls_as_text,omitempty"`
	// Home is the flow's run: it holds what messages refer to without naming a run.
	Home Run `json:"home"`
	// Contacts are the tools by which the agent turns to others of its node. Signed means that
	// messages name the agent that wrote them.
	Contacts []ToolSpec `json:"contacts,omitempty"`
	Signed   bool       `json:"signed,omitempty"`
}

// RemoteAgent is a [plan.Remote] with its connection.
type RemoteAgent struct {
	Connection plan.Connection `json:"connection"`
	PollMillis int             `json:"poll_millis,omitempty"`
}

// ProfileTool is a tool as one node offers it.
type ProfileTool struct {
	Name        string `json:"name"`
	As          string `json:"as"`
	Description string `json:"description,omitempty"`
	// Catalogue is the content that has the tool's schema: a [Catalogue].
	Catalogue ContentRef `json:"catalogue"`
	// Alone: the description replaces that of the catalogue. Schema, if set, replaces the catalogue's.
	Alone  bool            `json:"alone,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
}

// Run names a run.
type Run struct {
	Workflow string `json:"workflow_id"`
	Run      string `json:"run_id"`
}

// ProfileRef names a profile. Body is set in the first call that uses it.
type ProfileRef struct {
	ContentRef
	Body json.RawMessage `json:"body,omitempty"`
}

// TailEntry is a message behind a [ModelInput]'s base. Message is set where the workflow
// wrote it and it is short; others are named by their hash alone.
type TailEntry struct {
	SHA     string          `json:"sha256"`
	Message json.RawMessage `json:"message,omitempty"`
}

// ThreadRecord is what a run writes into its history of a thread, as a side effect, for those who read it: the messages
// from an index on that no call of a model names. A message that another event or history has is named by its hash alone.
type ThreadRecord struct {
	Thread string `json:"thread"`
	// Execution is the one, node#step, that has added the last of them.
	Execution string      `json:"execution"`
	From      int         `json:"from"`
	Messages  []TailEntry `json:"messages"`
	// Inherited is how many of the thread's messages, from the first, the run was given.
	Inherited int `json:"inherited,omitempty"`
	// Below: the messages come from flows below the execution, whose records have them.
	Below bool `json:"below,omitempty"`
	// Aside is what the execution adds to the flow's conversation beside.
	Aside *ThreadRecord `json:"aside,omitempty"`
}

// ModelInput is the input of the activity CallModel: one completion of Base plus Tail.
type ModelInput struct {
	CallKey
	Profile ProfileRef `json:"profile"`
	// Base is the thread as of the previous model call; Tail is what came since.
	Base Head        `json:"base"`
	Tail []TailEntry `json:"tail,omitempty"`
	// Inherited is that of a [ThreadRecord].
	Inherited int `json:"inherited,omitempty"`
	// Sent, if set, is what the model is sent of the messages; absent: all of them.
	Sent *Sent `json:"sent,omitempty"`
	// NoTools forbids tool calls: the last call when a budget is spent.
	NoTools bool `json:"no_tools,omitempty"`
	// Step is the execution's step, for scripts.
	Step int `json:"step"`
	// MaxResultBytes is that of a [ToolInput]. A longer answer is held where there is no store.
	MaxResultBytes int `json:"max_result_bytes,omitempty"`
}

// Sent is what a model is sent of a conversation that is too long for it: Note stands for the
// first Skip messages, and other texts for those of single messages.
type Sent struct {
	Skip  int        `json:"skip,omitempty"`
	Note  string     `json:"note,omitempty"`
	Texts []SentText `json:"texts,omitempty"`
	// Key names the policy, in what a run carries. Tokens are those that a model counted of the
	// first Counted messages, as they were sent.
	Key     string `json:"key,omitempty"`
	Tokens  int    `json:"tokens,omitempty"`
	Counted int    `json:"counted,omitempty"`
	// Context is [ModelResult]'s, of the last answer that had one.
	Context int `json:"context,omitempty"`
}

// SentText stands for the text of one message.
type SentText struct {
	Index int    `json:"index"`
	Text  string `json:"text"`
}

// SummariseInput is the input of the activity SummariseConversation: a summary of the messages From to To of
// Base plus Tail, To left out.
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
	// Before is the summary that stands for the messages before From.
	Before string `json:"before,omitempty"`
	// Home is that of a [Profile].
	Home Run `json:"home"`
}

// SummariseResult is the summary.
type SummariseResult struct {
	Text      string     `json:"text"`
	Usage     Usage      `json:"usage"`
	Fallbacks []Fallback `json:"fallbacks,omitempty"`
}

// ModelResult is the result of the activity CallModel.
type ModelResult struct {
	Offloading `json:"-"`
	// Message is the assistant's, encoded. These very bytes are hashed and kept.
	Message json.RawMessage `json:"message"`
	Model   string          `json:"model,omitempty"`
	// Stop is the provider's reason: stop, length, tool_calls, content_filter.
	Stop string `json:"stop,omitempty"`
	// Checked is set where the profile asks for JSON and the message calls no tool, and where
	// the message calls a finish tool whose arguments are checked.
	Checked   *Checked `json:"checked,omitempty"`
	Usage     Usage    `json:"usage"`
	LatencyMS int64    `json:"latency_ms,omitempty"`
	Attempt   int32    `json:"attempt,omitempty"`
	// Context is how many tokens the model takes, the answer included, as its server says; absent: it does not.
	Context int `json:"context_tokens,omitempty"`
	// Asks means that a remote agent cannot go on without a person's answer.
	Asks bool `json:"asks,omitempty"`
	// Fallbacks are the models that were asked before the one that answered.
	Fallbacks []Fallback `json:"fallbacks,omitempty"`
	// Held, if set, is where the whole result is; of it there are only Usage and Model here.
	Held *HeldResult `json:"held,omitempty"`
}

// Fallback is a model that could not answer, and why: the next one of its list was asked.
type Fallback struct {
	// Model is provider/model; Class is one of the classes of a [Failure]. To is the model that
	// was asked next.
	Model string `json:"model"`
	Class string `json:"class"`
	Text  string `json:"text"`
	To    string `json:"to,omitempty"`
}

// Heartbeat is the detail of a call's heartbeats: what a watcher sees of it while it is pending.
type Heartbeat struct {
	// Text is the end of what the model has answered so far: as much as the heartbeat's 4 KiB of JSON hold.
	Text string `json:"text,omitempty"`
	// Attempt says which attempt Text belongs to, from 1.
	Attempt int32 `json:"attempt"`
	// Task is what a remote agent does for the call: a later attempt goes on with it.
	Task string `json:"task,omitempty"`
	// Unsent is an attempt that ended before the call reached anybody: the next one may make it.
	Unsent int32 `json:"unsent,omitempty"`
	// Spent is what earlier attempts took whose answers were cut.
	Spent *Usage `json:"spent,omitempty"`
	// Waiting is what the call waits for before it begins, such as a rate limit.
	Waiting string `json:"waiting,omitempty"`
}

// Checked is the outcome of extracting and validating JSON. Errors empty: Data is good. Without either, the output was not asked for yet.
type Checked struct {
	Data   json.RawMessage `json:"data,omitempty"`
	Errors []FieldError    `json:"errors,omitempty"`
}

// FieldError says what is wrong at one place of a JSON value.
type FieldError struct {
	// Path is like $.items.0.title; $ is the whole value.
	Path       string `json:"path"`
	Message    string `json:"message"`
	SchemaPath string `json:"schema_path,omitempty"`
}

// ErrorList lists problems with their paths.
func ErrorList(problems []FieldError, sep string) string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.Path+": "+p.Message)
	}
	return strings.Join(lines, sep)
}

// Offloading marks a result that goes to the store. The mark is not encoded.
type Offloading struct {
	// Offloaded is set where the result goes to the store, however short it is, because the history that it comes into has
	// no room for it.
	Offloaded bool
}

// Offload sends the result to the store.
func (o *Offloading) Offload() { o.Offloaded = true }

// IsOffloaded reports whether the result goes to the store.
func (o *Offloading) IsOffloaded() bool { return o.Offloaded }

// JudgeInput is the input of the activity EvaluateCondition: one yes/no question.
type JudgeInput struct {
	CallKey
	Model    string      `json:"model"`
	Script   *ContentRef `json:"script,omitempty"`
	Question string      `json:"question"`
	// Node and Name are the edge's source; START for the run's entry.
	Node string `json:"node"`
	Name string `json:"name,omitempty"`
	Step int    `json:"step"`
	// Output is the source node's last message; absent for START.
	Output *ContentRef `json:"output,omitempty"`
	// Input is the run's input.
	Input Part `json:"input"`
	// State is a JSON object of the short values; Long names the others, which Home holds
	// or the judge's own run.
	State json.RawMessage `json:"state,omitempty"`
	Long  []LongValue     `json:"long,omitempty"`
	Home  Run             `json:"home"`
	// Once: an answer that is neither yes nor no is not asked for again, because the run's budget
	// has no call for that.
	Once bool `json:"once,omitempty"`
}

// LongValue is a state key whose value is kept as a message's text.
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

// CondenseInput is the input of the activity CondenseValue: a value shortened to what a node
// needs, for set_state_filtered.
type CondenseInput struct {
	CallKey
	Model  string      `json:"model"`
	Script *ContentRef `json:"script,omitempty"`
	Node   string      `json:"node"`
	Step   int         `json:"step"`
	Prompt string      `json:"prompt"`
	Key    string      `json:"key"`
	// Call is the assistant's message that has the value, CallID the call in it.
	Call   ContentRef `json:"call"`
	CallID string     `json:"call_id"`
}

// CondenseResult is the shortened value.
type CondenseResult struct {
	Value     json.RawMessage `json:"value"`
	Usage     Usage           `json:"usage"`
	Fallbacks []Fallback      `json:"fallbacks,omitempty"`
}

// LocalCall is the call of an activity that the worker of a run makes in the run's workflow task, without another server.
type LocalCall struct {
	// ID is the call's within its run, Activity the activity's type.
	ID, Activity string
	Argument     json.RawMessage
	Grant        *Grant
	// MaxBytes bounds what is recorded of the call: its argument and its result.
	MaxBytes int
}

// LocalResult is what is recorded of a [LocalCall]. Without a result, the call is made as an activity.
type LocalResult struct {
	ID       string          `json:"id,omitempty"`
	Activity string          `json:"activity,omitempty"`
	Argument json.RawMessage `json:"argument,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
}
