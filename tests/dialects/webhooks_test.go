package dialects

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/webhook"
	"weft/tests/harness"
	"weft/workflows"
	"weft/workflows/plan"
)

// receiver returns hooks whose only webhook accepts all events.
func receiver(t *testing.T, events ...string) *webhook.Hooks {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(web.Close)
	hooks, problems := webhook.Open(map[string]webhook.Hook{"ops": {URL: web.URL, Secrets: harness.WebhookSecrets, Events: events}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return hooks
}

// runWithWebhook runs a flow on a worker with a webhook, and returns the inputs of its delivery workflows.
func runWithWebhook(t *testing.T, r harness.TestRun, events ...string) (harness.Outcome, []contract.WebhookDeliveryInput) {
	t.Helper()
	var out []contract.WebhookDeliveryInput
	r.Hooks = receiver(t, events...)
	r.Settings = workflows.Settings{Webhooks: r.Hooks.Wanted()}
	r.Wrap = func(reg worker.ActivityRegistry) worker.ActivityRegistry {
		env := reg.(*testsuite.TestWorkflowEnvironment)
		env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
			var in contract.WebhookDeliveryInput
			if info.WorkflowType.Name != contract.WorkflowWebhookDelivery {
				return
			}
			if err := args.Get(&in); err != nil {
				t.Error(err)
			}
			if !strings.HasSuffix(info.WorkflowExecution.ID, "/webhook:"+in.ID) {
				t.Errorf("id of the delivery workflow = %s", info.WorkflowExecution.ID)
			}
			out = append(out, in)
		})
		return env
	}
	return r.Execute(t), out
}

// TestWebhooksAreSent checks the event that a run sends when it completes or fails.
func TestWebhooksAreSent(t *testing.T) {
	t.Parallel()
	res := agentWithHooks(t, "continue")
	res.Flow.Hooks = nil
	run := harness.TestRun{Script: "rules: [{say: Written.}]", SetInput: func(in *contract.RunInput) {
		in.Flow, in.Params = contract.FlowRef{Plan: res.Flow}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`)
	}}
	p, events := runWithWebhook(t, run, contract.WebhookEvents...)
	if p.Err != nil || len(events) != 1 || events[0].Event.Type != contract.EventRunFinished {
		t.Fatalf("%d events, %v", len(events), p.Err)
	}
	var data contract.WebhookData
	harness.DecodeJSON(t, events[0].Event.Data, &data)
	if data.Status != contract.StatusCompleted || data.Flow != "writer" || *data.ResultText != "Written." || data.WorkflowID == "" || data.RunID == "" {
		t.Errorf("data of the event = %s", events[0].Event.Data)
	}
	if diff := cmp.Diff([]string{"ops"}, events[0].Names); diff != "" {
		t.Error(diff)
	}
	run.Script = "rules: [{fail: {class: refused, text: no}}]"
	p, events = runWithWebhook(t, run, contract.EventRunFinished)
	if p.Err == nil || len(events) != 1 {
		t.Fatalf("%d events, %v", len(events), p.Err)
	}
	data = contract.WebhookData{}
	harness.DecodeJSON(t, events[0].Event.Data, &data)
	if data.Status != contract.StatusFailed || data.Error == nil || data.Error.Class != contract.ClassRefused {
		t.Errorf("data of the event = %s", events[0].Event.Data)
	}
}

func TestWebhooksOfRequests(t *testing.T) {
	t.Parallel()
	res := agentWithHooks(t, "continue")
	res.Flow.Hooks = nil
	n := &res.Flow.Nodes[0]
	n.Kind, n.Agent, n.Ask = plan.KindAsk, nil, &plan.Ask{Text: "May it?"}
	r := harness.TestRun{Script: "rules: [{say: Written.}]", Answers: []string{"It may."}, SetInput: func(in *contract.RunInput) {
		in.Flow, in.Params = contract.FlowRef{Plan: res.Flow}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`)
	}}
	var events []contract.WebhookDeliveryInput
	r.Hooks = receiver(t)
	r.Wrap = func(reg worker.ActivityRegistry) worker.ActivityRegistry {
		env := reg.(*testsuite.TestWorkflowEnvironment)
		env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
			var in contract.WebhookDeliveryInput
			if info.WorkflowType.Name == contract.WorkflowWebhookDelivery && args.Get(&in) == nil {
				events = append(events, in)
			}
		})
		return env
	}
	p := r.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	var got []string
	ids := map[string]bool{}
	for _, e := range events {
		var data contract.WebhookData
		harness.DecodeJSON(t, e.Event.Data, &data)
		line := e.Event.Type
		switch {
		case data.Request != nil:
			line += " " + data.Request.Kind + " " + data.Request.Node
		case data.Answered != nil:
			line += " " + data.Answered.Kind + " by " + data.Answered.By
		}
		got, ids[e.ID] = append(got, line), true
	}
	slices.Sort(got) // deliveries are concurrent child workflows
	if diff := cmp.Diff([]string{"request.answered message by ", "request.opened message writer", "run.finished"}, got); diff != "" || len(ids) != 3 {
		t.Errorf("%d ids, -want +got:\n%s", len(ids), diff)
	}
}

// TestWebhooksAreRepeated checks that a failed delivery is retried with the same id, and that a receiver
// that is permanently gone does not affect the others.
func TestWebhooksAreRepeated(t *testing.T) {
	t.Parallel()
	var attempts, ids atomic.Int32
	var body atomic.Value
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if r.Header.Get("webhook-id") == "evt_7" {
			ids.Add(1)
		}
		body.Store(string(raw))
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
		} else if attempts.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer web.Close()
	hooks, problems := webhook.Open(map[string]webhook.Hook{"ops": {URL: web.URL, Secrets: harness.WebhookSecrets}, "old": {URL: web.URL + "/gone", Secrets: harness.WebhookSecrets}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(harness.NoLog)
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(harness.EnvOptions)
	env.SetTestTimeout(4 * time.Minute)
	workflows.Register(env)
	activities.New(activities.Deps{Webhooks: hooks}).Register(env)
	env.ExecuteWorkflow(contract.WorkflowWebhookDelivery, contract.WebhookDeliveryInput{ID: "evt_7", Names: []string{"old", "ops", "removed"},
		Event: contract.WebhookEvent{Type: contract.EventRunFinished, Data: json.RawMessage(`{"run":"r"}`)}})
	if f := contract.FailureOf(env.GetWorkflowError()); f == nil || f.Class != contract.ClassDenied {
		t.Errorf("delivery ended with %v", env.GetWorkflowError())
	}
	if attempts.Load() != 3 || ids.Load() != 4 || !strings.Contains(body.Load().(string), `"data":{"run":"r"}`) {
		t.Errorf("%d attempts, %d requests with the id: %v", attempts.Load(), ids.Load(), body.Load())
	}
}
