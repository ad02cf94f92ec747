package workflows

import (
	"cmp"
	"fmt"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/agent"
	"weft/workflows/argument"
	"weft/workflows/node"
	"weft/workflows/plan"
	"weft/workflows/prepare"
	"weft/workflows/references"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/values"
)

// Branch runs a chain of nodes beside other branches of a flow. It comes back when it cannot go on alone: at END, at a fork, before
// a deferred node, before a node that others can reach, and where its choice of an edge closed the way to such a node, which others
// may be waiting for.
//
// It fails with the failure of the node that failed. Its input is a [contract.BranchInput],
// taken as it came, so that what is wrong with it can be said.
func (s Settings) Branch(ctx workflow.Context, raw converter.RawValue) (out *contract.BranchResult, err error) {
	in, err := readBranch(ctx, raw)
	if err != nil {
		return nil, runtime.ToApplicationError(err)
	}
	c, err := branchChain(ctx, in)
	if err != nil {
		return nil, runtime.ToApplicationError(err)
	}
	c.run.Requests.Listen(ctx, func(ctx workflow.Context) { out, err = playBranch(ctx, c, in) })
	c.run.Requests.Listeners.Take() // what came while the run did not wait
	return out, err
}

// readBranch decodes what a branch is started with, and refuses what no run of type Flow makes.
func readBranch(ctx workflow.Context, raw converter.RawValue) (*contract.BranchInput, error) {
	argument.AssertReadable(ctx, raw)
	body, err := argument.JSON(raw, "the branch's input", "or start a run of type "+contract.WorkflowFlow)
	if err != nil {
		return nil, err
	}
	in, err := contract.ReadBranchInput(body)
	if err != nil {
		return nil, err
	}
	problem := ""
	switch {
	case in.V != contract.Version:
		problem = fmt.Sprintf("the input's v is %d, this build understands %d", in.V, contract.Version)
	case in.Plan == nil || in.Plan.Node(in.Node) == nil:
		problem = fmt.Sprintf("the input's plan has no node %q", in.Node)
	case len(in.Order) != len(in.Plan.Nodes) || len(in.Edges) != len(in.Plan.Edges):
		problem = "the input's order or edges do not belong to its plan"
	}
	if problem != "" {
		return nil, contract.Failf(contract.ClassBadRequest, "start a run of type "+contract.WorkflowFlow, "%s", problem)
	}
	return in, cmp.Or(prepare.LaterPlan(in.Plan), prepare.Unauthorized(in.Shared.Grant))
}

// branchChain is the chain of a run of type Branch.
func branchChain(ctx workflow.Context, in *contract.BranchInput) (*chain, error) {
	r := runtime.New(ctx)
	if err := r.Requests.ReceiveHeld(ctx, in.Plan); err != nil {
		return nil, err
	}
	r.Flow, r.Source, r.Shared, r.Root = in.Plan, in.Source, in.Shared, in.Root
	r.Graph = schedule.NewGraph(in.Plan)
	r.Graph.Exits = in.Exits // the plan is a part of the flow, perhaps without its exit nodes
	r.Policy.Limit, r.Requests.UnreadMessages, r.Sizes.ResultShare = in.Shared.MaxEvents, in.Inbox, in.MaxResultBytes
	r.Allow(in.Shared.MaxPayload)
	r.Conversation.Restore(in.Conversation)
	r.Conversation.Forks = nil // they stay with the run above
	for _, raw := range in.Values {
		r.Transcript.Keep(raw)
	}
	others := schedule.NewNodeSet(len(in.Plan.Nodes))
	for _, id := range in.Others {
		if i := r.Graph.Index(id); i >= 0 {
			others.Add(i)
		}
	}
	first := contract.ExecutionState{Node: in.Node, Step: in.Step, Occurrence: in.Occurrence, Lineage: in.Lineage, Suspended: in.Suspended}
	c := newChain(r, first, &in.View, others)
	c.order, c.ran, c.largest = in.Order, in.Ran, r.Sizes.Limit()/2
	return c, r.Answer(ctx, c.status, func() contract.View { return *c.view })
}

// playBranch runs the chain of a run of type Branch until it comes back with what fits.
func playBranch(ctx workflow.Context, c *chain, in *contract.BranchInput) (*contract.BranchResult, error) {
	for {
		out, err := c.play(ctx)
		c.run.Requests.AwaitSignals(ctx)
		again := false
		if err == nil {
			if out, err = branchResult(ctx, c, in, out); err != nil && c.next.Suspended != nil {
				again, err = c.run.Policy.PutOff(ctx, err)
			}
		}
		switch {
		case err != nil:
			return nil, c.ended(err)
		case !again:
			return out, nil
		}
	}
}

func (c *chain) status() contract.Status {
	s := contract.Status{Status: contract.StatusRunning, Model: c.run.Shared.Model, Usage: c.run.Budget.Usage, Budget: (*contract.Allowance)(c.run.Shared.Budget),
		Rejected: c.run.Requests.Rejected, RejectionReasons: c.run.Requests.RejectionReasons}
	s.Executions, s.Dropped = lean(c.done, 0)
	if c.now != "" {
		s.Running = []string{c.now}
	}
	return s
}

