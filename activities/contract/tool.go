package contract

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

	"weft/workflows/plan"
)

// CatalogueInput is the input of the activity ListTools: it lists the tools of one connection.
type CatalogueInput struct {
	Connection plan.Connection `json:"connection"`
	// Names are the connection's tools that the flow uses.
	Names []string `json:"names"`
	// ArgumentSchemas holds, by tool name, the schemas of arguments objects that the tools must accept.
	ArgumentSchemas map[string]json.RawMessage `json:"takes,omitempty"`
	// All means that the flow uses all tools of the connection.
	All bool `json:"all,omitempty"`
	// MaxResultBytes is [ToolInput.MaxResultBytes].
	MaxResultBytes int `json:"max_result_bytes,omitempty"`
}

// CatalogueResult is the result of the activity ListTools, which is called once per run and connection.
type CatalogueResult struct {
	Offloading `json:"-"`
	// Catalogue is an encoded [Catalogue]; SHA is its hash.
	Catalogue json.RawMessage `json:"catalogue"`
	SHA       string          `json:"sha256"`
	// Missing are the names that the connection does not offer; Offered is then what it does, for the message.
	Missing []string `json:"missing,omitempty"`
	Offered []string `json:"offered,omitempty"`
	// Wrong describes, per tool, why the tool does not match the flow's declaration.
	Wrong []string `json:"wrong,omitempty"`
	// Resolved is the connection as resolved by the worker. It never contains a secret, at most an id in the worker's
	// configuration.
	Resolved plan.Connection `json:"resolved"`
	// Queue is [ServerSession.Queue].
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
	// Result is the JSON Schema of a client-side tool's result, if declared.
	Result json.RawMessage `json:"result,omitempty"`
	// Repeatable means that the tool is read-only or idempotent, so that a call can be repeated.
	Repeatable bool `json:"-"`
	// Pure means that a call has no effect and involves only the worker.
	Pure bool `json:"-"`
	// AsTask means that the server requires its calls to be requested as tasks.
	AsTask bool `json:"-"`
	// HoldsRequests means that the server may send requests while a call is in progress.
	HoldsRequests bool `json:"-"`
}

// WrongArguments returns the message that tells a model what is wrong with the arguments of its call.
func WrongArguments(tool string, problems []FieldError) string {
	return fmt.Sprintf("the arguments of %s are invalid: %s; correct them and call it again", tool, ErrorList(problems, "; "))
}

// InvalidArguments returns the failure of a node whose flow passes a tool arguments that do not match its declaration.
func InvalidArguments(tool string, problems []FieldError) *Failure {
	return &Failure{Class: ClassInvalidValue, Text: fmt.Sprintf("the values for the tool %q do not match its inputs: %s", tool, ErrorList(problems, "; ")),
		Remedy: "fix the node that supplies the values, or the inputs that the tool declares"}
}

// ToolInput is the input of the activity CallTool: one call of one tool.
type ToolInput struct {
	CallKey
	Connection plan.Connection `json:"connection"`
	Name       string          `json:"name"`
	// Arguments is a JSON object. Long arguments are instead in the assistant's message that Call refers to.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Call      *ContentRef     `json:"call,omitempty"`
	// Schema, if set, is the JSON Schema of the arguments that the flow declares. Its defaults replace missing arguments;
	// if arguments do not match it, the call is not made and the model gets an error.
	Schema json.RawMessage `json:"schema,omitempty"`
	// ByNode means that the flow makes the call, not a model: arguments that do not match fail as [UnfitArguments].
	ByNode bool `json:"by_node,omitempty"`
	// Outputs, if there are several, name the values in the texts of the result, by position, unless the result is an
	// object with such members.
	Outputs []string `json:"outputs,omitempty"`
	// CallID and As are the call's id and the tool's name as the model knows them.
	CallID string `json:"call_id"`
	As     string `json:"as"`
	// Repeat allows the call to be repeated if an earlier attempt may have taken effect.
	Repeat bool `json:"repeat,omitempty"`
	// Session is [ServerSession.Sealed].
	Session string `json:"session,omitempty"`
	// Note, if set, precedes the tool's result: it says what a user changed in the call.
	Note string `json:"note,omitempty"`
	// Input continues a call that the server answered with an [InputRequired].
	Input *ToolAnswers `json:"input,omitempty"`
	// AsTask requests the call as a task. TaskID, if set, polls the task that the call has become instead, after sending
	// it Input; with CancelTask it cancels the task.
	AsTask     bool   `json:"as_task,omitempty"`
	TaskID     string `json:"task_id,omitempty"`
	CancelTask bool   `json:"cancel_task,omitempty"`
	// Resource, if set, is the URI of a resource to read from the tool's server, instead of a call of the tool.
	Resource string `json:"resource,omitempty"`
	// TimeoutMillis limits an attempt, excluding the time in which the server waits for an answer; 0 means that only the
	// activity's own timeout applies.
	TimeoutMillis int64 `json:"timeout_millis,omitempty"`
	// MaxResultBytes is the largest result that is not offloaded to a store; 0 means Temporal's limit.
	MaxResultBytes int `json:"max_result_bytes,omitempty"`
}

