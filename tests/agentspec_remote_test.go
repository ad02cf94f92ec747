package tests

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"weft/activities/contract"
	"weft/activities/tool"
)

// agency is an agent that speaks the Agent2Agent protocol. It works on each message for two
// looks, asks for a city first, and cannot be reached once in the middle.
type agency struct {
	mu    sync.Mutex
	sent  []string
	looks int
	down  bool
}

func (a *agency) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		a.sent, a.looks = append(a.sent, fmt.Sprintf("%s %s %q %q %q", m.Role, m.Parts[0].Kind, m.Parts[0].Text, m.ContextID, m.TaskID)), 0
		if m.MessageID == "" {
			http.Error(w, "no id", http.StatusBadRequest)
			return
		}
	case "tasks/get":
		a.looks++
		if a.looks == 1 && !a.down {
			a.down = true
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		if a.looks < 2 || in.Params.ID != "t1" {
			break
		}
		state, more = "completed", `,"artifacts":[{"artifactId":"a","parts":[{"kind":"text","text":"Sunny in Bern"}]}]`
		if len(a.sent) == 1 {
			state, more = `input-required","message":{"kind":"message","role":"agent","messageId":"q","parts":[{"kind":"text","text":"Which city?"}]},"x":"`, ""
		}
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t1","contextId":"c1","status":{"state":"%s"}%s}}`, state, more)
}

// An agent that runs elsewhere is told what a person said, and asks one what it cannot go on
// without. A call that fails while the agent works is not made again: the next attempt waits.
func TestAgentSpecA2A(t *testing.T) {
	there := &agency{}
	srv := httptest.NewServer(there)
	defer srv.Close()
	doc := strings.ReplaceAll(`{"component_type":"Flow","agentspec_version":"26.1.2","name":"f","start_node":{"$component_ref":"s"},
"nodes":[{"$component_ref":"s"},{"$component_ref":"n"},{"$component_ref":"e"}],
"control_flow_connections":[{"component_type":"ControlFlowEdge","name":"1","from_node":{"$component_ref":"s"},"to_node":{"$component_ref":"n"}},
{"component_type":"ControlFlowEdge","name":"2","from_node":{"$component_ref":"n"},"to_node":{"$component_ref":"e"}}],
"$referenced_components":{"s":{"component_type":"StartNode","name":"s"},"e":{"component_type":"EndNode","name":"e","outputs":[{"title":"answer","type":"string"}]},
"n":{"component_type":"AgentNode","name":"n","agent":{"component_type":"A2AAgent","name":"weather","agent_url":"URL/a2a","outputs":[{"title":"answer","type":"string"}],
"connection_config":{"component_type":"A2AConnectionConfig","name":"c","headers":{"X-Tenant":"blue"}},"session_parameters":{"poll_interval":0.01}}}}}`, "URL", srv.URL)
	p := rehearsal{doc: doc, input: "Will it rain?", answers: []string{"Bern"}, reach: tool.Settings{AllowLoopback: true},
		set: func(in *contract.RunInput) { in.Model = "compatible/none" }}.play(t)
	if p.err != nil {
		t.Fatal(p.err)
	}
	if string(p.result.ResultData) != `{"answer":"Sunny in Bern"}` {
		t.Errorf("outputs %s", p.result.ResultData)
	}
	want := []string{`user text "Will it rain?" "" ""`, `user text "Bern" "c1" "t1"`}
	if fmt.Sprint(there.sent) != fmt.Sprint(want) || !there.down {
		t.Errorf("it was told %q, want %q", there.sent, want)
	}
}
