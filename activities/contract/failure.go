package contract

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"weft/activities/textutil"
)

// Failure classes: the type of every ApplicationError that Weft returns.
const (
	// Retried by Temporal, within the policy's bounds.
	ClassRateLimited = "rate_limited"
	ClassUnavailable = "unavailable"
	ClassTimeout     = "timeout"

	// For the author of the flow or the caller to fix; not retried.
	ClassBadRequest    = "bad_request"
	ClassContextLength = "context_length"
	ClassRefused       = "refused"
	ClassSchema        = "schema"
	ClassTooLarge      = "too_large"
	ClassInvalidFlow   = "invalid_flow"
	ClassPlanVersion   = "plan_version"
	// ClassTranscriptLost means that a referenced run or message no longer exists.
	ClassTranscriptLost = "transcript_lost"
	// ClassPayloadLost means that a payload is missing or damaged in the store.
	ClassPayloadLost = "payload_lost"

	// For an operator to fix; not retried.
	ClassDenied        = "denied"
	ClassQuotaExceeded = "quota_exceeded"
	ClassConnection    = "connection"
	// ClassPayloadKey means that a payload is encrypted with a key that is missing, or that differs.
	ClassPayloadKey = "payload_key"

	// Outcomes of a run.
	ClassStepLimit           = "step_limit_exceeded"
	ClassNoExit              = "no_exit_node_reached"
	ClassStuck               = "stuck"
	ClassStateTooLarge       = "state_too_large"
	ClassToolErrors          = "tool_errors"
	ClassConditionUnparsable = "condition_unparsable"
	ClassOutputSchema        = "OutputSchemaValidationError"
	// ClassNoAnswer means that a request was not answered within its time limit.
	ClassNoAnswer = "no_answer"
	// ClassNoRoute means that none of a node's conditions held, in a flow that requires one to hold.
	ClassNoRoute = "no_route"
	// ClassInvalidValue means that a value has the wrong type for a condition, a transformation or a merge.
	ClassInvalidValue = "invalid_value"
	// ClassNoFinish means that the model never called the tool that ends its node.
	ClassNoFinish = "no_finish"
	// ClassTurnLimit means that a node reached its limit of model calls.
	ClassTurnLimit = "turn_limit_exceeded"
	// ClassBudget means that the run's budget of model calls, tokens or cost is exhausted.
	ClassBudget = "budget_exceeded"

	// ClassInternal means a bug in the interpreter.
	ClassInternal = "internal"

	// ClassHookBlocked means that the hook before the run stopped it.
	ClassHookBlocked = "hook_blocked"

	// Of an answer to a request; the run itself goes on.
	ClassUnknownRequest  = "unknown_request"
	ClassAlreadyAnswered = "already_answered"

	// ClassCancelled marks what was cancelled. It is reported by Temporal's own error type.
	ClassCancelled = "cancelled"
)

// Retryable reports whether Temporal retries failures of a class.
func Retryable(class string) bool {
	return class == ClassRateLimited || class == ClassUnavailable || class == ClassTimeout
}

// Failure says what went wrong, where, and how to fix it. It is the detail of every ApplicationError that Weft returns,
// as JSON, for clients in any language.
type Failure struct {
	Class string `json:"class"`
	// Text says what went wrong, including the invalid value.
	Text string `json:"text"`
	// Remedy says how to fix it; may be empty.
	Remedy string `json:"remedy,omitempty"`
	// Node and Step identify the execution that failed; At is the node's declaration, file:line.
	Node string `json:"node,omitempty"`
	Step int    `json:"step,omitempty"`
	At   string `json:"at,omitempty"`
	// Answers are the recorded answers to the conditions that led here.
	Answers []Answer `json:"answers,omitempty"`
	// NoRoute lists the executions, node#step, whose conditions were all false.
	NoRoute []string `json:"no_route,omitempty"`
	// Errors are the validation errors of an output that does not match its schema.
	Errors []FieldError `json:"errors,omitempty"`
	// Diagnostics are the messages for a document that does not compile.
	Diagnostics []string `json:"diagnostics,omitempty"`

	// Data is the output of a program that exited with a nonzero code.
	Data json.RawMessage `json:"data,omitempty"`

	// Usage and Executions are what a branch or a child run had used and done before it failed. Usage is also that of a
	// failed call that a model answered.
	Usage      *Usage      `json:"usage,omitempty"`
	Executions []Execution `json:"executions,omitempty"`
	// Messages holds the messages of a child run until it failed; only for the interpreter.
	Messages []ThreadMessage `json:"said,omitempty"`

	// OutcomeUnknown means that the call may have taken effect, and is not repeated unless an operator decides so.
	OutcomeUnknown bool `json:"outcome_unknown,omitempty"`

	// Final means that there is no further attempt, although the class allows one.
	Final bool `json:"final,omitempty"`

	// Limit is set if the call was not made because its turn has not come.
	Limit *LimitWait `json:"limit,omitempty"`

	// After is how long the provider asks to wait before the next attempt; not encoded.
	After time.Duration `json:"-"`
}

// Spent returns the failure for a call's error, with u added to its usage.
func Spent(err error, u Usage) *Failure {
	out := *FailureOf(err)
	if out.Usage != nil {
		u.Add(*out.Usage)
	}
	out.Usage = &u
	return &out
}

// Answer is the recorded answer to one conditional edge.
type Answer struct {
	// Execution is the edge's source, node#step; Edge is the edge's id.
	Execution string `json:"execution"`
	Edge      string `json:"edge"`
	Question  string `json:"question"`
	Yes       bool   `json:"yes"`
	Reason    string `json:"reason,omitempty"`
}

