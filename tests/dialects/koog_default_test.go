package dialects

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/tests/harness"
)

// koogFlow returns a flow of the dialect koog with these agents and transitions.
func koogFlow(agents, transitions string) string {
	return fmt.Sprintf("{\"id\":\"f\",\"version\":\"1\",\n\"agents\":[%s],\n\"transitions\":[%s]}", agents, transitions)
}

func TestUnmatchedConditions(t *testing.T) {
	t.Parallel()
	doc := koogFlow(`{"name":"a","type":"task","params":{"task":"t"}}`,
		`{"from":"a","to":"__finish__","condition":{"variable":"input.data","operation":"equals","value":1}},
{"from":"a","to":"__finish__","condition":{"variable":"input.data","operation":"more","value":"x"}}`)
	p := harness.TestRun{Document: doc, Script: `rules: [{call: [{tool: finalize_task_result, arguments: {value: 5}}]}]`}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassNoRoute || p.Err.Node != "a" || p.Err.At != "flow.json:2" {
		t.Fatalf("failure = %+v", p.Err)
	}
	want := `none of the conditions holds for 5; input.data equals 1 (flow.json:3): no; input.data more "x" (flow.json:4): no`
	if p.Err.Text != want || p.Err.Remedy == "" || len(p.Err.Answers) != 2 || p.Err.Answers[0].Reason != "it is 5" {
		t.Errorf("failure = %+v", p.Err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	loop := koogFlow(`{"name":"a","type":"transform"},{"name":"b","type":"transform"}`,
		`{"from":"a","to":"b"},{"from":"b","to":"a","condition":{"variable":"input.data","operation":"not_equals","value":"x"}},{"from":"b","to":"__finish__"}`)
	p := harness.TestRun{Document: loop, Input: "y", Script: "rules: [{say: x}]"}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassStepLimit {
		t.Errorf("an endless loop: %v", p.Err)
	}
	turns := koogFlow(`{"name":"a","type":"task","config":{"maxIterations":3},"params":{"task":"t","toolNames":["search"]}}`, "")
	turns = strings.Replace(turns, `"agents"`, `"tools":[{"name":"web","type":"mcp","parameters":{"transport":"http","url":"http://localhost:1/"}}],"agents"`, 1)
	p = harness.TestRun{Document: turns, Script: "rules: [{call: [{tool: search}]}]", Tools: exampleTools,
		SetInput: func(in *contract.RunInput) { in.DataConnections = []contract.DataConnection{{ID: "web"}} }}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassTurnLimit || p.Err.Node != "a" || !strings.Contains(p.Err.Text, "3 model calls") {
		t.Errorf("too many turns: %v", p.Err)
	}
	if p.Status.Usage.Calls != 3 {
		t.Errorf("%d model calls, want 3", p.Status.Usage.Calls)
	}
	p = harness.TestRun{Document: koogFlow(`{"name":"a","type":"task","params":{"task":"t"}}`, ""), Script: "rules: [{say: I will not}]"}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassNoFinish || p.Status.Usage.Calls != 4 {
		t.Errorf("a model that calls no tool: %v after %d calls", p.Err, p.Status.Usage.Calls)
	}
}

// TestInvalidValues checks that a value of an invalid shape fails the node that reads it, with its position.
func TestInvalidValues(t *testing.T) {
	t.Parallel()
	doc := koogFlow(`{"name":"a","type":"transform","params":{"transformations":[{"value":"input.feedback"}]}}`, "")
	p := harness.TestRun{Document: doc, Input: "no critique", Script: "rules: [{say: x}]"}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassInvalidValue || p.Err.At != "flow.json:2" || !strings.Contains(p.Err.Text, `the value "no critique" has no feedback`) {
		t.Errorf("failure = %+v", p.Err)
	}
	p = harness.TestRun{Document: doc, Script: "rules: [{say: x}]", SetInput: func(i *contract.RunInput) { i.Value = json.RawMessage(`null`) }}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassBadRequest || !strings.Contains(p.Err.Text, "the run's value: the value is null") {
		t.Errorf("null value: %v", p.Err)
	}
	p = harness.TestRun{Document: doc, Script: "rules: [{say: x}]", SetInput: func(i *contract.RunInput) {
		i.State = map[string]json.RawMessage{"$value": json.RawMessage(`1`)}
	}}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassBadRequest || !strings.Contains(p.Err.Text, `the key "$value"`) {
		t.Errorf("a state with a reserved key: %v", p.Err)
	}
	if _, err := contract.ReadInput(json.RawMessage(`{"v":1,"flow":{"name":"x"},"input":"a","value":1}`)); err == nil || !strings.Contains(err.Error(), "mutually exclusive") {
		t.Errorf("an input with a text and a value: %v", err)
	}
	p = harness.TestRun{Document: harness.OneNode(""), Script: "rules: [{say: x}]", SetInput: func(i *contract.RunInput) { i.Value = json.RawMessage(`1`) }}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassBadRequest || !strings.Contains(p.Err.Text, "accepts text only") {
		t.Errorf("a typed value for a flow that accepts text: %v", p.Err)
	}
}

// modelRequest is a request that the model server received.
type modelRequest struct {
	Model       string
	Temperature *float64
	TopP        *float64 `json:"top_p"`
	MaxTokens   int      `json:"max_tokens"`
	Messages    []struct{ Role, Content string }
	Tools       []struct{ Function struct{ Name string } }
	ToolChoice  json.RawMessage `json:"tool_choice"`
}

// newModelServer serves models that return the number of the call as their final result, and records
// the requests.
func newModelServer(t *testing.T) (*llm.Models, *[]modelRequest) {
	var mu sync.Mutex
	var all []modelRequest
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var in modelRequest
		if err := json.Unmarshal(raw, &in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		all = append(all, in)
		n := len(all)
		mu.Unlock()
		call := map[string]any{"id": fmt.Sprint("c", n), "type": "function", "function": map[string]any{"name": "finalize_task_result", "arguments": fmt.Sprintf(`{"value":%d}`, n)}}
		_ = json.NewEncoder(w).Encode(map[string]any{"model": in.Model, "choices": []any{map[string]any{
			"message": map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{call}}, "finish_reason": "tool_calls"}}})
	}))
	t.Cleanup(srv.Close)
	models, err := llm.Open(llm.Settings{Providers: map[string]llm.ProviderSettings{"mine": {Kind: "compatible", BaseURL: srv.URL, Unary: true}}})
	if err != nil {
		t.Fatal(err)
	}
	return models, &all
}

