package contract

// WorkflowLimiter is the type of the workflow that gives the calls with one key of a provider their turns, on all workers.
// Its id is [LimiterID], its input a [LimiterInput]; it runs on [LimiterQueue].
const WorkflowLimiter = "Limiter"

// LimiterQueue is the task queue of limiters: every worker that asks one polls it.
const LimiterQueue = "weft-limiters"

// UpdateReserve is the Update by which workers ask a [WorkflowLimiter]: a [LimitRequest], answered by a [LimitReply].
const UpdateReserve = "reserve"

// LimiterID is the workflow id of the limiter of a key, given by its fingerprint.
func LimiterID(fingerprint string) string { return "weft-limiter/" + fingerprint }

// LimiterInput starts a limiter.
type LimiterInput struct {
	// WindowMillis is what limits are counted in; 0 means a minute.
	WindowMillis int64 `json:"window_ms,omitempty"`
	// State is that of the run before, which continued as this one.
	State LimiterState `json:"state,omitzero"`
}

// LimiterState is what a limiter knows. Times and durations are microseconds, times since 1970.
type LimiterState struct {
	// Calls and Tokens are when what was admitted is used up at the rate of the limits.
	Calls  int64 `json:"calls,omitempty"`
	Tokens int64 `json:"tokens,omitempty"`
	// Until is until when no call begins after a refusal.
	Until int64 `json:"until,omitempty"`
	// Refused is when a refusal was heard last, and Pause how long calls pause after the next one; 0: all are forgotten. At Raise
	// Pause is halved.
	Refused int64 `json:"refused,omitempty"`
	Pause   int64 `json:"pause,omitempty"`
	Raise   int64 `json:"raise,omitempty"`
	// Learned is the limit of calls that refusals have shown, 0: none; Since is when it was learned last.
	Learned int   `json:"learned,omitempty"`
	Since   int64 `json:"since,omitempty"`
	// Virtual is the virtual time of the tenant that was served last.
	Virtual int64         `json:"virtual,omitempty"`
	Tenants []LimitTenant `json:"tenants,omitempty"`
	Workers []LimitWorker `json:"workers,omitempty"`
}

// LimitTenant has the calls of one tenant that wait, in order.
type LimitTenant struct {
	Name string `json:"name,omitempty"`
	// Virtual grows by what the tenant's calls take, divided by its weight.
	Virtual int64         `json:"virtual,omitempty"`
	Waiting []LimitedCall `json:"waiting,omitempty"`
}

// LimitWorker is what one worker told last.
type LimitWorker struct {
	Name     string `json:"name"`
	At       int64  `json:"at"`
	Sent     int    `json:"sent,omitempty"`
	Requests int    `json:"requests,omitempty"`
	Tokens   int    `json:"tokens,omitempty"`
}

// LimitRequest is what a worker asks a limiter, and tells it.
type LimitRequest struct {
	// Worker is a name that no other worker has.
	Worker string `json:"worker"`
	// Requests and Tokens are the limits of the worker's settings; 0: none.
	Requests int `json:"requests,omitempty"`
	Tokens   int `json:"tokens,omitempty"`
	// Calls are those that want to begin.
	Calls []LimitedCall `json:"calls,omitempty"`
	// Unused is how many turns were given to calls that did not begin, Used by how many tokens calls differ from their estimates.
	Unused int `json:"unused,omitempty"`
	Used   int `json:"used,omitempty"`
	// Sent is how many of the worker's calls of the last window the provider has not refused.
	Sent int `json:"sent,omitempty"`
	// Refusal is set where the provider has refused a call because of its limits.
	Refusal *LimitRefusal `json:"refusal,omitempty"`
}

// LimitedCall is a call that wants to begin.
type LimitedCall struct {
	// Key is the same for all attempts of the call.
	Key    string `json:"key"`
	Tenant string `json:"tenant,omitempty"`
	// Weight is the tenant's; 0 means 1.
	Weight float32 `json:"weight,omitempty"`
	// Tokens is an estimate.
	Tokens int `json:"tokens,omitempty"`
	// Back is when a call that waits is to ask again; only a limiter sets it.
	Back int64 `json:"back,omitempty"`
}

// LimitRefusal is what a provider said with a refusal.
type LimitRefusal struct {
	// AgoMillis is how long ago the refused call was sent; AfterMillis how long the provider asks to wait, 0: it does not say.
	AgoMillis   int64 `json:"ago_ms,omitempty"`
	AfterMillis int64 `json:"after_ms,omitempty"`
}

// LimitReply has a turn for each of a request's calls, in order.
type LimitReply struct {
	Turns []LimitTurn `json:"turns,omitempty"`
	// Refused means that calls wait because of a refusal.
	Refused bool `json:"refused,omitempty"`
	// Free means that nothing is limited: the limiter ends.
	Free bool `json:"free,omitempty"`
}

// LimitTurn is when a call may begin.
type LimitTurn struct {
	// Micros is how long from now, in microseconds.
	Micros int64 `json:"in_us"`
	// Ask means that the call has to ask again then.
	Ask bool `json:"ask,omitempty"`
}

// LimitWait says that a call was not made because its turn has not come. Its next attempt is made when it comes: by Temporal, or,
// where the call's attempts are bounded, by the run, because Temporal would count this one.
type LimitWait struct {
	Millis int64 `json:"wait_ms"`
	// Failed is how many attempts of the call have failed.
	Failed int32 `json:"failed,omitempty"`
}
