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

// endedRun is a run that is ended in the middle of calls whose worker is dead.
type endedRun struct {
	in contract.RunInput
	// at are the ids, below the run's, of the runs that call; activity is what, if it is no model.
	at       []string
	activity string
	end      func(c client.Client, id string) error
	ended    func(t *testing.T, h *harness.Worker, run client.WorkflowRun)
}

// TestEndToEndEndedWithoutWorker ends runs in the middle of calls whose worker is dead: nobody is there to say
// that a call stopped. It ends as it does where somebody is.
func TestEndToEndEndedWithoutWorker(t *testing.T) {
	t.Parallel()
	talker := harness.AgentFlow("talker")
	talker.Policy.HeartbeatSeconds = 30
	stop := func(c client.Client, id string) error {
		return c.SignalWorkflow(context.Background(), id, "", contract.UpdateCloseSession, contract.CloseSessionInput{Reason: "enough"})
	}
	cancel := func(c client.Client, id string) error { return c.CancelWorkflow(context.Background(), id, "") }
	cancelled := func(calls int) func(t *testing.T, h *harness.Worker, run client.WorkflowRun) {
		return func(t *testing.T, h *harness.Worker, run client.WorkflowRun) {
			if out, err := harness.Result(t, run); !temporal.IsCanceledError(err) {
				t.Errorf("the run ended with %+v, %v", out, err)
			}
			if now := h.Status(t, run.GetID()); now.Status != contract.StatusCancelled || now.Usage.Stopped != calls {
				t.Errorf("the run is %s, with %+v", now.Status, now.Usage)
			}
		}
	}
	flow := func(doc string) contract.RunInput {
		return contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, OnError: contract.OnErrorFail}
	}
	for name, d := range map[string]endedRun{
		"a model":  {in: flow(harness.OneNode("")), at: []string{""}, end: cancel, ended: cancelled(1)},
		"a tool":   {in: flow(harness.OneNode(harness.SearchTool)), at: []string{""}, activity: contract.ActivityCallTool, end: cancel, ended: cancelled(0)},
		"branches": {in: flow(harness.ChildBranches), at: []string{"/a#1", "/b#1"}, end: cancel, ended: cancelled(2)},
		"a turn": {
			in: contract.RunInput{Flow: contract.FlowRef{Plan: talker}, Params: json.RawMessage(`{"prompt":"one"}`), Session: true}, at: []string{""}, end: stop,
			ended: func(t *testing.T, _ *harness.Worker, run client.WorkflowRun) {
				out, err := harness.Result(t, run)
				if err != nil || out.Status != "stopped" || len(out.Turns) != 1 || out.Turns[0].Status != contract.TurnStopped || out.Usage.Stopped != 1 {
					t.Errorf("the session ended with %+v, %v", out, err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d.play(t)
		})
	}
}

func (d endedRun) play(t *testing.T) {
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("away-%d", time.Now().UnixNano())}
	// Another worker takes the run over long before the call counts as dead.
	settings := []string{"WEFT_TASK_QUEUE=" + h.Queue, "WEFT_MODEL=script", "WEFT_TIMEOUTS_HEARTBEAT=30s", "WEFT_CONNECTIONS_WEB_URL=" + silence(t)}
	first := harness.StartWorker(t, harness.ServerAddress(t), settings...)
	said, activity := `rules: [{delay: 10m, say: late}]`, contract.ActivityCallModel
	if d.activity != "" {
		said, activity = `rules: [{turn: 1, call: [{tool: search, arguments: {}}]}, {say: done}]`, d.activity
	}
	d.in.Script = harness.Script(t, said)
	run := h.Start(t, d.in)
	for _, at := range d.at {
		harness.WaitFor(t, "the call in "+run.GetID()+at, func() bool {
			now, err := h.Client.DescribeWorkflowExecution(context.Background(), run.GetID()+at, "")
			return err == nil && len(now.PendingActivities) == 1 && now.PendingActivities[0].State == enumspb.PENDING_ACTIVITY_STATE_STARTED &&
				now.PendingActivities[0].GetActivityType().GetName() == activity
		})
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	if err := d.end(h.Client, run.GetID()); err != nil {
		t.Fatal(err)
	}
	harness.StartWorker(t, harness.ServerAddress(t), settings...)
	d.ended(t, h, run)
}

// silence is the URL of a server whose tool gives no answer.
func silence(t *testing.T) string {
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
