package impact

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/starter/runtree"
	"weft/starter/why"
	"weft/workflows/plan"
)

// impactFlow is START -> sort -> (a | c) -> d; sort can start the agent "scout", c uses a
// connection.
func impactFlow() *plan.Flow {
	agent := func(id, prompt string) plan.Node {
		return plan.Node{ID: id, Kind: plan.KindAgent, Agent: &plan.Agent{Prompt: prompt}}
	}
	f := &plan.Flow{ID: "whole", Name: "Desks", Nodes: []plan.Node{agent("sort", "s"), agent("a", "a"), agent("c", "c"), agent("d", "d")},
		Edges: []plan.Edge{{ID: "in", From: plan.Start, To: "sort"}, {ID: "sa", From: "sort", To: "a", Question: "a?"}, {ID: "sc", From: "sort", To: "c"},
			{ID: "ad", From: "a", To: "d"}, {ID: "cd", From: "c", To: "d"}},
		Connections: []plan.Connection{{ID: "web", Kind: "mcp", URL: "http://one"}},
		Agents: []plan.Flow{{ID: "scout", Nodes: []plan.Node{{ID: "look", Agent: &plan.Agent{Prompt: "look", Starts: []plan.Startable{{Agent: "guide"}}}}}},
			{ID: "guide", Nodes: []plan.Node{agent("guide", "guide")}}}}
	f.Nodes[0].Agent.Starts = []plan.Startable{{Agent: "scout"}}
	f.Nodes[2].Agent.Tools = []plan.Tool{{As: "get", Name: "get", Connection: "web"}}
	return f
}

// impactOf returns the impact of an edit on a run that is at a node, followed by the reasons.
func impactOf(t *testing.T, at string, edit func(*plan.Flow)) []string {
	t.Helper()
	old, flow := impactFlow(), impactFlow()
	edit(flow)
	source := plan.Source{File: "new", Positions: []plan.Position{{Path: plan.AgentPath("scout") + plan.NodePath("look"), Line: 70}}}
	for i := range flow.Nodes {
		source.Positions = append(source.Positions, plan.Position{Path: plan.NodePath(flow.Nodes[i].ID), Line: i + 1})
	}
	for i := range flow.Edges {
		source.Positions = append(source.Positions, plan.Position{Path: plan.EdgePath(i), Line: 50 + i})
	}
	f := &why.Facts{Workflow: &runtree.Workflow{ID: "r", Flow: old, Source: plan.Source{File: "old", Positions: []plan.Position{{Path: plan.NodePath("a"), Line: 2}}},
		Input: &contract.RunInput{Flow: contract.FlowRef{Plan: old}}}}
	switch at {
	case "a":
		f.Status = contract.Status{Entry: &contract.Execution{Node: plan.Start, Taken: []string{"in"}}, Running: []string{"a#2"},
			Executions: []contract.Execution{{Node: "sort", Step: 1, Taken: []string{"sa"}}}}
	case "sort":
		f.Status = contract.Status{Entry: &contract.Execution{Node: plan.Start, Taken: []string{"in"}}, Running: []string{"sort#1"}}
	}
	out := Weigh(f, flow, &source)
	got := []string{out.Impact}
	for i := range out.Because {
		got = append(got, line(&out.Because[i]))
	}
	return got
}

