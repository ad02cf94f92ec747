package services

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// TestEndToEndRepeatedUpdate checks that an Update that a client retries, because it got no response, does not
// answer the next question if the run has continued as new since.
func TestEndToEndRepeatedUpdate(t *testing.T) {
	t.Parallel()
	f := harness.GraphPlan("asking twice", []harness.GraphNode{{ID: "colour"}, {ID: "size"}, {ID: "paint", Exit: true}},
		[]harness.GraphEdge{{Source: plan.Start, Target: "colour"}, {Source: "colour", Target: "size"}, {Source: "size", Target: "paint"}, {Source: "paint", Target: plan.End}})
	for i, question := range []string{"Which colour?", "Which size?"} {
		f.Nodes[i].Kind, f.Nodes[i].Agent, f.Nodes[i].Ask = plan.KindAsk, nil, &plan.Ask{Text: question}
	}
	h := harness.NewWorker(t, 0)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, MaxEvents: 1, Script: harness.Script(t, `rules: [{contains: large, say: painted}, {say: no}]`)})
	awaitQuestion := func(question string) {
		t.Helper()
		harness.WaitFor(t, question, func() bool {
			open := h.Status(t, run.GetID()).Requests
			return len(open) == 1 && open[0].Text == question
		})
	}
	send := func(id, text string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		var out contract.Receipt
		u, err := h.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: run.GetID(), UpdateID: id, UpdateName: contract.RequestMessage,
			Args: []any{contract.MessageAnswer{Text: text}}, WaitForStage: client.WorkflowUpdateStageCompleted})
		if err == nil {
			err = u.Get(ctx, &out)
		}
		if err != nil || out.Status != "accepted" {
			t.Fatalf("%s: %+v, %v", text, out, err)
		}
	}
	awaitQuestion("Which colour?")
	send("one", "blue")
	awaitQuestion("Which size?")
	send("one", "blue")
	awaitQuestion("Which size?")
	send("two", "large")
	out, err := harness.Result(t, run)
	if err != nil || *out.ResultText != "painted" || len(out.UnreadMessages) != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if n := harness.RunCount(t, h.Client, h.Client.GetWorkflow(context.Background(), run.GetID(), "")); n < 2 {
		t.Errorf("%d runs: the Update was repeated in the same run", n)
	}
}
