package workflows

import (
	"slices"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/agent"
	"weft/workflows/node"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
)

// chain is a chain of nodes under way beside others: in a run of type Branch, or as a coroutine of the flow's run.
type chain struct {
	run    *runtime.Run
	runner *node.Runner
	// node, step, occurrence and suspended are the next execution.
	node, step, occurrence int
	suspended              *contract.SuspendedExecution
	lineage, strand        string
	view                   *contract.View
	// ahead says how far the chain goes on; ran counts executions at steps behind its first.
	ahead *schedule.Chain
	ran   []contract.Count
	// order holds the place of the nodes of a part of the flow in the whole; nil where there is the whole flow.
	order []int
	// exits is set where the flow has exit nodes, so that nobody wants the text of another.
	exits bool
	done  []contract.Execution
	// outcomeBytes is how many bytes done holds of answers, and of what exit nodes said. largest, if positive, is how much
	// the chain brings back before it stops.
	outcomeBytes, largest int
	now                   string
	// moved, if set, is called where the chain goes on to another node.
	moved func()
}

// stop is where a chain stopped: behind an execution that took edges or, for the run to continue as new, in the middle of
// one that yielded, or before the next.
type stop struct {
	at      *runtime.Execution
	edges   []int
	yielded *contract.ExecutionState
}

// suspended reports whether the chain stopped in the middle of an execution.
func (s *stop) suspended() bool { return s.yielded != nil && s.yielded.Suspended != nil }

// newChain is the chain that begins with an execution of a node.
func newChain(r *runtime.Run, first int, step, occurrence int, others schedule.NodeSet) *chain {
	return &chain{run: r, runner: node.New(r, agent.Kind{}, agent.ToolKind{}, nested{}), node: first, step: step, occurrence: occurrence,
		strand: contract.ExecutionID(r.Flow.Nodes[first].ID, step, occurrence), ahead: schedule.NewChain(r.Graph, others)}
}

// play runs nodes one behind the other until the chain stops.
func (c *chain) play(ctx workflow.Context) (*stop, error) {
	for {
		x := c.begin()
		n := x.Node
		done, err := c.runner.Execute(ctx, x, c.run.Graph.Out(c.node))
		if err != nil {
			return nil, err
		}
		if done.Suspended != nil {
			return c.yields(x, done.Suspended), nil
		}
		done.Occurrence = c.occurrence
		if c.exits && !n.Exit {
			done.Text, done.Data = nil, nil
		}
		c.now, c.done = "", append(c.done, done.Execution)
		if c.outcomeBytes += judged(&done.Execution); n.Exit && done.Text != nil {
			c.outcomeBytes += len(*done.Text) + len(done.Data)
		}
		next, ok := c.ahead.Next(c.node, done.Edges)
		due, err := c.run.Policy.ShouldContinueAsNew(ctx, 0)
		if err != nil {
			return nil, c.run.Failed(x, err)
		}
		if !ok {
			return &stop{at: x, edges: done.Edges}, nil
		}
		if c.step++; c.step > c.run.Flow.Limits.MaxSteps {
			return nil, stepLimit(c.run, c.run.Flow, next, c.done)
		}
		if !n.Exit {
			c.done[len(c.done)-1].Text = nil
		}
		c.node, c.occurrence = next, c.occurrenceOf(next)
		if due || c.full() {
			return c.yields(x, nil), nil
		}
		c.now = contract.ExecutionID(c.run.Flow.Nodes[next].ID, c.step, c.occurrence)
		if c.moved != nil {
			c.moved()
		}
	}
}

// yields is where the chain stopped at an execution, and goes on with the current one.
func (c *chain) yields(at *runtime.Execution, suspended *contract.SuspendedExecution) *stop {
	return &stop{at: at, yielded: &contract.ExecutionState{Node: c.run.Flow.Nodes[c.node].ID, Step: c.step, Occurrence: c.occurrence, Lineage: c.lineage, Suspended: suspended}}
}

// begin is the next execution, of which the chain tells from now on.
func (c *chain) begin() *runtime.Execution {
	n := &c.run.Flow.Nodes[c.node]
	x := &runtime.Execution{Node: n, ID: contract.ExecutionID(n.ID, c.step, c.occurrence), Step: c.step, Occurrence: c.occurrence,
		Lineage: c.lineage, Order: c.node, Strand: c.strand, View: c.view, Suspended: c.suspended}
	if c.order != nil {
		x.Order = c.order[c.node]
	}
	c.suspended, c.now = nil, x.ID
	return x
}

// occurrenceOf counts the next execution among those with the same node and step.
func (c *chain) occurrenceOf(node int) int {
	for _, n := range c.ran {
		if n.Node == c.run.Flow.Nodes[node].ID && n.Step == c.step {
			return n.N + 1
		}
	}
	return 1
}

// full reports whether what the chain must bring back has grown so much that it should not
// run another node first.
func (c *chain) full() bool {
	if c.largest == 0 {
		return false
	}
	own := schedule.Since(c.view, c.strand)
	n := c.outcomeBytes + schedule.StateBytes(&own)
	for i := range own.State {
		n += len(c.run.Transcript.Content[own.State[i].SHA])
	}
	for i := range own.Outputs {
		n += len(c.run.Transcript.Content[own.Outputs[i].SHA])
	}
	return n > c.largest
}

// ended is the error of a chain that failed or was cancelled, with what it had done.
func (c *chain) ended(err error) error {
	done, _ := lean(c.done, 0)
	if contract.Cancelled(err) {
		return temporal.NewCanceledError(contract.Failure{Class: contract.ClassCancelled, Usage: &c.run.Budget.Usage, Executions: done})
	}
	f := contract.FailureOf(err)
	f.Usage, f.Executions = &c.run.Budget.Usage, done
	return f.Wire()
}

// result is what the chain gives the flow's run where it stopped. Spent is what the conversation had spent before it.
func (c *chain) result(s *stop, spent int) *contract.BranchResult {
	conversation := c.run.Conversation.Snapshot(false)
	if conversation != nil {
		conversation.Spent -= spent
	}
	return &contract.BranchResult{ServerSessions: c.run.Shared.ServerSessions, NodeSessions: c.run.Shared.NodeSessions, Executions: c.done, View: schedule.Since(c.view, c.strand), Usage: c.run.Budget.Usage, Yielded: s.yielded,
		Edges: slices.Clone(s.edges), Conversation: conversation}
}