// maxTrace is how many executions a status holds, and how many are carried over; maxJudged is how many
// bytes of answers to conditions they hold together.
const (
	maxTrace  = 1000
	maxJudged = 512 << 10
)

// tail is where the end of a trace begins that fits.
func tail(trace []contract.Execution) int {
	first, bytes := max(0, len(trace)-maxTrace), 0
	for i := len(trace) - 1; i >= first; i-- {
		if bytes += judged(&trace[i]); bytes > maxJudged {
			return i + 1
		}
	}
	return first
}

// judged is how many bytes the answers of an execution take.
func judged(e *contract.Execution) int {
	if len(e.Answers) == 0 {
		return 0
	}
	n, _ := contract.Size(e.Answers) // they are texts, which can be encoded
	return n
}

// lean is the end of a trace without what the nodes said.
func lean(trace []contract.Execution, dropped int) ([]contract.Execution, int) {
	first := tail(trace)
	out := append([]contract.Execution{}, trace[first:]...)
	for i := range out {
		out[i].Text, out[i].Data = nil, nil
	}
	return out, dropped + first
}

// branchResult is what the chain of a run of type Branch comes back with. Edges are named by their index in the whole flow.
func branchResult(ctx workflow.Context, c *chain, in *contract.BranchInput, out *contract.BranchResult) (*contract.BranchResult, error) {
	c.run.Requests.ReceiveSignals(ctx)
	for i, e := range out.Edges {
		out.Edges[i] = in.Edges[e]
	}
	for _, m := range c.run.Requests.UnreadMessages {
		out.UnreadMessages = append(out.UnreadMessages, contract.Inbound{Seq: m.Seq}) // the run above has the rest
	}
	kept := references.Kept{Stored: c.run.Transcript.Content, Seen: map[string]bool{}}
	kept.View(&out.View)
	for _, raw := range in.Values {
		kept.Seen[contract.SHA(raw)] = true // the run above gave them
	}
	kept.Conversation(out.Conversation)
	if out.Yielded != nil {
		kept.Suspended(out.Yielded.Suspended)
	}
	out.Messages = kept.Found
	sent := *out
	if c.next.Suspended == nil && c.run.Sizes.Holds() {
		sent.Conversation, sent.Messages = nil, nil
	}
	err := c.run.Sizes.Fits("what node "+c.at.Node.ID+" brings back", &sent)
	var held *contract.HeldResult
	if err == nil {
		held, err = c.run.Hold(ctx, out)
	}
	switch {
	case err != nil:
		return nil, c.run.Failed(c.at, err)
	case held != nil:
		return &contract.BranchResult{Held: held}, nil
	}
	return out, nil
}

// branchInput is what a child needs to run the chain that begins with x: of the plan only
// the part that the chain can run, and the nodes behind it by name. positions are those of the flow.
func branchInput(r *runtime.Run, s *schedule.Scheduler, x *schedule.Execution, view *contract.View, positions map[string]plan.Position) contract.BranchInput {
	p := s.Part(x)
	in := contract.BranchInput{
		V: contract.Version, Root: r.Root, Node: r.Flow.Nodes[x.Node].ID, Step: x.Step, Occurrence: x.Occurrence,
		Lineage: x.Lineage, View: *view, Shared: r.Shared, Suspended: x.Suspended, Exits: r.Graph.Exits, Edges: p.Edges, Ran: s.Ran(p.Nodes, x.Step),
	}
	part := *r.Flow
	// Without id: a node that calls its own flow wants the whole of it, from Agents, not this part.
	part.ID, part.Nodes, part.Edges, part.Agents, part.Description = "", nil, nil, nil, ""
	in.Source.File = r.Source.File
	p.Nodes.Each(func(i int) {
		n := r.Flow.Nodes[i]
		if at, ok := positions[plan.NodePath(n.ID)]; ok {
			in.Source.Positions = append(in.Source.Positions, at)
		}
		if !p.Runs.Has(i) {
			n.Agent = nil
		}
		part.Nodes = append(part.Nodes, n)
		in.Order = append(in.Order, i)
		if p.Others.Has(i) {
			in.Others = append(in.Others, n.ID)
		}
	})
	for _, e := range p.Edges {
		part.Edges = append(part.Edges, r.Flow.Edges[e])
	}
	part.Agents = r.Flow.Callable(part.Nodes)
	in.Plan = &part
	if len(part.Agents) > 0 {
		in.Source.Positions = append(in.Source.Positions, r.Source.Agents()...)
	}
	if r.Flow.Values != nil {
		in.Values, in.Conversation = values.LongValues(r, view), r.Conversation.Snapshot(plan.Converse(part.Nodes))
		if in.Conversation != nil {
			in.Conversation.Spent = r.Conversation.SpentFor(&r.Flow.Nodes[x.Node])
		}
	}
	return in
}

