package contract

import (
	"encoding/json"
	"time"

	"weft/activities/textutil"
	"weft/workflows/plan"
)

// The kinds of requests that a run can have open. Updates and signals that answer them have
// the same names.
const (
	// RequestMessage asks a person; answered by a [MessageAnswer].
	RequestMessage = "message"
	// RequestToolResult asks a client to run a tool; answered by a [ToolResultAnswer].
	RequestToolResult = "tool_result"
	// RequestConfirm asks whether a tool may be called; answered by a [ConfirmAnswer].
	RequestConfirm = "confirm"
	// RequestRetry asks an operator to fix something; answered by a [RetryAnswer].
	RequestRetry = "retry"
)

// Requests are the kinds, in the order in which they are listed.
var Requests = []string{RequestMessage, RequestToolResult, RequestConfirm, RequestRetry}

// Signals between the runs of one tree. The run at its root owns all requests: the others
// announce theirs to it and wait.
const (
	// SignalRequest announces a [Request] to the owner; again after every resumption.
	SignalRequest = "_weft_request"
	// SignalClose tells the owner by a [RequestID] that a request is no longer needed.
	SignalCloseRequest = "_weft_close_request"
	// SignalReply brings a [Reply] from the owner to the run that waits.
	SignalReply = "_weft_reply"
	// SignalSteer brings an [Inbound] from the owner to a branch.
	SignalSteer = "_weft_steer"
)

// What a run does when something fails that an operator must fix.
const (
	// OnErrorWait opens a request of kind retry and waits.
	OnErrorWait = "wait"
	// OnErrorFail fails the run.
	OnErrorFail = "fail"
)

// NeedsOperator reports whether a failure of a class is one that an operator can fix, so that the call
// can be made again: nothing is wrong with what was asked.
func NeedsOperator(class string) bool {
	return Retryable(class) || class == ClassDenied || class == ClassQuotaExceeded || class == ClassConnection || class == ClassPayloadKey
}

// RequestID names a request; without an ID all of a run that has ended without a word, and of
// the runs below it.
type RequestID struct {
	ID  string `json:"id,omitempty"`
	Run *Run   `json:"run,omitempty"`
}

// Request is something that a run waits for from outside.
type Request struct {
	// ID is stable: it names the execution that waits and what is asked, and stays the same
	// when the run continues as new.
	ID string `json:"id"`
	// Kind is message, tool_result, confirm or retry.
	Kind string `json:"kind"`
	// Node, Step and Execution say who waits; At is the node's declaration, file:line.
	Node      string `json:"node,omitempty"`
	Step      int    `json:"step,omitempty"`
	Execution string `json:"execution,omitempty"`
	At        string `json:"at,omitempty"`
	// Text is what is asked, in words.
	Text string `json:"text"`
	// Hash is the SHA-256 of what is asked.
	Hash string `json:"hash"`
	// Tool is the tool's name as the model sees it, Name that at its connection.
	Tool       string `json:"tool,omitempty"`
	Name       string `json:"name,omitempty"`
	Connection string `json:"connection,omitempty"`
	// Arguments are those of the call; absent where they are long: then they stand in the
	// assistant's message that Call names.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Call      *ContentRef     `json:"call,omitempty"`
	// Catalogue has the tool's schemas, against which an answer is checked.
	Catalogue *ContentRef `json:"catalogue,omitempty"`
	Failure   *Failure    `json:"failure,omitempty"`
	// Timeout, if positive, is how long the request stays open; no answer means no.
	Timeout plan.Seconds `json:"timeout,omitempty"`
	// Run is the run that waits: it has the transcript that led here.
	Run Run `json:"run"`
	// Reopened counts how often it was asked anew, behind an answer that was taken by a run which an
	// operator has reset since.
	Reopened int `json:"reopened,omitempty"`
	// OpenedAt and DueAt are the owner's times.
	OpenedAt time.Time  `json:"opened_at"`
	DueAt    *time.Time `json:"due_at,omitempty"`
}

// Bounds in bytes of what a request shows: its text, the arguments of its call, and each of what it names.
const (
	MaxAsked = 8 << 10
	MaxShown = 16 << 10
	MaxField = 2 << 10
)

// Cut cuts the text, and what the request names, to their bounds.
func (r *Request) Cut() {
	r.Text = textutil.Cut(r.Text, MaxAsked)
	for _, s := range []*string{&r.Node, &r.Execution, &r.At, &r.Tool, &r.Name, &r.Connection} {
		*s = textutil.Cut(*s, MaxField)
	}
}

// RequestIDs are the ids of requests.
func RequestIDs(list []Request) []string {
	var out []string
	for i := range list {
		out = append(out, list[i].ID)
	}
	return out
}

// MessageAnswer is what the Update and the signal message take: an answer to a request of
// that kind, or, without an id, a message to a run that has not asked.
type MessageAnswer struct {
	// ID is the request's. Without it the message answers the oldest open request of kind
	// message, or else steers: it goes to the next model call of Node, or of the first agent.
	ID   string `json:"id,omitempty"`
	Text string `json:"text"`
	Node string `json:"node,omitempty"`
	// Key is the sender's own name for a message without an id: the same key is the same
	// message.
	Key string `json:"key,omitempty"`
	Author
}

