// Package progress prints the events of a run as they happen.
package progress

import (
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/workflows/plan"
)

// Names of events in -output jsonl.
const (
	EventRun      = "run"
	EventRunModel = "run_model"
	EventStarted  = "node_started"
	EventFinished = "node_finished"
	EventModel    = "model"
	EventText     = "text"
	EventTool     = "tool"
	EventMessage  = "message"
	EventJudge    = "judge"
	EventCall     = "call"
	EventAttempt  = "attempt_failed"
	EventFailed   = "call_failed"
	EventWarning  = "warning"
	EventNote     = "note"
	EventRequest  = "request_opened"
	EventAnswered = "request_answered"
)

// Notice is an event of a run: a line of text for users, an object for programs.
type Notice struct {
	Event string    `json:"event"`
	Time  time.Time `json:"time"`
	// Seconds is the time since the run's start.
	Seconds float64 `json:"seconds"`
	// Run is the workflow id, only in the first event.
	Run string `json:"run,omitempty"`
	// Node is the execution, node#step, prefixed with its sub-agent's place.
	Node string `json:"node,omitempty"`
	// Call names a model or tool call in its node.
	Call    string          `json:"call,omitempty"`
	Attempt int32           `json:"attempt,omitempty"`
	Model   string          `json:"model,omitempty"`
	Usage   *contract.Usage `json:"usage,omitempty"`
	// Request is the request that was opened or answered; Commands are the command lines that answer it.
	Request  *contract.Request `json:"request,omitempty"`
	Commands []string          `json:"commands,omitempty"`
	// Message is the message that was added to a conversation.
	Message *contract.Message `json:"message,omitempty"`
	// Skipped reports whether some text before Text was missed; only for partial answers.
	Skipped bool   `json:"skipped,omitempty"`
	Text    string `json:"text"`

	// Untimed reports that the text is about the follower, not about the run.
	Untimed bool `json:"-"`
	// Whole is the end of a partial answer, including the text shown before.
	Whole string `json:"-"`
}

// Report shows the events of a run. It is called by one goroutine at a time.
type Report interface{ Notify(n Notice) }

// TextReader is a report that shows partial answers; other reports do not receive them.
type TextReader interface{ ReadsText() bool }

// Counter is a report that shows the progress of a run.
type Counter interface{ Count(Total) }

// ModelLabel returns the label of a model, which marks scripted answers.
func ModelLabel(model string) string {
	return plaintext.Line(model, 200) + plaintext.If(contract.ScriptedAll(model), " (scripted answers, no model is called)")
}

// Total is the number of nodes that a run will run.
type Total struct {
	Nodes int
	// AtMost reports that conditions may prevent the run from reaching some of them.
	AtMost bool
}

// TotalOf returns the total of a flow; ok is false if the flow has loops.
func TotalOf(f *plan.Flow) (t Total, ok bool) {
	out := map[string][]string{}
	for i := range f.Edges {
		e := &f.Edges[i]
		out[e.From] = append(out[e.From], e.To)
		t.AtMost = t.AtMost || e.Question != "" || e.Branch != ""
	}
	const open, closed = 1, 2
	seen := map[string]int{plan.End: closed}
	var walk func(node string) bool
	walk = func(node string) bool {
		seen[node] = open
		for _, to := range out[node] {
			if seen[to] == open || seen[to] == 0 && !walk(to) {
				return false
			}
		}
		seen[node] = closed
		return true
	}
	ok = walk(plan.Start)
	t.Nodes = len(seen) - 2
	return t, ok && t.Nodes > 0
}

const barWidth = 20

func bar(done int, t Total) string {
	done = min(done, t.Nodes)
	full := done * barWidth / t.Nodes
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}
