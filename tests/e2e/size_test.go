package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/worker/store"
	"weft/workflows/plan"
)

// TestEndToEndManyCommands starts eight branches with 800 KB of state each, which together exceed the limit of one
// workflow task.
func TestEndToEndManyCommands(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	nodes := []harness.GraphNode{{ID: "s"}, {ID: "j", Defer: true, Exit: true}}
	edges := []harness.GraphEdge{{Source: plan.Start, Target: "s"}, {Source: "j", Target: plan.End}}
	for i := range 8 {
		id := fmt.Sprint("b", i)
		nodes = append(nodes, harness.GraphNode{ID: id})
		edges = append(edges, harness.GraphEdge{Source: "s", Target: id}, harness.GraphEdge{Source: id, Target: "j"})
	}
	f := harness.GraphPlan("wide", nodes, edges)
	f.Nodes[0].Agent.Builtins = plan.Builtins
	var calls []string
	for i := range 4 {
		calls = append(calls, fmt.Sprintf("{tool: set_state, arguments: {key: k%d, value: %s}}", i, strings.Repeat("v", 200_000)))
	}
	out, err := harness.Result(t, h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: harness.Script(t, fmt.Sprintf(`rules:
- {node: s, turn: 1, call: [%s]}
- {say: done}`, strings.Join(calls, ", ")))}))
	if err != nil {
		t.Fatal(err)
	}
	if out.Usage.Calls != 11 {
		t.Errorf("%d model calls, want 11", out.Usage.Calls)
	}
}

// TestEndToEndLargeOutputs has a branch whose nodes' outputs together exceed the limit of a result, and a node whose
// model response exceeds the limit of a call, which must fail the run without a retry.
func TestEndToEndLargeOutputs(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	nodes := []harness.GraphNode{{ID: "other"}, {ID: "j", Defer: true, Exit: true}}
	edges := []harness.GraphEdge{{Source: plan.Start, Target: "other"}, {Source: "other", Target: "j"}, {Source: "j", Target: plan.End}}
	from := plan.Start
	for i := range 5 {
		id := fmt.Sprint("c", i)
		nodes = append(nodes, harness.GraphNode{ID: id})
		edges = append(edges, harness.GraphEdge{Source: from, Target: id})
		from = id
	}
	edges = append(edges, harness.GraphEdge{Source: from, Target: "j"})
	f := harness.GraphPlan("long", nodes, edges)
	out, err := harness.Result(t, h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: harness.Script(t, fmt.Sprintf(`rules:
- {node: j, contains: %s, say: joined}
- {say: "%s"}`, strings.Repeat("w", 2000), strings.Repeat("w", 500_000)))}))
	if err != nil {
		t.Fatal(err)
	}
	if *out.ResultText != "joined" {
		t.Errorf("result = %.100q", *out.ResultText)
	}
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"},
		Script: harness.Script(t, `rules: [{call: [{tool: set_state, arguments: {key: k, value: `+strings.Repeat("v", 950_000)+`}}, {tool: set_state, arguments: {key: l, value: `+strings.Repeat("v", 10)+`}}], say: "`+strings.Repeat("w", 1_000_000)+`"}]`)})
	_, err = harness.Result(t, run)
	if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassTooLarge || f.Node != "a" {
		t.Fatalf("with a response of 1.95 MB, run ended with %v", err)
	}
	for _, e := range harness.Events(t, h.Client, run.GetID(), run.GetRunID()) {
		if s := e.GetActivityTaskStartedEventAttributes(); s != nil && s.Attempt > 1 {
			t.Error("the call was retried")
		}
	}
}

// TestEndToEndLargeUpdate sends answers that exceed what Temporal accepts from a worker. The worker must replace them
// before the SDK gets them, since the SDK sends a rejected Update back, which would fail the workflow task.
func TestEndToEndLargeUpdate(t *testing.T) {
	t.Parallel()
	plain := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t))}
	h := &harness.Worker{Client: dialAsWorker(t), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, nil)
	t.Cleanup(h.Worker.Stop)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(harness.MailTools), Name: "flow.json"}, DataConnections: harness.MailConnection(),
		Script: harness.Script(t, `rules: [{turn: 1, call: [{tool: look_up, arguments: {q: 1}}]}, {say: done}]`)})
	id := h.WaitForRequests(t, run.GetID(), 1)[0].ID
	for _, n := range []int{1 << 20, 2_000_000, 3_500_000} {
		_, err := plain.Update(t, run.GetID(), "tool_result", map[string]any{"id": id, "result": strings.Repeat("x", n)})
		if harness.ErrorType(err) != contract.ClassTooLarge {
			t.Errorf("with %d bytes, error = %.300v", n, err)
		}
	}
	if _, err := plain.Update(t, run.GetID(), "tool_result", map[string]any{"id": id, "result": 1}); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		return // the run may not complete
	}
	if _, err := harness.Result(t, run); err != nil {
		t.Error(err)
	}
	events := plain.Client.GetWorkflowHistory(context.Background(), run.GetID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
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

// TestEndToEndUnicodeIDs checks that a run works if its id and those of its branches are not ASCII, as Temporal
// permits.
func TestEndToEndUnicodeIDs(t *testing.T) {
	t.Parallel()
	c := dialAsWorker(t)
	queue := fmt.Sprintf("test-%d", time.Now().UnixNano())
	w := harness.RunWorker(t, c, queue, 1, nil) // model calls query their run
	t.Cleanup(w.Stop)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: queue, ID: "grüße-日本-" + queue}, contract.WorkflowFlow,
		contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: harness.FanIn("x", "ä", "b")}, Model: "script", Script: harness.Script(t, `rules: [{say: done}]`)})
	if err != nil {
		t.Fatal(err)
	}
	var out contract.RunResult
	if err := run.Get(ctx, &out); err != nil {
		t.Fatal(err)
	}
	if out.Status != contract.StatusCompleted {
		t.Errorf("status = %s", out.Status)
	}
}

// dialAsWorker connects a client with the options of a worker without a store.
func dialAsWorker(t *testing.T) client.Client {
	t.Helper()
	none, err := store.Open(store.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	options := harness.Options(harness.ServerAddress(t))
	none.Apply(&options)
	c, err := client.Dial(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
