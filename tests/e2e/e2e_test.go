package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// TestEndToEndColdWorkers checks that activities of workers without a cache get everything that they need from the run: with
// branches, a join, a sub-agent and a long input.
func TestEndToEndColdWorkers(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 1)
	second := harness.RunWorker(t, h.Client, h.Queue, 1, nil)
	t.Cleanup(second.Stop)
	run := h.Start(t, contract.RunInput{
		Flow:  contract.FlowRef{Text: harness.ForkAndJoin, Name: "flow.json"},
		Input: "start " + strings.Repeat("long ", 300_000) + "end",
		Script: harness.Script(t, `rules:
- {node: a, turn: 1, contains: "long end", call: [{tool: set_state, arguments: {key: k, value: 1}}, {tool: list_state_keys}]}
- {node: a, turn: 2, after: list_state_keys, say: a says}
- {node: b, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: "sub?", agent_def: {name: S, nodes: [{id: s, name: S, prompt: p}], edges: [{id: e1, source: START, target: s}, {id: e2, source: s, target: END}]}}}]}
- {node: s, match: "^sub\\?$", say: sub says}
- {node: b, turn: 2, contains: sub says, say: b says}
- {node: j, turn: 1, match: "a says(.|\n)*b says", call: [{tool: get_state, arguments: {keys: [k]}}]}
- {node: j, turn: 2, contains: '{"k":1}', say: all seen}`),
	})
	out, err := harness.Result(t, run)
	if err != nil {
		t.Fatal(err)
	}
	if *out.ResultText != "all seen" {
		t.Errorf("result = %q", *out.ResultText)
	}
	if n := historyBytes(t, h.Client, run.GetID(), run.GetRunID()); n > 2<<20 {
		t.Errorf("history has %d bytes: it contains the input of 1.5 MB more than once", n)
	}
}

// TestEndToEndCancel checks that cancelling a run cancels its branches and their calls.
func TestEndToEndCancel(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.ChildBranches, Name: "flow.json"}, Script: harness.Script(t, `rules: [{delay: 10m, say: late}]`)})
	ctx := context.Background()
	for _, node := range []string{"a", "b"} {
		harness.WaitFor(t, "branch "+node+" to call its model", func() bool {
			d, err := h.Client.DescribeWorkflowExecution(ctx, run.GetID()+"/"+node+"#1", "")
			return err == nil && len(d.PendingActivities) == 1 && d.PendingActivities[0].State == enumspb.PENDING_ACTIVITY_STATE_STARTED
		})
	}
	if err := h.Client.CancelWorkflow(ctx, run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Result(t, run); !temporal.IsCanceledError(err) {
		t.Fatalf("run ended with %v", err)
	}
	for _, node := range []string{"a", "b"} {
		d, err := h.Client.DescribeWorkflowExecution(ctx, run.GetID()+"/"+node+"#1", "")
		if err != nil {
			t.Fatal(err)
		}
		if s := d.WorkflowExecutionInfo.Status; s != enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED {
			t.Errorf("branch %s is %s", node, s)
		}
		if len(d.PendingActivities) > 0 {
			t.Errorf("branch %s still has a call in flight", node)
		}
	}
}

// TestEndToEndFailureCancelsSiblings checks that a failed branch cancels another that waits for its model.
func TestEndToEndFailureCancelsSiblings(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.ChildBranches, Name: "flow.json"}, OnError: contract.OnErrorFail,
		Script: harness.Script(t, `rules: [{node: a, fail: {class: denied, text: no key}}, {delay: 10m, say: late}]`)})
	_, err := harness.Result(t, run)
	f := contract.FailureOf(err)
	if f == nil || f.Class != contract.ClassDenied || f.Node != "a" || f.At != "flow.json:2" {
		t.Fatalf("failure = %+v", f)
	}
	d, err := h.Client.DescribeWorkflowExecution(context.Background(), run.GetID()+"/b#1", "")
	if err != nil {
		t.Fatal(err)
	}
	if s := d.WorkflowExecutionInfo.Status; s != enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED {
		t.Errorf("the other branch is %s", s)
	}
}

// TestEndToEndRetries checks that a call is not retried before the delay in Retry-After.
func TestEndToEndRetries(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(""), Name: "flow.json"},
		Script: harness.Script(t, `rules:
- {fail: {class: rate_limited, retry_after: 1500ms, times: 1}, say: after a pause}`)})
	begin := time.Now()
	out, err := harness.Result(t, run)
	if err != nil {
		t.Fatal(err)
	}
	if elapsed := time.Since(begin); *out.ResultText != "after a pause" || elapsed < 1500*time.Millisecond {
		t.Errorf("result = %q after %s", *out.ResultText, elapsed)
	}
}

