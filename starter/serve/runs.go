package serve

import (
	"context"
	"encoding/json"
	"time"

	"weft/activities/contract"
	"weft/starter/runs"
	"weft/starter/transcript"
)

// Runs are the runs of flows. Errors that a client can do something about are of type [*Problem].
type Runs interface {
	// Start starts a run. If there is one of the same id, open or not, it returns that, and existed is true.
	Start(ctx context.Context, s *Start) (run *Run, existed bool, err error)
	// Find looks for a run. The problem is [UnknownRun] where there is none.
	Find(ctx context.Context, id string) (*Run, error)
	// List gives up to wanted.Limit runs behind a token, the youngest first, and the token of the next page or "".
	List(ctx context.Context, wanted runs.Filter, token string) (list []Run, next string, err error)
	// Await returns when a run has ended, or with ctx's error.
	Await(ctx context.Context, run *Run) error
	// Outcome is the result of a run that has ended, or else why it has none.
	Outcome(ctx context.Context, run *Run) (*contract.RunResult, *contract.Failure, error)
	Status(ctx context.Context, run *Run) (*contract.Status, error)
	State(ctx context.Context, run *Run) (map[string]json.RawMessage, error)
	// Transcript returns all messages, thread by thread, and the ids of workflows without history.
	Transcript(ctx context.Context, run *Run) (lines []transcript.Line, missing []string, err error)
	// Answer sends an answer, or a message without a request.
	Answer(ctx context.Context, run *Run, kind string, answer any) (*contract.Receipt, error)
	Cancel(ctx context.Context, run *Run) error
	// Resume gives a session its next prompt and returns when that is taken.
	Resume(ctx context.Context, run *Run, in contract.PromptInput) error
	// Stop ends a session.
	Stop(ctx context.Context, run *Run, by string) error
	// Turns are those of a session, and whether it is open. Another run has none.
	Turns(ctx context.Context, run *Run) (turns []contract.Turn, open bool, err error)
	// CheckEvent refuses what cannot be the id of an event.
	CheckEvent(id string) error
	// Follow sends what happens behind the event with the id after, until the run is closed or ctx is done.
	Follow(ctx context.Context, run *Run, after string, tell func(*Event) error) error
	// Ready reports whether Temporal answers.
	Ready(ctx context.Context) error
}

// Start is a run that is wanted.
type Start struct {
	// ID is the run's id, Session the client's name of the session, Hash that of the request.
	ID, Session, Hash string
	// Caller is the name of the token with which the start came, or "".
	Caller string
	Input  *contract.RunInput
}

// Run is what is known of a run without asking it.
type Run struct {
	ID string
	// Flow is the flow's name, or "".
	Flow string
	// Status is one of [runs.StatusNames].
	Status        string
	Session, Hash string
	Started       time.Time
	// Closed is nil for a run that is open.
	Closed *time.Time
	// Kept says that the run is a turn of a session. Closed is the turn's end then.
	Kept bool
	// Silent is why a session's turns are unknown; its worker is not asked again then.
	Silent error
	// Current and First are the last and the first run of the chain, Queue is the task queue; for [Runs] alone.
	Current, First, Queue string
}

// Event is something that happened in a run.
type Event struct {
	// ID says how far a client has come that has this event; "" is as far as the event before it.
	ID string `json:"-"`
	// Type is the kind of event, like model or request_opened.
	Type      string    `json:"event_type"`
	Session   string    `json:"session_id"`
	Timestamp time.Time `json:"timestamp"`
	// Node is the execution, node#step; Call names a call in it.
	Node    string            `json:"node,omitempty"`
	Call    string            `json:"call,omitempty"`
	Attempt int32             `json:"attempt,omitempty"`
	Model   string            `json:"model,omitempty"`
	Usage   *contract.Usage   `json:"usage,omitempty"`
	Request *contract.Request `json:"request,omitempty"`
	// Skipped says that some of an answer before Text has passed by unseen; of partial answers alone.
	Skipped bool   `json:"skipped,omitempty"`
	Text    string `json:"text"`
}
