package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// anthropic is a fake Anthropic server that sends signed reasoning and a tool call, and then
// requires the signature in the next request.
type anthropic struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
}

func newAnthropic(t *testing.T) *anthropic {
	t.Helper()
	a := &anthropic{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.requests = append(a.requests, string(raw))
		a.mu.Unlock()
		if !strings.Contains(string(raw), "tool_result") {
			fmt.Fprint(w, `{"type":"message","model":"claude-x","stop_reason":"tool_use","usage":{"input_tokens":100,"output_tokens":10,"cache_read_input_tokens":900},"content":[
				{"type":"thinking","thinking":"I should look","signature":"U0lH"},{"type":"redacted_thinking","data":"eHl6"},
				{"type":"tool_use","id":"toolu_1","name":"list_state_keys","input":{}}]}`)
			return
		}
		if !strings.Contains(string(raw), `"signature":"U0lH"`) || !strings.Contains(string(raw), `"data":"eHl6"`) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"type":"error","error":{"type":"invalid_request_error","message":"a final assistant message must start with a thinking block"}}`)
			return
		}
		fmt.Fprint(w, `{"type":"message","model":"claude-x","stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5},"content":[{"type":"text","text":"There is nothing."}]}`)
	}))
	t.Cleanup(a.Close)
	return a
}

// TestSignedReasoning checks that signed reasoning is sent back unchanged, that a node's
// parameters reach the provider, and that the fallback of an unavailable model is used.
func TestSignedReasoning(t *testing.T) {
	t.Parallel()
	server := newAnthropic(t)
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(529) }))
	t.Cleanup(down.Close)
	models, err := llm.Open(llm.Settings{
		Prices: map[string]llm.Price{"anthropic/*": {Input: 3, Output: 15}},
		Providers: map[string]llm.ProviderSettings{
			"anthropic": {BaseURL: server.URL + "/v1", Key: "k"}, "first": {Kind: "compatible", BaseURL: down.URL},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	flow := harness.GraphPlan("think", []harness.GraphNode{{ID: "look", Exit: true}}, []harness.GraphEdge{{Source: plan.Start, Target: "look"}, {Source: "look", Target: plan.End}})
	flow.Nodes[0].Agent.Builtins = []string{plan.BuiltinListStateKeys}
	flow.Nodes[0].Agent.Params = &plan.Params{MaxTokens: 5000, ToolChoice: plan.ChoiceRequired}
	p := harness.TestRun{Input: "What is there?", Models: models, SetInput: func(in *contract.RunInput) {
		in.Flow, in.Model = contract.FlowRef{Plan: flow}, "first/m, anthropic/claude-opus-4-8"
	}}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if p.Result.ResultText == nil || *p.Result.ResultText != "There is nothing." {
		t.Errorf("result = %+v", p.Result)
	}
	want := contract.Usage{Calls: 2, Input: 1010, Output: 15, Cached: 900, Cost: 1010*3 + 15*15,
		Fallbacks: []contract.FallbackCount{{From: "first/m", To: "anthropic/claude-opus-4-8", Class: contract.ClassUnavailable, Times: 2}}}
	if !reflect.DeepEqual(p.Result.Usage, want) {
		t.Errorf("usage = %+v, want %+v", p.Result.Usage, want)
	}
	if len(server.requests) != 2 {
		t.Fatalf("got %d calls, want 2", len(server.requests))
	}
	var sent [2]struct {
		MaxTokens int             `json:"max_tokens"`
		Choice    json.RawMessage `json:"tool_choice"`
	}
	for i := range sent {
		harness.DecodeJSON(t, []byte(server.requests[i]), &sent[i])
	}
	if sent[0].MaxTokens != 5000 || string(sent[0].Choice) != `{"type":"any"}` || sent[1].MaxTokens != 5000 || sent[1].Choice != nil {
		t.Errorf("parameters = %+v", sent)
	}
}
