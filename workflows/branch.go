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

// Branch runs a chain of nodes in parallel with other branches of a flow. It returns when it cannot continue alone: at END, at a
// fork, before a deferred node, before a node that other branches can reach, and after it took an edge that rules out such a node,
// because other branches may be waiting for that decision.
//
// It fails with the failure of the node that failed. Its input is a [contract.BranchInput], which it decodes itself to report
// errors precisely.
func (s Settings) Branch(ctx workflow.Context, raw converter.RawValue) (out *contract.BranchResult, err error) {
	in, err := readBranch(ctx, raw)
	if err != nil {
		return nil, runtime.ToApplicationError(err)
	}
	c, err := newBranchChain(ctx, in)
	if err != nil {
		return nil, runtime.ToApplicationError(err)
	}
	c.run.Requests.Listen(ctx, func(ctx workflow.Context) { out, err = runBranch(ctx, c, in) })
	c.run.Requests.Listeners.Take() // messages received while the run did not wait
	return out, err
}

// readBranch decodes and validates the input of a branch.
func readBranch(ctx workflow.Context, raw converter.RawValue) (*contract.BranchInput, error) {
	argument.AssertReadable(ctx, raw)
	body, err := argument.JSON(raw, "the branch's input", "the input of a branch, or start a run of type "+contract.WorkflowFlow)
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
		problem = fmt.Sprintf("the input's v is %d, this build supports %d", in.V, contract.Version)
	case in.Plan == nil || in.Plan.Node(in.Node) == nil:
		problem = fmt.Sprintf("the input's plan has no node %q", in.Node)
	case len(in.Order) != len(in.Plan.Nodes) || len(in.Edges) != len(in.Plan.Edges):
		problem = "the input's order or edges do not match its plan"
	}
	if problem != "" {
		return nil, contract.Failf(contract.ClassBadRequest, "start a run of type "+contract.WorkflowFlow, "%s", problem)
	}
	return in, cmp.Or(prepare.LaterPlan(in.Plan), prepare.Unauthorized(in.Shared.Grant))
}

// newBranchChain returns the chain of a run of type Branch, and registers the run's queries.
func newBranchChain(ctx workflow.Context, in *contract.BranchInput) (*chain, error) {
	r := runtime.New(ctx)
	if err := r.Requests.ReceiveServerRequests(ctx, in.Plan); err != nil {
		return nil, err
	}
	r.Flow, r.Source, r.Shared, r.Root = in.Plan, in.Source, in.Shared, in.Root
	r.Graph = schedule.NewGraph(in.Plan)
	r.Graph.Exits = in.Exits // the plan is a part of the flow, perhaps without its exit nodes
	r.Policy.Limit, r.Requests.UnreadMessages, r.Sizes.ResultShare = in.Shared.MaxEvents, in.Inbox, in.MaxResultBytes
	r.Allow(in.Shared.MaxPayload)
	r.Conversation.Restore(in.Conversation)
	r.Conversation.Forks = nil // the parent run keeps them
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
	c.order, c.ran, c.maxBytes = in.Order, in.Ran, r.Sizes.Limit()/2
	return c, r.Answer(ctx, c.status, func() contract.View { return *c.view })
}

// runBranch runs the chain of a run of type Branch until it stops with a result that fits.
func runBranch(ctx workflow.Context, c *chain, in *contract.BranchInput) (*contract.BranchResult, error) {
	for {
		out, err := c.execute(ctx)
		c.run.Requests.AwaitSignals(ctx)
		postponed := false
		if err == nil {
			if out, err = branchResult(ctx, c, in, out); err != nil && c.next.Suspended != nil {
				postponed, err = c.run.Policy.Defer(ctx, err)
			}
		}
		switch {
		case err != nil:
			return nil, c.withProgress(err)
		case !postponed:
			return out, nil
		}
	}
}

func (c *chain) status() contract.Status {
	s := contract.Status{Status: contract.StatusRunning, Model: c.run.Shared.Model, Usage: c.run.Budget.Usage, Budget: (*contract.Allowance)(c.run.Shared.Budget),
		Rejected: c.run.Requests.Rejected, RejectionReasons: c.run.Requests.RejectionReasons}
	s.Executions, s.Dropped = statusTrace(c.done, 0)
	if c.currentID != "" {
		s.Running = []string{c.currentID}
	}
	return s
}

// maxTrace is the maximum number of executions in a status and in a snapshot; maxAnswerBytes limits the size of their answers to
// conditions.
const (
	maxTrace       = 1000
	maxAnswerBytes = 512 << 10
)

