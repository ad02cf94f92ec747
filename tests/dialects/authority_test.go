package dialects

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/workflows"
)

// TestScriptsOfClients checks that a client's model script that the policy does not allow can neither call tools nor answer for a hook.
func TestScriptsOfClients(t *testing.T) {
	t.Parallel()
	paid := false
	pay := tool.Func("pay", "pays", func(context.Context, struct{}) (string, error) {
		paid = true
		return "paid", nil
	})
	hooks := func(onError string) func(*contract.RunInput) {
		return func(in *contract.RunInput) {
			in.Flow, in.Params = contract.FlowRef{Plan: agentWithHooks(t, onError).Flow}, json.RawMessage(`{"topic":"abc","prompt":"Go."}`)
		}
	}
	tests := map[string]struct {
		document string
		set      func(*contract.RunInput)
		want     string
	}{
		"a flow with tools":     {document: harness.OneNode(`,"tools":[{"name":"pay"}]`), set: func(*contract.RunInput) {}},
		"a hook that blocks":    {set: hooks("block"), want: "Blocked by on_run_start hook: Hook failed: "},
		"a hook that continues": {set: hooks("continue")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := harness.TestRun{Settings: workflows.Settings{Policies: []contract.Policy{{Name: "clerks"}}}, Functions: []tool.Function{pay}, Document: tc.document,
				Script: "rules:\n- {node: guard, json: {action: continue}}\n- {node: a, turn: 1, call: [{tool: pay}]}\n- {say: done}\n",
				SetInput: func(in *contract.RunInput) {
					in.OnError = contract.OnErrorFail
					tc.set(in)
				}}
			p := r.Execute(t)
			if p.Err == nil || !strings.Contains(p.Err.Text, tc.want) || !strings.Contains(p.Err.Text, "the model script is not granted to this run") || paid {
				t.Errorf("the run ended with %v, paid %v", p.Err, paid)
			}
		})
	}
}

// TestEndToEndTakenHook checks that a run is blocked if another workflow has the id of its hook, even with on_error: continue.
func TestEndToEndTakenHook(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	otherWorker := worker.New(h.Client, h.Queue+"-other", worker.Options{})
	otherWorker.RegisterWorkflowWithOptions(func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) }, workflow.RegisterOptions{Name: "Squat"})
	if err := otherWorker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(otherWorker.Stop)
	id := "victim-" + h.Queue
	squat, err := h.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id + "/hook:on_run_start", TaskQueue: h.Queue + "-other"}, "Squat")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Client.TerminateWorkflow(context.Background(), squat.GetID(), "", "") })
	run, err := h.Client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{ID: id, TaskQueue: h.Queue}, contract.WorkflowFlow,
		contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Plan: agentWithHooks(t, "continue").Flow}, Params: json.RawMessage(`{"topic":"abc","prompt":"Go."}`),
			Model: "script", Script: harness.Script(t, "rules: [{say: Written.}]")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Result(t, run); contract.FailureOf(err).Class != contract.ClassHookBlocked || !strings.Contains(err.Error(), "another run has the id "+squat.GetID()) {
		t.Errorf("the run ended with %v", err)
	}
}

// TestEndToEndHostsOfPolicies checks that flows can only call hosts that their policy names, even if arguments choose the host.
func TestEndToEndHostsOfPolicies(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		fmt.Fprint(w, `"found"`)
	}))
	t.Cleanup(srv.Close)
	tools, err := tool.Open(tool.Settings{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	for name, tc := range map[string]struct {
		hosts []string
		calls int64
	}{"another host": {hosts: []string{"api.example.com"}}, "this host": {hosts: []string{"127.0.0.1"}, calls: 1}} {
		policies := []contract.Policy{{Name: "clerks", Hosts: tc.hosts, Scripts: true}}
		h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
		h.Worker = harness.RunWorkerWith(t, h.Client, h.Queue, workflows.Settings{Policies: policies}, activities.Deps{Policies: policies, Tools: tools})
		t.Cleanup(h.Worker.Stop)
		for _, url := range []string{srv.URL, "{{server}}", "http://{{host}}"} {
			requests.Store(0)
			const ins = "[{title: server, type: string}, {title: host, type: string}]"
			doc := specDoc(t, flowOf(ins, "n: {component_type: ApiNode, url: '"+url+"/x', http_method: GET, inputs: "+ins+"}", "n", "[{title: response}]"))
			params, _ := json.Marshal(map[string]string{"server": srv.URL, "host": strings.TrimPrefix(srv.URL, "http://")})
			_, err := harness.Result(t, h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json"}, Params: params, OnError: contract.OnErrorFail}))
			if n := requests.Load(); n != tc.calls || (err == nil) != (tc.calls > 0) || err != nil && !strings.Contains(err.Error(), "is not granted to this run") {
				t.Errorf("%s, %s: %d requests, and the run ended with %v", name, url, n, err)
			}
		}
	}
}
