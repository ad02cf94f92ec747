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

// TestEndToEndForeignSignals sends what runs say to each other from outside: it neither
// wedges a run nor answers for anybody.
func TestEndToEndForeignSignals(t *testing.T) {
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
			q := h.OpenRequests(t, id, 1)[0]
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
				harness.WaitFor(t, "the signal to be refused", func() bool { return h.Status(t, id).Rejected == i+1 })
			}
			if where == "root" {
				h.Signal(t, id, contract.SignalCloseRequest, contract.RequestID{ID: q.ID})
			}
			if open := h.OpenRequests(t, id, 1); open[0].ID != q.ID {
				t.Fatalf("open: %+v", open)
			}
			if _, err := h.Update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false, "reason": "not today"}); err != nil {
				t.Fatal(err)
			}
			if out, err := harness.Result(t, run); err != nil || where == "root" && *out.ResultText != "heard" {
				t.Fatalf("%+v, %v", out, err)
			}
		})
	}
}

// forsaken is a flow whose sub-agent fails in one branch while another one waits.
const forsaken = `{"data_connections":[
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

// TestEndToEndRequestsOfFailedAgents closes the requests of a sub-agent that failed: nobody waits for them.
func TestEndToEndRequestsOfFailedAgents(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: forsaken, Name: "flow.json"}, DataConnections: harness.MailConnection(),
		Script: harness.Script(t, `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: one}}]}
