package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"weft/workflows/workflowtest"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
	"weft/workflows/schedule/scheduletest"
)

// runWithOthers returns a run of f whose first node executes at step 2 while the other nodes
// execute at step 1, and the execution of the first node.
func runWithOthers(t *testing.T, f *plan.Flow, nodes ...string) (*runtime.Run, *schedule.Scheduler, *schedule.Execution) {
	r := newRun(t)
	r.Flow, r.Graph, r.Root = f, schedule.NewGraph(f), "root"
	s := schedule.New(r.Graph)
	state := &contract.RunSnapshot{}
	for i, id := range nodes {
		state.Live = append(state.Live, contract.ExecutionState{Node: id, Step: 1 + 1/(i+1), Occurrence: 1})
	}
	s.Restore(state)
	ready, err := s.Ready(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, s, ready[0]
}

func TestChainContinues(t *testing.T) {
	tests := map[string]struct {
		edges    string
		deferred string
		// taken lists the edges that a took while z is running; want is the node at which the chain continues.
		taken, want string
	}{
		"to the next node":                                               {edges: "a>b b>END z>END", taken: "a>b", want: "b"},
		"not to END":                                                     {edges: "a>END z>END", taken: "a>END"},
		"not if all conditions are false":                                {edges: "a>b? b>END z>END", taken: ""},
		"to the only node besides END":                                   {edges: "a>END a>b b>END z>END", taken: "a>END a>b", want: "b"},
		"not at a fork":                                                  {edges: "a>b a>c b>END c>END z>END", taken: "a>b a>c"},
		"over two edges to one node":                                     {edges: "a>b? a>b b>END z>END", taken: "a>b? a>b", want: "b"},
		"not to a deferred node":                                         {edges: "a>j j>END z>END", deferred: "j", taken: "a>j"},
		"not to a node reachable from another":                           {edges: "a>j j>END z>y y>j", taken: "a>j"},
		"not to a node that is executing":                                {edges: "a>z z>END", taken: "a>z"},
		"to a node before one reachable from another":                    {edges: "a>b b>j z>j j>END", taken: "a>b", want: "b"},
		"not if an edge not taken leads to a node where others may wait": {edges: "a>b? a>j? b>END z>j j>END", taken: "a>b?"},
		"not if such a node is several edges away":                       {edges: "a>b? a>c? c>j b>END z>j j>END", taken: "a>b?"},
		"not if it is still reachable, but at a different step":          {edges: "a>b? a>j? b>j z>j j>END", taken: "a>b?"},
		"not if an edge not taken leads to a deferred node":              {edges: "a>b? a>j? b>END z>j j>END", deferred: "j", taken: "a>b?"},
		"if the deferred node is still reachable, at any step":           {edges: "a>b? a>j? b>c c>j z>j j>END", deferred: "j", taken: "a>b?", want: "b"},
		"not if one of two deferred nodes is no longer reachable":        {edges: "a>b? a>j? b>k j>END k>END z>j z>k", deferred: "j k", taken: "a>b?"},
		"if the edges not taken lead only to nodes of this branch":       {edges: "a>b? a>c? c>d b>END d>END z>END", taken: "a>b?", want: "b"},
		"around a loop within the branch":                                {edges: "a>a? a>b? b>END z>END", taken: "a>a?", want: "a"},
		"around a loop whose exit is a deferred join":                    {edges: "a>a? a>j? z>j j>END", deferred: "j", taken: "a>a?", want: "a"},
		"not around a loop whose exit is a plain join":                   {edges: "a>a? a>j? z>j j>END", taken: "a>a?"},
		"if all edges towards the others are taken as well":              {edges: "a>b a>END b>j z>j j>END", taken: "a>b a>END", want: "b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := scheduletest.Sketch("START>a START>z "+tc.edges, strings.Fields(tc.deferred)...)
			r, s, x := runWithOthers(t, f, "a", "z")
			in := branchInput(r, s, x, &contract.View{}, r.Source.ByPath())
			workflowtest.Run(t, func(ctx workflow.Context) {
				b, err := newBranchChain(ctx, &in)
				if err != nil {
					t.Error(err)
					return
				}
				var taken []int
				for _, e := range strings.Fields(tc.taken) {
					taken = append(taken, slices.IndexFunc(in.Plan.Edges, func(x plan.Edge) bool { return edgeName(x) == e }))
				}
				got := ""
				if next, ok := b.run.Graph.Next(b.run.Graph.Index("a"), taken, b.others); ok {
					got = in.Plan.Nodes[next].ID
				}
				if got != tc.want {
					t.Errorf("the chain continues at %q, want %q; others are %v", got, tc.want, in.Others)
				}
			})
		})
	}
}

func edgeName(e plan.Edge) string {
	if e.Question != "" {
		return e.Question
	}
	return e.From + ">" + e.To
}

