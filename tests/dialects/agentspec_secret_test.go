package dialects

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/tool"
	"weft/tests/harness"
)

// TestAgentSpecSecretNotRecorded checks that a secret that a document names is sent to the hosts that the operator allows, and is
// in no input or result of an activity, even if the server's response contains it.
func TestAgentSpecSecretNotRecorded(t *testing.T) {
	t.Parallel()
	const canary = "Bearer canary-7f3a91"
	received := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received = r.Header.Get("Authorization")
		fmt.Fprintf(w, `{"said": %q}`, "you are "+received)
	}))
	defer srv.Close()
	doc := strings.ReplaceAll(`{"component_type":"Flow","agentspec_version":"26.1.2","name":"f","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"$component_ref":"n"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"n"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"n"},"to_node":{"$component_ref":"e"}}],
"$referenced_components":{"s":{"component_type":"StartNode","name":"s"},"e":{"component_type":"EndNode","name":"e","outputs":[{"title":"said","type":"string"}]},
"n":{"component_type":"ApiNode","id":"crm","name":"n","url":"URL/x","http_method":"GET","outputs":[{"title":"said","type":"string"}],
"sensitive_headers":{"Authorization":{"$component_ref":"crm.sensitive_headers.Authorization"}}}}}`, "URL", srv.URL)
	var mu sync.Mutex
	var payloads []string
	record := func(p string) {
		mu.Lock()
		defer mu.Unlock()
		payloads = append(payloads, p)
	}
	r := harness.TestRun{Document: doc, ToolSettings: tool.Settings{AllowLoopback: true, Secrets: map[string]tool.Secret{"crm.sensitive_headers.Authorization": {Value: canary, Hosts: []string{srv.URL}}}},
		Prepare: func(env *testsuite.TestWorkflowEnvironment) {
			env.SetOnActivityStartedListener(func(_ *activity.Info, _ context.Context, args converter.EncodedValues) { record(inputText(t, args)) })
			completed := func(_ *activity.Info, result converter.EncodedValue, _ error) {
				if result != nil && result.HasValue() {
					var raw map[string]any
					if err := result.Get(&raw); err != nil {
						t.Error(err)
					}
					record(fmt.Sprint(raw))
				}
			}
			env.SetOnActivityCompletedListener(completed)
			env.SetOnLocalActivityCompletedListener(completed)
		}}
	p := r.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if received != canary {
		t.Errorf("the server received %q", received)
	}
	if string(p.Result.ResultData) != `{"said":"you are [secret]"}` {
		t.Errorf("result = %s", p.Result.ResultData)
	}
	if len(payloads) < 4 {
		t.Errorf("%d payloads, want 4 or more", len(payloads))
	}
	for _, text := range payloads {
		if strings.Contains(text, "canary") {
			t.Errorf("the secret is in %.300s", text)
		}
	}
}

func inputText(t *testing.T, args converter.EncodedValues) string {
	var raw map[string]any
	if err := args.Get(&raw); err != nil {
		t.Error(err)
	}
	return fmt.Sprint(raw)
}
