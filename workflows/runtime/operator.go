package runtime

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
)

// withOperatorRetry makes a call wait for an operator after a failure that an operator must fix, and then repeats it. Each attempt
// is a copy of the call.
func (r *Run) withOperatorRetry(next invoker) invoker {
	return func(ctx workflow.Context, c *Call) error {
		w := c.Waiting
		for {
			if w == nil || w.Failure == nil {
				attempt := *c
				if w != nil && w.Attempts > 0 {
					attempt.ID = fmt.Sprintf("%s~%d", c.ID, w.Attempts+1)
				}
				err := next(ctx, &attempt)
				if w == nil || !r.waitsForOperator(c, err) {
					return err
				}
				w.Attempts++
				w.Failure = contract.FailureOf(err)
			}
			if err := r.askOperator(ctx, c); err != nil {
				return err
			}
		}
	}
}

// askOperator opens a request of kind retry and waits for its answer. It returns the call's failure if the operator gives up.
func (r *Run) askOperator(ctx workflow.Context, c *Call) error {
	w := c.Waiting
	failure := w.Failure.Shown()
	reply, err := r.Requests.Await(ctx, c.At, contract.Request{
		ID: fmt.Sprintf("%s~%d", c.ID, w.Attempts), Kind: contract.RequestRetry, Text: w.Failure.Error(),
		Hash: contract.SHA([]byte(failure.Class + failure.Text)), Failure: failure,
	}, c.Journal)
	if err != nil {
		return err
	}
	f := w.Failure
	w.Failure = nil
	switch a := reply.Retry; {
	case reply.Refused != nil:
		f.Text = fmt.Sprintf("%s (%s)", f.Text, reply.Refused.Text)
	case a == nil: // no answer in time
	case !a.GiveUp:
		return nil
	case a.Reason != "":
		f.Text = fmt.Sprintf("%s (given up: %s)", f.Text, textutil.Cut(a.Reason, 500))
	}
	return f
}

// waitsForOperator reports whether a call that ended with err waits for an operator.
func (r *Run) waitsForOperator(c *Call, err error) bool {
	if err == nil || contract.Cancelled(err) || r.Shared.OnError == contract.OnErrorFail {
		return false
	}
	if c.Remote != nil {
		if _, ok := c.Remote.ErrorText(err); ok {
			return false // the model gets the activity's error
		}
	}
	f := contract.FailureOf(err)
	return contract.NeedsOperator(f.Class) && (c.AskUnknown || !c.OutcomeUnknown(f))
}

// OutcomeUnknown reports whether a failed call may have taken effect and must not be repeated. An external activity does not
// report whether it took effect.
func (c *Call) OutcomeUnknown(f *contract.Failure) bool {
	return c.Once && (f.OutcomeUnknown || c.Remote != nil && contract.Retryable(f.Class))
}