// chain is a chain of nodes under way beside others: in a run of type Branch, or as a coroutine of the flow's run.
type chain struct {
	run    *runtime.Run
	runner *node.Runner
	// next is the execution that is under way, or comes next; where the chain stopped in the middle of one, it is suspended. at is
	// the former as the runner has it; now is its id, empty once the chain has stopped.
	next contract.ExecutionState
	at   *runtime.Execution
	now  string
	// strand is the id of the first execution.
	strand string
	view   *contract.View
	// spent is what the conversation had spent before the chain.
	spent int
	// others are the nodes that other live branches can reach; ran counts executions at steps behind the chain's first.
	others schedule.NodeSet
	ran    []contract.Count
	// order holds the place of the nodes of a part of the flow in the whole; nil where there is the whole flow.
	order []int
	done  []contract.Execution
	// outcomeBytes is how many bytes done holds of answers, and of what exit nodes said. largest, if positive, is how much
	// the chain brings back before it stops.
	outcomeBytes, largest int
	// moved is called where the chain goes on to another node.
	moved func()
}

// newChain is the chain that begins with an execution, with the view of that.
func newChain(r *runtime.Run, first contract.ExecutionState, view *contract.View, others schedule.NodeSet) *chain {
	id := contract.ExecutionID(first.Node, first.Step, first.Occurrence)
	return &chain{run: r, runner: node.New(r, agent.Kind{}, agent.ToolKind{}, nested{}), next: first, now: id, strand: id, view: view,
		spent: r.Conversation.Spent, others: others, moved: func() {}}
}

// play runs nodes one behind the other until the chain stops: behind an execution that took edges or, for the run to continue
// as new, in the middle of one that yielded, or before the next.
func (c *chain) play(ctx workflow.Context) (*contract.BranchResult, error) {
	for {
		n := c.run.Graph.Index(c.next.Node)
		c.begin(n)
		done, err := c.runner.Execute(ctx, c.at)
		if err != nil {
			return nil, err
		}
		if c.next.Suspended = c.at.Suspended; c.next.Suspended != nil {
			return c.yields(), nil
		}
		exit := c.at.Node.Exit
		if c.run.Graph.Exits && !exit {
			done.Text, done.Data = nil, nil // nobody wants them
		}
		c.now, c.done = "", append(c.done, done)
		if c.outcomeBytes += judged(&done); exit && done.Text != nil {
			c.outcomeBytes += len(*done.Text) + len(done.Data)
		}
		next, ok := c.run.Graph.Next(n, c.at.Exit.Taken, c.others)
		due, err := c.run.Policy.ShouldContinueAsNew(ctx, 0)
		if err != nil {
			return nil, c.run.Failed(c.at, err)
		}
		if !ok {
			return c.result(c.at.Exit.Taken), nil
		}
		if c.next.Step++; c.next.Step > c.run.Flow.Limits.MaxSteps {
			return nil, stepLimit(c.run, next, c.done)
		}
		if !exit {
			c.done[len(c.done)-1].Text = nil
		}
		c.next.Node = c.run.Flow.Nodes[next].ID
		c.next.Occurrence = c.occurrence()
		if due || c.full() {
			return c.yields(), nil
		}
		c.now = contract.ExecutionID(c.next.Node, c.next.Step, c.next.Occurrence)
		c.moved()
	}
}

// yields is what the chain gives where it goes on with the next execution in another run.
func (c *chain) yields() *contract.BranchResult {
	out := c.result(nil)
	out.Yielded = new(c.next)
	return out
}

// begin makes the next execution, of a node, the one under way.
func (c *chain) begin(node int) {
	c.at = &runtime.Execution{Node: &c.run.Flow.Nodes[node], ID: c.now, Step: c.next.Step, Occurrence: c.next.Occurrence,
		Lineage: c.next.Lineage, Order: node, Strand: c.strand, View: c.view, Suspended: c.next.Suspended}
	if c.order != nil {
		c.at.Order = c.order[node]
	}
}

// occurrence counts the next execution among those with the same node and step.
func (c *chain) occurrence() int {
	for _, n := range c.ran {
		if n.Node == c.next.Node && n.Step == c.next.Step {
			return n.N + 1
		}
	}
	return 1
}

// full reports whether what the chain must bring back has grown so much that it should not run another node first.
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
	return f.ApplicationError()
}

// result is what the chain gives the flow's run where it stopped, behind an execution that took edges.
func (c *chain) result(edges []int) *contract.BranchResult {
	conversation := c.run.Conversation.Snapshot(false)
	if conversation != nil {
		conversation.Spent -= c.spent
	}
	return &contract.BranchResult{ServerSessions: c.run.Shared.ServerSessions, NodeSessions: c.run.Shared.NodeSessions, Executions: c.done,
		View: schedule.Since(c.view, c.strand), Usage: c.run.Budget.Usage, Edges: edges, Conversation: conversation}
}
