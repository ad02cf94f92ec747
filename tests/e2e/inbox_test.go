package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// TestEndToEndForgedSignals checks that a client that sends the internal signals of runs can neither block a run nor
// answer a request.
func TestEndToEndForgedSignals(t *testing.T) {
	t.Parallel()
	for where, doc := range map[string]string{"root": harness.OneNode(harness.MailTools), "sub-agent": harness.WaitingFork} {
		t.Run(where, func(t *testing.T) {
			h := harness.NewConfirmingWorker(t)
			first := "send_mail, arguments: {to: ann}"
			if where != "root" {
				first = "call_sub_agent, arguments: {user_question: one}"
			}
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, DataConnections: harness.MailConnection(),
				Script: harness.Script(t, `rules:
- {kind: judge, question: "again?", yes: false}
- {kind: judge, yes: true}
- {node: a, turn: 1, call: [{tool: `+first+`}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {contains: not today, say: heard}
- {say: ok}`)})
			id := run.GetID()
			q := h.WaitForRequests(t, id, 1)[0]
			for _, to := range []string{id, q.Run.Workflow} {
				h.Signal(t, to, contract.SignalReply, map[string]any{"id": q.ID, "confirm": map[string]any{"id": q.ID}})
				h.Signal(t, to, contract.SignalReply, map[string]any{"id": q.ID, "message": map[string]any{"text": "yes"}})
				h.Signal(t, to, contract.SignalReply, map[string]any{"id": q.ID})
				h.Signal(t, to, contract.SignalReply, 7)
				h.Signal(t, to, contract.SignalSteer, []int{1})
			}
			long := strings.Repeat("w", 2000)
			for i, req := range []any{
				map[string]any{"id": "a", "kind": "confirm", "run": map[string]any{"workflow_id": long}},
				map[string]any{"id": "b", "kind": "confirm", "run": map[string]any{"workflow_id": ""}},
				map[string]any{"id": "c", "kind": "nonsense", "run": map[string]any{"workflow_id": id + "/x"}},
				map[string]any{"id": long, "kind": "confirm", "run": map[string]any{"workflow_id": id + "/x"}},
				map[string]any{"id": "e", "kind": "confirm", "text": strings.Repeat("t", 1<<20), "run": map[string]any{"workflow_id": id + "/x"}},
			} {
				h.Signal(t, id, contract.SignalRequest, req)
				harness.WaitFor(t, "the signal to be rejected", func() bool { return h.Status(t, id).Rejected == i+1 })
			}
			if where == "root" {
				h.Signal(t, id, contract.SignalCloseRequest, contract.RequestID{ID: q.ID})
			}
			if open := h.WaitForRequests(t, id, 1); open[0].ID != q.ID {
				t.Fatalf("open requests = %+v", open)
			}
			if _, err := h.Update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false, "reason": "not today"}); err != nil {
				t.Fatal(err)
			}
			if out, err := harness.Result(t, run); err != nil || where == "root" && *out.ResultText != "heard" {
				t.Fatalf("result = %+v, %v", out, err)
			}
		})
	}
}

// failingSubAgent is a flow with a sub-agent that fails in one branch while another one waits.
const failingSubAgent = `{"data_connections":[
{"id":"helper","type":2,"name":"Helper","description":"knows things","config":{"agent_id":"sub"}},
{"id":"web","type":1,"name":"Web","description":"","config":{"url":"https://tools.example.com/mcp"}}],
"agents":[
{"id":"main","name":"Main","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"a","name":"A","prompt":"ask","is_exit_node":true,"tools":[{"name":"call_sub_agent","data_connection_id":"helper"},{"name":"look_up","data_connection_id":"web"}]}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"END"}]},
{"id":"sub","name":"Sub","generation_prompt":"","response_format":{"type":1},"execution_plan":"","nodes":[
{"id":"s","name":"S","prompt":"answer","tools":[{"name":"send_mail","data_connection_id":"web"}]},
{"id":"f","name":"F","prompt":"fail","max_iterations":9,"tools":[{"name":"send_mail","data_connection_id":"web"}]},
{"id":"j","name":"J","prompt":"join","is_exit_node":true,"defer":true}],
"edges":[{"id":"e1","source":"START","target":"s"},{"id":"e2","source":"START","target":"f"},{"id":"e3","source":"s","target":"j"},{"id":"e4","source":"f","target":"j"},{"id":"e5","source":"j","target":"END"}]}]}`