// traceStart returns the index from which on a trace fits into maxTrace and maxAnswerBytes.
func traceStart(trace []contract.Execution) int {
	first, bytes := max(0, len(trace)-maxTrace), 0
	for i := len(trace) - 1; i >= first; i-- {
		if bytes += answerBytes(&trace[i]); bytes > maxAnswerBytes {
			return i + 1
		}
	}
	return first
}

// answerBytes returns the encoded size of an execution's answers to conditions.
func answerBytes(e *contract.Execution) int {
	if len(e.Answers) == 0 {
		return 0
	}
	n, _ := contract.Size(e.Answers) // strings can always be encoded
	return n
}

// statusTrace returns the last executions of a trace, without results, and the number of those dropped before them.
func statusTrace(trace []contract.Execution, dropped int) ([]contract.Execution, int) {
	first := traceStart(trace)
	out := append([]contract.Execution{}, trace[first:]...)
	for i := range out {
		out[i].Text, out[i].Data = nil, nil
	}
	return out, dropped + first
}

// branchResult completes the result of a run of type Branch. Edges become indices in the entire flow.
func branchResult(ctx workflow.Context, c *chain, in *contract.BranchInput, out *contract.BranchResult) (*contract.BranchResult, error) {
	c.run.Requests.ReceiveSignals(ctx)
	for i, e := range out.Edges {
		out.Edges[i] = in.Edges[e]
	}
	for _, m := range c.run.Requests.UnreadMessages {
		out.UnreadMessages = append(out.UnreadMessages, contract.Inbound{Seq: m.Seq}) // the parent has the content
	}
	collected := references.Collector{Stored: c.run.Transcript.Content, Seen: map[string]bool{}}
	collected.View(&out.View)
	for _, raw := range in.Values {
		collected.Seen[contract.SHA(raw)] = true // they came from the parent
	}
	collected.Conversation(out.Conversation)
	if out.Yielded != nil {
		collected.Suspended(out.Yielded.Suspended)
	}
	out.Messages = collected.Found
	inline := *out
	if c.next.Suspended == nil && c.run.Sizes.Holds() {
		inline.Conversation, inline.Messages = nil, nil
	}
	err := c.run.Sizes.Fits("the result of the branch at node "+c.current.Node.ID, &inline)
	var held *contract.HeldResult
	if err == nil {
		held, err = c.run.Hold(ctx, out)
	}
	switch {
	case err != nil:
		return nil, c.run.Failed(c.current, err)
	case held != nil:
		return &contract.BranchResult{Held: held}, nil
	}
	return out, nil
}

