package contract

import (
	"encoding/json"
	"time"

	"weft/activities/textutil"
	"weft/workflows/plan"
)

// The kinds of requests that a run can have open, which are also the names of the Updates and signals that answer them.
const (
	// RequestMessage asks a user a question; answered by a [MessageAnswer].
	RequestMessage = "message"
	// RequestToolResult asks a client to run a tool; answered by a [ToolResultAnswer].
	RequestToolResult = "tool_result"
	// RequestConfirm asks for approval of a tool call; answered by a [ConfirmAnswer].
	RequestConfirm = "confirm"
	// RequestRetry asks an operator to fix a problem; answered by a [RetryAnswer].
	RequestRetry = "retry"
)

// Requests lists the kinds, in display order.
var Requests = []string{RequestMessage, RequestToolResult, RequestConfirm, RequestRetry}

// Signals between the runs of a tree. The root run owns all requests: the others announce theirs to it and wait.
const (
	// SignalRequest announces a [Request] to the owner. It is repeated whenever the run resumes.
	SignalRequest = "_weft_request"
	// SignalCloseRequest tells the owner, by a [RequestID], that a request is no longer needed.
	SignalCloseRequest = "_weft_close_request"
	// SignalReply carries a [Reply] from the owner to the waiting run.
	SignalReply = "_weft_reply"
	// SignalSteer carries an [Inbound] from the owner to a branch.
	SignalSteer = "_weft_steer"
)

// The values of [RunInput.OnError].
const (
	// OnErrorWait opens a request of kind retry and waits.
	OnErrorWait = "wait"
	// OnErrorFail fails the run.
	OnErrorFail = "fail"
)

// NeedsOperator reports whether an operator can fix a failure of a class, so that the same call can be made again: the
// request itself is valid.
func NeedsOperator(class string) bool {
	return Retryable(class) || class == ClassDenied || class == ClassQuotaExceeded || class == ClassConnection || class == ClassPayloadKey
}

// RequestID identifies a request or, without an ID, all requests of a run that has ended without closing them, and of its
// descendants.
type RequestID struct {
	ID  string `json:"id,omitempty"`
	Run *Run   `json:"run,omitempty"`
}

// Request is something that a run waits for from outside.
type Request struct {
	// ID identifies the waiting execution and what is requested. It stays the same when the run continues as new.
	ID string `json:"id"`
	// Kind is message, tool_result, confirm or retry.
	Kind string `json:"kind"`
	// Node, Step and Execution identify the waiting execution; At is the node's declaration, file:line.
	Node      string `json:"node,omitempty"`
	Step      int    `json:"step,omitempty"`
	Execution string `json:"execution,omitempty"`
	At        string `json:"at,omitempty"`
	// Text describes what is requested.
	Text string `json:"text"`
	// Hash is the SHA-256 of what is requested.
	Hash string `json:"hash"`
	// Tool is the tool's name as the model sees it, Name its name at the connection.
	Tool       string `json:"tool,omitempty"`
	Name       string `json:"name,omitempty"`
	Connection string `json:"connection,omitempty"`
	// Arguments are those of the call. Long ones are absent: they are in the assistant's message that Call refers to.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Call      *ContentRef     `json:"call,omitempty"`
	// Catalogue contains the tool's schemas, against which an answer is validated.
	Catalogue *ContentRef `json:"catalogue,omitempty"`
	Failure   *Failure    `json:"failure,omitempty"`
	// Timeout, if positive, is how long the request stays open. No answer means refusal.
	Timeout plan.Seconds `json:"timeout,omitempty"`
	// Run is the waiting run, which has the transcript.
	Run Run `json:"run"`
	// Reopened counts how often the request was opened again, because the run that had received the answer was reset by
	// an operator.
	Reopened int `json:"reopened,omitempty"`
	// OpenedAt and DueAt are times of the owner's clock.
	OpenedAt time.Time  `json:"opened_at"`
	DueAt    *time.Time `json:"due_at,omitempty"`
}

// Limits in bytes for the parts of a request: its text, the arguments of its call, and each name.
const (
	MaxAsked = 8 << 10
	MaxShown = 16 << 10
	MaxField = 2 << 10
)

// Cut truncates the text and the names to their limits.
func (r *Request) Cut() {
	r.Text = textutil.Cut(r.Text, MaxAsked)
	for _, s := range []*string{&r.Node, &r.Execution, &r.At, &r.Tool, &r.Name, &r.Connection} {
		*s = textutil.Cut(*s, MaxField)
	}
}

// RequestIDs returns the ids of requests.
func RequestIDs(list []Request) []string {
	var out []string
	for i := range list {
		out = append(out, list[i].ID)
	}
	return out
}

// MessageAnswer is the argument of the Update and the signal message: an answer to a request of that kind or, without an
// id, a message to a run that has not asked for one.
type MessageAnswer struct {
	// ID is the request's id. Without it the message answers the oldest open request of kind message. If there is none,
	// it is added to the next model call of Node, or of the first agent that makes one.
	ID   string `json:"id,omitempty"`
	Text string `json:"text"`
	Node string `json:"node,omitempty"`
	// Key is chosen by the sender of a message without an id: messages with equal keys are the same message.
	Key string `json:"key,omitempty"`
	Author
}

// Author is who sent an answer. By is as claimed, unless the HTTP server has set it; OnBehalfOf is as claimed to the HTTP
// server.
type Author struct {
	By         string `json:"by,omitempty"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"`
}

