// Package progress prints the events of a run as they happen.
package progress

import (
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/workflows/plan"
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
	// Message is one that was added to a conversation.
	Message *contract.Message `json:"message,omitempty"`
	// Skipped reports whether some text before Text was missed; only for partial answers.
	Skipped bool   `json:"skipped,omitempty"`
	Text    string `json:"text"`

	// Untimed reports whether the text belongs to the follower instead of the run.
	Untimed bool `json:"-"`
	// Whole is the end of a partial answer, with what was shown before.
	Whole string `json:"-"`
}

// Report shows what happens in a run. It is called by one goroutine at a time.
type Report interface{ Notify(n Notice) }

// TextReader is a report that shows what models answer while they do; others are not sent that text.
type TextReader interface{ ReadsText() bool }

// Counter is a report that shows how much of a run is done.
type Counter interface{ Count(Total) }

// ModelLabel names a model, and marks scripted answers.
func ModelLabel(model string) string {
	return plaintext.Line(model, 200) + plaintext.If(contract.ScriptedAll(model), " (scripted answers, no model is called)")
}

// Total is how many nodes a run will run.
type Total struct {
	Nodes int
	// AtMost reports whether conditions may prevent the run from reaching some of them.
	AtMost bool
}

// TotalOf returns the total of a flow without loops, and reports whether it is one.
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
