package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
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
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
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

// status asks a run.
func (h *hand) status(t *testing.T, id string) contract.Status {
	t.Helper()
	var s contract.Status
	v, err := h.client.QueryWorkflow(context.Background(), id, "", contract.QueryStatus)
	if err != nil || v.Get(&s) != nil {
		t.Fatal(err)
	}
	return s
}

// TestEndToEndParked mends what a server refused: the run goes on at that very call.
func TestEndToEndParked(t *testing.T) {
	for _, events := range []int{0, 1} {
		t.Run(fmt.Sprintf("max events %d", events), func(t *testing.T) {
			var expired atomic.Bool
			expired.Store(true)
			var calls atomic.Int32
			r := rehearsal{tools: map[string]func(string) (string, bool){"search": func(string) (string, bool) { calls.Add(1); return "found", false }}, expired: &expired}
			tools := r.serve(t)
			h := &hand{client: dial(t, temporalAddress(t)), queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
			h.worker = work(t, h.client, h.queue, 0, tools)
			t.Cleanup(h.worker.Stop)
			in := contract.RunInput{Flow: contract.FlowRef{Text: oneNode(searchTool), Name: "flow.json"}, MaxEvents: events,
				Script: script(t, `rules: [{turn: 1, call: [{tool: search}]}, {say: done}]`)}
			run := h.start(t, in)
			id := run.GetID()
			q := h.open(t, id, 1)[0]
			if q.Kind != contract.RequestRetry || q.Failure == nil || q.Failure.Class != contract.ClassDenied || q.Node != "a" || q.At == "" {
				t.Fatalf("open: %+v", q)
			}
			// Not mended yet: it asks again, as another request.
			if _, err := h.update(t, id, "retry", contract.RetryAnswer{ID: q.ID}); err != nil {
				t.Fatal(err)
			}
			first := q.ID
			waitFor(t, "the next request", func() bool {
				open := h.status(t, id).Requests
				if len(open) == 1 {
					q = open[0]
				}
				return q.ID != first
			})
			expired.Store(false)
			for range 3 {
				if err := h.client.SignalWorkflow(context.Background(), id, "", "retry", contract.RetryAnswer{ID: q.ID}); err != nil {
					t.Fatal(err)
				}
			}
			out, err := resultOf(t, run)
			if err != nil || *out.ResultText != "done" || calls.Load() != 1 || out.Usage.Calls != 2 {
				t.Fatalf("%+v, %v, %d calls", out, err, calls.Load())
			}
			expired.Store(true)
			run = h.start(t, in)
			q = h.open(t, run.GetID(), 1)[0]
			if _, err := h.update(t, run.GetID(), "retry", contract.RetryAnswer{ID: q.ID, GiveUp: true, Reason: "no budget"}); err != nil {
				t.Fatal(err)
			}
			if _, err := resultOf(t, run); contract.FailureOf(err).Class != contract.ClassDenied || !strings.Contains(err.Error(), "no budget") {
				t.Errorf("given up: %v", err)
			}
		})
	}
}

// patience is a fork: one branch asks a sub-agent, which asks a person; the other goes round
// and round.
const patience = `{"data_connections":[
{"id":"helper","type":2,"name":"Helper","description":"knows things","config":{"agent_id":"sub"}},
{"id":"web","type":1,"name":"Web","description":"","config":{"url":"https://tools.example.com/mcp"}}],
"agents":[
{"id":"main","name":"Main","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"a","name":"A","prompt":"ask","tools":[{"name":"call_sub_agent","data_connection_id":"helper"}]},
{"id":"b","name":"B","prompt":"busy"},
{"id":"j","name":"J","prompt":"join","defer":true,"is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"START","target":"b"},
{"id":"again","source":"b","target":"b","condition_prompt":"again?"},{"id":"enough","source":"b","target":"j","condition_prompt":"enough?"},
{"id":"e3","source":"a","target":"j"},{"id":"e5","source":"j","target":"END"}]},
{"id":"sub","name":"Sub","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"s","name":"S","prompt":"answer","is_exit_node":true,"tools":[{"name":"send_mail","data_connection_id":"web"}]}],
"edges":[{"id":"e1","source":"START","target":"s"},{"id":"e2","source":"s","target":"END"}]}]}`

// TestEndToEndBusyBesideWaiting goes on with a loop while a sub-agent in another branch waits
// for a person, although the run must continue as new again and again.
func TestEndToEndBusyBesideWaiting(t *testing.T) {
	const laps = 20
	for _, events := range []int{1, 60} {
		t.Run(fmt.Sprintf("max events %d", events), func(t *testing.T) {
			h := confirmed(t)
			run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: patience, Name: "flow.json"}, MaxEvents: events, DataConnections: mailTools(), MaxSteps: laps + 2,
				Script: script(t, fmt.Sprintf(`rules:
- {question: "again?", step: %d, yes: false}
- {question: "enough?", step: %d, yes: true}
- {question: "again?", yes: true}
- {question: "enough?", yes: false}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {say: ok}`, laps, laps))})
			id := run.GetID()
			var first, s contract.Status
			waitFor(t, "the loop to end beside the open request", func() bool {
				s = h.status(t, id)
				if len(s.Requests) == 1 && len(first.Requests) == 0 {
					first = s
				}
				return len(s.Requests) == 1 && s.Usage.Calls >= 3*laps
			})
			q := s.Requests[0]
			if q.ID != first.Requests[0].ID || !q.OpenedAt.Equal(first.Requests[0].OpenedAt) || !strings.Contains(q.Execution, "a#1:") || q.Node != "s" {
				t.Errorf("the request became %+v\nfrom %+v", q, first.Requests[0])
			}
			if n := runsOf(t, h.client, h.client.GetWorkflow(context.Background(), id, "")); n < 2 {
				t.Errorf("%d runs, want several", n)
			}
			if _, err := h.update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false, "reason": "not today"}); err != nil {
				t.Fatal(err)
			}
			out, err := resultOf(t, run)
			if err != nil || out.ResultNode != "j" || out.Usage.Calls != 3*laps+5 {
				t.Fatalf("%+v, %v", out, err)
			}
		})
	}
}