// TestEachAgentsOwnConfig checks that requests contain the agent's own model, prompt and config, the
// run's input and the outputs of previous agents.
func TestEachAgentsOwnConfig(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(koogFlow(
		`{"name":"a","type":"task","prompt":{"system":"S1","user":"U1"},"config":{"temperature":0,"topP":0.5,"maxTokens":9,"toolChoice":"auto"},"params":{"task":"T1"}},
{"name":"b","type":"task","model":"mine/other","prompt":{"system":"S2"},"config":{"toolChoice":{"toolName":"finalize_task_result"}},"params":{"task":"T2"}},
{"name":"c","type":"task","params":{"task":"T3"}}`, ""), `"agents"`, `"defaultModel":"mine/default","agents"`, 1)
	models, all := newModelServer(t)
	p := harness.TestRun{Document: doc, Input: "the input", Models: models, SetInput: func(in *contract.RunInput) { in.Model = "" }}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if got := string(p.Result.ResultData); got != "3" || len(*all) != 3 {
		t.Fatalf("result is %s after %d calls, want 3 after 3 calls", got, len(*all))
	}
	a, b, c := (*all)[0], (*all)[1], (*all)[2]
	if a.Model != "default" || b.Model != "other" || c.Model != "default" {
		t.Errorf("models are %s, %s, %s", a.Model, b.Model, c.Model)
	}
	if a.Temperature == nil || *a.Temperature != 0 || a.TopP == nil || *a.TopP != 0.5 || a.MaxTokens != 9 || b.Temperature != nil || b.MaxTokens != 0 {
		t.Errorf("parameters are %+v and %+v", a, b)
	}
	choices := []string{string(a.ToolChoice), string(b.ToolChoice), string(c.ToolChoice)}
	if !slices.Equal(choices, []string{`"auto"`, `{"type":"function","function":{"name":"finalize_task_result"}}`, `"required"`}) {
		t.Errorf("tool choices are %v", choices)
	}
	if a.Messages[0].Content != "S1" || b.Messages[0].Content != "S2" || c.Messages[0].Role != "user" {
		t.Errorf("system prompts are %+v, %+v, %+v", a.Messages, b.Messages, c.Messages)
	}
	if got := a.Messages[1].Content; got != "U1\n\nT1\n\n<input>\nthe input\n</input>" {
		t.Errorf("prompt of the first agent = %q", got)
	}
	if got := c.Messages[0].Content; got != "T3\n\n<input>\nthe input\n</input>\n\n<output node=\"a\">\n1\n</output>\n\n<previous-result>\n2\n</previous-result>" {
		t.Errorf("prompt of the last agent = %q", got)
	}
}

