package workflows

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/agent"
	"weft/workflows/journal"
	"weft/workflows/node"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
)

// nested is [node.Flows]: an element of a map that makes few calls, and a known number at most, runs as coroutines of the
// run of its map, as a branch does that runs in place.
type nested struct{}

// maxWithoutCalls is how many elements run in place that make no calls: they run in one workflow task, which has little time.
const maxWithoutCalls = 10_000

// Reserve implements [node.Flows].
func (nested) Reserve(r *runtime.Run, flow *plan.Flow, many, n int) (release func(), ok bool) {
	calls, ok := callsOf(flow)
	if !ok || calls == 0 && many > maxWithoutCalls || r.Flow.Policy.Branches == plan.BranchesAsChildren || calls > maxChainCalls || r.Sizes.CallsInPlace+n*calls > maxCallsInPlace {
		return nil, false
	}
	r.Sizes.InPlace += n
	r.Sizes.CallsInPlace += n * calls
	return func() {
		r.Sizes.InPlace -= n
		r.Sizes.CallsInPlace -= n * calls
	}, true
}

// Run implements [node.Flows].
func (nested) Run(ctx workflow.Context, r *runtime.Run, id string, in *contract.RunInput, j *journal.Journal) (*contract.RunResult, error) {
	own := journal.New(j, nil)
	defer own.Boundary(0)
	f := newFlowRun(r.Nested(id, own))
	f.nested, f.runner = true, node.New(f.run, agent.Kind{}, agent.ToolKind{}, nested{})
	f.run.Shared = contract.Shared{Owner: in.Owner, FirstRun: in.FirstRun, OnError: in.OnError}
	out, err := f.play(ctx, in)
	return out, charged(f, in, err)
}

// callsOf returns how many calls a flow makes at most, without those of its operators; it is false where the plan does not
// bound them, and where a worker compiles the flow's inputs.
func callsOf(flow *plan.Flow) (calls int, bounded bool) {
	if flow.Inputs != nil {
		return 0, false
	}
	g := schedule.NewGraph(flow)
	times := make([]int, len(flow.Nodes)) // how often each node runs at most
	for i := range flow.Nodes {
		if g.Reachable(i).Has(i) {
			return 0, false
		}
	}
	var count func(i int) int
	count = func(i int) int {
		if times[i] == 0 {
			for e := range flow.Edges {
				if to, ok := g.Target(e); !ok || to != i {
					continue
				}
				if from := g.Index(flow.Edges[e].From); from >= 0 {
					times[i] += count(from)
				} else {
					times[i]++
				}
			}
			if times[i] = min(times[i], maxChainCalls+1); flow.Nodes[i].Deferred {
				times[i] = min(times[i], 1)
			}
		}
		return times[i]
	}
	executions := 0
	for i := range flow.Nodes {
		n := &flow.Nodes[i]
		own, bounded := n.Calls()
		if !bounded {
			return 0, false
		}
		for _, e := range g.Out(i) {
			if flow.Edges[e].Question != "" {
				own++
			}
		}
		calls += count(i)*own + len(n.BoundTools())
		executions += count(i)
	}
	return calls, executions <= maxChainCalls
}