// branchInput returns the input of a child that runs the chain beginning with x: the part of the plan that the chain can run,
// and its successors without their configuration. positions are the source positions of the flow.
func branchInput(r *runtime.Run, s *schedule.Scheduler, x *schedule.Execution, view *contract.View, positions map[string]plan.Position) contract.BranchInput {
	p := s.Part(x)
	in := contract.BranchInput{
		V: contract.Version, Root: r.Root, Node: r.Flow.Nodes[x.Node].ID, Step: x.Step, Occurrence: x.Occurrence,
		Lineage: x.Lineage, View: *view, Shared: r.Shared, Suspended: x.Suspended, Exits: r.Graph.Exits, Edges: p.Edges, Ran: s.Ran(p.Nodes, x.Step),
	}
	part := *r.Flow
	// Without id: a node that calls its own flow needs the entire flow, from Agents, not this part.
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

// chain is a running chain of nodes, parallel to others: in a run of type Branch, or as a coroutine of the flow's run.
type chain struct {
	run    *runtime.Run
	runner *node.Runner
	// next is the current execution, or the next one; it is suspended if the chain stopped in the middle of it. current is the
	// runner's form of it; currentID is its id, empty once the chain has stopped.
	next      contract.ExecutionState
	current   *runtime.Execution
	currentID string
	// strand is the id of the first execution.
	strand string
	view   *contract.View
	// spentBefore is the conversation's spending before the chain.
	spentBefore int
	// others are the nodes that other live branches can reach; ran counts executions at steps after the chain's first.
	others schedule.NodeSet
	ran    []contract.Count
	// order holds the indices, in the entire flow, of the nodes of a partial flow; nil if the flow is not partial.
	order []int
	done  []contract.Execution
	// outcomeBytes is the size of the answers and exit nodes' results in done. maxBytes, if positive, is the size of the result
	// at which the chain stops.
	outcomeBytes, maxBytes int
	// onMove is called when the chain proceeds to another node.
	onMove func()
}

// newChain returns the chain that begins with an execution and its view.
func newChain(r *runtime.Run, first contract.ExecutionState, view *contract.View, others schedule.NodeSet) *chain {
	id := contract.ExecutionID(first.Node, first.Step, first.Occurrence)
	return &chain{run: r, runner: node.New(r, agent.Kind{}, agent.ToolKind{}, nestedFlows{}), next: first, currentID: id, strand: id, view: view,
		spentBefore: r.Conversation.Spent, others: others, onMove: func() {}}
}

// execute runs nodes in sequence until the chain stops: after an execution that took edges or, for the run to continue as new,
// in the middle of one that yielded, or before the next.
func (c *chain) execute(ctx workflow.Context) (*contract.BranchResult, error) {
	for {
		n := c.run.Graph.Index(c.next.Node)
		c.begin(n)
		done, err := c.runner.Execute(ctx, c.current)
		if err != nil {
			return nil, err
		}
		if c.next.Suspended = c.current.Suspended; c.next.Suspended != nil {
			return c.yieldResult(), nil
		}
		exit := c.current.Node.Exit
		if c.run.Graph.Exits && !exit {
			done.Text, done.Data = nil, nil // only exit nodes' results are used
		}
		c.currentID, c.done = "", append(c.done, done)
		if c.outcomeBytes += answerBytes(&done); exit && done.Text != nil {
			c.outcomeBytes += len(*done.Text) + len(done.Data)
		}
		next, ok := c.run.Graph.Next(n, c.current.Exit.Taken, c.others)
		stop, err := c.run.Policy.ShouldContinueAsNew(ctx, 0)
		if err != nil {
			return nil, c.run.Failed(c.current, err)
		}
		if !ok {
			return c.result(c.current.Exit.Taken), nil
		}
		if c.next.Step++; c.next.Step > c.run.Flow.Limits.MaxSteps {
			return nil, stepLimit(c.run, next, c.done)
		}
		if !exit {
			c.done[len(c.done)-1].Text = nil
		}
		c.next.Node = c.run.Flow.Nodes[next].ID
		c.next.Occurrence = c.occurrence()
		if stop || c.full() {
			return c.yieldResult(), nil
		}
		c.currentID = contract.ExecutionID(c.next.Node, c.next.Step, c.next.Occurrence)
		c.onMove()
	}
}

// yieldResult returns the result of a chain that continues with the next execution in another run.
func (c *chain) yieldResult() *contract.BranchResult {
	out := c.result(nil)
	out.Yielded = new(c.next)
	return out
}

// begin makes the next execution, of a node, the current one.
func (c *chain) begin(node int) {
	c.current = &runtime.Execution{Node: &c.run.Flow.Nodes[node], ID: c.currentID, Step: c.next.Step, Occurrence: c.next.Occurrence,
		Lineage: c.next.Lineage, Order: node, Strand: c.strand, View: c.view, Suspended: c.next.Suspended}
	if c.order != nil {
		c.current.Order = c.order[node]
	}
}

// occurrence returns the number of the next execution among those with the same node and step.
func (c *chain) occurrence() int {
	for _, n := range c.ran {
		if n.Node == c.next.Node && n.Step == c.next.Step {
			return n.N + 1
		}
	}
	return 1
}

// full reports whether the chain's result is so large that it must be returned before another node runs.
func (c *chain) full() bool {
	if c.maxBytes == 0 {
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
	return n > c.maxBytes
}

// withProgress returns the error of a chain that failed or was cancelled, with its usage and finished executions.
func (c *chain) withProgress(err error) error {
	done, _ := statusTrace(c.done, 0)
	if contract.Cancelled(err) {
		return temporal.NewCanceledError(contract.Failure{Class: contract.ClassCancelled, Usage: &c.run.Budget.Usage, Executions: done})
	}
	f := contract.FailureOf(err)
	f.Usage, f.Executions = &c.run.Budget.Usage, done
	return f.ApplicationError()
}

// result returns the chain's result for the flow's run, after an execution that took edges.
func (c *chain) result(edges []int) *contract.BranchResult {
	conversation := c.run.Conversation.Snapshot(false)
	if conversation != nil {
		conversation.Spent -= c.spentBefore
	}
	return &contract.BranchResult{ServerSessions: c.run.Shared.ServerSessions, NodeSessions: c.run.Shared.NodeSessions, Executions: c.done,
		View: schedule.Since(c.view, c.strand), Usage: c.run.Budget.Usage, Edges: edges, Conversation: conversation}
}