// ToolResult is the result of the activity CallTool: the tool's message, encoded. An error reported by the tool itself is
// a message with Error set.
type ToolResult struct {
	Offloading `json:"-"`
	Message    json.RawMessage `json:"message"`
	Error      bool            `json:"error,omitempty"`
	// Input, if set, is what the server needs before it can answer. Message says so, for a model in a run that cannot
	// supply it.
	Input *InputRequired `json:"input,omitempty"`
	// Task, if set, is the task in which the server continues the call. Message says so.
	Task *Task `json:"task,omitempty"`
	// Session is the session that served the call.
	Session ServerSession `json:"server_session,omitzero"`
}

// ServerSession is the session that served the last call of an agent, or of a tree of runs, over a connection.
type ServerSession struct {
	// Sealed is the server's session id, encrypted for workers; empty if the server has none.
	Sealed string `json:"sealed,omitempty"`
	// Queue is the task queue of the only worker that holds the session, for example a process; empty if every worker can
	// continue it.
	Queue string `json:"queue,omitempty"`
}

// Task is a call that its server continues asynchronously: an MCP task.
type Task struct {
	ID string `json:"id"`
	// PollMillis is the polling interval that the server asks for; 0 if unspecified.
	PollMillis int64 `json:"poll_ms,omitempty"`
	// KeptMillis is how long after its start the server retains the task; 0 if unspecified.
	KeptMillis int64 `json:"kept_ms,omitempty"`
}

// InputRequired is what a tool's server needs before it answers a call: MCP's result type input_required.
type InputRequired struct {
	// State is opaque and returned to the server unchanged.
	State string `json:"state,omitempty"`
	// Questions are the server's requests; if empty, the call must be made again later.
	Questions []ToolQuestion `json:"questions,omitempty"`
	// RepeatCall means that the server rejected the call until the questions, which are URLs, are answered. The call is then
	// repeated unchanged.
	RepeatCall bool `json:"anew,omitempty"`
}

// ToolQuestion is one request of a tool's server: elicitation/create, sampling/createMessage or roots/list of MCP.
type ToolQuestion struct {
	// Key is the server's name for the question.
	Key  string `json:"key"`
	Text string `json:"text"`
	// Schema is the JSON Schema of a user's answer; absent if the user is to open URL instead.
	Schema json.RawMessage `json:"schema,omitempty"`
	URL    string          `json:"url,omitempty"`
	// Sampling, if set, is a request to the run's model instead.
	Sampling *Sampling `json:"sampling,omitempty"`
	// Answer, if set, is the worker's own answer, and no one else is asked.
	Answer json.RawMessage `json:"answer,omitempty"`
}

// Sampling is a request of a tool's server to the run's model: a separate conversation, without tools.
type Sampling struct {
	System   string    `json:"system,omitempty"`
	Messages []Message `json:"messages"`
	// MaxTokens limits the answer.
	MaxTokens   int      `json:"max_tokens"`
	Temperature *float64 `json:"temperature,omitempty"`
	Stop        []string `json:"stop,omitempty"`
}

