package contract

import (
	"encoding/json"
	"fmt"
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
	Kept `json:"-"`
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

// TakeHeld returns where the result is held, nil where it is not, and empties it then.
func (r *ModelResult) TakeHeld() *HeldResult {
	held := r.Held
	if held != nil {
		*r = ModelResult{}
	}
	return held
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

// Checked is the outcome of extracting and validating JSON. Errors empty: Data is good.
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

// CatalogueInput is the input of the activity ListTools: the tools of one connection.
type CatalogueInput struct {
	Connection plan.Connection `json:"connection"`
	// Names are the tools that the flow binds at this connection.
	Names []string `json:"names"`
	// Takes are schemas of arguments objects that tools must go with, by name.
	Takes map[string]json.RawMessage `json:"takes,omitempty"`
	// All means that the flow takes all tools of the connection.
	All bool `json:"all,omitempty"`
	// MaxResultBytes is that of a [ToolInput].
	MaxResultBytes int `json:"max_result_bytes,omitempty"`
}

// CatalogueResult is the result of the activity ListTools: a catalogue, listed once per run.
type CatalogueResult struct {
	Kept `json:"-"`
	// Catalogue is an encoded [Catalogue]; SHA is its hash.
	Catalogue json.RawMessage `json:"catalogue"`
	SHA       string          `json:"sha256"`
	// Missing are the names that the connection does not have; Offered is what it has
	// then, for the message.
	Missing []string `json:"missing,omitempty"`
	Offered []string `json:"offered,omitempty"`
	// Wrong says of tools what keeps them from those that the flow knows.
	Wrong []string `json:"wrong,omitempty"`
	// Resolved is the connection as the worker resolved it: never a secret, at most an id
	// of the worker's configuration.
	Resolved plan.Connection `json:"resolved"`
	// Queue is that of [ServerSession].
	Queue string `json:"queue,omitempty"`
	CallRules
}

// Catalogue describes tools, sorted by name.
type Catalogue struct {
	Tools []ToolSpec `json:"tools"`
}

// ToolSpec describes one tool to a model.
type ToolSpec struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema of the arguments object.
	Schema json.RawMessage `json:"schema"`
	// Result is the JSON Schema of a client-side tool's result, if it declares one.
	Result json.RawMessage `json:"result,omitempty"`
	// Repeatable: a second call does no harm, as the tool is read-only or idempotent.
	Repeatable bool `json:"-"`
	// Pure: a call has no effect and asks nobody but its worker.
	Pure bool `json:"-"`
	// AsTask: the server wants its calls to be asked for as tasks.
	AsTask bool `json:"-"`
	// Held: the server may ask while it holds a call.
	Held bool `json:"-"`
}

// WrongArguments tells a model what is wrong with the arguments of its call.
func WrongArguments(tool string, problems []FieldError) string {
	return fmt.Sprintf("the arguments of %s are not what it takes: %s; correct them and call it again", tool, ErrorList(problems, "; "))
}

// ToolInput is the input of the activity CallTool: one call of one tool.
type ToolInput struct {
	CallKey
	Connection plan.Connection `json:"connection"`
	Name       string          `json:"name"`
	// Arguments are a JSON object. Long ones are left to Call, the assistant's message
	// that has them.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Call      *ContentRef     `json:"call,omitempty"`
	// Schema, if set, is the JSON Schema of the arguments that the flow declares. Its defaults replace missing ones;
	// arguments that do not fit it are an error for the model, and the call is not made.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Outputs, if there are several, are the names of values that the result's texts are, by position, unless it is
	// an object with such members.
	Outputs []string `json:"outputs,omitempty"`
	// CallID and As are the model's names for the call and the tool.
	CallID string `json:"call_id"`
	As     string `json:"as"`
	// Repeat allows to make the call again where an earlier attempt may have taken effect.
	Repeat bool `json:"repeat,omitempty"`
	// Session is the sealed one of [ServerSession].
	Session string `json:"session,omitempty"`
	// Note, if set, stands before the tool's answer: what a person changed about the call.
	Note string `json:"note,omitempty"`
	// Input goes on with a call that its server has answered with an [InputRequired].
	Input *ToolAnswers `json:"input,omitempty"`
	// AsTask asks for the call as a task. TaskID, if set, looks at the task that the call has become instead, after it was
	// given Input; with CancelTask it ends the task.
	AsTask     bool   `json:"as_task,omitempty"`
	TaskID     string `json:"task_id,omitempty"`
	CancelTask bool   `json:"cancel_task,omitempty"`
	// Resource, if set, is the URI of a resource to read from the tool's server, instead of a call of the tool.
	Resource string `json:"resource,omitempty"`
	// TimeoutMillis bounds an attempt without the time in which the server waits for an answer; 0: the activity's own
	// timeout does.
	TimeoutMillis int64 `json:"timeout_millis,omitempty"`
	// MaxResultBytes is how many bytes the result may have that do not go into a store; 0 means as many as
	// Temporal takes.
	MaxResultBytes int `json:"max_result_bytes,omitempty"`
}

// Kept says where a result is kept. It is no part of it.
type Kept struct {
	// Outside: in the store, however short the result is, because the history that it comes into has
	// no room for it.
	Outside bool
}

// KeepOutside sends the result to the store.
func (k *Kept) KeepOutside() { k.Outside = true }

// IsOutside means that the result goes to the store.
func (k *Kept) IsOutside() bool { return k.Outside }

// ToolResult is the result of the activity CallTool: the tool's message, encoded. An error
// that the tool itself reports is a message too, with Error set.
type ToolResult struct {
	Kept    `json:"-"`
	Message json.RawMessage `json:"message"`
	Error   bool            `json:"error,omitempty"`
	// Input, if set, is what the server needs first. Message says so, for a model that cannot be given it.
	Input *InputRequired `json:"input,omitempty"`
	// Task, if set, is what the server goes on with. Message says so.
	Task *Task `json:"task,omitempty"`
	// Session is what served the call.
	Session ServerSession `json:"server_session,omitzero"`
}

// ServerSession is what served the last call of an agent, or of a tree of runs, over a connection.
type ServerSession struct {
	// Sealed names the server's session, readable by workers alone; empty if the server has none.
	Sealed string `json:"sealed,omitempty"`
	// Queue is the task queue of the one worker that has the session, a process for example; empty where every worker can
	// go on with it.
	Queue string `json:"queue,omitempty"`
}

// Task is a call that its server goes on with by itself: a task of MCP.
type Task struct {
	ID string `json:"id"`
	// PollMillis is how long its server wants a client to wait before it looks at the task again; 0: it does not say.
	PollMillis int64 `json:"poll_ms,omitempty"`
	// KeptMillis is how long after its start the server may forget the task; 0: it does not say.
	KeptMillis int64 `json:"kept_ms,omitempty"`
}

// InputRequired is what the server of a tool needs before it answers a call: result type input_required of MCP.
type InputRequired struct {
	// State is the server's, and goes back to it as it is.
	State string `json:"state,omitempty"`
	// Questions are what it asks; none: the server wants to be asked again later.
	Questions []ToolQuestion `json:"questions,omitempty"`
	// Anew: the server has refused the call until the questions, of URLs, are answered. Then the call is made as it was.
	Anew bool `json:"anew,omitempty"`
}

// ToolQuestion is one that the server of a tool asks: elicitation/create, sampling/createMessage or roots/list of MCP.
type ToolQuestion struct {
	// Key is the server's name of the question.
	Key  string `json:"key"`
	Text string `json:"text"`
	// Schema is the JSON Schema of a person's answer; absent where there is a URL to be opened instead.
	Schema json.RawMessage `json:"schema,omitempty"`
	URL    string          `json:"url,omitempty"`
	// Sampling, if set, is for the run's model instead.
	Sampling *Sampling `json:"sampling,omitempty"`
	// Answer, if set, is the worker's own, and nobody is asked.
	Answer json.RawMessage `json:"answer,omitempty"`
}

// Sampling is what the server of a tool asks the run's model: a conversation of its own, without tools.
type Sampling struct {
	System   string    `json:"system,omitempty"`
	Messages []Message `json:"messages"`
	// MaxTokens bounds the answer.
	MaxTokens   int      `json:"max_tokens"`
	Temperature *float64 `json:"temperature,omitempty"`
	Stop        []string `json:"stop,omitempty"`
}

// ToolAnswers are the answers to an [InputRequired]: results of the server's requests, by the keys of the questions.
type ToolAnswers struct {
	State   string                     `json:"state,omitempty"`
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
}

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

// weighed is the share of every call that has a fixed length, with room.
const weighed = 2 << 10

// ActivityRunProgram runs a program: [ProgramInput], [ProgramResult].
const ActivityRunProgram = "RunProgram"

// ClassProgramFailed is that of a program which ended with another code than 0.
const ClassProgramFailed = "program_failed"

// ProgramInput asks for one run of a program.
type ProgramInput struct {
	CallKey
	Program plan.Program `json:"program"`
}

// ProgramResult is what a program left.
type ProgramResult struct {
	// Data is what it printed, where that is JSON; else Stdout and Stderr are its texts, without
	// white space around them.
	Data   json.RawMessage `json:"data,omitempty"`
	Stdout string          `json:"stdout,omitempty"`
	Stderr string          `json:"stderr,omitempty"`
	// Code is its exit code; Late means that it was ended at its limit, with the code 124.
	Code int  `json:"code"`
	Late bool `json:"late,omitempty"`
}
