package contract

// WorkflowLimiter is the type of the workflow that schedules the calls made with one provider key, across all workers.
// Its id is [LimiterID], its input a [LimiterInput], and its task queue [LimiterQueue].
const WorkflowLimiter = "Limiter"

// LimiterQueue is the task queue of limiters. Every worker that uses one polls it.
const LimiterQueue = "weft-limiters"

// UpdateReserve is the Update by which workers query and inform a [WorkflowLimiter]. It takes a [LimitRequest] and
// returns a [LimitReply].
const UpdateReserve = "reserve"

// LimiterID returns the workflow id of the limiter for the key with a fingerprint.
func LimiterID(fingerprint string) string { return "weft-limiter/" + fingerprint }

// LimiterInput starts a limiter.
type LimiterInput struct {
	// WindowMillis is the period to which limits apply; 0 means a minute.
	WindowMillis int64 `json:"window_ms,omitempty"`
	// State is carried over from the run that continued as new.
	State LimiterState `json:"state,omitzero"`
}

// LimiterState is the state of a limiter. Times and durations are in microseconds, times since 1970.
type LimiterState struct {
	// Calls and Tokens are the times at which the admitted calls and tokens are used up, at the rate of the limits.
	Calls  int64 `json:"calls,omitempty"`
	Tokens int64 `json:"tokens,omitempty"`
	// Until is the time before which no call may start, after a refusal.
	Until int64 `json:"until,omitempty"`
	// Refused is the time of the last reported refusal, and Pause how long calls pause after the next one; 0 means no
	// refusal is remembered. Pause is halved at Raise.
	Refused int64 `json:"refused,omitempty"`
	Pause   int64 `json:"pause,omitempty"`
	Raise   int64 `json:"raise,omitempty"`
	// Learned is the limit of calls inferred from refusals, 0 if none; Since is when it was last inferred.
	Learned int   `json:"learned,omitempty"`
	Since   int64 `json:"since,omitempty"`
	// Virtual is the virtual time of the last tenant served.
	Virtual int64         `json:"virtual,omitempty"`
	Tenants []LimitTenant `json:"tenants,omitempty"`
	Workers []LimitWorker `json:"workers,omitempty"`
}

// LimitTenant holds the waiting calls of one tenant, in order.
type LimitTenant struct {
	Name string `json:"name,omitempty"`
	// Virtual advances by the cost of the tenant's calls, divided by the tenant's weight.
	Virtual int64         `json:"virtual,omitempty"`
	Waiting []LimitedCall `json:"waiting,omitempty"`
}

// LimitWorker is the last report of one worker.
type LimitWorker struct {
	Name     string `json:"name"`
	At       int64  `json:"at"`
	Sent     int    `json:"sent,omitempty"`
	Requests int    `json:"requests,omitempty"`
	Tokens   int    `json:"tokens,omitempty"`
}

// LimitRequest is a worker's request to a limiter, with a report of its calls.
type LimitRequest struct {
	// Worker is the worker's unique name.
	Worker string `json:"worker"`
	// Requests and Tokens are the limits in the worker's settings; 0 means none.
	Requests int `json:"requests,omitempty"`
	Tokens   int `json:"tokens,omitempty"`
	// Calls are the calls that are ready to start.
	Calls []LimitedCall `json:"calls,omitempty"`
	// Unused counts turns granted to calls that did not start; Used is by how many tokens calls differed from their
	// estimates.
	Unused int `json:"unused,omitempty"`
	Used   int `json:"used,omitempty"`
	// Sent counts the worker's calls in the last window that the provider did not refuse.
	Sent int `json:"sent,omitempty"`
	// Refusal is set if the provider refused a call because of its limits.
	Refusal *LimitRefusal `json:"refusal,omitempty"`
}

// LimitedCall is a call that is ready to start.
type LimitedCall struct {
	// Key is the same for all attempts of the call.
	Key    string `json:"key"`
	Tenant string `json:"tenant,omitempty"`
	// Weight is the tenant's; 0 means 1.
	Weight float32 `json:"weight,omitempty"`
	// Tokens is the estimated number of tokens.
	Tokens int `json:"tokens,omitempty"`
	// Back is when a waiting call is to ask again; set only by limiters.
	Back int64 `json:"back,omitempty"`
}

// LimitRefusal describes a provider's refusal.
type LimitRefusal struct {
	// AgoMillis is how long ago the refused call was sent; AfterMillis is the wait that the provider asks for, 0 if it
	// does not.
	AgoMillis   int64 `json:"ago_ms,omitempty"`
	AfterMillis int64 `json:"after_ms,omitempty"`
}

// LimitReply holds one turn for each call of the request, in order.
type LimitReply struct {
	Turns []LimitTurn `json:"turns,omitempty"`
	// Refused means that calls wait because of a refusal.
	Refused bool `json:"refused,omitempty"`
	// Free means that there are no limits: the limiter ends.
	Free bool `json:"free,omitempty"`
}

// LimitTurn says when a call may start.
type LimitTurn struct {
	// Micros is the delay from now, in microseconds.
	Micros int64 `json:"in_us"`
	// Ask means that the call must ask again after the delay.
	Ask bool `json:"ask,omitempty"`
}

// LimitWait says that a call was not made because its turn has not come. The next attempt is made when it does: by
// Temporal or, if the call's attempts are limited, by the run, because Temporal would count this one.
type LimitWait struct {
	Millis int64 `json:"wait_ms"`
	// Failed counts the failed attempts of the call.
	Failed int32 `json:"failed,omitempty"`
}
