package dialects

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.temporal.io/sdk/testsuite"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
)

// remoteAgent is a server of the Agent2Agent protocol. Each reply is available at the second poll; the first one asks for a city.
// The very first poll fails.
type remoteAgent struct {
	mu     sync.Mutex
	sent   []string
	polls  int
	failed bool
}

func (a *remoteAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var in struct {
		Method string
		Params struct {
			ID      string
			Message struct {
				Role, MessageID, ContextID, TaskID string
				Parts                              []struct{ Kind, Text string }
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("X-Tenant") != "blue" {
		http.Error(w, "what?", http.StatusBadRequest)
		return
	}
	state, more := "working", ""
	switch in.Method {
	case "message/send":
		m := in.Params.Message
		a.sent, a.polls = append(a.sent, fmt.Sprintf("%s %s %q %q %q", m.Role, m.Parts[0].Kind, m.Parts[0].Text, m.ContextID, m.TaskID)), 0
		if m.MessageID == "" {
			http.Error(w, "no id", http.StatusBadRequest)
			return
		}
	case "tasks/get":
		a.polls++
		if a.polls == 1 && !a.failed {
			a.failed = true
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		if a.polls < 2 || in.Params.ID != "t1" {
			break
		}
		state, more = "completed", `,"artifacts":[{"artifactId":"a","parts":[{"kind":"text","text":"Sunny in Bern"}]}]`
		if len(a.sent) == 1 {
			state, more = `input-required","message":{"kind":"message","role":"agent","messageId":"q","parts":[{"kind":"text","text":"Which city?"}]},"x":"`, ""
		}
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t1","contextId":"c1","status":{"state":"%s"}%s}}`, state, more)
}

// remoteFlow is a flow with a remote agent.
const remoteFlow = `{"component_type":"Flow","agentspec_version":"26.1.2","name":"f","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"$component_ref":"n"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"n"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"n"},"to_node":{"$component_ref":"e"}}],
"$referenced_components":{"s":{"component_type":"StartNode","name":"s"},"e":{"component_type":"EndNode","name":"e","outputs":[{"title":"answer","type":"string"}]},
"n":{"component_type":"AgentNode","name":"n","agent":{"component_type":"A2AAgent","name":"weather","agent_url":"URL/a2a","outputs":[{"title":"answer","type":"string"}],
"connection_config":{"component_type":"A2AConnectionConfig","name":"c","headers":{"X-Tenant":"blue"}},"session_parameters":{"poll_interval":0.01}}}}}`

// TestAgentSpecA2A checks that a remote agent is sent the user's message, and that its question is put to the user. If a call fails
// while the agent works, the next attempt polls for the reply instead of sending the message again.
func TestAgentSpecA2A(t *testing.T) {
	t.Parallel()
	remote := &remoteAgent{}
	srv := httptest.NewServer(remote)
	defer srv.Close()
	doc := strings.ReplaceAll(remoteFlow, "URL", srv.URL)
	p := harness.TestRun{Document: doc, Input: "Will it rain?", Answers: []string{"Bern"}, ToolSettings: tool.Settings{AllowLoopback: true},
		SetInput: func(in *contract.RunInput) { in.Model = "compatible/none" }}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if string(p.Result.ResultData) != `{"answer":"Sunny in Bern"}` {
		t.Errorf("outputs = %s", p.Result.ResultData)
	}
	want := []string{`user text "Will it rain?" "" ""`, `user text "Bern" "c1" "t1"`}
	if fmt.Sprint(remote.sent) != fmt.Sprint(want) || !remote.failed {
		t.Errorf("sent = %q, want %q", remote.sent, want)
	}
}

// TestAgentSpecRetries checks that calls are retried as often as the document says.
func TestAgentSpecRetries(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy string
		want   int
	}{{`{"max_attempts":1,"initial_retry_delay":0.001}`, 2}, {`{"max_attempts":0}`, 1}, {`{"initial_retry_delay":0.001,"max_retry_delay":0.01}`, 3}} {
		calls := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls++
			http.Error(w, "later", http.StatusServiceUnavailable)
		}))
		defer srv.Close()
		doc := strings.NewReplacer("URL", srv.URL, "POLICY", tc.policy).Replace(`{"component_type":"Flow","agentspec_version":"26.1.2","name":"f","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"$component_ref":"n"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"n"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"n"},"to_node":{"$component_ref":"e"}}],
"$referenced_components":{"s":{"component_type":"StartNode","name":"s"},"e":{"component_type":"EndNode","name":"e"},
"n":{"component_type":"ApiNode","name":"n","url":"URL/x","http_method":"GET","retry_policy":POLICY}}}`)
		p := harness.TestRun{Document: doc, ToolSettings: tool.Settings{AllowLoopback: true}, SetInput: func(in *contract.RunInput) { in.OnError = contract.OnErrorFail }}.Execute(t)
		if p.Err == nil || p.Err.Class != contract.ClassUnavailable || calls != tc.want {
			t.Errorf("%s: %d calls, want %d: %v", tc.policy, calls, tc.want, p.Err)
		}
	}
}

// TestAgentSpecToolFilter checks that a toolbox's filter selects tools by name, or by a specification with its own description, that
// both can require confirmation, and that a specification with other inputs than the tool's is rejected.
func TestAgentSpecToolFilter(t *testing.T) {
	t.Parallel()
	doc := func(filter, more string) string {
		return `{"component_type":"Agent","agentspec_version":"26.1.2","name":"a","human_in_the_loop":false,"system_prompt":"x","llm_config":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"outputs":[{"title":"said","type":"string"}],
"toolboxes":[{"component_type":"MCPToolBox","name":"b","client_transport":{"component_type":"StreamableHTTPTransport","name":"web","url":"http://web.test/mcp"}` + filter + more + `}]}`
	}
	const spec = `,"tool_filter":["look",{"component_type":"MCPToolSpec","name":"send","description":"Sends.","requires_confirmation":true INPUTS}]`
	s := server.NewMCPServer("box", "1", server.WithToolCapabilities(false))
	for _, name := range []string{"look", "send"} {
		s.AddTool(mcp.NewTool(name), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("done"), nil
		})
	}
	srv := httptest.NewServer(server.NewStreamableHTTPServer(s))
	defer srv.Close()
	const calls = `rules:
- {turn: 1, call: [{tool: look, arguments: {}}]}
- {turn: 2, call: [{tool: send, arguments: {}}]}
- {turn: 3, call: [{tool: submit_result, arguments: {said: done}}]}`
	for name, tc := range map[string]struct {
		doc       string
		confirmed string
		fails     string
	}{
		"a filter":                                  {doc(strings.Replace(spec, " INPUTS", "", 1), ""), "[send]", ""},
		"confirmation for the toolbox":              {doc("", `,"requires_confirmation":true`), "[look send]", ""},
		"a filter and confirmation for the toolbox": {doc(strings.Replace(spec, " INPUTS", "", 1), `,"requires_confirmation":true`), "[look send]", ""},
		"other inputs":                              {doc(strings.Replace(spec, " INPUTS", `,"inputs":[{"title":"to","type":"string"}]`, 1), ""), "", `tool "send" has no parameter "to", which the flow declares as its input`},
		"an unknown tool":                           {doc(`,"tool_filter":["fly"]`, ""), "", `tool "fly" is not offered by "web"`},
	} {
		t.Run(name, func(t *testing.T) {
			var confirmed []string
			p := harness.TestRun{Document: strings.Replace(tc.doc, "http://web.test", srv.URL, 1), Script: calls, ToolSettings: tool.Settings{AllowLoopback: true}, Prepare: func(env *testsuite.TestWorkflowEnvironment) {
				for i := range 4 {
					harness.AtTime(env, time.Duration(i+1)*time.Hour, func() {
						var now contract.Status
						harness.Query(t, env, contract.QueryStatus, &now)
						for _, r := range now.Requests {
							yes := true
							confirmed = append(confirmed, r.Name)
							env.SignalWorkflow(contract.RequestConfirm, contract.ConfirmAnswer{ID: r.ID, Approve: &yes})
						}
					})
				}
			}}.Execute(t)
			if tc.fails != "" {
				if p.Err == nil || !strings.Contains(p.Err.Text, tc.fails) {
					t.Errorf("failure = %v, want %s", p.Err, tc.fails)
				}
				return
			}
			if p.Err != nil || fmt.Sprint(confirmed) != tc.confirmed {
				t.Errorf("confirmed %v, want %s; %v", confirmed, tc.confirmed, p.Err)
			}
		})
	}
}

