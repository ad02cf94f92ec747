package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/workflows/plan"
)

// mailTools are tools that the run's client executes.
func mailTools() []contract.DataConnection {
	return []contract.DataConnection{{ID: "web", Kind: plan.ConnectionClient, Tools: []plan.ClientTool{
		{Name: "send_mail", Description: "Sends a mail.",
			Schema: json.RawMessage(`{"type":"object","required":["to"],"properties":{"to":{"type":"string"}}}`),
			Result: json.RawMessage(`{"type":"object","required":["sent"],"properties":{"sent":{"type":"boolean"}}}`)},
		{Name: "look_up"},
	}}}
}

const mailer = `,"tools":[{"name":"send_mail","data_connection_id":"web"},{"name":"look_up","data_connection_id":"web"}]`

// confirmed starts a worker whose rules want a yes for sending mail.
func confirmed(t *testing.T) *hand {
	t.Helper()
	tools, err := tool.Open(tool.Settings{Confirm: map[string]tool.ConfirmRule{"mail": {Tools: []string{"send_*"}}}})
	if err != nil {
		t.Fatal(err)
	}
	h := &hand{client: dial(t, temporalAddress(t)), queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.worker = work(t, h.client, h.queue, 0, tools)
	t.Cleanup(func() { h.worker.Stop(); tools.Close() })
	return h
}

// open waits for a run's open requests.
func (h *hand) open(t *testing.T, id string, n int) []contract.Request {
	t.Helper()
	var s contract.Status
	waitFor(t, fmt.Sprintf("%d requests of %s", n, id), func() bool {
		v, err := h.client.QueryWorkflow(context.Background(), id, "", contract.QueryStatus)
		if err != nil || v.Get(&s) != nil {
			return false
		}
		return len(s.Requests) == n
	})
	return s.Requests
}

// update answers, as any client does: by name and JSON.
func (h *hand) update(t *testing.T, id, name string, answer any) (contract.Receipt, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var out contract.Receipt
	u, err := h.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: []any{answer}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return out, err
	}
	return out, u.Get(ctx, &out)
}

func classOf(err error) string {
	if err == nil {
		return ""
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Type()
	}
	return err.Error()
}

func TestEndToEndConfirmAndClientTool(t *testing.T) {
	for _, events := range []int{0, 1} {
		t.Run(fmt.Sprintf("max events %d", events), func(t *testing.T) {
			h := confirmed(t)
			run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: oneNode(mailer), Name: "flow.json"}, MaxEvents: events, DataConnections: mailTools(),
				Script: script(t, `rules:
- {turn: 1, call: [{tool: send_mail, arguments: {to: ann}}, {tool: look_up, arguments: {q: 1}}, {tool: set_state, arguments: {key: k, value: 1}}]}
- {say: done}`)})
			id := run.GetID()
			open := h.open(t, id, 2)
			var confirm, lookUp contract.Request
			for _, q := range open {
				if q.Kind == contract.RequestConfirm {
					confirm = q
				} else {
					lookUp = q
				}
			}
			if confirm.Tool != "send_mail" || string(confirm.Arguments) != `{"to":"ann"}` || lookUp.Kind != contract.RequestToolResult {
				t.Fatalf("open: %+v", open)
			}
			wrong := []struct {
				name   string
				answer any
				class  string
			}{
				{"confirm", map[string]any{"id": "nobody", "approve": true}, contract.ClassUnknownRequest},
				{"confirm", map[string]any{"id": confirm.ID}, contract.ClassBadRequest},
				{"confirm", map[string]any{"id": confirm.ID, "aprove": true}, contract.ClassBadRequest},
				{"confirm", "yes", contract.ClassBadRequest},
				{"confirm", map[string]any{"id": lookUp.ID, "approve": true}, contract.ClassBadRequest},
				{"confirm", map[string]any{"id": confirm.ID, "approve": true, "arguments": map[string]any{"to": 7}}, contract.ClassSchema},
				{"tool_result", map[string]any{"id": lookUp.ID}, contract.ClassBadRequest},
			}
			for _, w := range wrong {
				if _, err := h.update(t, id, w.name, w.answer); classOf(err) != w.class {
					t.Errorf("%s %v gives %v, want %s", w.name, w.answer, err, w.class)
				}
			}
			yes := map[string]any{"id": confirm.ID, "approve": true, "arguments": map[string]any{"to": "bob"}, "by": "kim"}
			for range 2 {
				if out, err := h.update(t, id, "confirm", yes); err != nil || out.ID != confirm.ID {
					t.Fatalf("yes gives %+v, %v", out, err)
				}
			}
			if _, err := h.update(t, id, "confirm", map[string]any{"id": confirm.ID, "approve": false}); classOf(err) != contract.ClassAlreadyAnswered {
				t.Errorf("another answer gives %v", err)
			}
			var mail contract.Request
			for _, q := range h.open(t, id, 2) {
				if q.Tool == "send_mail" {
					mail = q
				}
			}
			if string(mail.Arguments) != `{"to":"bob"}` {
				t.Errorf("the tool is asked with %s", mail.Arguments)
			}
			if _, err := h.update(t, id, "tool_result", map[string]any{"id": mail.ID, "result": map[string]any{"sent": "no"}}); classOf(err) != contract.ClassSchema {
				t.Errorf("a result of another shape gives %v", err)
			}
			ctx := context.Background()
			for range 2 {
				if err := h.client.SignalWorkflow(ctx, id, "", "tool_result", map[string]any{"id": mail.ID, "result": map[string]any{"sent": true}}); err != nil {
					t.Fatal(err)
				}
			}
			_ = h.client.SignalWorkflow(ctx, id, "", "tool_result", "nonsense")
			_ = h.client.SignalWorkflow(ctx, id, "", "tool_result", nil)
			_ = h.client.SignalWorkflow(ctx, id, "", "tool_result", []byte{1, 2})
			if err := h.client.SignalWorkflow(ctx, id, "", "tool_result", map[string]any{"id": lookUp.ID, "error": "no such thing"}); err != nil {
				t.Fatal(err)
			}
			out, err := resultOf(t, run)
			if err != nil || *out.ResultText != "done" {
				t.Fatalf("%+v, %v", out, err)
			}
			var s contract.Status
			v, err := h.client.QueryWorkflow(ctx, id, "", contract.QueryStatus)
			if err != nil || v.Get(&s) != nil || s.Rejected != 3 || len(s.Requests) != 0 {
				t.Errorf("status: %+v, %v", s, err)
			}
			var page contract.TranscriptPage
			if events == 0 {
				v, err = h.client.QueryWorkflow(ctx, id, "", contract.QueryTranscript, contract.TranscriptQuery{Thread: "a#1"})
				if err != nil || v.Get(&page) != nil {
					t.Fatal(err)
				}
				all := string(encoded(t, page))
				for _, want := range []string{`\"sent\":true`, "no such thing", `"ok"`} {
					if !strings.Contains(all, want) {
						t.Errorf("the transcript has no %s: %s", want, all)
					}
				}
			}
		})
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