// ToolResultAnswer is the result, or the error, of a tool that a client ran.
type ToolResultAnswer struct {
	ID string `json:"id"`
	// Result is any JSON that matches the tool's declaration. Exactly one of Result and Error is set.
	Result json.RawMessage `json:"result,omitempty"`
	// Error is passed to the model as the tool's error.
	Error string `json:"error,omitempty"`
	Author
}

// ConfirmAnswer approves or refuses a tool call.
type ConfirmAnswer struct {
	ID      string `json:"id"`
	Approve *bool  `json:"approve"`
	// Reason is passed to the model if the call is refused.
	Reason string `json:"reason,omitempty"`
	// Arguments, if set, replace the call's arguments; they are validated against the tool's schema.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Remember applies the answer to every later call of the same tool in this run.
	Remember bool `json:"remember,omitempty"`
	Author
}

// RetryAnswer says that an operator has fixed the problem of a request.
type RetryAnswer struct {
	ID string `json:"id"`
	// GiveUp fails the node instead of retrying.
	GiveUp bool   `json:"give_up,omitempty"`
	Reason string `json:"reason,omitempty"`
	Author
}

// Receipt is the result of an answer's Update.
type Receipt struct {
	// ID is the id of the request, or of the message.
	ID string `json:"id"`
	// Status is always accepted.
	Status string `json:"status"`
}

// Reply carries an answer to the waiting execution: at most one of Message, ToolResult, Confirm and Retry is set.
type Reply struct {
	ID         string            `json:"id"`
	Message    *MessageAnswer    `json:"message,omitempty"`
	ToolResult *ToolResultAnswer `json:"tool_result,omitempty"`
	Confirm    *ConfirmAnswer    `json:"confirm,omitempty"`
	Retry      *RetryAnswer      `json:"retry,omitempty"`
	// Expired is set instead if there was no answer in time, Refused if the request was not opened.
	Expired bool     `json:"expired,omitempty"`
	Refused *Failure `json:"refused,omitempty"`
}

// Inbound is a message to a run that has not asked for one.
type Inbound struct {
	// Seq numbers the run's messages.
	Seq  int    `json:"seq"`
	Text string `json:"text"`
	Node string `json:"node,omitempty"`
	Author
}

// Answered is a request that has been answered. The last thousand are retained, so that a repeated answer gets the same
// receipt.
type Answered struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Hash is the answer's hash.
	Hash string `json:"hash"`
	Author
	At time.Time `json:"at"`
	// Run is the id of the run that received the answer; Reopened is [Request.Reopened].
	Run      string `json:"run_id,omitempty"`
	Reopened int    `json:"reopened,omitempty"`
	// Expired means that there was no answer in time.
	Expired bool `json:"expired,omitempty"`
	// Reply is retained until the waiting execution has received it.
	Reply *Reply `json:"reply,omitempty"`
}

// Remembered is an answer to a confirm request that applies to all calls of a tool.
type Remembered struct {
	Connection string `json:"connection"`
	Name       string `json:"name"`
	Approve    bool   `json:"approve"`
	Reason     string `json:"reason,omitempty"`
	Author
}

// ConfirmRule says that calls of a tool need approval.
type ConfirmRule struct {
	Name    string       `json:"name"`
	Timeout plan.Seconds `json:"timeout,omitempty"`
}

// ValidateAnswerInput is the input of the activity ValidateAnswer: it validates an answer against the tool's schema.
type ValidateAnswerInput struct {
	Catalogue ContentRef `json:"catalogue"`
	Name      string     `json:"name"`
	// Arguments are from a confirm answer, Result is a client-side tool's.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	// Schema, if set, is the schema of the arguments, instead of the catalogue's.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// ValidateAnswerResult is the result of the activity ValidateAnswer. If Errors is empty, the answer is valid.
type ValidateAnswerResult struct {
	Errors []FieldError `json:"errors,omitempty"`
}

// InboxState is what the run that owns the requests carries over when it continues as new.
type InboxState struct {
	Open       []Request    `json:"open,omitempty"`
	Answered   []Answered   `json:"answered,omitempty"`
	Remembered []Remembered `json:"remembered,omitempty"`
	Inbox      []Inbound    `json:"inbox,omitempty"`
	// Seen holds hashes of Updates with messages that have no key: an equal Update, sent again by a client that got no
	// result, is the same message.
	Seen             []string `json:"seen,omitempty"`
	Seq              int      `json:"seq,omitempty"`
	Rejected         int      `json:"rejected,omitempty"`
	RejectionReasons []string `json:"rejection_reasons,omitempty"`
}

// ClientTool converts the declaration of a client-side tool.
func ClientTool(t *plan.ClientTool) ToolSpec {
	schema := t.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	return ToolSpec{Name: t.Name, Description: t.Description, Schema: schema, Result: t.Result}
}

// Principal identifies who starts a run, or answers its requests.
type Principal struct {
	Name   string `json:"name"`
	Tenant string `json:"tenant,omitempty"`
}

// Value returns *p, or the zero Principal if p is nil.
func (p *Principal) Value() Principal {
	if p == nil {
		return Principal{}
	}
	return *p
}

// String formats a principal for messages.
func (p *Principal) String() string {
	switch {
	case p == nil || p.Name == "":
		return "an unknown principal"
	case p.Tenant == "":
		return p.Name
	}
	return p.Name + " of " + p.Tenant
}
