package runtime

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/workflows/plan"
)

// workerGone is how long a worker that has a server's session may let a call wait.
const workerGone = 10 * time.Second

// CheckOptions are those of the check of an answer: somebody waits for its outcome.
var CheckOptions = ownOptions(30*time.Second, 5*time.Minute, 10*time.Second)

// fetchOptions are those of fetching a result from a closed run.
var fetchOptions = ownOptions(time.Minute, time.Hour, time.Minute)

// ownOptions are those of a call that no author declares: the most that one attempt, all of them and a pause between two take.
func ownOptions(one, all, pause time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: one, ScheduleToCloseTimeout: all,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: pause}}
}

// Options are those of a call of a model or a tool, by the flow's policy. One attempt takes so many seconds at most.
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

// Retrying are options with the retries that an author wants, if any.
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
