package main

import (
	"bytes"
	"encoding/json"
	"time"

	"weft/activities/contract"
)

// Events of a run, as -output jsonl names them.
const (
	eventRun      = "run"
	eventRunModel = "run_model"
	eventStarted  = "node_started"
	eventFinished = "node_finished"
	eventModel    = "model"
	eventText     = "text"
	eventTool     = "tool"
	eventJudge    = "judge"
	eventCall     = "call"
	eventAttempt  = "attempt_failed"
	eventFailed   = "call_failed"
	eventWarning  = "warning"
	eventNote     = "note"
	eventRequest  = "request_opened"
	eventAnswered = "request_answered"
)

// notice is one thing that happened in a run: a line of text for people, an object for
// programs.
type notice struct {
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

	// untimed says that the text belongs to the follower, not to the run.
	untimed bool
	// whole is the end of a partial answer, with what was told before.
	whole string
}

// report shows what happens in a run. It is called by one goroutine at a time.
type report interface {
	tell(n notice)
	// close is called before the outcome is printed.
	close()
}

// newReport chooses how a run is shown: objects on standard output, a table on a terminal,
// or lines on standard error.
func (a *app) newReport() report {
	switch {
	case a.flags.output == outputLines:
		return jsonReport{a}
	case a.lively():
		return newLive(a)
	}
	return textReport{a}
}

// textReport prints a line per event.
type textReport struct{ *app }

func (r textReport) tell(n notice) {
	if n.untimed {
		r.say("%s", n.Text)
		return
	}
	r.say("%7.1fs  %-24s  %s", n.Seconds, n.Node, n.Text)
}

func (textReport) close() {}

// jsonReport prints an object per event.
type jsonReport struct{ *app }

func (r jsonReport) tell(n notice) { r.object(n) }

func (jsonReport) readsText() bool { return true }

func (jsonReport) close() {}

// object prints one object on one line, or spread where people may look at it.
func (a *app) object(v any) {
	var text bytes.Buffer
	encode := json.NewEncoder(&text)
	encode.SetEscapeHTML(false)
	if encode.Encode(v) != nil {
		return // such a value does not exist here
	}
	// As JSON: a secret can be a number, too.
	raw := append(bytes.TrimSpace(a.mask.Answer(text.Bytes())), '\n')
	if a.flags.output != outputLines {
		var spread bytes.Buffer
		if json.Indent(&spread, raw, "", "  ") == nil {
			raw = spread.Bytes()
		}
	}
	_ = a.exactly(raw) // a broken pipe ends the process
}
