package contract

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"weft/workflows/plan"
)

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
	Offloading `json:"-"`
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

// UnfitArguments is the failure of a node whose flow gives a tool arguments that do not fit its declaration.
func UnfitArguments(tool string, problems []FieldError) *Failure {
	return &Failure{Class: ClassInvalidValue, Text: fmt.Sprintf("the values for the tool %q do not fit its inputs: %s", tool, ErrorList(problems, "; ")),
		Remedy: "correct what gives the values, or the inputs that the tool declares"}
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
	// ByNode reports that the flow makes the call, and no model: arguments that do not fit fail it as [UnfitArguments].
	ByNode bool `json:"by_node,omitempty"`
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

// ToolResult is the result of the activity CallTool: the tool's message, encoded. An error
// that the tool itself reports is a message too, with Error set.
type ToolResult struct {
	Offloading `json:"-"`
	Message    json.RawMessage `json:"message"`
	Error      bool            `json:"error,omitempty"`
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

// UpdateServerAsks is the Update by which an activity has its run answer what a server asks while the activity holds the
// server's call. It takes a [ServerAsks] and returns a [ServerAnswer].
const UpdateServerAsks = "_weft_server_asks"

// ServerAsks is what a server asks while an activity holds its call.
type ServerAsks struct {
	// Call is the id of the activity, Attempt counts its attempts, N the questions of an attempt from 1 on.
	Call    string       `json:"call"`
	Attempt int32        `json:"attempt"`
	N       int          `json:"n"`
	Ask     ToolQuestion `json:"ask"`
	// Timeout is how long the server is left without an answer.
	Timeout plan.Seconds `json:"timeout,omitempty"`
	// Withdrawn means instead that the server no longer wants an answer to N.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// ServerAnswer answers a [ServerAsks].
type ServerAnswer struct {
	// Result is that of the server's request; Problem says instead why there is none.
	Result  json.RawMessage `json:"result,omitempty"`
	Problem string          `json:"problem,omitempty"`
	// Expired: nobody answered in time, and Result says so.
	Expired bool `json:"expired,omitempty"`
}

// ExternalActivity says how a run calls a tool that is an activity of another worker, in any language:
// by itself, on that worker's task queue. The activity takes one argument, the object with the
// call's arguments, and returns a text, or anything that is JSON.
type ExternalActivity struct {
	// Activity is the activity's type on TaskQueue.
	Activity  string `json:"activity"`
	TaskQueue string `json:"task_queue"`
	// StartSeconds is how long a call waits for a worker that takes it.
	StartSeconds int `json:"start_seconds"`
	// TimeoutSeconds bounds one attempt; 0 leaves it to the flow's policy. HeartbeatSeconds, if
	// positive, is how long the activity may be silent.
	TimeoutSeconds   int `json:"timeout_seconds,omitempty"`
	HeartbeatSeconds int `json:"heartbeat_seconds,omitempty"`
	// Attempts is how often a call that fails is made.
	Attempts int32 `json:"attempts"`
	// IdempotencyKey passes a [CallKey] behind the arguments.
	IdempotencyKey bool `json:"idempotency_key,omitempty"`
}

// CallKey is a part of a call's input, and the second argument of an activity of another worker.
type CallKey struct {
	// IdempotencyKey is the same for all attempts of a call, wherever the run goes on, and for no other call: the
	// first run id of the run at the root, and the path of the call below it.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// SetIdempotencyKey is called where the call is made.
func (k *CallKey) SetIdempotencyKey(key string) { k.IdempotencyKey = key }

// ErrorText is what a model reads of a call that failed: that nobody took it, or the activity's own
// words. Not ok: it is a failure like that of any tool.
func (e *ExternalActivity) ErrorText(err error) (text string, ok bool) {
	if NotStarted(err) {
		return fmt.Sprintf("nobody took the call within %d seconds: no worker polls the task queue %q, or all are busy", e.StartSeconds, e.TaskQueue), true
	}
	var app *temporal.ApplicationError
	if !errors.As(err, &app) {
		return "", false
	}
	var f Failure
	if app.HasDetails() && app.Details(&f) == nil && f.Class != "" && f.Class == app.Type() {
		return "", false
	}
	return app.Message(), true
}
