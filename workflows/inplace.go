package workflows

import (
	"slices"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/agent"
	"weft/workflows/argument"
	"weft/workflows/journal"
	"weft/workflows/node"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
)

// A chain that makes few calls, and a known number at most, runs as a coroutine of the flow's run: what it does stands in that
// run's history. Any other is a child workflow, whose history is its own. Both give the same executions, under the same ids.
const (
	// maxChainCalls is how many calls a chain may make that runs in place; maxCallsInPlace is how many all of them may make
	// together. Each call is at least three events of the history, and one of the 2,000 that the server has under way.
	maxChainCalls   = 64
	maxCallsInPlace = 1900
)

// runsInPlace reports whether the chain that begins with x runs in place, and how many calls it may make then.
func runsInPlace(f *flowRun, x *schedule.Execution) (calls int, ok bool) {
	if f.run.Flow.Policy.Branches == plan.BranchesAsChildren || f.sched.Loops(x) {
		return 0, false
	}
	p := f.sched.Part(x)
	for i := range f.run.Flow.Nodes {
		n := &f.run.Flow.Nodes[i]
		if !p.Runs.Has(i) {
			continue
		}
		own, bounded := callsAt(f.run.Flow, f.run.Graph, i)
		if !bounded || asksPeople(f, n) {
			return 0, false
		}
		calls += own
	}
	return calls, mayRunInPlace(f.run, 1, calls)
}

// mayRunInPlace reports whether n chains or flows that make so many calls each may run in r beside what does already.
func mayRunInPlace(r *runtime.Run, n, calls int) bool {
	return calls <= maxChainCalls && r.Sizes.CallsInPlace+n*calls <= maxCallsInPlace
}

// countInPlace counts n chains or flows that run in r and may make so many calls each, until release.
func countInPlace(r *runtime.Run, n, calls int) (release func()) {
	count := func(n int) {
		r.Sizes.InPlace += n
		r.Sizes.CallsInPlace += n * calls
	}
	count(n)
	return func() { count(-n) }
}

// callsAt returns how many calls an execution of a node makes at most, with the questions behind it; it is false where the plan
// does not bound them.
func callsAt(flow *plan.Flow, g *schedule.Graph, node int) (calls int, bounded bool) {
	calls, bounded = flow.Nodes[node].Calls()
	for _, e := range g.Out(node) {
		if flow.Edges[e].Question != "" {
			calls++
		}
	}
	return calls, bounded
}

// asksPeople reports whether a person, a client of the run, or a task of a server is waited for where a node calls its tools.
func asksPeople(f *flowRun, n *plan.Node) bool {
	return slices.ContainsFunc(n.BoundTools(), func(t plan.BoundTool) bool {
		return t.Tool.Confirm || slices.ContainsFunc(f.run.Shared.Connections, func(c contract.ResolvedConnection) bool {
			return c.ID == t.Tool.BoundTo() && (c.Connection.Kind == plan.ConnectionClient ||
				slices.Contains(c.AsTasks, t.Tool.Name) || slices.ContainsFunc(c.Confirm, func(r contract.ConfirmRule) bool { return r.Name == t.Tool.Name }))
		})
	})
}

// startInPlace starts a chain as a coroutine, one of n that share what is left of the budget.
func startInPlace(ctx workflow.Context, f *flowRun, b *branchRun, calls, n int) {
	x := b.x
	r := f.run.InPlace(f.run.Flow.Nodes[x.Node].ID)
	part, giveBack := f.run.Budget.Share(nil, n)
	r.Shared.Budget = part
	r.Conversation.Restore(f.run.Conversation.Snapshot(false))
	r.Conversation.Forks, r.Conversation.Spent = nil, f.run.Conversation.SpentFor(&f.run.Flow.Nodes[x.Node])
	p := f.sched.Part(x)
	first := contract.ExecutionState{Node: f.run.Flow.Nodes[x.Node].ID, Step: x.Step, Occurrence: x.Occurrence, Lineage: x.Lineage, Suspended: x.Suspended}
	c := newChain(r, first, &x.Arrivals[0].View, p.Others)
	c.ran = f.sched.Ran(p.Nodes, x.Step)
	c.moved = func() { f.stale = true }
	leave := countInPlace(f.run, 1, calls)
	b.chain, b.release = c, func() {
		giveBack()
		leave()
	}
	b.settle(ctx, "branch "+c.strand, func(ctx workflow.Context) (*contract.BranchResult, error) {
		out, err := c.play(ctx)
		f.stale = true
		if err != nil {
			err = c.ended(err)
		}
		return out, err
	})
}