// Error formats node, place, text and remedy in one line.
func (f *Failure) Error() string {
	var b strings.Builder
	if f.Node != "" {
		fmt.Fprintf(&b, "node %q", f.Node)
		if f.Step > 0 {
			fmt.Fprintf(&b, " at step %d", f.Step)
		}
		if f.At != "" {
			fmt.Fprintf(&b, " (%s)", f.At)
		}
		b.WriteString(": ")
	} else if f.At != "" {
		fmt.Fprintf(&b, "%s: ", f.At)
	}
	b.WriteString(f.Text)
	if f.Remedy != "" {
		b.WriteString("; ")
		b.WriteString(f.Remedy)
	}
	return b.String()
}

// Failf returns a failure with a formatted text.
func Failf(class, remedy, format string, args ...any) *Failure {
	return &Failure{Class: class, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// ApplicationError converts a failure to the error that a workflow or an activity returns. Always use it: a wrapped error
// would lose its class, because Temporal records the outermost Go type.
func (f *Failure) ApplicationError() error {
	f = f.Bounded()
	category := temporal.ApplicationErrorCategoryUnspecified
	if f.Limit != nil {
		category = temporal.ApplicationErrorCategoryBenign
	}
	return temporal.NewApplicationErrorWithOptions(f.Error(), f.Class, temporal.ApplicationErrorOptions{
		NonRetryable:   !Retryable(f.Class) || f.OutcomeUnknown || f.Final,
		NextRetryDelay: f.After,
		Category:       category,
		Details:        []any{*f},
	})
}

// Bounds of an encoded failure. One that is too large to be recorded would block its run.
const (
	maxFailureText = 4 << 10
	maxFailureList = 100
	maxFailureData = 64 << 10
	maxFailureSaid = 1 << 20
)

// Shown returns the failure as shown in a request, without lists, which can be long. It returns nil if f is nil.
func (f *Failure) Shown() *Failure {
	if f == nil {
		return nil
	}
	b := f.Bounded()
	return &Failure{Class: textutil.Cut(b.Class, MaxField), Text: b.Text, Remedy: b.Remedy, Node: b.Node, Step: b.Step, At: b.At}
}

// Bounded returns a copy with long texts and lists cut, for recording.
func (f *Failure) Bounded() *Failure {
	out := *f
	out.Text, out.Remedy, out.At, out.Node = short(f.Text), short(f.Remedy), short(f.At), short(f.Node)
	out.Answers = list(f.Answers, func(a Answer) Answer {
		a.Question, a.Reason = shorter(a.Question), shorter(a.Reason)
		return a
	})
	if len(f.Data) > maxFailureData {
		out.Data = nil
	}
	out.NoRoute = list(f.NoRoute, shorter)
	out.Executions = list(f.Executions, func(e Execution) Execution {
		return Execution{Node: shorter(e.Node), Step: e.Step, Occurrence: e.Occurrence, NoRoute: e.NoRoute, Exhausted: e.Exhausted,
			Taken: list(e.Taken, shorter)}
	})
	out.Messages = latest(f.Messages, maxFailureSaid)
	out.Diagnostics = list(f.Diagnostics, shorter)
	out.Errors = list(f.Errors, func(e FieldError) FieldError {
		return FieldError{Path: shorter(e.Path), Message: shorter(e.Message), SchemaPath: shorter(e.SchemaPath)}
	})
	return &out
}

func list[T any](in []T, each func(T) T) []T {
	var out []T
	for _, v := range in[:min(len(in), maxFailureList)] {
		out = append(out, each(v))
	}
	return out
}

func short(s string) string   { return truncate(s, maxFailureText) }
func shorter(s string) string { return truncate(s, maxFailureText/8) }

// truncate returns the first n bytes of s as valid UTF-8, which protocol buffers require.
func truncate(s string, n int) string {
	return textutil.Truncate(strings.ToValidUTF8(s, "\uFFFD"), n)
}

// FailureOf returns the failure in an error of an activity, a child workflow or a run. Errors not made by Weft get the
// nearest class. It never returns nil for a non-nil error.
func FailureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*Failure](err); ok {
		return own
	}
	var (
		app        *temporal.ApplicationError
		timeout    *temporal.TimeoutError
		activity   *temporal.ActivityError
		terminated *temporal.TerminatedError
	)
	switch {
	case errors.As(err, &app):
		var f Failure
		if app.HasDetails() && app.Details(&f) == nil && f.Class != "" {
			return &f
		}
		return &Failure{Class: cmp.Or(app.Type(), ClassUnavailable), Text: app.Message()}
	case Cancelled(err):
		return &Failure{Class: ClassCancelled, Text: "cancelled"}
	case errors.As(err, &timeout):
		f := &Failure{Class: ClassTimeout, Text: timeout.Error(), OutcomeUnknown: errors.As(err, &activity)}
		if last := (Heartbeat{}); timeout.HasLastHeartbeatDetails() && timeout.LastHeartbeatDetails(&last) == nil {
			f.Usage = last.Spent
		}
		if NotStarted(err) {
			// The cause is the outcome of the previous attempt.
			if f.OutcomeUnknown = f.OutcomeUnknown && timeout.Unwrap() != nil; f.OutcomeUnknown {
				f.Text = "the worker that made the call stopped before it answered"
			}
		}
		return f
	case errors.As(err, &terminated):
		return &Failure{Class: ClassCancelled, Text: "terminated"}
	}
	return &Failure{Class: ClassUnavailable, Text: err.Error()}
}

// NotStarted reports whether no worker accepted the last attempt of an activity in time.
func NotStarted(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// Cancelled reports whether an error is a cancellation.
func Cancelled(err error) bool {
	return temporal.IsCanceledError(err) || errors.Is(err, context.Canceled)
}
