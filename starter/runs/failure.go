package runs

import (
	"context"

	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
)

// How a run without a result ended.
const (
	Failed     = "failed"
	Cancelled  = "cancelled"
	Terminated = "terminated"
	TimedOut   = "timed_out"
)

// Ending is what -output json prints in place of a result.
type Ending struct {
	// Status is one of the constants above; a result's is "completed".
	Status string `json:"status"`
	Run    string `json:"run"`
	contract.Failure
}

// Failure describes how a run ended whose result is an error.
func (r *Run) Failure(ctx context.Context, err error) Ending {
	end := Ending{Status: EndStatus(err), Run: r.ID, Failure: *contract.FailureOf(err)}
	if end.Status == Terminated {
		if reason := r.TerminationReason(ctx); reason != "" {
			end.Text += ": " + reason
		}
	}
	return end
}

// EndStatus returns how a run ended whose result is an error.
func EndStatus(err error) string {
	switch {
	case Is[*temporal.TerminatedError](err):
		return Terminated
	case contract.Cancelled(err):
		return Cancelled
	case !Is[*temporal.ApplicationError](err) && Is[*temporal.TimeoutError](err):
		return TimedOut
	}
	return Failed
}

// TurnFailure returns why a turn has no result.
func TurnFailure(t *contract.Turn) *contract.Failure {
	if t.Failure != nil {
		return t.Failure
	}
	return &contract.Failure{Class: contract.ClassCancelled, Text: "the session was stopped"}
}
