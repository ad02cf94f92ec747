package e2e

import (
	"context"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
)

// TestEndToEndRawStartWithSecret starts runs by Temporal's client alone, with a secret in what they
// bring. Nobody looked at it before it was in the history, so each is refused, and says that.
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
		in map[string]any
		// want stand in what is said.
		class string
		want  []string
	}{
		"in a tool": {map[string]any{"flow": map[string]any{"text": agent(model, tool)}},
			contract.ClassInvalidFlow, []string{rotate, "[secret-inline]", `{"$component_ref": "crm.sensitive_headers.A"}`, `secrets: {"crm.sensitive_headers.A": {value: "${NAME}", hosts: ["crm.example.com"]}}`}},
		"in a model": {map[string]any{"flow": map[string]any{"text": agent(keyed, "")}},
			contract.ClassInvalidFlow, []string{rotate, "[secret-inline]", `{"$component_ref": "m.api_key"}`, "providers: {openai: {key_env: NAME}}"}},
		"in a file of components": {map[string]any{"flow": map[string]any{"text": agent(`{"$component_ref": "m"}`, "")}, "components": []any{map[string]any{"name": "models.json", "text": keyed}}},
			contract.ClassInvalidFlow, []string{rotate, "[secret-inline]", "models.json:1:", `{"$component_ref": "m.api_key"}`}},
		"in a value that is mapped": {map[string]any{"flow": map[string]any{"text": agent(strings.Replace(keyed, `"`+canary+`"`, `{"$component_ref": "key"}`, 1), ""),
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
				t.Fatalf("the run ended with %v, want %s", err, tc.class)
			}
			said := f.Text + "\n" + f.Remedy + "\n" + strings.Join(f.Diagnostics, "\n")
			for _, want := range tc.want {
				if !strings.Contains(said, want) {
					t.Errorf("%s is not in\n%s", want, said)
				}
			}
			if strings.Contains(said+err.Error(), canary) {
				t.Errorf("the secret is in what is said:\n%s", said)
			}
			// The first event has what the client sent; no later one repeats it.
			for _, event := range harness.Events(t, e.client, run.GetID(), run.GetRunID())[1:] {
				if text := event.String(); event.GetActivityTaskScheduledEventAttributes() == nil && strings.Contains(text, canary) {
					t.Errorf("%s has the secret too", event.GetEventType())
				}
			}
		})
	}
}