// TestBranchInput checks that a branch gets only the part of the flow that its node can reach.
func TestBranchInput(t *testing.T) {
	f := scheduletest.Sketch("START>z z>j START>p START>a p>END a>b? b>a? b>c c>j c>k j>d k>END d>END", "k")
	for i := range f.Nodes {
		f.Nodes[i].Agent.Tools = []plan.Tool{{Name: "ask", As: "ask", Connection: "to-" + f.Nodes[i].ID}}
		f.Connections = append(f.Connections, plan.Connection{ID: "to-" + f.Nodes[i].ID, Kind: plan.ConnectionAgent, Agent: "agent-" + f.Nodes[i].ID})
		f.Agents = append(f.Agents, plan.Flow{ID: "agent-" + f.Nodes[i].ID})
	}
	f.ID, f.Description = "me", "long"
	r, s, x := runWithOthers(t, f, "a", "z")
	r.Source = plan.Source{File: "f.json"}
	for i, path := range []string{"nodes/a", "nodes/p", "nodes/b", "nodes/j", "nodes/z", "nodes/d", "agents/agent-a/nodes/x"} {
		r.Source.Positions = append(r.Source.Positions, plan.Position{Path: path, Line: i})
	}
	s.CountRan(r.Graph.Index("b"), 3)
	s.CountRan(r.Graph.Index("b"), 3)
	s.CountRan(r.Graph.Index("b"), 2) // before a, which is at step 2
	s.CountRan(r.Graph.Index("p"), 3) // not reachable from a
	view := contract.View{State: []contract.StateEntry{{Key: "k"}}}
	in := branchInput(r, s, x, &view, r.Source.ByPath())

	var nodes, edges, agents, paths []string
	for i, n := range in.Plan.Nodes {
		nodes = append(nodes, fmt.Sprintf("%s@%d %v", n.ID, in.Order[i], n.Agent != nil))
		if f.Nodes[in.Order[i]].ID != n.ID {
			t.Errorf("%s is not the flow's node %d", n.ID, in.Order[i])
		}
	}
	for i, e := range in.Plan.Edges {
		edges = append(edges, edgeName(e))
		if f.Edges[in.Edges[i]].ID != e.ID {
			t.Errorf("%s is not the flow's edge %d", e.ID, in.Edges[i])
		}
	}
	for _, a := range in.Plan.Agents {
		agents = append(agents, a.ID)
	}
	for _, p := range in.Source.Positions {
		paths = append(paths, p.Path)
	}
	got := map[string][]string{"nodes": nodes, "edges": edges, "agents": agents, "paths": paths, "others": in.Others}
	want := map[string][]string{
		// Nodes at which the chain stops are sent by name only, and the nodes after them not at all.
		"nodes":  {"j@1 false", "a@3 true", "b@4 true", "c@5 true", "k@6 false"},
		"edges":  {"a>b?", "b>a?", "b>c", "c>j", "c>k"},
		"agents": {"agent-a", "agent-b", "agent-c"},
		"paths":  {"nodes/j", "nodes/a", "nodes/b", "agents/agent-a/nodes/x"},
		"others": {"j"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]contract.Count{{Node: "b", Step: 3, N: 2}}, in.Ran); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if in.Node != "a" || in.Step != 2 || in.Root != "root" || in.Plan.Description != "" || in.V != contract.Version || len(in.View.State) != 1 {
		t.Errorf("input = %+v", in)
	}
	if f.Node("j").Agent == nil || len(f.Agents) != 8 || f.ID != "me" {
		t.Error("branchInput changed the flow")
	}
}

// TestBranchInputCallsOwnFlow checks that a branch gets the complete flow if its node can call it as a sub-agent.
func TestBranchInputCallsOwnFlow(t *testing.T) {
	f := scheduletest.Sketch("START>a START>z a>END z>END")
	f.ID = "me"
	f.Connections = []plan.Connection{{ID: "self", Kind: plan.ConnectionAgent, Agent: "me"}}
	f.Node("a").Agent.Tools = []plan.Tool{{Name: "again", As: "again", Connection: "self"}}
	r, s, x := runWithOthers(t, f, "a", "z")
	in := branchInput(r, s, x, &contract.View{}, r.Source.ByPath())
	if diff := cmp.Diff(f.Closure("me"), in.Plan.Closure("me")); diff != "" {
		t.Errorf("sub-agent's plan mismatch (-flow +branch input):\n%s", diff)
	}
}

func TestBranchResultSize(t *testing.T) {
	f := scheduletest.Sketch("START>a START>z a>b b>END z>END")
	r, s, x := runWithOthers(t, f, "a", "z")
	in := branchInput(r, s, x, &contract.View{}, r.Source.ByPath())
	workflowtest.Run(t, func(ctx workflow.Context) {
		b, err := newBranchChain(ctx, &in)
		if err != nil {
			t.Error(err)
			return
		}
		b.current = &runtime.Execution{Node: &b.run.Flow.Nodes[0], Step: 2}
		b.done = []contract.Execution{{Node: "a", Step: 2}}
		workflowtest.Write(b.view, b.strand, 2, "small", "x")
		workflowtest.Write(b.view, "of another", 2, "large", strings.Repeat("x", contract.MaxPayload))
		if b.full() {
			t.Error("state written by other branches is counted")
		}
		out, err := branchResult(ctx, b, &in, b.result([]int{0}))
		if err != nil || len(out.View.State) != 1 || len(out.Edges) != 1 || out.Edges[0] != in.Edges[0] {
			t.Errorf("branchResult() = %+v, %v", out, err)
		}
		workflowtest.Write(b.view, b.strand, 2, "large", strings.Repeat("x", contract.MaxPayload/2))
		if !b.full() {
			t.Error("the chain does not stop at half of the size limit")
		}
		workflowtest.Write(b.view, b.strand, 2, "more", strings.Repeat("x", contract.MaxPayload/2))
		_, err = branchResult(ctx, b, &in, b.result(nil))
		var fail *contract.Failure
		if !errors.As(err, &fail) || fail.Class != contract.ClassTooLarge || fail.Node != "a" || fail.Step != 2 || fail.Remedy == "" {
			t.Errorf("failure = %+v", fail)
		}
	})
}
