package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/agent"
	"weft/workflows/node"
	"weft/workflows/plan"
	"weft/workflows/prepare"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/values"
)

// Branch runs a chain of nodes beside other branches of a flow. It comes back when it
// cannot go on alone: at END, at a fork, before a deferred node, before a node that
// others can reach, and where its choice of an edge closed the way to such a node, which
// others may be waiting for.
//
// It fails with the failure of the node that failed. Its input is a [contract.BranchInput],
// taken as it came, so that what is wrong with it can be said.
func (s Settings) Branch(ctx workflow.Context, raw converter.RawValue) (*contract.BranchResult, error) {
	runtime.AssertReadable(ctx, raw)
	body, err := runtime.ArgumentOf(raw, "the branch's input", "or start a run of type "+contract.WorkflowFlow)
	if err != nil {
		return nil, runtime.Wire(err)
	}
	in, err := contract.ReadBranchInput(body)
	if err != nil {
		return nil, runtime.Wire(err)
	}
	if err := validBranch(in); err != nil {
		return nil, runtime.Wire(err)
	}
	if workflow.GetInfo(ctx).ParentWorkflowExecution == nil {
		// No run made it: a client that may bring no plan must not bring one here.
		var refused bool
		if err := workflow.SideEffect(ctx, func(workflow.Context) any { return s.RefusePlans }).Get(&refused); err != nil {
			return nil, runtime.Wire(err)
		}
		if refused {
			return nil, runtime.Wire(prepare.Refusal())
		}
	}
	b, err := newBranch(ctx, in)
	if err != nil {
		return nil, runtime.Wire(err)
	}
	out, err := b.chain(ctx)
	if err != nil {
		b.run.Requests.AwaitSignals(ctx)
		return nil, b.ended(err)
	}
	return out, nil
}

// ended is the error of a chain that failed or was cancelled, with what it had done.
func (b *branch) ended(err error) error {
	done, _ := lean(b.done, 0)
	if contract.Cancelled(err) {
		return temporal.NewCanceledError(contract.Failure{Class: contract.ClassCancelled, Usage: &b.run.Budget.Usage, Executions: done})
	}
	f := contract.FailureOf(err)
	f.Usage, f.Executions = &b.run.Budget.Usage, done
	return f.Wire()
}

// validBranch refuses an input that no run of type Flow makes.
func validBranch(in *contract.BranchInput) error {
	fail := &contract.Failure{Class: contract.ClassBadRequest, Remedy: "start a run of type " + contract.WorkflowFlow}
	switch {
	case in.V != contract.Version:
		fail.Text = fmt.Sprintf("the input's v is %d, this build understands %d", in.V, contract.Version)
	case in.Plan == nil || in.Plan.Node(in.Node) == nil:
		fail.Text = fmt.Sprintf("the input's plan has no node %q", in.Node)
	case len(in.Order) != len(in.Plan.Nodes) || len(in.Edges) != len(in.Plan.Edges):
		fail.Text = "the input's order or edges do not belong to its plan"
	default:
		if later := prepare.LaterPlan(in.Plan); later != nil {
			return later
		}
		return nil
	}
	return fail
}

// branch is a chain under way.
type branch struct {
	run    *runtime.Run
	runner *node.Runner
	in     *contract.BranchInput
	view   contract.View
	strand string
	// ahead says how far the chain goes on.
	ahead *schedule.Chain
	done  []contract.Execution
	now   string
	// outcomeBytes is how many bytes done holds of answers, and of what exit nodes said.
	outcomeBytes int
}

func newBranch(ctx workflow.Context, in *contract.BranchInput) (*branch, error) {
	r := runtime.New(ctx)
	r.Requests.Listen(ctx)
	r.Flow, r.Source, r.Shared, r.Root = in.Plan, in.Source, in.Shared, in.Root
	r.Graph = schedule.NewGraph(in.Plan)
	r.Policy.Limit, r.Requests.UnreadMessages, r.Sizes.ResultShare = in.Shared.MaxEvents, in.Inbox, in.MaxResultBytes
	r.Allow(in.Shared.MaxPayload)
	r.Conversation.Restore(in.Conversation)
	r.Conversation.Forks = nil // they stay with the run above
	for _, raw := range in.Values {
		r.Transcript.Keep(raw)
	}
	b := &branch{run: r, runner: node.New(r, agent.Kind{}, agent.ToolKind{}), in: in, view: in.View, strand: contract.ExecutionID(in.Node, in.Step, in.Occurrence)}
	others := schedule.NewNodeSet(len(in.Plan.Nodes))
	for _, id := range in.Others {
		if i := r.Graph.Index(id); i >= 0 {
			others.Add(i)
		}
	}
	b.ahead = schedule.NewChain(r.Graph, others)
	return b, r.Answer(ctx, b.status, func() contract.View { return b.view })
}