// ToolAnswers holds the answers to an [InputRequired]: the results of the server's requests, by question key.
type ToolAnswers struct {
	State   string                     `json:"state,omitempty"`
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
}

// ActivityRunProgram is the activity that runs a program. It takes a [ProgramInput] and returns a [ProgramResult].
const ActivityRunProgram = "RunProgram"

// ClassProgramFailed is the class of a program that exited with a nonzero code.
const ClassProgramFailed = "program_failed"

// ProgramInput is the input of the activity RunProgram.
type ProgramInput struct {
	CallKey
	Program plan.Program `json:"program"`
}

// ProgramResult is the result of the activity RunProgram.
type ProgramResult struct {
	// Data is the program's standard output if that is JSON; otherwise Stdout and Stderr are its output with surrounding
	// white space removed.
	Data   json.RawMessage `json:"data,omitempty"`
	Stdout string          `json:"stdout,omitempty"`
	Stderr string          `json:"stderr,omitempty"`
	// Code is the exit code. Late means that the program was killed at its time limit, with code 124.
	Code int  `json:"code"`
	Late bool `json:"late,omitempty"`
}

// UpdateServerRequest is the Update by which an activity has its run answer a server's request while the call is in
// progress. It takes a [ServerRequest] and returns a [ServerAnswer].
const UpdateServerRequest = "_weft_server_asks"

// ServerRequest is a request that a server sends while a call is in progress.
type ServerRequest struct {
	// Call is the activity id, Attempt its attempt, and N the number of the request within the attempt, from 1.
	Call     string       `json:"call"`
	Attempt  int32        `json:"attempt"`
	N        int          `json:"n"`
	Question ToolQuestion `json:"ask"`
	// Timeout is how long the server waits for an answer.
	Timeout plan.Seconds `json:"timeout,omitempty"`
	// Withdrawn means that the server has cancelled request N.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// ServerAnswer answers a [ServerRequest].
type ServerAnswer struct {
	// Result is the result of the server's request; if there is none, Problem is the reason.
	Result  json.RawMessage `json:"result,omitempty"`
	Problem string          `json:"problem,omitempty"`
	// Expired means that there was no answer in time; Result says so.
	Expired bool `json:"expired,omitempty"`
}

// ExternalActivity specifies how a run calls a tool that is an activity of another worker, in any language: directly, on
// that worker's task queue. The activity takes one argument, the object with the call's arguments, and returns a string
// or any other JSON.
type ExternalActivity struct {
	// Activity is the activity's type on TaskQueue.
	Activity  string `json:"activity"`
	TaskQueue string `json:"task_queue"`
	// StartSeconds is how long a call waits for a worker to accept it.
	StartSeconds int `json:"start_seconds"`
	// TimeoutSeconds limits one attempt; 0 means the flow's policy. HeartbeatSeconds, if positive, is the heartbeat
	// timeout.
	TimeoutSeconds   int `json:"timeout_seconds,omitempty"`
	HeartbeatSeconds int `json:"heartbeat_seconds,omitempty"`
	// Attempts is the maximum number of attempts of a call.
	Attempts int32 `json:"attempts"`
	// IdempotencyKey passes a [CallKey] as the second argument.
	IdempotencyKey bool `json:"idempotency_key,omitempty"`
}

// CallKey is embedded in the inputs of calls, and is the second argument of an external activity.
type CallKey struct {
	// IdempotencyKey is the same for all attempts of a call, even across continue-as-new, and unique to it: the first run
	// id of the root run, and the path of the call below it.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// SetIdempotencyKey sets the key when the call is made.
func (k *CallKey) SetIdempotencyKey(key string) { k.IdempotencyKey = key }

// ErrorText returns what a model reads about a failed call: that no worker accepted it, or the activity's error message.
// It returns false if the failure is to be handled like that of any other tool.
func (e *ExternalActivity) ErrorText(err error) (text string, ok bool) {
	if NotStarted(err) {
		return fmt.Sprintf("no worker accepted the call within %d seconds: no worker polls the task queue %q, or all are busy", e.StartSeconds, e.TaskQueue), true
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
