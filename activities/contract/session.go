package contract

import (
	"encoding/json"
	"time"
)

// A session is a run of one agent that stays open. Each prompt is a turn in the same conversation; the first prompt is
// the run's input.
const (
	// UpdatePrompt takes a [PromptInput] and returns the [Turn] when it has ended, or its current state if the run
	// continues as new before: the same Update, sent again, continues to wait. As a signal it only starts the turn.
	UpdatePrompt = "prompt"
	// UpdateCloseSession takes a [CloseSessionInput] and returns a [Receipt]. It cancels the running turn and ends the
	// session.
	UpdateCloseSession = "close_session"
	// SignalTurn reports a turn of a child session to its parent, by a [ChildTurn].
	SignalTurn = "_weft_turn"
)

// PromptInput is a session's next prompt.
type PromptInput struct {
	// ID makes the prompt idempotent: the same prompt with the same id is the same turn. It defaults to the Update's id.
	ID string `json:"id,omitempty"`
	// Prompt must not be empty.
	Prompt string `json:"prompt"`
	// Media are sent to the model with the prompt, like those of a run's input.
	Media []Media `json:"images,omitempty"`
	// By is who sent it.
	By string `json:"by,omitempty"`
}

// Hash distinguishes prompts by their text and files.
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

// Turn is one prompt of a session and its outcome.
type Turn struct {
	// N numbers turns from 1; 0 if the prompt is queued, or if the session ended before its turn.
	N int `json:"n,omitempty"`
	// ID is [PromptInput.ID]; empty for the first turn and for callbacks.
	ID     string `json:"id,omitempty"`
	Status string `json:"status"`
	// ResultText and ResultData are mutually exclusive; one is set if the turn has completed, unless OmittedBytes is.
	ResultText *string         `json:"result_text"`
	ResultData json.RawMessage `json:"result_data,omitempty"`
	// Failure is the reason that the turn has no result.
	Failure *Failure `json:"failure,omitempty"`
	// Callbacks are the child sessions whose results were the turn's prompt.
	Callbacks []string `json:"callbacks,omitempty"`
	// OmittedBytes is the size in bytes of a result that is no longer retained.
	OmittedBytes int `json:"omitted_bytes,omitempty"`
	// Usage is what the turn used, including turns of child sessions that ended during it.
	Usage     *Usage     `json:"usage,omitempty"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	// Hash is the prompt's hash.
	Hash string `json:"hash,omitempty"`
}

// Done reports whether the turn has ended.
func (t *Turn) Done() bool {
	return t.Status == TurnCompleted || t.Status == TurnFailed || t.Status == TurnStopped
}

// Prompt is a queued prompt.
type Prompt struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	Hash string `json:"hash"`
	// Media is [PromptInput.Media].
	Media []Media `json:"images,omitempty"`
}

// Size returns the approximate size of the prompt in a snapshot, in bytes.
func (p *Prompt) Size() int {
	n := len(p.Text)
	for i := range p.Media {
		n += len(p.Media[i].Data)
	}
	return n
}

// ChildTurn reports the state of a child session's turn to its parent. A turn without a number is a prompt of the parent
// that is queued or was rejected.
type ChildTurn struct {
	Session string `json:"session"`
	Turn    Turn   `json:"turn"`
	// Usage is that of the entire session so far.
	Usage Usage `json:"usage"`
	// Expects means that the session will have further turns, for callbacks of its own children.
	Expects bool `json:"expects,omitempty"`
}

// The modes in which a session starts or resumes a child session.
const (
	ModeSync     = "sync"
	ModePoll     = "async_poll"
	ModeCallback = "async_callback"
)

// Modes lists all modes, in display order.
var Modes = []string{ModeSync, ModePoll, ModeCallback}

// SessionOrder is a turn that one session requested of another.
type SessionOrder struct {
	Session string `json:"session"`
	// ID is the turn's id; empty for the first.
	ID   string `json:"id,omitempty"`
	Mode string `json:"mode"`
	// Taken means that the session has received the prompt.
	Taken bool `json:"taken,omitempty"`
	// Ended means that the turn has ended, and that its callback waits until the session expects no callbacks itself.
	Ended bool `json:"ended,omitempty"`
}

// ChildSession is the state of a child session in its parent.
type ChildSession struct {
	ChildStatus
	// Orders are the turns that have not ended, and those whose result has not been collected.
	Orders []SessionOrder `json:"orders,omitempty"`
	// Done are ended turns whose result is awaited, and prompts that were rejected. Last is the latest turn; Expects is
	// [ChildTurn.Expects] of its report.
	Done    []Turn `json:"done,omitempty"`
	Last    *Turn  `json:"last,omitempty"`
	Expects bool   `json:"expects,omitempty"`
	// Usage is the part of its usage that the parent has counted.
	Usage Usage `json:"usage"`
	// Params are the parameters to start it with, until it has started.
	Params json.RawMessage `json:"params,omitempty"`
	// Closed means that the session has ended.
	Closed bool `json:"closed,omitempty"`
	// Snapshot is the state from which it continues in another run.
	Snapshot *RunSnapshot `json:"snapshot,omitempty"`
}

// SessionState is what a session carries over when it continues as new.
type SessionState struct {
	// IsSession is false for a run that has started sessions but is not a session itself.
	IsSession bool           `json:"is_session,omitempty"`
	Parent    string         `json:"parent,omitempty"`
	Turns     []Turn         `json:"turns,omitempty"`
	Count     int            `json:"count"`
	Queue     []Prompt       `json:"queue,omitempty"`
	Children  []ChildSession `json:"children,omitempty"`
	// Callbacks are results of child sessions that no turn has processed yet, in order of arrival.
	Callbacks []ChildTurn        `json:"callbacks,omitempty"`
	Stop      *CloseSessionInput `json:"stop,omitempty"`
	// Spent is the usage when the turn began.
	Spent Usage `json:"spent"`
	// Rejected and RejectionReasons are those of [Status], for a session that owns no requests.
	Rejected         int      `json:"rejected,omitempty"`
	RejectionReasons []string `json:"rejection_reasons,omitempty"`
}

// SessionStatus is the part of a [Status] about sessions, without results.
type SessionStatus struct {
	// Turns is the number of turns so far; Turn is the latest.
	Turns int   `json:"turns"`
	Turn  *Turn `json:"turn,omitempty"`
	// Queued counts waiting prompts, Callbacks waiting results of child sessions.
	Queued    int           `json:"queued,omitempty"`
	Callbacks int           `json:"callbacks,omitempty"`
	Children  []ChildStatus `json:"children,omitempty"`
}

// ChildStatus describes a child session, for display.
type ChildStatus struct {
	ID    string `json:"id"`
	Agent string `json:"agent,omitempty"`
	// Status is pending, running, idle, stopped or failed; Problem is the reason that it ended.
	Status  string     `json:"status"`
	Created time.Time  `json:"created_at"`
	Resumed *time.Time `json:"last_resumed_at,omitempty"`
	Problem string     `json:"problem,omitempty"`
}
