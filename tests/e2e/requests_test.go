package e2e

import (
	"context"
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
	"weft/tests/harness"
)

// TestEndToEndConfirmAndClientTool checks how a run handles invalid, repeated and conflicting answers to a confirmation
// and to calls of client-side tools.
func TestEndToEndConfirmAndClientTool(t *testing.T) {
	t.Parallel()
	for _, events := range []int{0, 1} {
		t.Run(fmt.Sprintf("max events %d", events), func(t *testing.T) {
			h := harness.NewConfirmingWorker(t)
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(harness.MailTools), Name: "flow.json"}, MaxEvents: events, DataConnections: harness.MailConnection(),
				Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: send_mail, arguments: {to: ann}}, {tool: look_up, arguments: {q: 1}}, {tool: set_state, arguments: {key: k, value: 1}}]}
- {say: done}`)})
			id := run.GetID()
			open := h.WaitForRequests(t, id, 2)
			var confirm, lookUp contract.Request
			for _, q := range open {
				if q.Kind == contract.RequestConfirm {
					confirm = q
				} else {
					lookUp = q
				}
			}
			if confirm.Tool != "send_mail" || string(confirm.Arguments) != `{"to":"ann"}` || lookUp.Kind != contract.RequestToolResult {
				t.Fatalf("open requests = %+v", open)
			}
			invalid := []struct {
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
				{"confirm", map[string]any{"id": confirm.ID, "approve": false, "arguments": map[string]any{"to": "bob"}}, contract.ClassBadRequest},
				{"tool_result", map[string]any{"id": lookUp.ID}, contract.ClassBadRequest},
			}
			for _, tc := range invalid {
				if _, err := h.Update(t, id, tc.name, tc.answer); harness.ErrorType(err) != tc.class {
					t.Errorf("%s %v: error = %v, want %s", tc.name, tc.answer, err, tc.class)
				}
			}
			_ = h.Client.SignalWorkflow(context.Background(), id, "", "confirm", map[string]any{"id": confirm.ID, "approve": false, "arguments": map[string]any{"to": "bob"}})
			approval := map[string]any{"id": confirm.ID, "approve": true, "arguments": map[string]any{"to": "bob"}, "by": "kim"}
			for range 2 {
				if out, err := h.Update(t, id, "confirm", approval); err != nil || out.ID != confirm.ID {
					t.Fatalf("approval: %+v, %v", out, err)
				}
			}
			if _, err := h.Update(t, id, "confirm", map[string]any{"id": confirm.ID, "approve": false}); harness.ErrorType(err) != contract.ClassAlreadyAnswered {
				t.Errorf("different answer: error = %v", err)
			}
			var mail contract.Request
			for _, q := range h.WaitForRequests(t, id, 2) {
				if q.Tool == "send_mail" {
					mail = q
				}
			}
			if string(mail.Arguments) != `{"to":"bob"}` {
				t.Errorf("arguments of the call = %s", mail.Arguments)
			}
			if _, err := h.Update(t, id, "tool_result", map[string]any{"id": mail.ID, "result": map[string]any{"sent": "no"}}); harness.ErrorType(err) != contract.ClassSchema {
				t.Errorf("result that does not match the schema: error = %v", err)
			}
			ctx := context.Background()
			for range 2 {
				if err := h.Client.SignalWorkflow(ctx, id, "", "tool_result", map[string]any{"id": mail.ID, "result": map[string]any{"sent": true}}); err != nil {
					t.Fatal(err)
				}
			}
			_ = h.Client.SignalWorkflow(ctx, id, "", "tool_result", "nonsense")
			_ = h.Client.SignalWorkflow(ctx, id, "", "tool_result", nil)
			_ = h.Client.SignalWorkflow(ctx, id, "", "tool_result", []byte{1, 2})
			if err := h.Client.SignalWorkflow(ctx, id, "", "tool_result", map[string]any{"id": lookUp.ID, "error": "no such thing"}); err != nil {
				t.Fatal(err)
			}
			out, err := harness.Result(t, run)
			if err != nil || *out.ResultText != "done" {
				t.Fatalf("result = %+v, %v", out, err)
			}
			var s contract.Status
			v, err := h.Client.QueryWorkflow(ctx, id, "", contract.QueryStatus)
			if err != nil || v.Get(&s) != nil || s.Rejected != 4 || len(s.Requests) != 0 {
				t.Errorf("status = %+v, %v", s, err)
			}
			var page contract.TranscriptPage
			if events == 0 {
				v, err = h.Client.QueryWorkflow(ctx, id, "", contract.QueryTranscript, contract.TranscriptQuery{Thread: "a#1"})
				if err != nil || v.Get(&page) != nil {
					t.Fatal(err)
				}
				all := string(harness.EncodeJSON(t, page))
				for _, want := range []string{`\"sent\":true`, "no such thing", `"ok"`} {
					if !strings.Contains(all, want) {
						t.Errorf("transcript does not contain %s: %s", want, all)
					}
				}
			}
		})
	}
}

