package activities

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/workflows/plan"
)

// provider is a model server that records its requests.
type provider struct {
	*httptest.Server
	mu   sync.Mutex
	seen []map[string]json.RawMessage
}

func serveModel(t *testing.T, status int, answer string) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var body map[string]json.RawMessage
		_ = json.Unmarshal(raw, &body)
		p.mu.Lock()
		p.seen = append(p.seen, body)
		p.mu.Unlock()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(p.Close)
	return p
}

const fine = `{"model":"m","choices":[{"message":{"content":"fine"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`

func modelsOf(t *testing.T, s llm.Settings) *llm.Models {
	t.Helper()
	m, err := llm.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestParametersReachTheModel(t *testing.T) {
	server := serveModel(t, 200, fine)
	models := modelsOf(t, llm.Settings{Providers: map[string]llm.ProviderSettings{"here": {Kind: "compatible", BaseURL: server.URL}}})
	zero, half, seed, no := 0.0, 0.5, 7, false
	params := &plan.Params{
		Temperature: &zero, TopP: &half, TopK: 3, MaxTokens: 50, Stop: []string{"END"}, Seed: &seed, Frequency: 0.25, Presence: -0.25,
		ToolChoice: plan.ChoiceRequired, Parallel: &no, Effort: "low", Extra: json.RawMessage(`{"min_p":0.1}`),
	}
	r := newFakeRun()
	r.say(t, "t", 1)
	_, env := bench(t, Deps{Source: r, Models: models})
	ask := func(thread string, from, tail int, noTools bool) map[string]json.RawMessage {
		t.Helper()
		in := r.call(thread, from, tail)
		in.NoTools = noTools
		in.Profile = profileOf(t, r, contract.Profile{Model: "here/m", Node: "n", Builtins: []string{plan.BuiltinGetState}, Params: params})
		if _, f := perform[contract.ModelResult](t, env, contract.ActivityCallModel, in); f != nil {
			t.Fatal(f)
		}
		return server.seen[len(server.seen)-1]
	}
	got := ask("t", 0, 1, false)
	for key, want := range map[string]string{
		"temperature": "0", "top_p": "0.5", "top_k": "3", "max_tokens": "50", "stop": `["END"]`, "seed": "7", "frequency_penalty": "0.25",
		"presence_penalty": "-0.25", "tool_choice": `"required"`, "parallel_tool_calls": "false", "reasoning_effort": `"low"`, "min_p": "0.1",
	} {
		if string(got[key]) != want {
			t.Errorf("%s is %s, want %s", key, got[key], want)
		}
	}
	if got := ask("t", 0, 1, true); string(got["tool_choice"]) != `"none"` {
		t.Errorf("where no tool may be called, the choice is %s", got["tool_choice"])
	}
	// After a tool result, tool_choice is no longer forced.
	r.threads["done"] = []json.RawMessage{
		encode(t, contract.Message{Role: contract.RoleUser, Text: "go"}),
		encode(t, contract.Message{Role: contract.RoleAssistant, Calls: []contract.ToolCall{{ID: "1", Name: "get_state", Arguments: "{}"}}}),
		encode(t, contract.Message{Role: contract.RoleTool, CallID: "1", Name: "get_state", Text: "x"}),
	}
	if got := ask("done", 0, 3, false); got["tool_choice"] != nil {
		t.Errorf("tool_choice after a result = %s", got["tool_choice"])
	}
	params = nil
	var sent []string
	for key := range ask("t", 0, 1, false) {
		sent = append(sent, key)
	}
	slices.Sort(sent)
	if diff := cmp.Diff([]string{"messages", "model", "stream", "stream_options", "tools"}, sent); diff != "" {
		t.Errorf("without parameters it sends (-want +got):\n%s", diff)
	}
}

// TestStoredPrompts checks that an OpenAiAgent of Agent Spec uses the Responses API with its prompt stored at OpenAI.
func TestStoredPrompts(t *testing.T) {
	server := serveModel(t, 200, `{"status":"completed","model":"gpt-5","output":[{"type":"message","content":[{"type":"output_text","text":"stored"}]}],"usage":{"input_tokens":9,"output_tokens":2}}`)
	models := modelsOf(t, llm.Settings{Providers: map[string]llm.ProviderSettings{"openai": {BaseURL: server.URL, Key: "k"}}})
	r := newFakeRun()
	r.say(t, "t", 1)
	_, env := bench(t, Deps{Source: r, Models: models})
	in := r.call("t", 0, 1)
	in.Profile = profileOf(t, r, contract.Profile{Model: "openai/m", Node: "n", Params: &plan.Params{API: "responses", Extra: json.RawMessage(`{"prompt":{"id":"pmpt_1"}}`)}})
	out, f := perform[contract.ModelResult](t, env, contract.ActivityCallModel, in)
	if f != nil {
		t.Fatal(f)
	}
	got := server.seen[0]
	if string(got["prompt"]) != `{"id":"pmpt_1"}` || got["input"] == nil || got["messages"] != nil || out.Usage.Input != 9 || !strings.Contains(string(out.Message), "stored") {
		t.Errorf("sent %s, result %+v", got, out)
	}
}

func TestFallbackIsRecorded(t *testing.T) {
	down, up := serveModel(t, 503, `{"error":{"message":"gone fishing"}}`), serveModel(t, 200, fine)
	models := modelsOf(t, llm.Settings{
		Prices: map[string]llm.Price{"up/*": {Input: 1.25, Output: 10}},
		Providers: map[string]llm.ProviderSettings{
			"down": {Kind: "compatible", BaseURL: down.URL}, "up": {Kind: "compatible", BaseURL: up.URL},
		},
	})
	r := newFakeRun()
	r.say(t, "t", 1)
	_, env := bench(t, Deps{Source: r, Models: models})
	in := r.call("t", 0, 1)
	in.Profile = profileOf(t, r, contract.Profile{Model: "down/a, up/b", Node: "n"})
	out, f := perform[contract.ModelResult](t, env, contract.ActivityCallModel, in)
	if f != nil {
		t.Fatal(f)
	}
	if out.Model != "up/m" || len(out.Fallbacks) != 1 || out.Fallbacks[0].Model != "down/a" || out.Fallbacks[0].Class != contract.ClassUnavailable || !strings.Contains(out.Fallbacks[0].Text, "gone fishing") {
		t.Errorf("result %+v", out)
	}
	want := contract.Usage{Calls: 1, Input: 1000, Output: 100, Cost: 2250}
	if diff := cmp.Diff(want, out.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestHeartbeatHasWaitReason(t *testing.T) {
	watchedFor(t, time.Minute, nil, func(_, waits func(string), seen func() []contract.Heartbeat) {
		for _, reason := range []string{"waiting 3s for its turn", ""} {
			waits(reason)
			said := func() bool { all := seen(); return len(all) > 0 && all[len(all)-1].Waiting == reason }
			for end := time.Now().Add(time.Minute); !said(); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Errorf("no heartbeat says %q: %+v", reason, seen())
					return
				}
			}
		}
	})
}