func TestEndToEndNoAnswerInTime(t *testing.T) {
	tools, err := tool.Open(tool.Settings{Confirm: map[string]tool.ConfirmRule{"mail": {Tools: []string{"send_*"}, LimitSeconds: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	h := &hand{client: dial(t, temporalAddress(t)), queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.worker = work(t, h.client, h.queue, 0, tools)
	t.Cleanup(h.worker.Stop)
	run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: oneNode(mailer), Name: "flow.json"}, DataConnections: mailTools(), MaxEvents: 1,
		Script: script(t, `rules:
- {turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {contains: "nobody answered within 1 seconds", say: no mail}`)})
	out, err := resultOf(t, run)
	if err != nil || *out.ResultText != "no mail" {
		t.Fatalf("%+v, %v", out, err)
	}
}

// TestEndToEndRemember answers once for all calls of a tool, in branches and sub-agents alike.
func TestEndToEndRemember(t *testing.T) {
	h := confirmed(t)
	run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: oneNode(mailer), Name: "flow.json"}, DataConnections: mailTools(), MaxEvents: 1,
		Script: script(t, `rules:
- {turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {turn: 2, call: [{tool: send_mail, arguments: {to: bob}}]}
- {say: done}`)})
	id := run.GetID()
	q := h.open(t, id, 1)[0]
	if _, err := h.update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false, "remember": true, "reason": "never"}); err != nil {
		t.Fatal(err)
	}
	if out, err := resultOf(t, run); err != nil || *out.ResultText != "done" {
		t.Fatalf("%+v, %v", out, err)
	}
}

