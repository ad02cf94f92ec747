package dialects

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/tests/harness"
)

// TestAgentSpecA2AWorker checks that a manager can message a remote agent like any other worker: the remote agent's question is
// returned as its reply, and the manager's next message continues the same task.
func TestAgentSpecA2AWorker(t *testing.T) {
	t.Parallel()
	remote := &remoteAgent{}
	agent := httptest.NewServer(remote)
	defer agent.Close()
	turns := 0
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turns++
		body, _ := io.ReadAll(r.Body)
		name, arguments := "send_message", map[string]string{"recipient": "weather", "message": "Will it rain?"}
		switch {
		case turns == 2 && strings.Contains(string(body), "Which city?"):
			arguments["message"] = "Bern"
		case turns == 3 && strings.Contains(string(body), "Sunny in Bern"):
			name, arguments = "submit_result", map[string]string{"answer": "no rain"}
		case turns > 1:
			http.Error(w, "not that", http.StatusBadRequest)
			return
		}
		raw, _ := json.Marshal(arguments)
		quoted, _ := json.Marshal(string(raw))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"","tool_calls":[{"id":"c%d","type":"function","function":{"name":%q,"arguments":%s}}]}}]}`, turns, name, quoted)
	}))
	defer model.Close()
	models, err := llm.Open(llm.Settings{Default: "compatible/m", Providers: map[string]llm.ProviderSettings{"compatible": {BaseURL: model.URL, Unary: true}}})
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.ReplaceAll(`{"component_type":"ManagerWorkers","agentspec_version":"25.4.2","name":"team","outputs":[{"title":"answer","type":"string"}],
"group_manager":{"component_type":"Agent","name":"boss","human_in_the_loop":false,"system_prompt":"Ask.","outputs":[{"title":"answer","type":"string"}],
"llm_config":{"component_type":"OpenAiCompatibleConfig","name":"m","model_id":"m","url":"http://model"}},
"workers":[{"component_type":"A2AAgent","name":"weather","description":"knows the weather","agent_url":"URL/a2a",
"connection_config":{"component_type":"A2AConnectionConfig","name":"c","headers":{"X-Tenant":"blue"}},"session_parameters":{"poll_interval":0.01}}]}`, "URL", agent.URL)
	p := harness.TestRun{Document: doc, Models: models, ToolSettings: tool.Settings{AllowLoopback: true}, SetInput: func(in *contract.RunInput) { in.Model = "" }}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if string(p.Result.ResultData) != `{"answer":"no rain"}` {
		t.Errorf("outputs = %s", p.Result.ResultData)
	}
	want := []string{`user text "Will it rain?" "" ""`, `user text "Bern" "c1" "t1"`}
	if fmt.Sprint(remote.sent) != fmt.Sprint(want) {
		t.Errorf("sent = %q, want %q", remote.sent, want)
	}
}
