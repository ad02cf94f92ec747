package contract

import (
	"encoding/json"
	"time"
)

// A session is a run of one agent that stays open. Each prompt is a turn in the same
// conversation; the first is the run's input.
const (
	// UpdatePrompt takes a [PromptInput] and returns the [Turn] when that has ended, or as it
	// stands where the run continues as new before: the same Update again then waits on. As a
	// signal it starts the turn alone.
	UpdatePrompt = "prompt"
	// UpdateCloseSession takes a [CloseSessionInput] and returns a [Receipt]: the turn under way is cancelled,
	// and the session ends.
	UpdateCloseSession = "close_session"
	// SignalTurn tells a session by a [ChildTurn] how a turn of one that it started stands.
	SignalTurn = "_weft_turn"
)

// PromptInput is a session's next prompt.
type PromptInput struct {
	// ID makes the prompt repeatable: the same one again is the same turn. Empty: the Update's
	// own id.
	ID string `json:"id,omitempty"`
	// Prompt is at least one character.
	Prompt string `json:"prompt"`
	// Media are shown to the model with the prompt, as a run's are with its input.
	Media []Media `json:"images,omitempty"`
	// By is who sent it.
	By string `json:"by,omitempty"`
}

// Hash distinguishes prompts: by its text, and by its files where it has some.
func (r *PromptInput) Hash() string {
	hash := SHA([]byte(r.Prompt))
	for i := range r.Media {
		hash = Chain(hash, SHA([]byte(r.Media[i].Data)))
	}
	return hash
}

// CloseSessionInput ends a session.
type CloseSessionInput struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// The states of a [Turn].
const (
	TurnQueued    = "queued"
	TurnRunning   = "running"
	TurnCompleted = "completed"
	TurnFailed    = "failed"
	TurnStopped   = "stopped"
)

// Turn is one prompt of a session and what became of it.
type Turn struct {
	// N counts turns from 1; 0 while the prompt is queued, and where the session ended before its turn.
	N int `json:"n,omitempty"`
	// ID is that of the [PromptInput]; empty for the first turn and for callbacks.
	ID     string `json:"id,omitempty"`
	Status string `json:"status"`
	// ResultText and ResultData exclude each other; one is set where the turn is completed,
	// unless OmittedBytes.
	ResultText *string         `json:"result_text"`
	ResultData json.RawMessage `json:"result_data,omitempty"`
	// Failure is why the turn has no result.
	Failure *Failure `json:"failure,omitempty"`
	// Callbacks are the sessions whose results were the turn's prompt.
	Callbacks []string `json:"callbacks,omitempty"`
	// OmittedBytes is the size in bytes of a result that is no longer kept.
	OmittedBytes int `json:"omitted_bytes,omitempty"`
	// Usage is what the turn used, with the turns of sessions below that ended meanwhile.
	Usage     *Usage     `json:"usage,omitempty"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	// Hash is that of the prompt.
	Hash string `json:"hash,omitempty"`
}

// Done reports whether the turn has ended.
func (t *Turn) Done() bool {
	return t.Status == TurnCompleted || t.Status == TurnFailed || t.Status == TurnStopped
}

// Prompt is one that waits for its turn.
type Prompt struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	Hash string `json:"hash"`
	// Media are those of the [PromptInput].
	Media []Media `json:"images,omitempty"`
}

// Size is how many bytes of a snapshot the prompt takes, about.
func (p *Prompt) Size() int {
	n := len(p.Text)
	for i := range p.Media {
		n += len(p.Media[i].Data)
	}
	return n
}

// ChildTurn is how a turn of a session stands, for the one that started the session. One without a
// number is a prompt of that one's: it is in line, or was refused.
type ChildTurn struct {
	Session string `json:"session"`
	Turn    Turn   `json:"turn"`
	// Usage is that of the whole session so far.
	Usage Usage `json:"usage"`
	// Expects means that the session has more turns to come, of callbacks of its own.
	Expects bool `json:"expects,omitempty"`
}

// The modes in which a session is started or resumed by another.
const (
	ModeSync     = "sync"
	ModePoll     = "async_poll"
	ModeCallback = "async_callback"
)

// Modes are all of them, as messages list them.
var Modes = []string{ModeSync, ModePoll, ModeCallback}

// SessionOrder names a turn that one session asked of another.
type SessionOrder struct {
	Session string `json:"session"`
	// ID is the turn's; empty for the first.
	ID   string `json:"id,omitempty"`
	Mode string `json:"mode"`
	// Taken means that the session has the prompt, in line or in its turn.
	Taken bool `json:"taken,omitempty"`
	// Ended means that the turn has ended, and that its callback waits until the session expects
	// none of its own.
	Ended bool `json:"ended,omitempty"`
}

// ChildSession is a session that another started.
type ChildSession struct {
	ChildStatus
	// Orders are the turns that it has not ended, and those whose result nobody has taken.
	Orders []SessionOrder `json:"orders,omitempty"`
	// Done are the ended turns that somebody waits for, and prompts that were refused. Last is the
	// latest turn; Expects is that of what told of it.
	Done    []Turn `json:"done,omitempty"`
	Last    *Turn  `json:"last,omitempty"`
	Expects bool   `json:"expects,omitempty"`
	// Usage is what the session above has counted of it.
	Usage Usage `json:"usage"`
	// Params are what it was started with, until it has started.
	Params json.RawMessage `json:"params,omitempty"`
	// Closed means that it has ended.
	Closed bool `json:"closed,omitempty"`
	// Snapshot is what it goes on with in another run.
	Snapshot *RunSnapshot `json:"snapshot,omitempty"`
}

// SessionState is what a session carries into its next run.
type SessionState struct {
	// IsSession is false for a run that has started sessions and is none itself.
	IsSession bool           `json:"is_session,omitempty"`
	Parent    string         `json:"parent,omitempty"`
	Turns     []Turn         `json:"turns,omitempty"`
	Count     int            `json:"count"`
	Queue     []Prompt       `json:"queue,omitempty"`
	Children  []ChildSession `json:"children,omitempty"`
	// Callbacks are results of children that no turn has had yet, in the order in which they came.
	Callbacks []ChildTurn        `json:"callbacks,omitempty"`
	Stop      *CloseSessionInput `json:"stop,omitempty"`
	// Spent is what had been used when the turn began.
	Spent Usage `json:"spent"`
	// Rejected and RejectionReasons are those of the [Status] of a session that owns no requests.
	Rejected         int      `json:"rejected,omitempty"`
	RejectionReasons []string `json:"rejection_reasons,omitempty"`
}

// SessionStatus is a session's part of a [Status], without results.
type SessionStatus struct {
	// Turns is how many there have been; Turn is the latest.
	Turns int   `json:"turns"`
	Turn  *Turn `json:"turn,omitempty"`
	// Queued are prompts, Callbacks results of children that wait for a turn.
	Queued    int           `json:"queued,omitempty"`
	Callbacks int           `json:"callbacks,omitempty"`
	Children  []ChildStatus `json:"children,omitempty"`
}

// ChildStatus is a session that another started, for people.
type ChildStatus struct {
	ID    string `json:"id"`
	Agent string `json:"agent,omitempty"`
	// Status is pending, running, idle, stopped or failed; Problem is why it ended.
	Status  string     `json:"status"`
	Created time.Time  `json:"created_at"`
	Resumed *time.Time `json:"last_resumed_at,omitempty"`
	Problem string     `json:"problem,omitempty"`
}