// TestEndToEndToolNodeEditedArguments checks that a tool node whose call is approved with edited arguments outputs the
// tool's result.
func TestEndToEndToolNodeEditedArguments(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	const flow = `{"component_type":"Flow","agentspec_version":"25.4.1","id":"f","name":"f","start_node":{"$component_ref":"s"},"nodes":[{"$component_ref":"s"},{"$component_ref":"n"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","id":"c1","name":"c1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"n"}},{"component_type":"ControlFlowEdge","id":"c2","name":"c2","from_node":{"$component_ref":"n"},"to_node":{"$component_ref":"e"}}],
"$referenced_components":{"s":{"component_type":"StartNode","id":"s","name":"s"},"e":{"component_type":"EndNode","id":"e","name":"e","outputs":[{"title":"k","type":"integer"}]},
"n":{"component_type":"ToolNode","id":"n","name":"n","tool":{"component_type":"ClientTool","id":"count","name":"count","description":"Counts.","requires_confirmation":true,"inputs":[{"title":"of","type":"string","default":"a"}],"outputs":[{"title":"k","type":"integer"}]}}}}`
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: flow, Name: "flow.json"}})
	id := run.GetID()
	confirm := h.WaitForRequests(t, id, 1)[0]
	if _, err := h.Update(t, id, "confirm", map[string]any{"id": confirm.ID, "approve": true, "arguments": map[string]any{"of": "b"}}); err != nil {
		t.Fatal(err)
	}
	call := h.WaitForRequests(t, id, 1)[0]
	if string(call.Arguments) != `{"of":"b"}` {
		t.Errorf("arguments of the call = %s", call.Arguments)
	}
	if _, err := h.Update(t, id, "tool_result", map[string]any{"id": call.ID, "result": 7}); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Result(t, run); err != nil || string(out.ResultData) != `{"k":7}` {
		t.Errorf("result = %+v, %v", out, err)
	}
}

// TestEndToEndWaitsForOperator checks that a run whose tool call is denied waits for an operator, and continues at that
// call once the credentials work, or fails if the operator gives up.
func TestEndToEndWaitsForOperator(t *testing.T) {
	t.Parallel()
	for _, events := range []int{0, 1} {
		t.Run(fmt.Sprintf("max events %d", events), func(t *testing.T) {
			var expired atomic.Bool
			expired.Store(true)
			var calls atomic.Int32
			r := harness.TestRun{Tools: map[string]func(string) (string, bool){"search": func(string) (string, bool) { calls.Add(1); return "found", false }}, Expired: &expired}
			tools := r.OpenTools(t)
			h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
			h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, tools)
			t.Cleanup(h.Worker.Stop)
			in := contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(harness.SearchTool), Name: "flow.json"}, MaxEvents: events,
				Script: harness.Script(t, `rules: [{turn: 1, call: [{tool: search}]}, {say: done}]`)}
			run := h.Start(t, in)
			id := run.GetID()
			q := h.WaitForRequests(t, id, 1)[0]
			if q.Kind != contract.RequestRetry || q.Failure == nil || q.Failure.Class != contract.ClassDenied || q.Node != "a" || q.At == "" {
				t.Fatalf("open request = %+v", q)
			}
			// The credentials are still expired: the call is denied again, which opens another request.
			if _, err := h.Update(t, id, "retry", contract.RetryAnswer{ID: q.ID}); err != nil {
				t.Fatal(err)
			}
			first := q.ID
			harness.WaitFor(t, "the next request", func() bool {
				open := h.Status(t, id).Requests
				if len(open) == 1 {
					q = open[0]
				}
				return q.ID != first
			})
			expired.Store(false)
			for range 3 {
				if err := h.Client.SignalWorkflow(context.Background(), id, "", "retry", contract.RetryAnswer{ID: q.ID}); err != nil {
					t.Fatal(err)
				}
			}
			out, err := harness.Result(t, run)
			if err != nil || *out.ResultText != "done" || calls.Load() != 1 || out.Usage.Calls != 2 {
				t.Fatalf("result = %+v, %v after %d tool calls", out, err, calls.Load())
			}
			expired.Store(true)
			run = h.Start(t, in)
			q = h.WaitForRequests(t, run.GetID(), 1)[0]
			if _, err := h.Update(t, run.GetID(), "retry", contract.RetryAnswer{ID: q.ID, GiveUp: true, Reason: "no budget"}); err != nil {
				t.Fatal(err)
			}
			if _, err := harness.Result(t, run); contract.FailureOf(err).Class != contract.ClassDenied || !strings.Contains(err.Error(), "no budget") {
				t.Errorf("after giving up, run ended with %v", err)
			}
		})
	}
}