// TestUnknownProvidersOfAgents checks that unknown providers fail the run before its first model call, and that all are listed.
func TestUnknownProvidersOfAgents(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(koogFlow(`{"name":"a","type":"task","params":{"task":"T1"}},{"name":"b","type":"task","model":"mien/other","params":{"task":"T2"}},
{"name":"c","type":"task","model":"yours/third","params":{"task":"T3"}}`, ""), `"agents"`, `"defaultModel":"mine/default","agents"`, 1)
	models, all := newModelServer(t)
	f := harness.TestRun{Document: doc, Input: "hi", Models: models, SetInput: func(in *contract.RunInput) { in.Model = "" }}.Execute(t).Err
	if f == nil || f.Class != contract.ClassBadRequest || f.Node != "b" || f.At == "" || !strings.Contains(f.Text, `unknown provider "mien"; available providers: `) || f.Remedy == "" {
		t.Errorf("run failed with %+v", f)
	}
	if f != nil && (len(f.Diagnostics) != 2 || !strings.Contains(f.Diagnostics[1], `"yours"`)) {
		t.Errorf("diagnostics = %q", f.Diagnostics)
	}
	if len(*all) != 0 {
		t.Errorf("%d model calls, want none", len(*all))
	}
	scripted := harness.TestRun{Document: doc, Input: "hi", Models: models}.Execute(t)
	if scripted.Err != nil {
		t.Errorf("with the scripted model the run failed: %v", scripted.Err)
	}
}

// TestOutputsOfParallelAgents checks that prompts list previous outputs by agent, with the merged output of a parallel agent only after it has ended.
func TestOutputsOfParallelAgents(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(koogFlow(`{"name":"start","type":"task","params":{"task":"S"}},
{"name":"p","type":"parallel","params":{"agents":["a"]}},{"name":"a","type":"task","params":{"task":"A"}},
{"name":"mid","type":"task","params":{"task":"M"}},{"name":"end","type":"task","params":{"task":"E"}}`,
		`{"from":"start","to":"p"},{"from":"p","to":"mid"},{"from":"mid","to":"end"}`), `"agents"`, `"defaultModel":"mine/default","agents"`, 1)
	models, all := newModelServer(t)
	if p := (harness.TestRun{Document: doc, Input: "hi", Models: models, SetInput: func(in *contract.RunInput) { in.Model = "" }}).Execute(t); p.Err != nil {
		t.Fatal(p.Err)
	}
	var prompts []string
	for _, in := range *all {
		prompts = append(prompts, strings.Join(strings.Fields(in.Messages[0].Content), " "))
	}
	merged := `[{"name":"a","output":2}]`
	want := []string{"S <input> hi </input>",
		"A <input> hi </input> <previous-result> 1 </previous-result>",
		`M <input> hi </input> <output node="start"> 1 </output> <output node="a"> 2 </output> <previous-result> ` + merged + " </previous-result>",
		`E <input> hi </input> <output node="start"> 1 </output> <output node="a"> 2 </output> <output node="p"> ` + merged + " </output> <previous-result> 3 </previous-result>"}
	if diff := cmp.Diff(want, prompts); diff != "" {
		t.Errorf("prompts (-want +got):\n%s", diff)
	}
}

