package e2e

import (
	"context"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndRawStartWithSecret starts runs directly with Temporal's client, with a secret in their input. It checks that each is
// rejected, and that the message says to rotate the secret, since nothing checks the input before it is recorded.
func TestEndToEndRawStartWithSecret(t *testing.T) {
	t.Parallel()
	const canary = "canary-51b07c"
	const rotate = "already in the run's history: rotate it"
	agent := func(model, tools string) string {
		return `{"component_type": "Agent", "agentspec_version": "26.1.2", "name": "a", "system_prompt": "x", "llm_config": ` + model + `, "tools": [` + tools + `]}`
	}
	const model = `{"component_type": "OpenAiConfig", "name": "m", "model_id": "m"}`
	const keyed = `{"component_type": "OpenAiConfig", "id": "m", "name": "m", "model_id": "m", "api_key": "` + canary + `"}`
	const tool = `{"component_type": "RemoteTool", "name": "crm", "url": "https://crm.example.com/x", "http_method": "GET", "sensitive_headers": {"A": "` + canary + `"}}`
	tests := map[string]struct {
		in    map[string]any
		class string
		want  []string // in the failure's text, remedy or diagnostics
	}{
		"in a tool": {map[string]any{"flow": map[string]any{"text": agent(model, tool)}},
			contract.ClassInvalidFlow, []string{rotate, "[secret-inline]", `{"$component_ref": "crm.sensitive_headers.A"}`, `secrets: {"crm.sensitive_headers.A": {value: "${NAME}", hosts: ["crm.example.com"]}}`}},
		"in a model": {map[string]any{"flow": map[string]any{"text": agent(keyed, "")}},
			contract.ClassInvalidFlow, []string{rotate, "[secret-inline]", `{"$component_ref": "m.api_key"}`, "providers: {openai: {key_env: NAME}}"}},
		"in a components file": {map[string]any{"flow": map[string]any{"text": agent(`{"$component_ref": "m"}`, "")}, "components": []any{map[string]any{"name": "models.json", "text": keyed}}},
			contract.ClassInvalidFlow, []string{rotate, "[secret-inline]", "models.json:1:", `{"$component_ref": "m.api_key"}`}},
		"in a mapped value": {map[string]any{"flow": map[string]any{"text": agent(strings.Replace(keyed, `"`+canary+`"`, `{"$component_ref": "key"}`, 1), ""),
			"components":    []any{map[string]any{"name": "keys.yaml", "text": "$referenced_components: {k: " + canary + "}"}},
			"component_ids": []any{map[string]any{"id": "key", "name": "keys.yaml", "key": "k"}}}},
			contract.ClassInvalidFlow, []string{rotate, "[secret-inline]", "keys.yaml:1:"}},
		"in a connection": {map[string]any{"flow": map[string]any{"text": agent(model, "")}, "data_connections": []any{map[string]any{"id": "web", "url": "https://me:" + canary + "@crm.example.com/mcp"}}},
			contract.ClassBadRequest, []string{rotate, `data_connections: the url of "web" contains a user name or password`, `connections: {"web": {url: "https://crm.example.com/mcp"`}},
	}
	e := newClientPrograms(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.in["v"], tc.in["input"] = contract.Version, "hello"
			run, err := e.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: contract.TaskQueue}, contract.WorkflowFlow, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			_, err = harness.Result(t, run)
			f := contract.FailureOf(err)
			if f == nil || f.Class != tc.class {
				t.Fatalf("run ended with %v, want %s", err, tc.class)
			}
			text := f.Text + "\n" + f.Remedy + "\n" + strings.Join(f.Diagnostics, "\n")
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("failure does not contain %s:\n%s", want, text)
				}
			}
			if strings.Contains(text+err.Error(), canary) {
				t.Errorf("failure contains the secret:\n%s", text)
			}
			// The first event contains the input; no other event may repeat the secret.
			for _, event := range harness.Events(t, e.client, run.GetID(), run.GetRunID())[1:] {
				if text := event.String(); event.GetActivityTaskScheduledEventAttributes() == nil && strings.Contains(text, canary) {
					t.Errorf("%s contains the secret", event.GetEventType())
				}
			}
		})
	}
}
