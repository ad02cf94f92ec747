package why

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/plaintext"
)

// Report explains why the nodes of a run, or of a sub-agent's run, ran, did not run or wait.
type Report struct {
	Run string `json:"run"`
	// Place is the place of a sub-agent: node#step:call, prefixed with the places of its ancestors.
	Place  string `json:"place,omitempty"`
	Flow   string `json:"flow,omitempty"`
	Status string `json:"status"`
	// Failure is the failure of a failed run.
	Failure *contract.Failure `json:"failure,omitempty"`
	// FromHistory reports whether no worker answered: nodes that make no calls may then be missing.
	FromHistory bool   `json:"from_history,omitempty"`
	Nodes       []Node `json:"nodes"`
	// SubAgents are the reports of its sub-agents.
	SubAgents []Report `json:"sub_agents,omitempty"`
	// Gone are the ids of runs whose history is no longer retained.
	Gone []string `json:"gone,omitempty"`
}

// Node is a node's state: done, running, waiting, failed, stopped or not_run.
type Node struct {
	Node  string `json:"node"`
	Name  string `json:"name,omitempty"`
	At    string `json:"at,omitempty"`
	State string `json:"state"`
	// Executions are the executions that ran, run or wait; Refused are the edges into a node
	// without executions, with the reasons why they were not taken.
	Executions []Execution `json:"executions,omitempty"`
	Refused    []Edge      `json:"refused,omitempty"`
}

// Execution is one execution of a node.
type Execution struct {
	Execution string `json:"execution"`
	State     string `json:"state"`
	// Because are the edges that led here, Left its outgoing edges, once they are decided.
	Because []Edge `json:"because,omitempty"`
	// Absent are the predecessors of this join that did not run before it, or not since
	// the join's previous execution.
	Absent []string `json:"absent,omitempty"`
	Left   []Edge   `json:"left,omitempty"`
	Waits  []Wait   `json:"waits,omitempty"`
	// Text has further information about it.
	Text string `json:"text,omitempty"`
}

// Outcomes of an edge.
const (
	Taken     = "taken"
	Refused   = "refused"
	Undecided = "undecided"
)

// Edge is an edge and its outcome.
type Edge struct {
	Edge string `json:"edge"`
	// From is the execution, node#step, or a node that has not run.
	From   string `json:"from"`
	To     string `json:"to"`
	At     string `json:"at,omitempty"`
	Result string `json:"result"`
	// Question, Answer and Reason are recorded for an edge with a condition.
	Question string `json:"question,omitempty"`
	Answer   *bool  `json:"answer,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Text explains why.
	Text string `json:"text"`
}

// Kinds of waits.
const (
	WaitJoin     = "join"
	WaitRequest  = "request"
	WaitRetry    = "retry"
	WaitLimit    = "rate_limit"
	WaitPaused   = "paused"
	WaitCall     = "call"
	WaitWorker   = "worker"
	WaitSubAgent = "sub_agent"
)

// Wait is something that an execution waits for.
type Wait struct {
	Kind string `json:"kind"`
	// For lists the executions for a join, and the runs for a sub-agent.
	For []string `json:"for,omitempty"`
	// Call, Attempt, Next and Error describe a call in progress: Attempt is the current or next
	// attempt, Next its start time, Error the failure of the attempt before.
	Call    string     `json:"call,omitempty"`
	Attempt int32      `json:"attempt,omitempty"`
	Next    *time.Time `json:"next,omitempty"`
	Error   string     `json:"error,omitempty"`
	// Request is the open request, Commands are the commands that answer it.
	Request  *contract.Request `json:"request,omitempty"`
	Commands []string          `json:"commands,omitempty"`
	Text     string            `json:"text"`
}

var words = map[string]string{Done: "ran", Running: "runs", Waiting: "waits", Failed: "failed", Stopped: "was stopped", NotRun: "did not run"}

// Text formats a report; one also shows the outgoing edges of nodes.
func Text(r *Report, one bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%srun %s%s: %s\n", plaintext.If(r.Place != "", "sub-agent %s, ", plaintext.Line(r.Place, 300)), plaintext.Lines(r.Run),
		plaintext.If(r.Flow != "", " of %s", plaintext.Line(r.Flow, 200)), r.Status)
	if f := r.Failure; f != nil {
		fmt.Fprintf(&b, "  failed: %s\n", plaintext.Line(f.Class+": "+f.Error(), 1000))
	}
	for i := range r.Nodes {
		nodeText(&b, &r.Nodes[i], one)
	}
	for _, id := range r.Gone {
		fmt.Fprintf(&b, "the history of %s is no longer retained\n", plaintext.Lines(id))
	}
	for i := range r.SubAgents {
		b.WriteByte('\n')
		b.WriteString(Text(&r.SubAgents[i], one))
	}
	return b.String()
}

func nodeText(b *strings.Builder, n *Node, one bool) {
	place := plaintext.If(n.At != "", " (%s)", plaintext.Line(n.At, 300))
	fmt.Fprintf(b, "\n%s %s%s\n", plaintext.Line(n.Node, 200), words[n.State], place)
	if n.State == NotRun && len(n.Refused) == 0 {
		b.WriteString("  no edge leads to it\n")
	}
	for i := range n.Refused {
		edgeText(b, "  ", &n.Refused[i], true)
	}
	for i := range n.Executions {
		executionText(b, n, i, one)
	}
}

func executionText(b *strings.Builder, n *Node, i int, one bool) {
	e := &n.Executions[i]
	fmt.Fprintf(b, "  %s %s%s\n", plaintext.Line(e.Execution, 200), words[e.State], plaintext.If(e.Text != "", ": %s", e.Text))
	for k := range e.Because {
		edgeText(b, "    came by ", &e.Because[k], false)
	}
	if len(e.Absent) > 0 {
		when := "before it"
		if i > 0 {
			when = fmt.Sprintf("between %s and it", plaintext.Line(n.Executions[i-1].Execution, 200))
		}
		fmt.Fprintf(b, "    %s did not run %s\n", plaintext.Line(strings.Join(e.Absent, ", "), 1000), when)
	}
	for _, w := range e.Waits {
		verb := cmp.Or(plaintext.If(e.State == Stopped, "waited"), "waits")
		fmt.Fprintf(b, "    %s for %s\n", verb, w.Text)
		for _, c := range w.Commands {
			fmt.Fprintf(b, "      answer with: %s\n", plaintext.Lines(c))
		}
	}
	for k := range e.Left {
		if x := &e.Left[k]; one || x.Result != Taken {
			edgeText(b, "    ", x, true)
		}
	}
}

// edgeText formats an edge; outcome adds its outcome and target.
func edgeText(b *strings.Builder, lead string, e *Edge, outcome bool) {
	name := "edge " + plaintext.Line(e.Edge, 100)
	if outcome {
		name = fmt.Sprintf("%s %s, %s → %s", e.Result, name, plaintext.Line(e.From, 200), plaintext.Line(e.To, 200))
	} else {
		name += " from " + plaintext.Line(e.From, 200)
	}
	fmt.Fprintf(b, "%s%s: %s\n", lead, name, e.Text)
}
