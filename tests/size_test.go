package tests

import (
	"fmt"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// TestEndToEndManyCommands gives eight branches 800 KB of state each: more than one workflow
// task may hold.
func TestEndToEndManyCommands(t *testing.T) {
	h := newHand(t, 0)
	nodes := []graphNode{{ID: "s"}, {ID: "j", Defer: true, Exit: true}}
	edges := []graphEdge{{Source: plan.Start, Target: "s"}, {Source: "j", Target: plan.End}}
	for i := range 8 {
		id := fmt.Sprint("b", i)
		nodes = append(nodes, graphNode{ID: id})
		edges = append(edges, graphEdge{Source: "s", Target: id}, graphEdge{Source: id, Target: "j"})
	}
	f := graphPlan("wide", nodes, edges)
	f.Nodes[0].Agent.Builtins = plan.Builtins
	var calls []string
	for i := range 4 {
		calls = append(calls, fmt.Sprintf("{tool: set_state, arguments: {key: k%d, value: %s}}", i, strings.Repeat("v", 200_000)))
	}
	out, err := resultOf(t, h.start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: script(t, fmt.Sprintf(`rules:
- {node: s, turn: 1, call: [%s]}
- {say: done}`, strings.Join(calls, ", ")))}))
	if err != nil {
		t.Fatal(err)
	}
	if out.Usage.Calls != 11 {
		t.Errorf("%d model calls, want 11", out.Usage.Calls)
	}
}

// TestEndToEndLargeOutputs lets a branch's nodes say more together than one result may hold,
// and one node more than an answer may be.
func TestEndToEndLargeOutputs(t *testing.T) {
	h := newHand(t, 0)
	nodes := []graphNode{{ID: "other"}, {ID: "j", Defer: true, Exit: true}}
	edges := []graphEdge{{Source: plan.Start, Target: "other"}, {Source: "other", Target: "j"}, {Source: "j", Target: plan.End}}
	from := plan.Start
	for i := range 5 {
		id := fmt.Sprint("c", i)
		nodes = append(nodes, graphNode{ID: id})
		edges = append(edges, graphEdge{Source: from, Target: id})
		from = id
	}
	edges = append(edges, graphEdge{Source: from, Target: "j"})
	f := graphPlan("long", nodes, edges)
	out, err := resultOf(t, h.start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: script(t, fmt.Sprintf(`rules:
- {node: j, contains: %s, say: joined}
- {say: "%s"}`, strings.Repeat("w", 2000), strings.Repeat("w", 500_000)))}))
	if err != nil {
		t.Fatal(err)
	}
	if *out.ResultText != "joined" {
		t.Errorf("result is %.100q", *out.ResultText)
	}
	run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: oneNode(""), Name: "flow.json"},
		Script: script(t, `rules: [{call: [{tool: set_state, arguments: {key: k, value: `+strings.Repeat("v", 950_000)+`}}, {tool: set_state, arguments: {key: l, value: `+strings.Repeat("v", 10)+`}}], say: "`+strings.Repeat("w", 1_000_000)+`"}]`)})
	_, err = resultOf(t, run)
	if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassTooLarge || f.Node != "a" {
		t.Fatalf("an answer of 1.95 MB gives %v", err)
	}
	for _, e := range events(t, h.client, run.GetID(), run.GetRunID()) {
		if s := e.GetActivityTaskStartedEventAttributes(); s != nil && s.Attempt > 1 {
			t.Error("the call was made again")
		}
	}
}
