package replay

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/tests/harness"
	"weft/workflows"
	"weft/workflows/plan"
)

// recordChain records the histories of the last run and of all earlier runs of its chain.
func recordChain(t *testing.T, c client.Client, name string, run client.WorkflowRun) {
	t.Helper()
	var runs []string
	for id := run.GetRunID(); id != ""; { // the last run, once the result was received
		runs = append(runs, id)
		id = harness.Events(t, c, run.GetID(), id)[0].GetWorkflowExecutionStartedEventAttributes().ContinuedExecutionRunId
	}
	for i, id := range runs {
		as := name
		if i > 0 {
			as = fmt.Sprintf("%s@before_%d", name, i)
		}
		harness.Record(t, c, as, run.GetID(), id)
	}
}

// TestEndToEndRecordContinuedSession records a session that continues as new with its children, two of
// which call back, receives prompts during turns, and is closed during a turn.
func TestEndToEndRecordContinuedSession(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	start := func(mode, prompt string) string {
		return fmt.Sprintf(`{tool: start_agent_session, arguments: {agent_name: helper, mode: %s, parameters: {prompt: %s}}}`, mode, prompt)
	}
	run := h.StartSession(t, harness.Orchestrator(), `rules:
- {node: helper, match: ^slow$, delay: 400ms, say: slow help}
- {node: helper, match: ^more$, say: more help}
- {node: helper, say: help}
- {node: boss, match: ^never$, delay: 10m, say: late}
- {node: boss, match: ^busy$, delay: 300ms, say: was busy}
- {node: boss, match: '^(one|and|last)$', call: [`+start("async_callback", "slow")+`, `+start("async_callback", "quick")+`, `+start("sync", "now")+`]}
- {node: boss, say: heard}`, 50)
	id := run.GetID()
	harness.WaitFor(t, "the results of both children", func() bool {
		now := h.Status(t, id)
		return now.Status == contract.StatusIdle && now.Session.Turns > 1 && now.Session.Callbacks == 0 &&
			!slices.ContainsFunc(now.Session.Children, func(c contract.ChildStatus) bool { return c.Status != contract.StatusIdle })
	})
	child := h.Status(t, id).Session.Children[0].ID
	if got := h.Prompt(t, child, "x", "more"); got.ResultText == nil || *got.ResultText != "more help" {
		t.Errorf("child's turn = %+v", got)
	}
	h.Prompt(t, id, "a", "and")
	h.Prompt(t, id, "b", "busy")
	for _, key := range []string{"c", "d"} {
		prompt := map[string]string{"c": "never", "d": "behind"}[key]
		if err := h.Client.SignalWorkflow(t.Context(), id, "", contract.UpdatePrompt, contract.PromptInput{ID: key, Prompt: prompt}); err != nil {
			t.Fatal(err)
		}
	}
	harness.WaitFor(t, "the last turn", func() bool {
		s := h.Status(t, id).Session
		return s.Turn != nil && s.Turn.ID == "c" && s.Queued == 1
	})
	out := h.CloseSession(t, run)
	if n := harness.RunCount(t, h.Client, run); n < 2 || out.Status != "stopped" {
		t.Errorf("status = %s after %d runs, want stopped after 2 or more", out.Status, n)
	}
	recordChain(t, h.Client, "session-again", run)
}

// TestEndToEndRecordEndedSessions records sessions that are cancelled or terminated during their
// third turn: one after it has continued as new and received a prompt with an image, and one in its
// first run.
func TestEndToEndRecordEndedSessions(t *testing.T) {
	t.Parallel()
	pixel := contract.Media{MediaType: "image/gif", Data: "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs="}
	for name, tc := range map[string]struct {
		events int
		images []contract.Media
		end    func(c client.Client, id string) error
	}{
		"cancelled":  {1, []contract.Media{pixel}, func(c client.Client, id string) error { return c.CancelWorkflow(t.Context(), id, "") }},
		"terminated": {0, nil, func(c client.Client, id string) error { return c.TerminateWorkflow(t.Context(), id, "", "test") }},
	} {
		t.Run(name, func(t *testing.T) {
			h := harness.NewWorker(t, 0)
			run := h.StartSession(t, harness.AgentFlow("talker"), `rules:
- {match: ^never$, delay: 10m, say: late}
- {contains: two, say: second}
- {match: ^one$, say: first}`, tc.events)
			id := run.GetID()
			h.WaitForTurns(t, id, 1)
			if got := h.Prompt(t, id, "a", "two", tc.images...); got.N != 2 || got.ResultText == nil || *got.ResultText != "second" {
				t.Errorf("second turn = %+v", got)
			}
			harness.WaitFor(t, "the third prompt to be accepted", func() bool { // retried, since the session may continue as new
				_, err := h.Client.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: contract.UpdatePrompt,
					Args: []any{contract.PromptInput{ID: "b", Prompt: "never"}}, WaitForStage: client.WorkflowUpdateStageAccepted})
				return err == nil
			})
			harness.WaitFor(t, "the call of the third turn", func() bool {
				d, err := h.Client.DescribeWorkflowExecution(t.Context(), id, "")
				return err == nil && len(d.GetPendingActivities()) == 1 && d.GetPendingActivities()[0].GetActivityType().GetName() == contract.ActivityCallModel
			})
			if err := tc.end(h.Client, id); err != nil {
				t.Fatal(err)
			}
			if out, err := harness.Result(t, run); err == nil {
				t.Errorf("result = %+v, want an error", out)
			}
			if n := harness.RunCount(t, h.Client, run); (n > 1) != (tc.events > 0) {
				t.Errorf("the session has %d runs", n)
			}
			recordChain(t, h.Client, "session-"+name, run)
		})
	}
}

// TestEndToEndRecordFailover records a run whose first model is unavailable.
func TestEndToEndRecordFailover(t *testing.T) {
	t.Parallel()
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(first.Close)
	second := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Here I am."}}],`+
			`"usage":{"prompt_tokens":20,"completion_tokens":3,"total_tokens":23}}`)
	}))
	t.Cleanup(second.Close)
	models, err := llm.Open(llm.Settings{Default: "first/m, second/n", Providers: map[string]llm.ProviderSettings{
		"first": {Kind: "compatible", BaseURL: first.URL, Unary: true}, "second": {Kind: "compatible", BaseURL: second.URL, Unary: true}}})
	if err != nil {
		t.Fatal(err)
	}
	c := harness.Dial(t, harness.ServerAddress(t))
	h := &harness.Worker{Client: c, Queue: fmt.Sprintf("failover-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorkerWith(t, c, h.Queue, workflows.Settings{}, activities.Deps{Models: models})
	t.Cleanup(h.Worker.Stop)
	flow := harness.GraphPlan("away", []harness.GraphNode{{ID: "ask", Exit: true}}, []harness.GraphEdge{{Source: plan.Start, Target: "ask"}, {Source: "ask", Target: plan.End}})
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: flow}, Input: "Who is there?", Model: "first/m, second/n"})
	out, err := harness.Result(t, run)
	if err != nil || harness.ResultText(out) != "Here I am." || out.Usage.Input != 20 {
		t.Fatalf("result = %+v, %v", out, err)
	}
	harness.Record(t, c, "failover", run.GetID(), run.GetRunID())
}