func (b *branch) status() contract.Status {
	s := contract.Status{Status: "running", Model: b.run.Shared.Model, Usage: b.run.Budget.Usage, Budget: (*contract.Allowance)(b.run.Shared.Budget),
		Rejected: b.run.Requests.Rejected, RejectionReasons: b.run.Requests.RejectionReasons}
	s.Executions, s.Dropped = lean(b.done, 0)
	if b.now != "" {
		s.Running = []string{b.now}
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
	n, err := runtime.Size(e.Answers)
	if err != nil {
		return maxJudged
	}
	return n
}

// lean is the end of a trace without what the nodes said.
func lean(trace []contract.Execution, dropped int) ([]contract.Execution, int) {
	first := tail(trace)
	trace, dropped = trace[first:], dropped+first
	out := make([]contract.Execution, len(trace))
	for i, e := range trace {
		e.Text, e.Data = nil, nil
		out[i] = e
	}
	return out, dropped
}

// chain runs nodes one behind the other.
func (b *branch) chain(ctx workflow.Context) (*contract.BranchResult, error) {
	node, n, occurrence := b.run.Graph.Index(b.in.Node), b.in.Step, b.in.Occurrence
	for {
		x := &runtime.Execution{
			Node: &b.run.Flow.Nodes[node], ID: contract.ExecutionID(b.run.Flow.Nodes[node].ID, n, occurrence), Step: n, Occurrence: occurrence, Lineage: b.in.Lineage,
			Order: b.in.Order[node], Strand: b.strand, View: &b.view, Suspended: b.in.Suspended,
		}
		b.in.Suspended = nil
		b.now = x.ID
		done, err := b.runner.Execute(ctx, x, b.run.Graph.Out(node))
		if err != nil {
			return nil, err
		}
		if done.Suspended != nil {
			b.run.Requests.AwaitSignals(ctx)
			out, err := b.result(ctx, x, nil, &contract.ExecutionState{Node: x.Node.ID, Step: n, Occurrence: occurrence, Lineage: b.in.Lineage, Suspended: done.Suspended})
			if again, err := b.run.Policy.PutOff(ctx, err); !again {
				return out, err
			}
			b.in.Suspended = done.Suspended
			continue
		}
		done.Occurrence = occurrence
		if b.in.Exits && !x.Node.Exit {
			done.Text, done.Data = nil, nil
		}
		b.now, b.done = "", append(b.done, done.Execution)
		if b.outcomeBytes += judged(&done.Execution); x.Node.Exit && done.Text != nil {
			b.outcomeBytes += len(*done.Text) + len(done.Data)
		}
		next, ok := b.ahead.Next(node, done.Edges)
		due, err := b.run.Policy.ShouldContinueAsNew(ctx, 0)
		if err != nil {
			return nil, b.run.Failed(x, err)
		}
		if !ok || due || b.full() {
			b.run.Requests.AwaitSignals(ctx)
			return b.result(ctx, x, done.Edges, nil)
		}
		if n++; n > b.run.Flow.Limits.MaxSteps {
			return nil, stepLimit(b.run, b.run.Flow, next, b.done)
		}
		if !x.Node.Exit {
			b.done[len(b.done)-1].Text = nil
		}
		node, occurrence = next, b.occurrence(next, n)
	}
}

// occurrence counts an execution among those with the same node and step.
func (b *branch) occurrence(node, n int) int {
	for _, c := range b.in.Ran {
		if c.Node == b.run.Flow.Nodes[node].ID && c.Step == n {
			return c.N + 1
		}
	}
	return 1
}

// full reports whether what the chain must bring back has grown so much that it should not
// run another node first.
func (b *branch) full() bool {
	n := 0
	own := schedule.Since(&b.view, b.strand)
	for _, sha := range contents(&own) {
		n += len(b.run.Transcript.Content[sha])
	}
	return n+b.outcomeBytes+schedule.StateBytes(&own) > b.run.Sizes.Limit()/2
}

// contents lists the hashes of what a view names.
func contents(v *contract.View) []string {
	var out []string
	for i := range v.State {
		if v.State[i].SHA != "" {
			out = append(out, v.State[i].SHA)
		}
	}
	for i := range v.Outputs {
		out = append(out, v.Outputs[i].SHA)
	}
	return out
}

// result is what the chain comes back with. Edges are named by their index in the whole
// flow.
func (b *branch) result(ctx workflow.Context, x *runtime.Execution, taken []int, yielded *contract.ExecutionState) (*contract.BranchResult, error) {
	b.run.Requests.Hear(ctx)
	conversation := b.run.Conversation.Snapshot(false)
	if conversation != nil && b.in.Conversation != nil {
		conversation.Spent -= b.in.Conversation.Spent
	}
	out := &contract.BranchResult{Executions: b.done, View: schedule.Since(&b.view, b.strand), Usage: b.run.Budget.Usage, Yielded: yielded, Conversation: conversation}
	for _, m := range b.run.Requests.UnreadMessages {
		out.UnreadMessages = append(out.UnreadMessages, contract.Inbound{Seq: m.Seq}) // the run above has the rest
	}
	for _, e := range taken {
		out.Edges = append(out.Edges, b.in.Edges[e])
	}
	has := map[string]bool{}
	for _, raw := range b.in.Values {
		has[contract.SHA(raw)] = true // the run above gave them
	}
	need := func(ref *contract.ContentRef) {
		if raw, ok := b.run.Transcript.Content[ref.SHA]; ok && !has[ref.SHA] {
			has[ref.SHA] = true
			out.Messages = append(out.Messages, raw)
		}
	}
	for _, sha := range contents(&out.View) {
		delete(has, sha)
		need(&contract.ContentRef{SHA: sha})
	}
	needing(need).conversation(out.Conversation)
	if yielded != nil {
		needing(need).suspended(yielded.Suspended)
	}
	what := "what node " + x.Node.ID + " brings back"
	if err := b.run.Sizes.Fits(what, out); err != nil {
		return nil, b.run.Failed(x, err)
	}
	held, err := b.run.Hold(ctx, out)
	if err != nil {
		return nil, b.run.Failed(x, err)
	}
	if held != nil {
		return &contract.BranchResult{Held: held}, nil
	}
	return out, nil
}

// branchInput is what a child needs to run the chain that begins with x: of the plan only
// the part that the chain can run, and the nodes behind it by name.
func branchInput(r *runtime.Run, s *schedule.Scheduler, x *schedule.Execution, view *contract.View) contract.BranchInput {
	others := s.Others(x)
	nodes, edges := r.Graph.Part(x.Node, others)
	in := contract.BranchInput{
		V: contract.Version, Root: r.Root, Node: r.Flow.Nodes[x.Node].ID, Step: x.Step, Occurrence: x.Occurrence,
		Lineage: x.Lineage, View: *view, Shared: r.Shared, Suspended: x.Suspended, Exits: exits(r.Flow),
	}
	part := *r.Flow
	part.Nodes, part.Edges, part.Agents, part.Description = nil, nil, nil, ""
	// A node that calls its own flow wants the whole of it, from Agents, not this part.
	part.ID = ""
	kept := map[string]bool{}
	for i := range r.Flow.Nodes {
		if !nodes.Has(i) {
			continue
		}
		n := r.Flow.Nodes[i]
		kept[plan.NodePath(n.ID)] = true
		if stop := i != x.Node && (n.Deferred || others.Has(i)); stop {
			n.Agent = nil
		}
		part.Nodes = append(part.Nodes, n)
		in.Order = append(in.Order, i)
		if others.Has(i) {
			in.Others = append(in.Others, n.ID)
		}
	}
	for _, e := range edges {
		part.Edges = append(part.Edges, r.Flow.Edges[e])
		in.Edges = append(in.Edges, e)
	}
	part.Agents = r.Flow.Callable(part.Nodes)
	in.Plan, in.Source = &part, r.Source.Keep(func(path string) bool {
		return kept[path] || len(part.Agents) > 0 && strings.HasPrefix(path, "agents/")
	})
	in.Ran = s.Ran(nodes, x.Step)
	if r.Flow.Values != nil {
		in.Values, in.Conversation = values.LongValues(r, view), r.Conversation.Snapshot(runtime.NeedsConversation(part.Nodes))
		if in.Conversation != nil {
			in.Conversation.Spent = r.Conversation.SpentFor(&r.Flow.Nodes[x.Node])
		}
	}
	return in
}