// TestEndToEndRequestsOfFailedAgents checks that the requests of a sub-agent that failed are closed.
func TestEndToEndRequestsOfFailedAgents(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: failingSubAgent, Name: "flow.json"}, DataConnections: harness.MailConnection(),
		Script: harness.Script(t, `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {node: a, turn: 2, contains: the sub-agent failed, call: [{tool: look_up, arguments: {q: 1}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {node: f, turn: 1, delay: 1s, call: [{tool: nope}, {tool: nope}, {tool: nope}]}
- {say: ok}`)})
	id := run.GetID()
	var s contract.Status
	harness.WaitFor(t, "the request for the client's tool", func() bool {
		s = h.Status(t, id)
		return len(s.Requests) > 0 && s.Requests[len(s.Requests)-1].Kind == contract.RequestToolResult
	})
	if len(s.Requests) != 1 {
		t.Errorf("another request is open: %+v", s.Requests[0])
	}
	if _, err := h.Update(t, id, "tool_result", map[string]any{"id": s.Requests[len(s.Requests)-1].ID, "result": 1}); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "ok" {
		t.Fatalf("result = %+v, %v", out, err)
	}
}

// TestEndToEndConsumedAnswers checks that the snapshot for continue-as-new contains no answers that branches have
// already consumed.
func TestEndToEndConsumedAnswers(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	f := harness.FanIn("two questions", "left", "right")
	f.Edges[0].To = "last"
	f.Nodes = append(f.Nodes, harness.GraphPlan("", []harness.GraphNode{{ID: "last"}}, nil).Nodes...)
	f.Edges = append(f.Edges, plan.Edge{ID: "e9", From: "last", To: plan.End})
	for i := range f.Nodes {
		if id := f.Nodes[i].ID; id == "left" || id == "right" {
			f.Nodes[i].Kind, f.Nodes[i].Agent, f.Nodes[i].Ask = plan.KindAsk, nil, &plan.Ask{Text: "Which " + id + "?"}
		}
	}
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, MaxEvents: 1, Script: harness.Script(t, `rules: [{say: ok}]`)})
	for _, q := range h.WaitForRequests(t, run.GetID(), 2) {
		if _, err := h.Update(t, run.GetID(), "message", map[string]any{"id": q.ID, "text": "the blue one"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := harness.Result(t, run); err != nil {
		t.Fatal(err)
	}
	// The input of the last run contains the snapshot of the previous one.
	var in contract.RunInput
	args := harness.Events(t, h.Client, run.GetID(), "")[0].GetWorkflowExecutionStartedEventAttributes().GetInput()
	if err := converter.GetDefaultDataConverter().FromPayloads(args, &in); err != nil || in.Snapshot == nil || in.Snapshot.Inbox == nil {
		t.Fatalf("input = %+v, %v", in, err)
	}
	for _, a := range in.Snapshot.Inbox.Answered {
		if a.Reply != nil {
			t.Errorf("the snapshot contains the consumed answer to %s", a.ID)
		}
	}
}

// TestEndToEndEditedArguments edits a call's arguments, with characters that some JSON encoders escape and others do
// not. It checks that the call is still recognized when the run continues as new.
func TestEndToEndEditedArguments(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(harness.MailTools), Name: "flow.json"}, MaxEvents: 1, DataConnections: harness.MailConnection(),
		Script: harness.Script(t, `rules: [{turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}, {contains: "<bob & co>", say: told}, {say: done}]`)})
	id := run.GetID()
	q := h.WaitForRequests(t, id, 1)[0]
	// Not escaped, unlike the output of Go's encoder.
	raw := converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")},
		Data: []byte(fmt.Sprintf(`{"id":%q,"approve":true,"arguments":{"to":"<bob & co>"}}`, q.ID))})
	if _, err := h.Update(t, id, "confirm", raw); err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "a later run", func() bool {
		return harness.RunCount(t, h.Client, h.Client.GetWorkflow(context.Background(), id, "")) > 1
	})
	time.Sleep(2 * time.Second)
	mail := h.WaitForRequests(t, id, 1)[0]
	if mail.Kind != contract.RequestToolResult {
		t.Fatalf("open request = %+v", mail)
	}
	if _, err := h.Update(t, id, "tool_result", map[string]any{"id": mail.ID, "result": map[string]any{"sent": true}}); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "told" {
		t.Fatalf("result = %+v, %v", out, err)
	}
}

