package runtime

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
)

// ErrYield is the error of a step that did not start, or stopped waiting, because the run is about to continue as new. No workflow
// returns it.
var ErrYield = errors.New("the run continues as new")

// RunStep runs a step of an execution, unless the journal has its outcome. out receives the result. If do yields, it may set the
// state with which the step resumes. RunStep returns [ErrYield] without starting the step if the run should yield.
func (r *Run) RunStep(ctx workflow.Context, j *journal.Journal, id, hash string, out any, do func(s *journal.Step) error) error {
	s, err := j.Open(id, hash)
	if err != nil {
		return err
	}
	switch s.Status {
	case contract.StepDone:
		if s.Result == nil {
			return nil
		}
		return contract.Decode(s.Result, out)
	case contract.StepFailed:
		return s.Failure
	}
	if r.Policy.ShouldYield(ctx, j.Weight()) {
		return ErrYield
	}
	switch err = do(s); {
	case err == nil:
		j.Done(s, out, sizeOf(out))
		r.Policy.Progressed = true
	case !Interrupted(err):
		s.End(contract.StepFailed, contract.FailureOf(err))
		return s.Failure
	case contract.Cancelled(err):
	case s.Failure != nil:
		s.Status = contract.StepWaiting
	case s.Execution != nil || s.Run != nil || s.Held != nil || s.Task != nil:
		s.Status = contract.StepSuspended
	}
	return err
}

// CallStep makes an activity call as a step. hash identifies the request.
func (r *Run) CallStep(ctx workflow.Context, j *journal.Journal, hash string, c *Call) error {
	return r.RunStep(ctx, j, c.ID, hash, c.Out, func(s *journal.Step) error {
		if s.Held != nil {
			return r.Fetch(ctx, s.Held, c.ID, c.Out)
		}
		c.Waiting, c.Journal = &s.JournalStep, j
		return r.Invoke(ctx, c)
	})
}

// sizeOf returns the approximate size of a result in bytes.
func sizeOf(out any) int {
	if w, ok := out.(interface{ Weight() int }); ok {
		return w.Weight()
	}
	n, _ := contract.Size(out)
	return n
}

// Interrupted reports whether a call has no outcome because it was cancelled or the run yields.
func Interrupted(err error) bool { return contract.Cancelled(err) || errors.Is(err, ErrYield) }