// Author is who sent an answer: By, as claimed where no HTTP server has set it. OnBehalfOf is for whom, as claimed to the
// HTTP server.
type Author struct {
	By         string `json:"by,omitempty"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"`
}

// ToolResultAnswer is the result of a tool that a client ran, or its error.
type ToolResultAnswer struct {
	ID string `json:"id"`
	// Result is any JSON, as the tool declares it. Exactly one of Result and Error is set.
	Result json.RawMessage `json:"result,omitempty"`
	// Error goes to the model as the tool's error.
	Error string `json:"error,omitempty"`
	Author
}

// ConfirmAnswer reports whether a tool may be called.
type ConfirmAnswer struct {
	ID      string `json:"id"`
	Approve *bool  `json:"approve"`
	// Reason reaches the model where the call is refused.
	Reason string `json:"reason,omitempty"`
	// Arguments, if set, replace those of the call; they are checked against the tool's
	// schema.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Remember makes the answer hold for every later call of the same tool in this run.
	Remember bool `json:"remember,omitempty"`
	Author
}

// RetryAnswer means that an operator has fixed the problem of a request.
type RetryAnswer struct {
	ID string `json:"id"`
	// GiveUp fails the node instead of trying again.
	GiveUp bool   `json:"give_up,omitempty"`
	Reason string `json:"reason,omitempty"`
	Author
}

// Receipt is what an answer's Update returns.
type Receipt struct {
	// ID is the request's, or the message's own.
	ID string `json:"id"`
	// Status is accepted.
	Status string `json:"status"`
}

// Reply brings an answer to the execution that waits: one of the four is set.
type Reply struct {
	ID         string            `json:"id"`
	Message    *MessageAnswer    `json:"message,omitempty"`
	ToolResult *ToolResultAnswer `json:"tool_result,omitempty"`
	Confirm    *ConfirmAnswer    `json:"confirm,omitempty"`
	Retry      *RetryAnswer      `json:"retry,omitempty"`
	// Expired says instead that nobody answered in time.
	Expired bool `json:"expired,omitempty"`
}

// Inbound is a message to a run that has not asked.
type Inbound struct {
	// Seq counts the run's messages.
	Seq  int    `json:"seq"`
	Text string `json:"text"`
	Node string `json:"node,omitempty"`
	Author
}

// Answered is a request that has its answer. The last thousand are kept, so that a repeated
// answer gets the same receipt.
type Answered struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Hash is that of the answer.
	Hash string `json:"hash"`
	Author
	At time.Time `json:"at"`
	// Run is the id of the run that it was given to, Reopened that of the request.
	Run      string `json:"run_id,omitempty"`
	Reopened int    `json:"reopened,omitempty"`
	// Expired means that none came in time.
	Expired bool `json:"expired,omitempty"`
	// Reply is kept until the execution that waits has taken it.
	Reply *Reply `json:"reply,omitempty"`
}

// Remembered is an answer to a confirm request that holds for a tool.
type Remembered struct {
	Connection string `json:"connection"`
	Name       string `json:"name"`
	Approve    bool   `json:"approve"`
	Reason     string `json:"reason,omitempty"`
	Author
}

// ConfirmRule means that calls of a tool need a person's yes.
type ConfirmRule struct {
	Name    string       `json:"name"`
	Timeout plan.Seconds `json:"timeout,omitempty"`
}

// ValidateAnswerInput is the input of the activity ValidateAnswer: what somebody answered, against the
// schema that the tool declares for it.
type ValidateAnswerInput struct {
	Catalogue ContentRef `json:"catalogue"`
	Name      string     `json:"name"`
	// Arguments are a confirm's, Result is a client-side tool's.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	// Schema, if set, is that of the arguments, instead of the catalogue's.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// ValidateAnswerResult is the result of the activity ValidateAnswer. Errors empty: it is good.
type ValidateAnswerResult struct {
	Errors []FieldError `json:"errors,omitempty"`
}

// InboxState is what an owner of requests carries into its next run.
type InboxState struct {
	Open       []Request    `json:"open,omitempty"`
	Answered   []Answered   `json:"answered,omitempty"`
	Remembered []Remembered `json:"remembered,omitempty"`
	Inbox      []Inbound    `json:"inbox,omitempty"`
	// Seen are hashes of Updates that brought messages without a key: the same one again, as a
	// client sends it that has had no answer, is the same message.
	Seen             []string `json:"seen,omitempty"`
	Seq              int      `json:"seq,omitempty"`
	Rejected         int      `json:"rejected,omitempty"`
	RejectionReasons []string `json:"rejection_reasons,omitempty"`
}

// ClientTool makes the specification of a tool that a client runs.
func ClientTool(t *plan.ClientTool) ToolSpec {
	schema := t.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	return ToolSpec{Name: t.Name, Description: t.Description, Schema: schema, Result: t.Result}
}

// Principal is who starts a run, or answers it.
type Principal struct {
	Name   string `json:"name"`
	Tenant string `json:"tenant,omitempty"`
}

// Value is the principal itself, an empty one of nil.
func (p *Principal) Value() Principal {
	if p == nil {
		return Principal{}
	}
	return *p
}

// String names a principal for messages.
func (p *Principal) String() string {
	switch {
	case p == nil || p.Name == "":
		return "an unknown principal"
	case p.Tenant == "":
		return p.Name
	}
	return p.Name + " of " + p.Tenant
}
