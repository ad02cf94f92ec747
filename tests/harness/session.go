package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// StartSession starts a session of an agent with the prompt "one".
func (h *Worker) StartSession(t *testing.T, f *plan.Flow, text string, maxEvents int) client.WorkflowRun {
	t.Helper()
	return h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Params: json.RawMessage(`{"prompt":"one"}`), Session: true,
		Script: Script(t, text), MaxEvents: maxEvents})
}

// Prompt gives a session a prompt and waits for its turn, as long as it takes: where the
// session continues as new, the same prompt is asked about again.
func (h *Worker) Prompt(t *testing.T, id, key, prompt string, images ...contract.Media) contract.Turn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		u, err := h.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: contract.UpdatePrompt,
			Args: []any{contract.PromptInput{ID: key, Prompt: prompt, Media: images}}, WaitForStage: client.WorkflowUpdateStageCompleted})
		var out contract.Turn
		if err == nil {
			err = u.Get(ctx, &out)
		}
		var between *serviceerror.NotFound
		if errors.As(err, &between) {
			// The session above goes on in a new run, and this one with it.
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatalf("resume %s: %v", key, err)
		}
		if out.Done() {
			return out
		}
	}
	t.Fatalf("the turn %s did not end", key)
	return contract.Turn{}
}

// Turns waits until a session has so many turns that have ended.
func (h *Worker) Turns(t *testing.T, id string, n int) []contract.Turn {
	t.Helper()
	var out []contract.Turn
	WaitFor(t, fmt.Sprintf("%d turns of %s", n, id), func() bool {
		v, err := h.Client.QueryWorkflow(context.Background(), id, "", contract.QueryTurns)
		out = nil
		return err == nil && v.Get(&out) == nil && len(out) >= n && out[len(out)-1].Done()
	})
	return out
}

// CloseSession closes a session by Update and returns its result.
func (h *Worker) CloseSession(t *testing.T, run client.WorkflowRun) *contract.RunResult {
	t.Helper()
	if _, err := h.Update(t, run.GetID(), contract.UpdateCloseSession, map[string]any{"reason": "enough"}); err != nil {
		t.Fatal(err)
	}
	out, err := Result(t, run)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// AgentFlow is a flow of one agent that takes a prompt.
func AgentFlow(name string, starts ...plan.Startable) *plan.Flow {
	a := &plan.Agent{System: name, Prompt: name, MaxCalls: 50, MaxErrors: 5, Starts: starts}
	if starts != nil {
		a.Builtins = plan.SessionTools
	}
	return &plan.Flow{Version: plan.Version, ID: name, Name: name, Dialect: "blueprint", Inputs: &plan.Inputs{Mode: plan.InputsMerged},
		Nodes:  []plan.Node{{ID: name, Name: name, Kind: plan.KindAgent, Exit: true, Agent: a}},
		Edges:  []plan.Edge{{ID: "in", From: plan.Start, To: name}, {ID: "out", From: name, To: plan.End}},
		Limits: plan.DefaultLimits, Policy: plan.DefaultPolicy}
}

// Orchestrator is an agent "boss" that may start "helper", and that agent.
func Orchestrator() *plan.Flow {
	helper := plan.Startable{Agent: "helper", Type: "autonomous", Tags: []string{"external"}}
	f := AgentFlow("boss", helper, plan.Startable{Agent: "lead", Type: "autonomous", Hidden: true})
	f.Agents = []plan.Flow{*AgentFlow("helper"), *AgentFlow("lead", helper)}
	return f
}
