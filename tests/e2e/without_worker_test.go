package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/tests/harness"
)

// deadWorkerCase is a run that is cancelled or closed during calls whose worker is dead.
type deadWorkerCase struct {
	in contract.RunInput
	// callers are the ids of the runs that make the calls, relative to the run's. activity is the type of the calls; empty
	// means a model call.
	callers  []string
	activity string
	end      func(c client.Client, id string) error
	check    func(t *testing.T, h *harness.Worker, run client.WorkflowRun)
}

// TestEndToEndCancelWithDeadWorker cancels or closes runs during calls whose worker is dead, so that nothing confirms
// the cancellation of the calls. It checks that the runs end as with a live worker.
func TestEndToEndCancelWithDeadWorker(t *testing.T) {
	t.Parallel()
	talker := harness.AgentFlow("talker")
	talker.Policy.HeartbeatSeconds = 30
	closeSession := func(c client.Client, id string) error {
		return c.SignalWorkflow(context.Background(), id, "", contract.UpdateCloseSession, contract.CloseSessionInput{Reason: "enough"})
	}
	cancel := func(c client.Client, id string) error { return c.CancelWorkflow(context.Background(), id, "") }
	cancelled := func(calls int) func(t *testing.T, h *harness.Worker, run client.WorkflowRun) {
		return func(t *testing.T, h *harness.Worker, run client.WorkflowRun) {
			if out, err := harness.Result(t, run); !temporal.IsCanceledError(err) {
				t.Errorf("run ended with %+v, %v", out, err)
			}
			if now := h.Status(t, run.GetID()); now.Status != contract.StatusCancelled || now.Usage.Stopped != calls {
				t.Errorf("run is %s with usage %+v", now.Status, now.Usage)
			}
		}
	}
	flow := func(doc string) contract.RunInput {
		return contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, OnError: contract.OnErrorFail}
	}
	for name, tc := range map[string]deadWorkerCase{
		"model call": {in: flow(harness.OneNode("")), callers: []string{""}, end: cancel, check: cancelled(1)},
		"tool call":  {in: flow(harness.OneNode(harness.SearchTool)), callers: []string{""}, activity: contract.ActivityCallTool, end: cancel, check: cancelled(0)},
		"branches":   {in: flow(harness.ChildBranches), callers: []string{"/a#1", "/b#1"}, end: cancel, check: cancelled(2)},
		"turn": {
			in: contract.RunInput{Flow: contract.FlowRef{Plan: talker}, Params: json.RawMessage(`{"prompt":"one"}`), Session: true}, callers: []string{""}, end: closeSession,
			check: func(t *testing.T, _ *harness.Worker, run client.WorkflowRun) {
				out, err := harness.Result(t, run)
				if err != nil || out.Status != "stopped" || len(out.Turns) != 1 || out.Turns[0].Status != contract.TurnStopped || out.Usage.Stopped != 1 {
					t.Errorf("session ended with %+v, %v", out, err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.run(t)
		})
	}
}

func (tc deadWorkerCase) run(t *testing.T) {
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("away-%d", time.Now().UnixNano())}
	// The second worker continues the run long before the call's heartbeat timeout.
	settings := []string{"WEFT_TASK_QUEUE=" + h.Queue, "WEFT_MODEL=script", "WEFT_TIMEOUTS_HEARTBEAT=30s", "WEFT_CONNECTIONS_WEB_URL=" + silentServer(t)}
	first := harness.StartWorker(t, harness.ServerAddress(t), settings...)
	script, activity := `rules: [{delay: 10m, say: late}]`, contract.ActivityCallModel
	if tc.activity != "" {
		script, activity = `rules: [{turn: 1, call: [{tool: search, arguments: {}}]}, {say: done}]`, tc.activity
	}
	tc.in.Script = harness.Script(t, script)
	run := h.Start(t, tc.in)
	for _, caller := range tc.callers {
		harness.WaitFor(t, "the call in "+run.GetID()+caller, func() bool {
			now, err := h.Client.DescribeWorkflowExecution(context.Background(), run.GetID()+caller, "")
			return err == nil && len(now.PendingActivities) == 1 && now.PendingActivities[0].State == enumspb.PENDING_ACTIVITY_STATE_STARTED &&
				now.PendingActivities[0].GetActivityType().GetName() == activity
		})
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	if err := tc.end(h.Client, run.GetID()); err != nil {
		t.Fatal(err)
	}
	harness.StartWorker(t, harness.ServerAddress(t), settings...)
	tc.check(t, h, run)
}

// silentServer returns the URL of an MCP server whose tool never responds.
func silentServer(t *testing.T) string {
	t.Helper()
	s := server.NewMCPServer("silence", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("search"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}
