// Package progress shows what happens in a run while it happens.
package progress

import (
	"time"

	"weft/activities/contract"
	"weft/starter/plaintext"
)

// Events of a run, as -output jsonl names them.
const (
	EventRun      = "run"
	EventRunModel = "run_model"
	EventStarted  = "node_started"
	EventFinished = "node_finished"
	EventModel    = "model"
	EventText     = "text"
	EventTool     = "tool"
	EventJudge    = "judge"
	EventCall     = "call"
	EventAttempt  = "attempt_failed"
	EventFailed   = "call_failed"
	EventWarning  = "warning"
	EventNote     = "note"
	EventRequest  = "request_opened"
	EventAnswered = "request_answered"
)

// Notice is an event of a run: a line of text for people, an object for programs.
type Notice struct {
	Event string    `json:"event"`
	Time  time.Time `json:"time"`
	// Seconds are those since the run's start.
	Seconds float64 `json:"seconds"`
	// Run is the workflow id, in the first event alone.
	Run string `json:"run,omitempty"`
	// Node is the execution, node#step; a sub-agent's comes behind its place.
	Node string `json:"node,omitempty"`
	// Call names a model or tool call in its node.
	Call    string          `json:"call,omitempty"`
	Attempt int32           `json:"attempt,omitempty"`
	Model   string          `json:"model,omitempty"`
	Usage   *contract.Usage `json:"usage,omitempty"`
	// Request is one that was opened or answered; Commands are the command lines that answer.
	Request  *contract.Request `json:"request,omitempty"`
	Commands []string          `json:"commands,omitempty"`
	// Skipped says that some text before Text has passed by unseen; of partial answers alone.
	Skipped bool   `json:"skipped,omitempty"`
	Text    string `json:"text"`

	// Untimed says that the text belongs to the follower, not to the run.
	Untimed bool `json:"-"`
	// Whole is the end of a partial answer, with what was shown before.
	Whole string `json:"-"`
}

// Report shows what happens in a run. It is called by one goroutine at a time.
type Report interface {
	Notify(n Notice)
	// Close is called before the outcome is printed.
	Close()
}

// TextReader is a report that shows what models answer while they do; others are not sent that text.
type TextReader interface{ ReadsText() bool }

// Counter is a report that shows how much of a run is done.
type Counter interface{ Count(Total) }

// ModelLabel names a model, and marks scripted answers.
func ModelLabel(model string) string {
	if contract.ScriptedAll(model) {
		return plaintext.Line(model, 200) + " (scripted answers, no model is called)"
	}
	return plaintext.Line(model, 200)
}
