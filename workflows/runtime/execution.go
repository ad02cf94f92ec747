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

// Outcome is what a node gives.
type Outcome struct {
	Ref  contract.ContentRef
	Text string
	Data json.RawMessage
	// Value is set by nodes that leave a typed value; text and data follow from it.
	Value     *value.Value
	Exhausted bool
	Truncated bool
	// OmittedMessages is how many early messages were no longer sent.
	OmittedMessages int
	// Unfit is the failure of a run whose result this would be.
	Unfit *contract.Failure
	// Branch is the one by which the node leaves, if it has several.
	Branch string
}

// Execution is one execution of a node under way.
type Execution struct {
	Node *plan.Node
	// Run is what the flow works with that the node is of.
	Run *Run
	// ID is node#step.
	ID               string
	Step, Occurrence int
	// Below: what the execution adds to the conversation comes from flows below.
	Below bool
	// Lineage is the last deferred join that the execution's branch has passed.
	Lineage string
	// Order is the node's place among the flow's declarations.
	Order int
	// Strand is the chain that the execution belongs to.
	Strand string
	View   *contract.View
	// Edges are those from the node, and Exit is how the execution leaves it, once that is decided.
	Edges []int
	Exit  Exit
	// Suspended is set where the execution goes on in its middle.
	Suspended *contract.SuspendedExecution
	// Journal holds the steps since the last boundary; State is what the execution was there, once it yields.
	Journal *journal.Journal
	State   contract.SuspendedExecution
}

// Exit is how an execution leaves its node: by the edges taken, after answers to their conditions, or by none of them.
type Exit struct {
	Taken   []int
	Answers []contract.Answer
	NoRoute bool
}

// Suspend is what an execution that yielded goes on with.
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
	return x.withinMeter(m.Base - 1)
}

// SpendEnd counts the run's last step, where an edge to its end is taken.
func (x *Execution) SpendEnd(taken []int) error {
	f := x.Run.Flow
	if f.Meter == nil || !slices.ContainsFunc(taken, func(e int) bool { return f.Edges[e].To == plan.End }) {
		return nil
	}
	return x.withinMeter(f.Meter.Base)
}

// withinMeter fails where the run has spent more than its flow's meter allows; base is what it spends beside its nodes.
func (x *Execution) withinMeter(base int) error {
	m := x.Run.Flow.Meter
	if x.Run.Conversation.SpentFor(x.Node)+base <= m.Limit {
		return nil
	}
	return x.Run.Fail(x, contract.ClassStepLimit, "give the loop a condition that ends it, or raise the flow's limit", "%s", m.Text)
}

// ExecutionLog holds what the finished executions of a run did.
type ExecutionLog struct {
	finished []*contract.ExecutionRecord
	// Fork is what the run was begun with, nil for most; replay holds what is left to replay of it.
	Fork   *contract.ForkedFrom
	Replay *schedule.Log
}

// Add keeps what an execution did, and what it added to a conversation in this run.
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

// page answers the query past.
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
