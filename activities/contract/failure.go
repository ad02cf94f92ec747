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

// Classes of failures: the type of every ApplicationError that Weft makes.
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
	// ClassTranscriptLost: a referenced run or message no longer exists.
	ClassTranscriptLost = "transcript_lost"
	// ClassPayloadLost: a payload is missing or damaged in the store.
	ClassPayloadLost = "payload_lost"

	// For an operator to fix; not retried.
	ClassDenied        = "denied"
	ClassQuotaExceeded = "quota_exceeded"
	ClassConnection    = "connection"
	// ClassPayloadKey: a payload is encrypted with a key that is not there, or is another.
	ClassPayloadKey = "payload_key"

	// Outcomes of a run.
	ClassStepLimit           = "step_limit_exceeded"
	ClassNoExit              = "no_exit_node_reached"
	ClassStuck               = "stuck"
	ClassStateTooLarge       = "state_too_large"
	ClassToolErrors          = "tool_errors"
	ClassConditionUnparsable = "condition_unparsable"
	ClassOutputSchema        = "OutputSchemaValidationError"
	// ClassNoAnswer: nobody answered a request within its limit.
	ClassNoAnswer = "no_answer"
	// ClassNoRoute: none of a node's conditions held, in a flow that must go on then.
	ClassNoRoute = "no_route"
	// ClassInvalidValue: a value is not what a condition, a transformation or a merge wants.
	ClassInvalidValue = "invalid_value"
	// ClassNoFinish: the model never called the tool by which its node ends.
	ClassNoFinish = "no_finish"
	// ClassTurnLimit: a node made all the model calls that it may make.
	ClassTurnLimit = "turn_limit_exceeded"
	// ClassBudget: the run's budget of model calls, tokens or money allows no other call.
	ClassBudget = "budget_exceeded"

	// ClassInternal: a defect of the interpreter.
	ClassInternal = "internal"

	// ClassHookBlocked: the hook before the run stopped it.
	ClassHookBlocked = "hook_blocked"

	// Of an answer to a request; the run itself goes on.
	ClassUnknownRequest  = "unknown_request"
	ClassAlreadyAnswered = "already_answered"

	// Cancelled marks what was cancelled. Temporal's own type carries it.
	ClassCancelled = "cancelled"
)

// Retryable reports whether Temporal tries again after a failure of a class.
func Retryable(class string) bool {
	return class == ClassRateLimited || class == ClassUnavailable || class == ClassTimeout
}

// Failure says what went wrong, where, and what to do. It is the detail of every
// ApplicationError that Weft makes, as JSON, for clients in any language.
type Failure struct {
	Class string `json:"class"`
	// Text says what went wrong, with the offending value.
	Text string `json:"text"`
	// Remedy says what to do; may be empty.
	Remedy string `json:"remedy,omitempty"`
	// Node and Step are the execution that failed; At is its declaration, file:line.
	Node string `json:"node,omitempty"`
	Step int    `json:"step,omitempty"`
	At   string `json:"at,omitempty"`
	// Answers are the recorded answers to conditions that led here.
	Answers []Answer `json:"answers,omitempty"`
	// NoRoute are the executions, node#step, whose conditions were all false.
	NoRoute []string `json:"no_route,omitempty"`
	// Errors are those of an output that does not match its schema.
	Errors []FieldError `json:"errors,omitempty"`
	// Diagnostics are those of a document that does not compile, as text.
	Diagnostics []string `json:"diagnostics,omitempty"`

	// Data is the result of a program that ended with another code than 0.
	Data json.RawMessage `json:"data,omitempty"`

	// Usage and Executions are what a branch, or a run below another, had done before it failed;
	// Usage is also what a call took that a model answered, and that failed all the same.
	Usage      *Usage      `json:"usage,omitempty"`
	Executions []Execution `json:"executions,omitempty"`
	// Said are the messages of a run below another until it failed; the interpreter alone sees them.
	Said []ThreadMessage `json:"said,omitempty"`

	// OutcomeUnknown: the call may have taken effect, and is not made again without a word of the operator's.
	OutcomeUnknown bool `json:"outcome_unknown,omitempty"`

	// Final: no other attempt is made, although the class allows one.
	Final bool `json:"final,omitempty"`

	// Limit is set where the call was not made because its turn has not come.
	Limit *LimitWait `json:"limit,omitempty"`

	// After is how long the provider asks to wait before the next attempt; not encoded.
	After time.Duration `json:"-"`
}

// Spent is an error of a call that took a usage, as a failure that says so.
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
	// Execution is the source, node#step; Edge is the edge's id.
	Execution string `json:"execution"`
	Edge      string `json:"edge"`
	Question  string `json:"question"`
	Yes       bool   `json:"yes"`
	Reason    string `json:"reason,omitempty"`
}

// Error renders class, place, text and remedy in one line.
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

// Failf returns a failure of a class, with a formatted text.
func Failf(class, remedy, format string, args ...any) *Failure {
	return &Failure{Class: class, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

// ApplicationError turns a failure into the error that a workflow or an activity returns. It is the
// only way out: a wrapped error would lose its class, because Temporal records the
// outermost Go type.
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

// Bounds of a failure on the wire: a failure that does not fit would wedge its run.
const (
	maxFailureText = 4 << 10
	maxFailureList = 100
	maxFailureData = 64 << 10
	maxFailureSaid = 1 << 20
)

// Shown is the failure as a request shows it: without lists, which can be long. It is nil of nil.
func (f *Failure) Shown() *Failure {
	if f == nil {
		return nil
	}
	b := f.Bounded()
	return &Failure{Class: textutil.Cut(b.Class, MaxField), Text: b.Text, Remedy: b.Remedy, Node: b.Node, Step: b.Step, At: b.At}
}

// Bounded is the failure with long texts and lists cut, as it fits where many are kept.
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
	out.Said = latest(f.Said, maxFailureSaid)
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

// FailureOf reads the failure in an error that came from an activity, a child workflow or
// a run. Errors that Weft did not make get the nearest class. It never returns nil for an
// error.
func FailureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*Failure](err); ok {
		return own
	}
	var (
		app        *temporal.ApplicationError
		late       *temporal.TimeoutError
		call       *temporal.ActivityError
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
	case errors.As(err, &late):
		f := &Failure{Class: ClassTimeout, Text: late.Error(), OutcomeUnknown: errors.As(err, &call)}
		if last := (Heartbeat{}); late.HasLastHeartbeatDetails() && late.LastHeartbeatDetails(&last) == nil {
			f.Usage = last.Spent
		}
		if NotStarted(err) {
			// The cause is how the attempt before ended.
			if f.OutcomeUnknown = f.OutcomeUnknown && late.Unwrap() != nil; f.OutcomeUnknown {
				f.Text = "the worker that made the call stopped before it answered"
			}
		}
		return f
	case errors.As(err, &terminated):
		return &Failure{Class: ClassCancelled, Text: "terminated"}
	}
	return &Failure{Class: ClassUnavailable, Text: err.Error()}
}

// NotStarted reports whether the last attempt of an activity was taken by no worker in time.
func NotStarted(err error) bool {
	var late *temporal.TimeoutError
	return errors.As(err, &late) && late.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// Cancelled reports whether an error means that somebody cancelled.
func Cancelled(err error) bool {
	return temporal.IsCanceledError(err) || errors.Is(err, context.Canceled)
}
