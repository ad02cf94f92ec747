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

// A chain with a small, bounded number of calls runs as a coroutine of the flow's run, in that run's history. Any other chain is a
// child workflow with its own history. Both have the same executions, with the same ids.
const (
	// maxChainCalls is the maximum number of calls of a chain that runs in place, maxCallsInPlace that of all of them together.
	// Each call adds at least three events to the history and counts toward the server's limit of 2,000 pending activities.
	maxChainCalls   = 64
	maxCallsInPlace = 1900
)

// runsInPlace reports whether the chain that begins with x runs in place, and the maximum number of its calls.
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
		nodeCalls, bounded := callsAt(f.run.Flow, f.run.Graph, i)
		if !bounded || waitsOutside(f, n) {
			return 0, false
		}
		calls += nodeCalls
	}
	return calls, mayRunInPlace(f.run, 1, calls)
}

// mayRunInPlace reports whether n more chains or flows with at most calls calls each may run in place in r.
func mayRunInPlace(r *runtime.Run, n, calls int) bool {
	return calls <= maxChainCalls && r.Sizes.CallsInPlace+n*calls <= maxCallsInPlace
}

// countInPlace counts n chains or flows with at most calls calls each that run in place in r, until release.
func countInPlace(r *runtime.Run, n, calls int) (release func()) {
	count := func(n int) {
		r.Sizes.InPlace += n
		r.Sizes.CallsInPlace += n * calls
	}
	count(n)
	return func() { count(-n) }
}

// callsAt returns the maximum number of calls of a node's execution, including the conditions after it. bounded is false if the
// plan does not limit them.
func callsAt(flow *plan.Flow, g *schedule.Graph, node int) (calls int, bounded bool) {
	calls, bounded = flow.Nodes[node].Calls()
	for _, e := range g.Out(node) {
		if flow.Edges[e].Question != "" {
			calls++
		}
	}
	return calls, bounded
}

// waitsOutside reports whether a tool call of a node may wait for a user, for a client of the run, or for a server's task.
func waitsOutside(f *flowRun, n *plan.Node) bool {
	return slices.ContainsFunc(n.BoundTools(), func(t plan.BoundTool) bool {
		return t.Tool.Confirm || slices.ContainsFunc(f.run.Shared.Connections, func(c contract.ResolvedConnection) bool {
			return c.ID == t.Tool.BoundTo() && (c.Connection.Kind == plan.ConnectionClient ||
				slices.Contains(c.AsTasks, t.Tool.Name) || slices.ContainsFunc(c.Confirm, func(r contract.ConfirmRule) bool { return r.Name == t.Tool.Name }))
		})
	})
}

// startInPlace starts a chain as a coroutine, one of n that share the remaining budget.
func startInPlace(ctx workflow.Context, f *flowRun, b *branchRun, calls, n int) {
	x := b.x
	r := f.run.InPlace(f.run.Flow.Nodes[x.Node].ID)
	budget, releaseBudget := f.run.Budget.Share(nil, n)
	r.Shared.Budget = budget
	r.Conversation.Restore(f.run.Conversation.Snapshot(false))
	r.Conversation.Forks, r.Conversation.Spent = nil, f.run.Conversation.SpentFor(&f.run.Flow.Nodes[x.Node])
	p := f.sched.Part(x)
	first := contract.ExecutionState{Node: f.run.Flow.Nodes[x.Node].ID, Step: x.Step, Occurrence: x.Occurrence, Lineage: x.Lineage, Suspended: x.Suspended}
	c := newChain(r, first, &x.Arrivals[0].View, p.Others)
	c.ran = f.sched.Ran(p.Nodes, x.Step)
	c.onMove = func() { f.stale = true }
	releaseCalls := countInPlace(f.run, 1, calls)
	b.chain, b.release = c, func() {
		releaseBudget()
		releaseCalls()
	}
	b.runAsync(ctx, "branch "+c.strand, func(ctx workflow.Context) (*contract.BranchResult, error) {
		out, err := c.execute(ctx)
		f.stale = true
		if err != nil {
			err = c.withProgress(err)
		}
		return out, err
	})
}

// HeldResult holds a model's result for which the calling run's history has no room. The activity that fetches the result
// reads it by the query for content.
func HeldResult(ctx workflow.Context, raw converter.RawValue) error {
	argument.AssertReadable(ctx, raw)
	body, err := argument.JSON(raw, "the held result", "a result")
	if err != nil {
		return runtime.ToApplicationError(err)
	}
	r := runtime.New(ctx)
	r.Transcript.Keep(body)
	return r.Answer(ctx, func() contract.Status { return contract.Status{Status: contract.StatusCompleted} }, func() contract.View { return contract.View{} })
}

// chainOf returns the chain that began with an execution and runs in place, or nil.
func chainOf(f *flowRun, x *schedule.Execution) *chain {
	if b := f.branches.byExecution[x]; b != nil {
		return b.chain
	}
	return nil
}

// traces returns the finished executions of the run and of each chain that runs in place.
func traces(f *flowRun) [][]contract.Execution {
	all := [][]contract.Execution{f.trace}
	for _, b := range f.branches.live {
		if b.chain != nil && len(b.chain.done) > 0 {
			all = append(all, b.chain.done)
		}
	}
	return all
}

// nestedFlows implements [node.Flows]: the flow of a map's element with a small, bounded number of calls runs in the run of its
// map, like a branch that runs in place.
type nestedFlows struct{}

// maxWithoutCalls is the maximum number of elements without calls that run in place: they share one workflow task and its timeout.
const maxWithoutCalls = 10_000

func (nestedFlows) Reserve(r *runtime.Run, flow *plan.Flow, many, n int) (release func(), ok bool) {
	calls, ok := callsOf(flow)
	if !ok || calls == 0 && many > maxWithoutCalls || r.Flow.Policy.Branches == plan.BranchesAsChildren || !mayRunInPlace(r, n, calls) {
		return nil, false
	}
	return countInPlace(r, n, calls), true
}

func (nestedFlows) Run(ctx workflow.Context, r *runtime.Run, id string, in *contract.RunInput, j *journal.Journal) (*contract.RunResult, error) {
	own := journal.New(j, nil)
	defer own.Boundary(0)
	f := newFlowRun(r.Nested(id, own))
	f.nested, f.runner = true, node.New(f.run, agent.Kind{}, agent.ToolKind{}, nestedFlows{})
	f.run.Shared = contract.Shared{Owner: in.Owner, FirstRun: in.FirstRun, OnError: in.OnError}
	out, err := f.execute(ctx, in)
	return out, withUsage(f, in, err)
}

// callsOf returns the maximum number of calls of a flow, excluding calls repeated by an operator. bounded is false if the plan does
// not limit them, or if a worker compiles the flow's inputs.
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
		nodeCalls, bounded := callsAt(flow, g, i)
		if !bounded {
			return 0, false
		}
		calls += times[i]*nodeCalls + len(flow.Nodes[i].BoundTools())
	}
	return calls, executions <= maxChainCalls
}