// TestEndToEndLoopDuringRequest checks that a loop proceeds while a sub-agent in another branch waits for a user,
// although the run continues as new repeatedly.
func TestEndToEndLoopDuringRequest(t *testing.T) {
	t.Parallel()
	const laps = 20
	for _, events := range []int{1, 60} {
		t.Run(fmt.Sprintf("max events %d", events), func(t *testing.T) {
			t.Parallel()
			h := harness.NewConfirmingWorker(t)
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.WaitingFork, Name: "flow.json"}, MaxEvents: events, DataConnections: harness.MailConnection(), MaxSteps: laps + 2,
				Script: harness.Script(t, fmt.Sprintf(`rules:
- {question: "again?", step: %d, yes: false}
- {question: "enough?", step: %d, yes: true}
- {question: "again?", yes: true}
- {question: "enough?", yes: false}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {say: ok}`, laps, laps))})
			id := run.GetID()
			var first, s contract.Status
			harness.WaitFor(t, "the loop to end while the request is open", func() bool {
				s = h.Status(t, id)
				if len(s.Requests) == 1 && len(first.Requests) == 0 {
					first = s
				}
				return len(s.Requests) == 1 && s.Usage.Calls >= 3*laps
			})
			q := s.Requests[0]
			if q.ID != first.Requests[0].ID || !q.OpenedAt.Equal(first.Requests[0].OpenedAt) || !strings.Contains(q.Execution, "a#1:") || q.Node != "s" {
				t.Errorf("request = %+v,\nwas %+v", q, first.Requests[0])
			}
			if n := harness.RunCount(t, h.Client, h.Client.GetWorkflow(context.Background(), id, "")); n < 2 {
				t.Errorf("%d runs, want several", n)
			}
			if _, err := h.Update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false, "reason": "not today"}); err != nil {
				t.Fatal(err)
			}
			out, err := harness.Result(t, run)
			if err != nil || out.ResultNode != "j" || out.Usage.Calls != 3*laps+5 {
				t.Fatalf("result = %+v, %v", out, err)
			}
		})
	}
}

// TestEndToEndRequestTimeout checks that the model is told when a request is not answered in time.
func TestEndToEndRequestTimeout(t *testing.T) {
	t.Parallel()
	tools, err := tool.Open(tool.Settings{Confirm: map[string]tool.ConfirmRule{"mail": {Tools: []string{"send_*"}, Timeout: time.Second}}})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, tools)
	t.Cleanup(h.Worker.Stop)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(harness.MailTools), Name: "flow.json"}, DataConnections: harness.MailConnection(), MaxEvents: 1,
		Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {contains: "no answer within 1 seconds", say: no mail}`)})
	out, err := harness.Result(t, run)
	if err != nil || *out.ResultText != "no mail" {
		t.Fatalf("result = %+v, %v", out, err)
	}
}

// TestEndToEndRememberedAnswer checks that an answer with remember applies to all later calls of the tool.
func TestEndToEndRememberedAnswer(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(harness.MailTools), Name: "flow.json"}, DataConnections: harness.MailConnection(), MaxEvents: 1,
		Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {turn: 2, call: [{tool: send_mail, arguments: {to: bob}}]}
- {say: done}`)})
	id := run.GetID()
	q := h.WaitForRequests(t, id, 1)[0]
	if _, err := h.Update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false, "remember": true, "reason": "never"}); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "done" {
		t.Fatalf("result = %+v, %v", out, err)
	}
}