// TestKoogTools checks the tools of a flow: a function of the worker, the tools of a server, a
// command that needs the operator's permission, and names that no connection offers.
func TestKoogTools(t *testing.T) {
	t.Parallel()
	local := strings.Replace(koogFlow(`{"name":"a","type":"task","params":{"task":"t"}}`, ""), `"agents"`,
		`"tools":[{"name":"double","type":"local","parameters":{"fqn":"com.example.Double"}}],"agents"`, 1)
	double := tool.Func("double", "doubles a number", func(_ context.Context, in struct {
		N int `json:"n"`
	}) (int, error) {
		return 2 * in.N, nil
	})
	p := harness.TestRun{Document: local, Functions: []tool.Function{double}, Script: `rules:
- {turn: 1, call: [{tool: double, arguments: {n: 21}}]}
- {after: double, match: "42", call: [{tool: finalize_task_result, arguments: {value: 42}}]}`}.Execute(t)
	if p.Err != nil || string(p.Result.ResultData) != "42" {
		t.Errorf("a function of the worker: %v, %v", p.Err, p.Result)
	}
	stdio := strings.Replace(koogFlow(`{"name":"a","type":"task","params":{"task":"t"}}`, ""), `"agents"`,
		`"tools":[{"name":"run","type":"mcp","parameters":{"transport":"stdio","command":"no-such-server","args":["x"]}}],"agents"`, 1)
	p = harness.TestRun{Document: stdio, Script: "rules: [{say: x}]"}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassConnection || !strings.Contains(p.Err.Text, "the operator has not allowed") || !strings.Contains(p.Err.Text, "allow_commands") {
		t.Errorf("a command that is not allowed: %v", p.Err)
	}
	p = harness.TestRun{Document: stdio, Script: "rules: [{say: x}]", ToolSettings: tool.Settings{AllowCommands: []string{"no-such-server"}}}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassConnection || !strings.Contains(p.Err.Text, "not found in PATH") {
		t.Errorf("a command that is allowed: %v", p.Err)
	}
	both := strings.Replace(koogFlow(`{"name":"p","type":"parallel","params":{"agents":["a","b"]}},{"name":"a","type":"task","params":{"task":"t"}},{"name":"b","type":"task","params":{"task":"t","toolNames":["greeting"]}}`, ""),
		`"agents"`, `"tools":[{"name":"g","type":"mcp","parameters":{"transport":"sse","url":"`+greetings(t)+`/sse"}}],"agents"`, 1)
	p = harness.TestRun{Document: both, ToolSettings: tool.Settings{AllowPrivate: true}, Script: `rules:
- {node: p.a, turn: 1, call: [{tool: greeting, arguments: {name: A}}]}
- {node: p.a, after: greeting, match: "Hello, A!", call: [{tool: finalize_task_result, arguments: {value: a}}]}
- {node: p.b, turn: 1, call: [{tool: empty}, {tool: greeting, arguments: {name: B}}]}
- {node: p.b, match: "Hello, B!", call: [{tool: finalize_task_result, arguments: {value: b}}]}`}.Execute(t)
	if want := `[{"name":"a","output":"a"},{"name":"b","output":"b"}]`; p.Err != nil || string(p.Result.ResultData) != want {
		t.Errorf("parallel agents with tools: %v, %v", p.Err, p.Result)
	}
	missing := strings.Replace(koogFlow(`{"name":"a","type":"task","params":{"task":"t","toolNames":["greeting","nothing"]}}`, ""), `"agents"`,
		`"tools":[{"name":"g","type":"mcp","parameters":{"transport":"sse","url":"`+greetings(t)+`/sse"}}],"agents"`, 1)
	p = harness.TestRun{Document: missing, Script: "rules: [{say: x}]", ToolSettings: tool.Settings{AllowPrivate: true}}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassConnection || !strings.Contains(p.Err.Text, `the tool "nothing" of node "a" is offered by none of its connections g; they offer: empty, greeting`) {
		t.Errorf("a tool that no connection offers: %v", p.Err)
	}
}