// TestEndToEndGracefulStop checks that a worker that stops completes its calls in flight, and that another continues the run.
func TestEndToEndGracefulStop(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	compiled, err := harness.CompileWith()(contract.FlowRef{Text: harness.ForkAndJoin, Name: "flow.json"})
	if err != nil {
		t.Fatal(err)
	}
	compiled.Plan.Policy.HeartbeatSeconds, compiled.Plan.Policy.Branches = 60, plan.BranchesAsChildren // the machine may be busy
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: compiled.Plan},
		Script: harness.Script(t, `rules: [{node: a, delay: 5s, say: a}, {node: b, delay: 5s, say: b}, {say: joined}]`)})
	harness.WaitFor(t, "the branches to start", func() bool {
		d, err := h.Client.DescribeWorkflowExecution(context.Background(), run.GetID()+"/b#1", "")
		return err == nil && len(d.PendingActivities) == 1 && d.PendingActivities[0].State == enumspb.PENDING_ACTIVITY_STATE_STARTED
	})
	// Let the calls begin: one that is still fetching messages when the worker stops is retried.
	time.Sleep(2 * time.Second)
	second := harness.RunWorker(t, h.Client, h.Queue, 0, nil)
	t.Cleanup(second.Stop)
	h.Worker.Stop()
	out, err := harness.Result(t, run)
	if err != nil {
		t.Fatal(err)
	}
	if *out.ResultText != "joined" {
		t.Errorf("result = %q", *out.ResultText)
	}
	for _, node := range []string{"a", "b"} {
		for _, e := range harness.Events(t, h.Client, run.GetID()+"/"+node+"#1", "") {
			if s := e.GetActivityTaskStartedEventAttributes(); s != nil && s.Attempt > 1 {
				t.Errorf("a call of %s was retried", node)
			}
		}
	}
}

// TestEndToEndKills kills the worker's process, or the server, during a run. It checks that the run completes and that
// no recorded call is repeated.
func TestEndToEndKills(t *testing.T) {
	t.Parallel()
	model := newModelServer(t)
	dir := t.TempDir()
	for _, victim := range []string{"worker", "server"} {
		t.Run(victim, func(t *testing.T) {
			s := harness.StartServer(t, "-db", dir+"/"+victim+".db", "-port=0")
			_, port, _ := strings.Cut(s.Address, ":")
			w := harness.StartWorker(t, s.Address, "WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL="+model.url)
			c := harness.Dial(t, s.Address)
			h := &harness.Worker{Client: c, Queue: contract.TaskQueue}
			model.reset()
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.ForkAndJoin, Name: "flow.json"}, Model: "fake/m", Input: "go"})
			harness.WaitFor(t, "three model calls", func() bool { return model.calls() >= 3 })
			if victim == "worker" {
				_ = w.Process.Signal(syscall.SIGKILL)
				_ = w.Wait()
				harness.StartWorker(t, s.Address, "WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL="+model.url)
			} else {
				s.Kill()
				time.Sleep(300 * time.Millisecond)
				harness.StartServer(t, "-db", dir+"/"+victim+".db", "-port="+port)
			}
			out, err := harness.Result(t, run)
			if err != nil {
				t.Fatal(err)
			}
			if *out.ResultText != "turn 4" {
				t.Errorf("result = %q", *out.ResultText)
			}
			model.check(t, 2)
		})
	}
}

// TestEndToEndUntypedClient checks that a client can start a run with only names and JSON, as from any language.
func TestEndToEndUntypedClient(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	var in map[string]any
	harness.DecodeJSON(t, []byte(`{"v": 1, "flow": {"text": "", "name": "x.json"}, "input": "hello", "script": {"rules": [{"say": "hi"}]}}`), &in)
	flow, _ := in["flow"].(map[string]any)
	flow["text"] = harness.OneNode("")
	run, err := h.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.Queue}, "Flow", in)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := run.Get(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	delete(out, "usage")
	if h, _ := out["flow_hash"].(string); len(h) != 64 {
		t.Errorf("flow_hash = %v", out["flow_hash"])
	}
	delete(out, "flow_hash")
	want := map[string]any{"status": "completed", "result_text": "hi", "result_node": "a", "model": "script",
		"exit_outputs": []any{map[string]any{"node": "a", "step": 1.0, "text": "hi"}}}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	events := harness.Events(t, h.Client, run.GetID(), run.GetRunID())
	pinned := false
	for _, e := range events {
		for _, p := range e.GetMarkerRecordedEventAttributes().GetDetails()["result"].GetPayloads() {
			pinned = pinned || strings.Contains(string(p.Data), `"plan":{"version":1`)
		}
	}
	if !pinned {
		t.Error("history does not contain the plan")
	}
}

// TestEndToEndInvalidInputs checks that runs with invalid input fail as a bad request, with a remedy.
func TestEndToEndInvalidInputs(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	for name, in := range map[string]any{
		"a string":                   "hello",
		"no flow":                    map[string]any{"v": 1},
		"an unknown field":           map[string]any{"v": 1, "flow": map[string]any{"text": harness.OneNode("")}, "model_name": "x"},
		"a document as an object":    map[string]any{"v": 1, "flow": map[string]any{"text": map[string]any{}}},
		"two flows":                  map[string]any{"v": 1, "flow": map[string]any{"text": "x", "plan": map[string]any{"version": 1}}},
		"a negative limit":           map[string]any{"v": 1, "flow": map[string]any{"text": harness.OneNode("")}, "max_steps": -3},
		"an unknown role":            map[string]any{"v": 1, "flow": map[string]any{"text": harness.OneNode("")}, "history": []any{map[string]any{"role": "wizard", "content": "x"}}},
		"an unknown connection type": map[string]any{"v": 1, "flow": map[string]any{"text": harness.OneNode(""), "name": "f.json"}, "model": "script", "data_connections": []any{map[string]any{"id": "x", "type": 7}}},
		"a forged snapshot":          map[string]any{"v": 1, "snapshot": map[string]any{"plan": map[string]any{}}},
	} {
		run, err := h.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: h.Queue}, "Flow", in)
		if err != nil {
			t.Fatal(err)
		}
		if f := contract.FailureOf(run.Get(context.Background(), nil)); f == nil || f.Class != contract.ClassBadRequest || f.Remedy == "" {
			t.Errorf("%s: failure = %+v", name, f)
		}
	}
}