// TestEndToEndAnswerAfterRetention checks that a request can be answered after the run that opened it was deleted, as
// happens after the retention period.
func TestEndToEndAnswerAfterRetention(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(harness.MailTools), Name: "flow.json"}, MaxEvents: 1, DataConnections: harness.MailConnection(),
		Script: harness.Script(t, `rules: [{turn: 1, call: [{tool: look_up, arguments: {q: 1}}, {tool: send_mail, arguments: {to: ann}}]}, {say: done}]`)})
	id := run.GetID()
	first := h.WaitForRequests(t, id, 2)
	for _, q := range first {
		if q.Kind == contract.RequestToolResult {
			if _, err := h.Update(t, id, "tool_result", map[string]any{"id": q.ID, "result": 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	harness.WaitFor(t, "a later run", func() bool { return h.WaitForRequests(t, id, 1)[0].Run.Run != first[0].Run.Run })
	q := h.WaitForRequests(t, id, 1)[0]
	if q.Catalogue == nil || q.Catalogue.Run != q.Run.Run {
		t.Errorf("catalogue of the tool = %+v, want that of run %+v", q.Catalogue, q.Run)
	}
	if q.Run.Run == run.GetRunID() {
		t.Fatal("the request is still that of the first run")
	}
	ctx := context.Background()
	if _, err := h.Client.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: run.GetRunID()}}); err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "the first run to be deleted", func() bool {
		_, err := h.Client.DescribeWorkflowExecution(ctx, id, run.GetRunID())
		return errors.As(err, new(*serviceerror.NotFound))
	})
	if _, err := h.Update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false, "reason": "not today"}); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Result(t, h.Client.GetWorkflow(ctx, id, "")); err != nil || *out.ResultText != "done" {
		t.Errorf("result = %+v, %v", out, err)
	}
}

// TestEndToEndManyMessages checks that messages to a branch are rejected when there are more than a run can carry over,
// and that the run continues.
func TestEndToEndManyMessages(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: strings.Replace(harness.WaitingFork, `"call_sub_agent","data_connection_id":"helper"`, `"send_mail","data_connection_id":"web"`, 1), Name: "flow.json"}, DataConnections: harness.MailConnection(),
		Script: harness.Script(t, `rules:
- {kind: judge, question: "again?", yes: false}
- {kind: judge, yes: true}
- {node: a, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {say: ok}`)})
	id := run.GetID()
	q := h.WaitForRequests(t, id, 1)[0]
	rejected := 0
	for range 10 {
		_, err := h.Update(t, id, "message", map[string]any{"text": strings.Repeat("m", 250<<10), "node": "a"})
		if harness.ErrorType(err) == contract.ClassTooLarge {
			rejected++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if rejected != 6 {
		t.Errorf("%d of 10 messages were rejected, want 6", rejected)
	}
	if _, err := h.Update(t, id, "message", map[string]any{"text": "hello", "key": strings.Repeat("k", 1000)}); harness.ErrorType(err) != contract.ClassBadRequest {
		t.Errorf("error for a long key = %v", err)
	}
	if _, err := h.Update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false}); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Result(t, run); err != nil {
		t.Fatal(err)
	}
}

// TestEndToEndLongWorkflowID checks that the requests of two sub-agents have distinct ids of limited length if the
// run's id is very long.
func TestEndToEndLongWorkflowID(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run, err := h.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.Queue, ID: fmt.Sprintf("%s-%d", strings.Repeat("long", 60), time.Now().UnixNano())},
		contract.WorkflowFlow, contract.RunInput{V: 1, Model: "script", Flow: contract.FlowRef{Text: harness.WaitingFork, Name: "flow.json"}, DataConnections: harness.MailConnection(),
			Script: harness.Script(t, `rules:
- {kind: judge, question: "again?", yes: false}
- {kind: judge, yes: true}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}, {tool: call_sub_agent, arguments: {user_question: two}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {say: ok}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range h.WaitForRequests(t, run.GetID(), 2) {
		if len(q.ID) > 250 {
			t.Errorf("request id has %d bytes, want at most 250", len(q.ID))
		}
		if _, err := h.Update(t, run.GetID(), "confirm", map[string]any{"id": q.ID, "approve": false}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := harness.Result(t, run); err != nil {
		t.Fatal(err)
	}
}

// TestEndToEndTerminatedSubAgent terminates a sub-agent that waits for a user, in a branch. It checks that its
// request is closed and that the flow continues.
func TestEndToEndTerminatedSubAgent(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.WaitingFork, Name: "flow.json"}, DataConnections: harness.MailConnection(), MaxSteps: 10,
		Script: harness.Script(t, `rules:
- {question: "again?", yes: false}
- {question: "enough?", yes: true}
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {node: a, turn: 2, contains: terminated, delay: 3s, say: the helper is gone}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {say: ok}`)})
	var open contract.Request
	harness.WaitFor(t, "the sub-agent's request", func() bool {
		s := h.Status(t, run.GetID())
		if len(s.Requests) == 1 {
			open = s.Requests[0]
		}
		return len(s.Requests) == 1
	})
	if err := h.Client.TerminateWorkflow(context.Background(), open.Run.Workflow, "", "test"); err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "the request to close", func() bool { return len(h.Status(t, run.GetID()).Requests) == 0 })
	if out, err := harness.Result(t, run); err != nil || out.ResultNode != "j" {
		t.Errorf("result = %+v, %v", out, err)
	}
}
