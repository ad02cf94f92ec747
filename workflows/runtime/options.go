package runtime

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/workflows/plan"
)

// sessionQueueTimeout is how long a call waits for the worker that has a server's session.
const sessionQueueTimeout = 10 * time.Second

// CheckOptions are the options of the activity that checks an answer; they are short, because a client waits for the outcome.
var CheckOptions = fixedOptions(30*time.Second, 5*time.Minute, 10*time.Second)

// fetchOptions are the options for fetching a result from a closed run.
var fetchOptions = fixedOptions(time.Minute, time.Hour, time.Minute)

// fixedOptions returns options that no flow changes: the limits of one attempt, of all attempts, and of the interval between two.
func fixedOptions(attempt, total, maxInterval time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: attempt, ScheduleToCloseTimeout: total,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: maxInterval}}
}

// Options returns the options of a model or tool call by the flow's policy. seconds limits one attempt.
func (r *Run) Options(seconds int) workflow.ActivityOptions {
	p := r.Flow.Policy
	return workflow.ActivityOptions{
		StartToCloseTimeout:    time.Duration(seconds) * time.Second,
		ScheduleToCloseTimeout: time.Duration(max(p.RetrySeconds, seconds)) * time.Second,
		HeartbeatTimeout:       time.Duration(p.HeartbeatSeconds) * time.Second,
		WaitForCancellation:    true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    time.Duration(p.FirstRetryMillis) * time.Millisecond,
			BackoffCoefficient: 2,
			MaximumInterval:    max(time.Minute, time.Duration(p.FirstRetryMillis)*time.Millisecond),
		},
	}
}

// Retrying returns options with the author's retry policy, if any.
func Retrying(o workflow.ActivityOptions, p *plan.Retry) workflow.ActivityOptions {
	if p != nil {
		if p.TimeoutMillis > 0 {
			o.StartToCloseTimeout = time.Duration(p.TimeoutMillis) * time.Millisecond
		}
		first := time.Duration(max(p.FirstMillis, 1)) * time.Millisecond
		o.RetryPolicy = &temporal.RetryPolicy{
			InitialInterval: first, BackoffCoefficient: p.Factor,
			MaximumInterval: max(first, time.Duration(p.MostMillis)*time.Millisecond), MaximumAttempts: int32(min(p.Attempts, 1<<20)) + 1,
		}
	}
	return o
}