- {node: a, turn: 2, contains: the sub-agent failed, call: [{tool: look_up, arguments: {q: 1}}]}
- {node: s, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {node: f, turn: 1, delay: 1s, call: [{tool: nope}, {tool: nope}, {tool: nope}]}
- {say: ok}`)})
	id := run.GetID()
	var s contract.Status
	harness.WaitFor(t, "the client's tool", func() bool {
		s = h.Status(t, id)
		return len(s.Requests) > 0 && s.Requests[len(s.Requests)-1].Kind == contract.RequestToolResult
	})
	if len(s.Requests) != 1 {
		t.Errorf("open beside the client's tool: %+v", s.Requests[0])
	}
	if _, err := h.Update(t, id, "tool_result", map[string]any{"id": s.Requests[len(s.Requests)-1].ID, "result": 1}); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "ok" {
		t.Fatalf("%+v, %v", out, err)
	}
}

// TestEndToEndConsumedAnswers asks two persons side by side: their answers are not carried on
// once the branches have them.
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
	for _, q := range h.OpenRequests(t, run.GetID(), 2) {
		if _, err := h.Update(t, run.GetID(), "message", map[string]any{"id": q.ID, "text": "the blue one"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := harness.Result(t, run); err != nil {
		t.Fatal(err)
	}
	// The last run was started with what the one before carried.
	var in contract.RunInput
	args := harness.Events(t, h.Client, run.GetID(), "")[0].GetWorkflowExecutionStartedEventAttributes().GetInput()
	if err := converter.GetDefaultDataConverter().FromPayloads(args, &in); err != nil || in.Snapshot == nil || in.Snapshot.Inbox == nil {
		t.Fatalf("%+v, %v", in, err)
	}
	for _, a := range in.Snapshot.Inbox.Answered {
		if a.Reply != nil {
			t.Errorf("the answer to %s is carried although it was taken", a.ID)
		}
	}
}

// TestEndToEndEditedAcrossRuns changes arguments with signs that JSON encoders of several
// languages write differently: the call stays the same when the run continues as new.
func TestEndToEndEditedAcrossRuns(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(harness.MailTools), Name: "flow.json"}, MaxEvents: 1, DataConnections: harness.MailConnection(),
		Script: harness.Script(t, `rules: [{turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}, {contains: "<bob & co>", say: told}, {say: done}]`)})
	id := run.GetID()
	q := h.OpenRequests(t, id, 1)[0]
	// As clients send it that do not escape.
	raw := converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")},
		Data: []byte(fmt.Sprintf(`{"id":%q,"approve":true,"arguments":{"to":"<bob & co>"}}`, q.ID))})
	if _, err := h.Update(t, id, "confirm", raw); err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "a later run", func() bool {
		return harness.RunCount(t, h.Client, h.Client.GetWorkflow(context.Background(), id, "")) > 1
	})
	time.Sleep(2 * time.Second)
	mail := h.OpenRequests(t, id, 1)[0]
	if mail.Kind != contract.RequestToolResult {
		t.Fatalf("open: %+v", mail)
	}
	if _, err := h.Update(t, id, "tool_result", map[string]any{"id": mail.ID, "result": map[string]any{"sent": true}}); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "told" {
		t.Fatalf("%+v, %v", out, err)
	}
}

// TestEndToEndAnswerAfterRetention answers a request that was asked in a run that is gone, as one is
// after its retention.
func TestEndToEndAnswerAfterRetention(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(harness.MailTools), Name: "flow.json"}, MaxEvents: 1, DataConnections: harness.MailConnection(),
		Script: harness.Script(t, `rules: [{turn: 1, call: [{tool: look_up, arguments: {q: 1}}, {tool: send_mail, arguments: {to: ann}}]}, {say: done}]`)})
	id := run.GetID()
	first := h.OpenRequests(t, id, 2)
	for _, q := range first {
		if q.Kind == contract.RequestToolResult {
			if _, err := h.Update(t, id, "tool_result", map[string]any{"id": q.ID, "result": 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	harness.WaitFor(t, "a later run", func() bool { return h.OpenRequests(t, id, 1)[0].Run.Run != first[0].Run.Run })
	q := h.OpenRequests(t, id, 1)[0]
	if q.Catalogue == nil || q.Catalogue.Run != q.Run.Run {
		t.Errorf("the tool's schemas are looked up at %+v, the run is %+v", q.Catalogue, q.Run)
	}
	if q.Run.Run == run.GetRunID() {
		t.Fatal("it is the first run still")
	}
	ctx := context.Background()
	if _, err := h.Client.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: run.GetRunID()}}); err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "the first run to be gone", func() bool {
		_, err := h.Client.DescribeWorkflowExecution(ctx, id, run.GetRunID())
		return errors.As(err, new(*serviceerror.NotFound))
	})
	if _, err := h.Update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false, "reason": "not today"}); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Result(t, h.Client.GetWorkflow(ctx, id, "")); err != nil || *out.ResultText != "done" {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestEndToEndManySignals sends more messages to a branch than a run can carry: they are refused,
// and the run goes on.
func TestEndToEndManySignals(t *testing.T) {
	t.Parallel()
	h := harness.NewConfirmingWorker(t)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: strings.Replace(harness.WaitingFork, `"call_sub_agent","data_connection_id":"helper"`, `"send_mail","data_connection_id":"web"`, 1), Name: "flow.json"}, DataConnections: harness.MailConnection(),
		Script: harness.Script(t, `rules:
- {kind: judge, question: "again?", yes: false}
- {kind: judge, yes: true}
- {node: a, turn: 1, call: [{tool: send_mail, arguments: {to: ann}}]}
- {say: ok}`)})
	id := run.GetID()
	q := h.OpenRequests(t, id, 1)[0]
	refused := 0
	for range 10 {
		_, err := h.Update(t, id, "message", map[string]any{"text": strings.Repeat("m", 250<<10), "node": "a"})
		if harness.ErrorType(err) == contract.ClassTooLarge {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused != 6 {
		t.Errorf("%d messages are refused, want 6 of 10", refused)
	}
	if _, err := h.Update(t, id, "message", map[string]any{"text": "hello", "key": strings.Repeat("k", 1000)}); harness.ErrorType(err) != contract.ClassBadRequest {
		t.Errorf("a long key gives %v", err)
	}
	if _, err := h.Update(t, id, "confirm", map[string]any{"id": q.ID, "approve": false}); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Result(t, run); err != nil {
		t.Fatal(err)
	}
}

// TestEndToEndLongWorkflowID tells the requests of two sub-agents apart, however long the
// run's own id is.
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
	for _, q := range h.OpenRequests(t, run.GetID(), 2) {
		if len(q.ID) > 250 {
			t.Errorf("the id has %d bytes", len(q.ID))
		}
		if _, err := h.Update(t, run.GetID(), "confirm", map[string]any{"id": q.ID, "approve": false}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := harness.Result(t, run); err != nil {
		t.Fatal(err)
	}
}

// TestEndToEndTerminatedBelow terminates a sub-agent, in a branch, that waits for a person: its
// request is closed, and the flow goes on.
func TestEndToEndTerminatedBelow(t *testing.T) {
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
	harness.WaitFor(t, "the sub-agent to ask", func() bool {
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
		t.Errorf("%+v, %v", out, err)
	}
}
