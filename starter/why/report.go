package why

import (
	"time"

	"weft/activities/contract"
)

// Report explains why the nodes of a run, or of a sub-agent's run, ran, did not run or wait.
type Report struct {
	Run string `json:"run"`
	// Place is where a sub-agent was called: node#step:call, behind those above it.
	Place  string `json:"place,omitempty"`
	Flow   string `json:"flow,omitempty"`
	Status string `json:"status"`
	// Failure is that of a run that failed.
	Failure *contract.Failure `json:"failure,omitempty"`
	// FromHistory says that no worker answered: nodes that make no calls may be missing.
	FromHistory bool   `json:"from_history,omitempty"`
	Nodes       []Node `json:"nodes"`
	// SubAgents are the runs below it.
	SubAgents []Report `json:"sub_agents,omitempty"`
	// Gone are the ids of runs whose history is not kept any more.
	Gone []string `json:"gone,omitempty"`
}

// Node is a node's state: done, running, waiting, failed, stopped or not_run.
type Node struct {
	Node  string `json:"node"`
	Name  string `json:"name,omitempty"`
	At    string `json:"at,omitempty"`
	State string `json:"state"`
	// Executions are those that ran, run or wait; Refused are the edges into a node that has
	// none, each with what kept it.
	Executions []Execution `json:"executions,omitempty"`
	Refused    []Edge      `json:"refused,omitempty"`
}

// Execution is one execution of a node.
type Execution struct {
	Execution string `json:"execution"`
	State     string `json:"state"`
	// Because are the edges that led here, Left those out of it, once they are decided.
	Because []Edge `json:"because,omitempty"`
	// Absent are the nodes with an edge into this join that did not run before it, or not between
	// the join's previous execution and this one.
	Absent []string `json:"absent,omitempty"`
	Left   []Edge   `json:"left,omitempty"`
	Waits  []Wait   `json:"waits,omitempty"`
	// Text says what else is known of it.
	Text string `json:"text,omitempty"`
}

// What became of an edge.
const (
	Taken     = "taken"
	Refused   = "refused"
	Undecided = "undecided"
)

// Edge is an edge and what became of it.
type Edge struct {
	Edge string `json:"edge"`
	// From is the execution, node#step, or a node that has not run.
	From   string `json:"from"`
	To     string `json:"to"`
	At     string `json:"at,omitempty"`
	Result string `json:"result"`
	// Question, Answer and Reason are recorded where the edge has a condition.
	Question string `json:"question,omitempty"`
	Answer   *bool  `json:"answer,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Text says why in words.
	Text string `json:"text"`
}

// What an execution waits for.
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
	// For are the executions, of a join; the runs, of a sub-agent.
	For []string `json:"for,omitempty"`
	// Call, Attempt, Next and Error are those of a call under way: Attempt is the one under
	// way or next, Next when that begins, Error what the one before it failed with.
	Call    string     `json:"call,omitempty"`
	Attempt int32      `json:"attempt,omitempty"`
	Next    *time.Time `json:"next,omitempty"`
	Error   string     `json:"error,omitempty"`
	// Request and Commands are those of a request.
	Request  *contract.Request `json:"request,omitempty"`
	Commands []string          `json:"commands,omitempty"`
	Text     string            `json:"text"`
}
