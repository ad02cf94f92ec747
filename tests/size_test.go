package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/worker/store"
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

// TestEndToEndLargeUpdate answers with more than Temporal takes from a worker: the SDK's
// refusal would send it back, and the workflow task fail.
func TestEndToEndLargeUpdate(t *testing.T) {
	foreign := &hand{client: dial(t, temporalAddress(t))}
	h := &hand{client: dialAsWorker(t), queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.worker = work(t, h.client, h.queue, 0, nil)
	t.Cleanup(h.worker.Stop)
	run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: oneNode(mailer), Name: "flow.json"}, DataConnections: mailTools(),
		Script: script(t, `rules: [{turn: 1, call: [{tool: look_up, arguments: {q: 1}}]}, {say: done}]`)})
	id := h.open(t, run.GetID(), 1)[0].ID
	for _, n := range []int{1 << 20, 2_000_000, 3_500_000} {
		_, err := foreign.update(t, run.GetID(), "tool_result", map[string]any{"id": id, "result": strings.Repeat("x", n)})
		if classOf(err) != contract.ClassTooLarge {
			t.Errorf("%d bytes give %.300v", n, err)
		}
	}
	if _, err := foreign.update(t, run.GetID(), "tool_result", map[string]any{"id": id, "result": 1}); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		return // nothing ends it
	}
	if _, err := resultOf(t, run); err != nil {
		t.Error(err)
	}
	events := foreign.client.GetWorkflowHistory(context.Background(), run.GetID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f := e.GetWorkflowTaskFailedEventAttributes(); f != nil {
			t.Errorf("a workflow task failed: %.300v", f)
		}
	}
}

// TestEndToEndAnyAlphabet starts a run as clients in other languages can: its id, and those of
// its branches, are no ASCII.
func TestEndToEndAnyAlphabet(t *testing.T) {
	c := dialAsWorker(t)
	queue := fmt.Sprintf("test-%d", time.Now().UnixNano())
	w := work(t, c, queue, 1, nil) // a model call asks its run
	t.Cleanup(w.Stop)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: queue, ID: "grüße/日本-" + queue}, contract.WorkflowFlow,
		contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: wide("x", "ä", "b")}, Model: "script", Script: script(t, `rules: [{say: done}]`)})
	if err != nil {
		t.Fatal(err)
	}
	var out contract.RunResult
	if err := run.Get(ctx, &out); err != nil {
		t.Fatal(err)
	}
	if out.Status != contract.StatusCompleted {
		t.Errorf("the run is %s", out.Status)
	}
}

// dialAsWorker is a client as a worker without a store has it.
func dialAsWorker(t *testing.T) client.Client {
	t.Helper()
	none, err := store.Open(store.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	options := client.Options{HostPort: temporalAddress(t), Logger: quiet{}}
	none.Apply(&options)
	c, err := client.Dial(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