// TestCallsOfOneReply checks that the tool calls of one model reply run concurrently, but sequentially in the profile koog.
func TestCallsOfOneReply(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(koogFlow(`{"name":"a","type":"task","params":{"task":"t"}}`, ""), `"agents"`,
		`"defaultModel":"openai/gpt-4o","tools":[{"name":"web","type":"mcp","parameters":{"transport":"sse","url":"http://localhost:1/"}}],"agents"`, 1)
	for profile, want := range map[string]int32{"default": 2, "koog": 1} {
		var running, most atomic.Int32
		slow := func(args string) (string, bool) {
			most.Store(max(most.Load(), running.Add(1)))
			for end := time.Now().Add(10 * time.Second); most.Load() < want && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(200 * time.Millisecond)
			running.Add(-1)
			return args, false
		}
		p := harness.TestRun{Document: doc, Profile: profile, Tools: map[string]func(string) (string, bool){"one": slow, "two": slow}, Script: `rules:
- {turn: 1, call: [{tool: one, arguments: {n: 1}}, {tool: two, arguments: {n: 2}}]}
- {call: [{tool: finalize_task_result, arguments: {__wrapped_value__: done}}]}`,
			SetInput: func(in *contract.RunInput) { in.DataConnections = []contract.DataConnection{{ID: "web"}} }}.Execute(t)
		if p.Err != nil || *p.Result.ResultText != "done" || most.Load() != want {
			t.Errorf("profile %s: %v, %d concurrent calls, want %d", profile, p.Err, most.Load(), want)
		}
	}
}

// TestKoogHeaders checks that the headers in a flow are sent to its server.
func TestKoogHeaders(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 100)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("X-Tenant")
		http.Error(w, "no", http.StatusNotFound)
	}))
	t.Cleanup(proxy.Close)
	doc := strings.Replace(koogFlow(`{"name":"a","type":"task","params":{"task":"t"}}`, ""), `"agents"`,
		`"tools":[{"name":"g","type":"mcp","parameters":{"transport":"sse","url":"`+proxy.URL+`/sse","headers":{"X-Tenant":"blue"}}}],"agents"`, 1)
	p := harness.TestRun{Document: doc, Script: "rules: [{say: x}]", ToolSettings: tool.Settings{AllowPrivate: true}}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassConnection {
		t.Errorf("failure = %v", p.Err)
	}
	if got := <-seen; got != "blue" {
		t.Errorf("header = %q, want blue", got)
	}
}

// TestChoiceOfNone checks that an agent whose tool choice is none can still return its result, and
// that a result may name its type.
func TestChoiceOfNone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ agent, script, want string }{
		"task agent":                    {`{"name":"a","type":"task","config":{"toolChoice":"none"},"params":{"task":"t"}}`, `{say: words}`, `"words"`},
		"verify agent":                  {`{"name":"a","type":"verify","config":{"toolChoice":"none"},"params":{"task":"t"}}`, `{call: [{tool: finalize_task_result, arguments: {isCorrect: true}}]}`, `{"success":true,"feedback":"","input":"x"}`},
		"output schema":                 {`{"name":"a","type":"task","config":{"toolChoice":"none"},"params":{"task":"t"},"output":{"schema":{"type":"integer"}}}`, `{call: [{tool: finalize_task_result, arguments: {value: 3}}]}`, `3`},
		"known type":                    {`{"name":"a","type":"task","params":{"task":"t"}}`, `{call: [{tool: finalize_task_result, arguments: {value: {type: double, data: 3}}}]}`, `3.0`},
		"unknown type":                  {`{"name":"a","type":"task","params":{"task":"t"}}`, `{call: [{tool: finalize_task_result, arguments: {value: {type: invoice, data: 3}}}]}`, `{"type":"invoice","data":3}`},
		"type as a field of the schema": {`{"name":"a","type":"task","params":{"task":"t"},"output":{"schema":{"type":"object"}}}`, `{call: [{tool: finalize_task_result, arguments: {value: {type: int, data: 3}}}]}`, `{"type":"int","data":3}`},
	}
	for name, tc := range tests {
		p := harness.TestRun{Document: koogFlow(tc.agent, ""), Input: "x", Script: "rules: [" + tc.script + "]"}.Execute(t)
		switch {
		case p.Err != nil:
			t.Errorf("%s: %v", name, p.Err)
		case p.Result.ResultText != nil && fmt.Sprintf("%q", *p.Result.ResultText) != tc.want, p.Result.ResultText == nil && string(p.Result.ResultData) != tc.want:
			t.Errorf("%s: result is %s, want %s", name, harness.ResultText(p.Result), tc.want)
		case p.Status.Usage.Calls != 1:
			t.Errorf("%s: %d model calls, want 1", name, p.Status.Usage.Calls)
		}
	}
}