// HeldResult holds a model's answer that has no room in the history of the run that asked: its query for content gives
// it to the activity that fetches it.
func HeldResult(ctx workflow.Context, raw converter.RawValue) error {
	argument.AssertReadable(ctx, raw)
	body, err := argument.JSON(raw, "what is held", "a result")
	if err != nil {
		return runtime.ToApplicationError(err)
	}
	r := runtime.New(ctx)
	r.Transcript.Keep(body)
	return r.Answer(ctx, func() contract.Status { return contract.Status{Status: contract.StatusCompleted} }, func() contract.View { return contract.View{} })
}

// chainOf is the chain that began with an execution and runs in place, or nil.
func chainOf(f *flowRun, x *schedule.Execution) *chain {
	if b := f.branches.byExecution[x]; b != nil {
		return b.chain
	}
	return nil
}

// traces are the executions that have finished: those of the run, and of each chain that runs in place.
func traces(f *flowRun) [][]contract.Execution {
	all := [][]contract.Execution{f.trace}
	for _, b := range f.branches.live {
		if b.chain != nil && len(b.chain.done) > 0 {
			all = append(all, b.chain.done)
		}
	}
	return all
}

// nested is [node.Flows]: an element of a map that makes few calls, and a known number at most, runs as coroutines of the
// run of its map, as a branch does that runs in place.
type nested struct{}

// maxWithoutCalls is how many elements run in place that make no calls: they run in one workflow task, which has little time.
const maxWithoutCalls = 10_000

func (nested) Reserve(r *runtime.Run, flow *plan.Flow, many, n int) (release func(), ok bool) {
	calls, ok := callsOf(flow)
	if !ok || calls == 0 && many > maxWithoutCalls || r.Flow.Policy.Branches == plan.BranchesAsChildren || !mayRunInPlace(r, n, calls) {
		return nil, false
	}
	return countInPlace(r, n, calls), true
}

func (nested) Run(ctx workflow.Context, r *runtime.Run, id string, in *contract.RunInput, j *journal.Journal) (*contract.RunResult, error) {
	own := journal.New(j, nil)
	defer own.Boundary(0)
	f := newFlowRun(r.Nested(id, own))
	f.nested, f.runner = true, node.New(f.run, agent.Kind{}, agent.ToolKind{}, nested{})
	f.run.Shared = contract.Shared{Owner: in.Owner, FirstRun: in.FirstRun, OnError: in.OnError}
	out, err := f.play(ctx, in)
	return out, withUsage(f, in, err)
}

// callsOf returns how many calls a flow makes at most, without those of its operators; it is false where the plan does not
// bound them, and where a worker compiles the flow's inputs.
func callsOf(flow *plan.Flow) (calls int, bounded bool) {
	if flow.Inputs != nil {
		return 0, false
	}
	g := schedule.NewGraph(flow)
	for i := range flow.Nodes {
		if g.Reachable(i).Has(i) {
			return 0, false
		}
	}
	executions, times := 0, make([]int, len(flow.Nodes)) // how often each node runs at most
	var follow func(edges []int)
	follow = func(edges []int) {
		for _, e := range edges {
			if to, ok := g.Target(e); ok && executions <= maxChainCalls && (times[to] == 0 || !flow.Nodes[to].Deferred) {
				times[to]++
				executions++
				follow(g.Out(to))
			}
		}
	}
	follow(g.Starts)
	for i := range flow.Nodes {
		own, bounded := callsAt(flow, g, i)
		if !bounded {
			return 0, false
		}
		calls += times[i]*own + len(flow.Nodes[i].BoundTools())
	}
	return calls, executions <= maxChainCalls
}