// TestImpact edits a flow before, at and after the running node.
func TestImpact(t *testing.T) {
	before := func(node, edge string) func(*plan.Flow) {
		return func(f *plan.Flow) {
			f.Nodes = append(f.Nodes, plan.Node{ID: "new", Kind: plan.KindAgent, Agent: &plan.Agent{}})
			edgeOf(f, edge).To = "new"
			f.Edges = append(f.Edges, plan.Edge{ID: "nn", From: "new", To: node})
		}
	}
	prompt := func(node string) func(*plan.Flow) { return func(f *plan.Flow) { f.Node(node).Agent.Prompt = "other" } }
	tests := map[string]struct {
		at   string
		edit func(*plan.Flow)
		want []string
	}{
		"no change":                       {"a", func(*plan.Flow) {}, []string{None}},
		"description":                     {"a", func(f *plan.Flow) { f.Description = "other" }, []string{None}},
		"prompt of a running node":        {"a", prompt("a"), []string{Pinned, "a#2 (new:2): it changed, and is running"}},
		"prompt of a later node":          {"a", prompt("d"), []string{Movable, "d (new:4): it changed"}},
		"prompt of a finished node":       {"a", prompt("sort"), []string{None}},
		"prompt of an unreachable node":   {"a", prompt("c"), []string{None}},
		"new first node, already passed":  {"a", before("sort", "in"), []string{None}},
		"new first node, not started":     {"", before("sort", "in"), []string{Movable, "START (new:50): its edge to new (new:50) changed"}},
		"new node before the running one": {"a", before("a", "sa"), []string{None}},
		"new node after the running one":  {"a", before("d", "ad"), []string{Pinned, "a#2 (new:2): its edge to new (new:53) changed, and is running"}},
		"condition not yet evaluated": {"sort", func(f *plan.Flow) { edgeOf(f, "sa").Question = "b?" },
			[]string{Pinned, "sort#1 (new:1): its edge to a (new:51) changed, and is running"}},
		"edges reordered": {"sort", func(f *plan.Flow) { f.Edges[1], f.Edges[2] = f.Edges[2], f.Edges[1] },
			[]string{Pinned, "sort#1 (new:1): its outgoing edges are in a different order, and is running"}},
		"running node removed": {"a", func(f *plan.Flow) {
			f.Nodes = append(f.Nodes[:1], f.Nodes[2:]...)
			f.Edges = []plan.Edge{f.Edges[0], f.Edges[2], f.Edges[4]}
		},
			[]string{Pinned, "a#2 (old:2): it is gone, and is running", `sort#1 (new:1): it left by the edge to a, which was removed`}},
		"later node changed, and edge already taken changed": {"a", func(f *plan.Flow) { prompt("d")(f); before("sort", "in")(f) },
			[]string{Pinned, `START (new:50): it left by the edge to sort, which now leads to new`}},
		"agent that a running node may start": {"sort", func(f *plan.Flow) { f.Agents[0].Nodes[0].Agent.Prompt = "other" },
			[]string{Pinned, `sort#1 (new:1): the agent "scout" (new:70) changed, and is running`}},
		"agent that such an agent starts": {"sort", func(f *plan.Flow) { f.Agents[1].Nodes[0].Agent.Prompt = "other" },
			[]string{Pinned, `sort#1 (new:1): the agent "guide" changed, and is running`}},
		"agent removed": {"sort", func(f *plan.Flow) { f.Agents = f.Agents[1:] },
			[]string{Pinned, `sort#1 (new:1): the agent "scout" was removed, and is running`}},
		"agent of a finished node":          {"a", func(f *plan.Flow) { f.Agents[0].Nodes[0].Agent.Prompt = "other" }, []string{None}},
		"connection of a later node":        {"sort", func(f *plan.Flow) { f.Connections[0].URL = "http://two" }, []string{Movable, `c (new:3): the connection "web" of its tools changed`}},
		"connection of an unreachable node": {"a", func(f *plan.Flow) { f.Connections[0].URL = "http://two" }, []string{None}},
		"model of the flow":                 {"a", func(f *plan.Flow) { f.Model = "openai/other" }, []string{Pinned, "a#2 (new:2): the model of the flow changed, and is running"}},
		"edge ids changed": {"a", func(f *plan.Flow) {
			prompt("d")(f)
			for i := range f.Edges {
				f.Edges[i].ID = f.Edges[(i+1)%len(f.Edges)].ID + "x"
			}
		}, []string{Movable, "d (new:4): it changed"}},
		"edge ids swapped": {"a", func(f *plan.Flow) {
			prompt("d")(f)
			f.Edges[0].ID, f.Edges[1].ID, f.Edges[2].ID, f.Edges[3].ID = "sa", "sc", "ad", "in"
		}, []string{Movable, "d (new:4): it changed"}},
		"hooks": {"a", func(f *plan.Flow) { f.Hooks = &plan.Hooks{After: &plan.Hook{Flow: "guide", Seconds: 1}} },
			[]string{Pinned, "the hooks of the flow changed"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, impactOf(t, tc.at, tc.edit)); diff != "" {
				t.Errorf("impact (-want +got):\n%s", diff)
			}
		})
	}
}

// TestImpactOfHooks edits an agent that a hook runs after all nodes.
func TestImpactOfHooks(t *testing.T) {
	old := impactFlow()
	old.Hooks = &plan.Hooks{After: &plan.Hook{Flow: "guide", Seconds: 1}}
	raw, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	var flow plan.Flow
	if err := json.Unmarshal(raw, &flow); err != nil {
		t.Fatal(err)
	}
	flow.Agents[1].Nodes[0].Agent.Prompt = "other"
	got := changes(old, &flow, &plan.Source{File: "new"}, false)
	if len(got) == 0 || got[0].Text != `what a hook runs changed: the agent "guide" changed` {
		t.Errorf("changes = %+v", got)
	}
}
