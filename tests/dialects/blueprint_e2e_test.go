package dialects

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/workflows"
)

// TestEndToEndRecordCompany runs, on a real server, an agent that starts an agent with a hook and a procedural agent, with a webhook
// for the end of the run, and records its history.
func TestEndToEndRecordCompany(t *testing.T) {
	t.Parallel()
	res, dir := company(t)
	tools, err := tool.Open(tool.Settings{Trusted: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	hooks := receiver(t, contract.EventRunFinished)
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorkerWith(t, h.Client, h.Queue, workflows.Settings{Webhooks: hooks.Wanted()}, activities.Deps{Tools: tools, Webhooks: hooks})
	t.Cleanup(func() { h.Worker.Stop(); tools.Close() })
	id := "company-" + h.Queue
	run, err := h.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.Queue, ID: id}, contract.WorkflowFlow,
		contract.RunInput{V: contract.Version, Model: "script", Flow: contract.FlowRef{Plan: res.Flow, Source: &res.Source}, Params: json.RawMessage(`{"prompt":"go"}`),
			Scope: json.RawMessage(`{"tenant":"x"}`), Script: harness.Script(t, companyScript(id))})
	if err != nil {
		t.Fatal(err)
	}
	out, err := harness.Result(t, run)
	if err != nil || out.ResultText == nil || *out.ResultText != "done" || out.Usage.Calls != 8 {
		t.Fatalf("result = %+v, %v", out, err)
	}
	turns := h.WaitForTurns(t, id+"/boss#1:call_3", 1)
	if len(turns) != 1 || canonicalJSON(turns[0].ResultData) != `{"said":"you"}` {
		t.Errorf("turns of the procedural agent = %+v", turns)
	}
	harness.Record(t, h.Client, "company", id, run.GetRunID())
}
