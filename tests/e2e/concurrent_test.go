package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// askFlow returns a flow of n branches that each ask a user a question, and a join.
func askFlow(n int) *plan.Flow {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint("q", i))
	}
	f := harness.FanIn("questions", ids...)
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.ID != "join" {
			n.Kind, n.Agent, n.Ask = plan.KindAsk, nil, &plan.Ask{Text: "Which " + n.ID + "?"}
		}
	}
	return f
}

// eventually calls f until it returns nil, for at most five minutes, and returns its last error. Unlike
// harness.WaitFor, it may be called on any goroutine.
func eventually(f func(ctx context.Context) error) (err error) {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
		err = f(ctx)
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

// sendUpdate sends an Update until the run accepts it or has closed. It may be called on any goroutine.
func sendUpdate(t *testing.T, h *harness.Worker, id, name string, answer, out any) {
	t.Helper()
	err := eventually(func(ctx context.Context) error {
		u, err := h.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: name,
			Args: []any{answer}, WaitForStage: client.WorkflowUpdateStageCompleted})
		if err == nil {
			err = u.Get(ctx, out)
		}
		if errors.As(err, new(*serviceerror.NotFound)) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Errorf("Update %s of %s: %v", name, id, err)
	}
}

// TestEndToEndConcurrentAnswers sends a run answers for all its branches while no worker is running. Each is
// small enough for a workflow task, but together they exceed the limit of one.
func TestEndToEndConcurrentAnswers(t *testing.T) {
	t.Parallel()
	const n = 6
	text := strings.Repeat("w", 900_000)
	senders := map[string]func(t *testing.T, h *harness.Worker, id string, open []contract.Request){
		"signals": func(t *testing.T, h *harness.Worker, id string, open []contract.Request) {
			for _, q := range open {
				h.Signal(t, id, contract.RequestMessage, map[string]any{"id": q.ID, "text": text})
			}
			h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, nil)
		},
		"updates": func(t *testing.T, h *harness.Worker, id string, open []contract.Request) {
			var wg sync.WaitGroup
			defer wg.Wait()
			for _, q := range open {
				wg.Go(func() {
					sendUpdate(t, h, id, contract.RequestMessage, map[string]any{"id": q.ID, "text": text}, nil)
				})
			}
			time.Sleep(time.Second) // by now, the server should have received all of them
			h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, nil)
		},
	}
	for name, send := range senders {
		t.Run(name, func(t *testing.T) {
			h := &harness.Worker{Client: dialAsWorker(t), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
			h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, nil)
			t.Cleanup(func() { h.Worker.Stop() })
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: askFlow(n)}, Script: harness.Script(t, `rules: [{say: done}]`)})
			open := h.WaitForRequests(t, run.GetID(), n)
			h.Worker.Stop()
			send(t, h, run.GetID(), open)
			out, err := harness.Result(t, run)
			if err != nil || *out.ResultText != "done" {
				t.Fatalf("result = %+v, %.500v", out, err)
			}
		})
	}
}

// TestEndToEndConcurrentPrompts has several clients wait for the same turn with a long result. Together, their
// responses exceed the limit of one workflow task.
func TestEndToEndConcurrentPrompts(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	f := harness.GraphPlan("talker", []harness.GraphNode{{ID: "a", Exit: true}}, []harness.GraphEdge{{Source: plan.Start, Target: "a"}, {Source: "a", Target: plan.End}})
	const n = 1_200_000
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Input: "one", Session: true, Script: harness.Script(t, fmt.Sprintf(`rules: [{turn: 1, say: one}, {turn: 2, delay: 3s, say: "%s"}, {say: three}]`, strings.Repeat("w", n)))})
	h.WaitForTurns(t, run.GetID(), 1)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			var turn contract.Turn
			sendUpdate(t, h, run.GetID(), contract.UpdatePrompt, contract.PromptInput{ID: "k", Prompt: "more"}, &turn)
			if turn.Status != contract.TurnCompleted || turn.N != 2 || turn.ResultText == nil || len(*turn.ResultText) != n {
				t.Errorf("turn = %.200v", turn)
			}
		})
	}
	wg.Wait()
	if out := h.CloseSession(t, run); out.Status != "stopped" || out.Usage.Calls != 2 {
		t.Errorf("result = %.300v", out)
	}
}