// TestSchemaUnderEachName checks that a value with a schema is accepted under each argument name of finalize_task_result.
func TestSchemaUnderEachName(t *testing.T) {
	t.Parallel()
	doc := koogFlow(`{"name":"a","type":"task","params":{"task":"t"},"output":{"schema":"{\"type\":\"integer\",\"minimum\":3}"}}`, "")
	for _, key := range []string{"value", "__wrapped_value__"} {
		p := harness.TestRun{Document: doc, Input: "x", Script: fmt.Sprintf(`rules:
- {turn: 1, call: [{tool: finalize_task_result, arguments: {%[1]s: 1}}]}
- {turn: 2, after: finalize_task_result, match: "minimum|3", call: [{tool: finalize_task_result, arguments: {%[1]s: 4}}]}`, key)}.Execute(t)
		if p.Err != nil || string(p.Result.ResultData) != "4" {
			t.Errorf("%s: %+v, %v", key, p.Result, p.Err)
		}
	}
}

// TestTransformationOfCompleteValue checks that a transformation can select the complete value.
func TestTransformationOfCompleteValue(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "input", "output", "input.data"} {
		doc := koogFlow(`{"name":"a","type":"transform","params":{"transformations":[{"value":"`+text+`"}]}}`, "")
		if p := (harness.TestRun{Document: doc, Input: "x"}).Execute(t); p.Err != nil || *p.Result.ResultText != "x" {
			t.Errorf("%q: %+v, %v", text, p.Result, p.Err)
		}
	}
}

// TestTypedInput checks that the value of a run may have an explicit type, and that long integers keep their digits.
func TestTypedInput(t *testing.T) {
	t.Parallel()
	doc := koogFlow(`{"name":"a","type":"transform"}`, "")
	for in, want := range map[string]string{
		`{"type":"int","data":7}`: `7`, `{"type":"double","data":7}`: `7.0`, `{"type":"array_int","data":[1,2]}`: `[1,2]`,
		`{"type":"critique","success":true,"feedback":"f","input":{"type":"int","data":1}}`: `{"success":true,"feedback":"f","input":1}`,
		`18446744073709551617`: `18446744073709551617`, `{"type":"colour","data":7}`: `{"type":"colour","data":7}`,
	} {
		p := harness.TestRun{Document: doc, SetInput: func(r *contract.RunInput) { r.Value = json.RawMessage(in) }}.Execute(t)
		if p.Err != nil || string(p.Result.ResultData) != want {
			t.Errorf("%s: %+v, %v, want %s", in, p.Result, p.Err, want)
		}
	}
	for in, want := range map[string]string{`{"type":"int","data":"x"}`: `"type": "int`, `1e999`: "out of the range of a double"} {
		p := harness.TestRun{Document: doc, SetInput: func(r *contract.RunInput) { r.Value = json.RawMessage(in) }}.Execute(t)
		if harness.FailureClass(p.Err) != contract.ClassBadRequest || !strings.Contains(p.Err.Text, want) {
			t.Errorf("%s: %v", in, p.Err)
		}
	}
}