// TestEndToEndCancelWaiting cancels a run whose sub-agent waits for a user.
func TestEndToEndCancelWaiting(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: strings.Replace(harness.WaitingFork, `"enough?"`, `"never?"`, 1), Name: "flow.json"}, DataConnections: harness.MailConnection(),
		Script: harness.Script(t, `rules:
- {kind: judge, yes: true}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {node: b, delay: 30s, say: late}
- {say: ok}`)})
	h.WaitForRequests(t, run.GetID(), 1)
	if err := h.Client.CancelWorkflow(context.Background(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Result(t, run); !temporal.IsCanceledError(errors.Unwrap(err)) && !contract.Cancelled(err) {
		t.Errorf("run ended with %v", err)
	}
	if s := h.Status(t, run.GetID()); len(s.Requests) != 0 {
		t.Errorf("open requests of the closed run = %+v", s.Requests)
	}
}

// TestEndToEndUnsolicitedMessages sends messages to the nodes of a run that did not request any.
func TestEndToEndUnsolicitedMessages(t *testing.T) {
	t.Parallel()
	for _, events := range []int{0, 1} {
		t.Run(fmt.Sprintf("max events %d", events), func(t *testing.T) {
			h := harness.NewConfirmingWorker(t)
			ctx := context.Background()
			in := contract.RunInput{V: 1, Model: "script", Flow: contract.FlowRef{Text: harness.ForkAndJoin, Name: "flow.json"}, MaxEvents: events,
				Script: harness.Script(t, `rules:
- {node: a, turn: 1, contains: to a, say: a heard}
- {node: b, turn: 1, delay: 2s, call: [{tool: list_state_keys}]}
- {node: b, turn: 2, contains: to b, say: b heard}
- {node: j, contains: to all, say: j heard}
- {say: nothing heard}`)}
			id := fmt.Sprintf("steer-%d", time.Now().UnixNano())
			// With signal-with-start, the message is there when the run starts.
			run, err := h.Client.SignalWithStartWorkflow(ctx, id, "message", map[string]any{"text": "to a", "node": "a"}, client.StartWorkflowOptions{TaskQueue: h.Queue}, contract.WorkflowFlow, in)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := h.Client.SignalWorkflow(ctx, id, "", "message", map[string]any{"text": "to b", "node": "b", "key": "k1"}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := h.Update(t, id, "message", map[string]any{"text": "x", "node": "nobody"}); harness.ErrorType(err) != contract.ClassBadRequest {
				t.Errorf("unknown node: error = %v", err)
			}
			if _, err := h.Update(t, id, "message", map[string]any{"text": "to all", "node": "j"}); err != nil {
				t.Error(err)
			}
			harness.WaitFor(t, "node a to end", func() bool {
				return slices.ContainsFunc(h.Status(t, id).Executions, func(e contract.Execution) bool { return e.Node == "a" })
			})
			if _, err := h.Update(t, id, "message", map[string]any{"text": "too late for a", "node": "a"}); err != nil {
				t.Error(err)
			}
			out, err := harness.Result(t, run)
			if err != nil || *out.ResultText != "j heard" {
				t.Fatalf("result = %+v, %v", out, err)
			}
			if len(out.UnreadMessages) != 1 || out.UnreadMessages[0].Text != "too late for a" {
				t.Errorf("unread messages = %+v", out.UnreadMessages)
			}
			if s := h.Status(t, id); s.Rejected != 0 {
				t.Errorf("rejected signals: %v", s.RejectionReasons)
			}
		})
	}
}

// TestEndToEndUpdateWithStart starts a run and sends it a message in one request.
func TestEndToEndUpdateWithStart(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	ctx := context.Background()
	start := h.Client.NewWithStartWorkflowOperation(client.StartWorkflowOptions{ID: fmt.Sprintf("chat-%d", time.Now().UnixNano()), TaskQueue: h.Queue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING}, contract.WorkflowFlow,
		contract.RunInput{V: 1, Model: "script", Flow: contract.FlowRef{Plan: harness.AskFlow()}, Script: harness.Script(t, `rules: [{contains: blue, say: painted}]`)})
	u, err := h.Client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{StartWorkflowOperation: start,
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
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "painted" {
		t.Fatalf("result = %+v, %v", out, err)
	}
}
