package runtime

import (
	"encoding/json"
	"slices"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/schedule"
	"weft/workflows/transcript"
)

// Outcome is the outcome of a node.
type Outcome struct {
	Ref  contract.ContentRef
	Text string
	Data json.RawMessage
	// Value is set by nodes that return a typed value, from which text and data are derived.
	Value     *value.Value
	Exhausted bool
	Truncated bool
	// OmittedMessages is the number of early messages that were not sent to the model.
	OmittedMessages int
	// Unfit is the failure of the run if this outcome became its result.
	Unfit *contract.Failure
	// Branch is the branch that the node has chosen, if it has several.
	Branch string
}

// Execution is an execution of a node in progress.
type Execution struct {
	Node *plan.Node
	// Run is the run of the node's flow.
	Run *Run
	// ID is node#step.
	ID               string
	Step, Occurrence int
	// Below is set if the messages that the execution adds to the conversation come from child flows.
	Below bool
	// Lineage is the last deferred join that the execution's branch has passed.
	Lineage string
	// Order is the node's position among the flow's declarations.
	Order int
	// Strand is the chain that the execution belongs to.
	Strand string
	View   *contract.View
	// Edges are the edges from the node; Exit is set once the edges to take are selected.
	Edges []int
	Exit  Exit
	// Suspended is set if the execution resumes, or has yielded.
	Suspended *contract.SuspendedExecution
	// Journal holds the steps since the last boundary; State is the state at that boundary, set when the execution yields.
	Journal *journal.Journal
	State   contract.SuspendedExecution
}

// Exit holds the edges that an execution takes and the answers to their conditions. NoRoute is set if no edge matches.
type Exit struct {
	Taken   []int
	Answers []contract.Answer
	NoRoute bool
}

// Suspend returns the state with which an execution that has yielded resumes.
func (x *Execution) Suspend() (*contract.SuspendedExecution, error) {
	var err error
	x.State.Steps, err = x.Journal.Snapshot()
	return &x.State, err
}

// Spend counts against the flow's meter.
func (x *Execution) Spend(n int) error {
	c, m := &x.Run.Conversation, x.Run.Flow.Meter
	if m == nil || n == 0 {
		return nil
	}
	c.Spent += n
	if cost := x.Node.Cost; cost != nil && cost.Forked {
		c.Fork(x.Node.ID).Spent += n
	}
	return x.checkMeter(m.Base - 1)
}

// SpendEnd counts the run's last step against the flow's meter if an edge to the end is taken.
func (x *Execution) SpendEnd(taken []int) error {
	f := x.Run.Flow
	if f.Meter == nil || !slices.ContainsFunc(taken, func(e int) bool { return f.Edges[e].To == plan.End }) {
		return nil
	}
	return x.checkMeter(f.Meter.Base)
}

// checkMeter fails if the run has spent more than its flow's meter allows; base is what it spends outside its nodes.
func (x *Execution) checkMeter(base int) error {
	m := x.Run.Flow.Meter
	if x.Run.Conversation.SpentFor(x.Node)+base <= m.Limit {
		return nil
	}
	return x.Run.Fail(x, contract.ClassStepLimit, "add a condition that ends the loop, or raise the flow's limit", "%s", m.Text)
}

// ExecutionLog holds the records of a run's finished executions.
type ExecutionLog struct {
	finished []*contract.ExecutionRecord
	// Fork is set if the run was forked from another; Replay holds the executions that remain to be replayed.
	Fork   *contract.ForkedFrom
	Replay *schedule.Log
}

// Add records a finished execution with its state writes and the messages that it added to the conversation since before.
func (l *ExecutionLog) Add(c *transcript.Conversation, x *Execution, done *contract.Execution, sha string, before transcript.Mark) {
	p := &contract.ExecutionRecord{Execution: *done, Lineage: x.Lineage, SHA: sha}
	p.Occurrence = x.Occurrence
	for i := range x.View.State {
		if x.View.State[i].By.Exec == x.ID {
			p.Writes = append(p.Writes, x.View.State[i])
		}
	}
	p.Conversation = c.Since(before)
	l.finished = append(l.finished, p)
}

// page answers the query for executions.
func (l *ExecutionLog) page(q contract.ExecutionsQuery) (contract.ExecutionsPage, error) {
	past := l.finished
	if q.From < 0 || q.From > len(past) {
		return contract.ExecutionsPage{}, transcript.NotFound("execution %d; it has %d", q.From, len(past))
	}
	page := contract.ExecutionsPage{Executions: []contract.ExecutionRecord{}}
	size := 0
	for i := q.From; i < len(past); i++ {
		raw, err := contract.Encode(past[i])
		if err != nil {
			return page, err
		}
		if size += len(raw); size > contract.PageBytes && len(page.Executions) > 0 {
			page.Next = i
			break
		}
		page.Executions = append(page.Executions, *past[i])
	}
	return page, nil
}