// TestEndToEndRecordRemote runs remoteFlow on a real server and records its history.
func TestEndToEndRecordRemote(t *testing.T) {
	t.Parallel()
	remote := &remoteAgent{}
	srv := httptest.NewServer(remote)
	defer srv.Close()
	tools, err := tool.Open(tool.Settings{AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, tools)
	t.Cleanup(func() { h.Worker.Stop(); tools.Close() })
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: strings.ReplaceAll(remoteFlow, "URL", srv.URL), Name: "flow.json"}, Input: "Will it rain?", Model: "compatible/none"})
	if q := h.WaitForRequests(t, run.GetID(), 1)[0]; q.Text != "Which city?" {
		t.Errorf("question = %q", q.Text)
	}
	if _, err := h.Update(t, run.GetID(), contract.RequestMessage, contract.MessageAnswer{Text: "Bern"}); err != nil {
		t.Fatal(err)
	}
	out, err := harness.Result(t, run)
	if err != nil || string(out.ResultData) != `{"answer":"Sunny in Bern"}` {
		t.Fatalf("result = %+v, %v", out, err)
	}
	if len(remote.sent) != 2 {
		t.Errorf("sent = %q", remote.sent)
	}
	harness.Record(t, h.Client, "agentspec-remote", run.GetID(), run.GetRunID())
}