// TestEndToEndCancelWaiting cancels a run whose sub-agent waits.
func TestEndToEndCancelWaiting(t *testing.T) {
	h := confirmed(t)
	run := h.start(t, contract.RunInput{Flow: contract.FlowRef{Text: strings.Replace(patience, `"enough?"`, `"never?"`, 1), Name: "flow.json"}, DataConnections: mailTools(),
		Script: script(t, `rules:
- {kind: judge, yes: true}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {node: b, delay: 30s, say: late}
- {say: ok}`)})
	h.open(t, run.GetID(), 1)
	if err := h.client.CancelWorkflow(context.Background(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := resultOf(t, run); !temporal.IsCanceledError(errors.Unwrap(err)) && !contract.Cancelled(err) {
		t.Errorf("the run ends with %v", err)
	}
	if s := h.status(t, run.GetID()); len(s.Requests) != 0 {
		t.Errorf("open after the end: %+v", s.Requests)
	}
}

// TestEndToEndSteer sends messages to a run that has not asked.
func TestEndToEndSteer(t *testing.T) {
	for _, events := range []int{0, 1} {
		t.Run(fmt.Sprintf("max events %d", events), func(t *testing.T) {
			h := confirmed(t)
			ctx := context.Background()
			in := contract.RunInput{V: 1, Model: "script", Flow: contract.FlowRef{Text: forkAndJoin, Name: "flow.json"}, MaxEvents: events,
				Script: script(t, `rules:
- {node: a, turn: 1, contains: to a, say: a heard}
- {node: b, turn: 1, delay: 2s, call: [{tool: list_state_keys}]}
- {node: b, turn: 2, contains: to b, say: b heard}
- {node: j, contains: to all, say: j heard}
- {say: nothing heard}`)}
			id := fmt.Sprintf("steer-%d", time.Now().UnixNano())
			// The message may come before the run: signal-with-start.
			run, err := h.client.SignalWithStartWorkflow(ctx, id, "message", map[string]any{"text": "to a", "node": "a"}, client.StartWorkflowOptions{TaskQueue: h.queue}, contract.WorkflowFlow, in)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := h.client.SignalWorkflow(ctx, id, "", "message", map[string]any{"text": "to b", "node": "b", "key": "k1"}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := h.update(t, id, "message", map[string]any{"text": "x", "node": "nobody"}); classOf(err) != contract.ClassBadRequest {
				t.Errorf("a node that there is not gives %v", err)
			}
			if _, err := h.update(t, id, "message", map[string]any{"text": "to all", "node": "j"}); err != nil {
				t.Error(err)
			}
			waitFor(t, "a to end", func() bool {
				return slices.ContainsFunc(h.status(t, id).Executions, func(e contract.Execution) bool { return e.Node == "a" })
			})
			if _, err := h.update(t, id, "message", map[string]any{"text": "too late for a", "node": "a"}); err != nil {
				t.Error(err)
			}
			out, err := resultOf(t, run)
			if err != nil || *out.ResultText != "j heard" {
				t.Fatalf("%+v, %v", out, err)
			}
			if len(out.Unread) != 1 || out.Unread[0].Text != "too late for a" {
				t.Errorf("unread: %+v", out.Unread)
			}
			s := h.status(t, id)
			if s.Rejected != 0 {
				t.Errorf("rejected: %v", s.Rejects)
			}
		})
	}
}

// TestEndToEndUpdateWithStart asks and starts in one request.
func TestEndToEndUpdateWithStart(t *testing.T) {
	h := confirmed(t)
	ctx := context.Background()
	start := h.client.NewWithStartWorkflowOperation(client.StartWorkflowOptions{ID: fmt.Sprintf("chat-%d", time.Now().UnixNano()), TaskQueue: h.queue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING}, contract.WorkflowFlow,
		contract.RunInput{V: 1, Model: "script", Flow: contract.FlowRef{Plan: asking()}, Script: script(t, `rules: [{contains: blue, say: painted}]`)})
	u, err := h.client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{UpdateName: "message", Args: []any{map[string]any{"text": "blue"}}, WaitForStage: client.WorkflowUpdateStageCompleted}})
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Get(ctx, nil); err != nil {
		t.Fatal(err)
	}
	run, err := start.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := resultOf(t, run); err != nil || *out.ResultText != "painted" {
		t.Fatalf("%+v, %v", out, err)
	}
}

// asking is a flow that asks a person, and goes on with the answer.
func asking() *plan.Flow {
	f := graphPlan("asking", []graphNode{{ID: "ask"}, {ID: "paint"}}, nil)
	f.Nodes[0].Kind, f.Nodes[0].Agent, f.Nodes[0].Ask = plan.KindAsk, nil, &plan.Ask{Text: "Which colour?"}
	f.Edges = []plan.Edge{{ID: "e1", From: plan.Start, To: "ask"}, {ID: "e2", From: "ask", To: "paint"}, {ID: "e3", From: "paint", To: plan.End}}
	f.Nodes[1].Exit = true
	return f
}
