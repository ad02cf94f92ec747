package dialects

import (
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

func TestMaxIterations(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	p := harness.TestRun{
		Document: harness.OneNode(harness.SearchTool + `,"max_iterations":3`),
		Script: `rules:
- {node: a, turn: 1, call: [{tool: search, arguments: {n: 1}}, {tool: list_state_keys}]}
- {node: a, turn: 2, call: [{tool: search, arguments: {n: 2}}, {tool: search, arguments: {n: 3}}]}
- {node: a, turn: 3, say: final}`,
		Tools: map[string]func(string) (string, bool){"search": func(args string) (string, bool) {
			calls.Add(1)
			return "found " + args, false
		}},
	}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if calls.Load() != 2 || *p.Result.ResultText != "final" || !p.Result.ExitOutputs[0].Exhausted {
		t.Errorf("%d calls, result %q, exhausted %v", calls.Load(), *p.Result.ResultText, p.Result.ExitOutputs[0].Exhausted)
	}
	want := []string{`found {"n":1}`, `[]`, `found {"n":2}`, `!max_iterations reached`}
	if diff := cmp.Diff(want, toolReplies(t, p, "a#1")); diff != "" {
		t.Errorf("replies (-want +got):\n%s", diff)
	}
}

func TestToolErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script  string
		class   string
		replies []string
	}{
		"three consecutive failures": {
			script: `rules: [{node: a, call: [{tool: search}]}]`, class: contract.ClassToolErrors,
			replies: []string{"!broken", "!broken", "!broken"},
		},
		"a success resets the count": {
			script: `rules:
- {turn: 1, call: [{tool: search}, {tool: search}]}
- {turn: 2, call: [{tool: list_state_keys}, {tool: search}]}
- {say: done}`,
			replies: []string{"!broken", "!broken", "[]", "!broken"},
		},
		"an unknown tool and invalid arguments": {
			script: `rules:
- {turn: 1, call: [{tool: nothing}, {tool: search, raw: "[1"}]}
- {say: done}`,
			replies: []string{
				"!unknown tool \"nothing\"; available tools: get_state, set_state, set_state_filtered, list_state_keys, get_chat_history, call_sub_agent, search",
				"!arguments of search must be a JSON object: unexpected end of JSON input; call it again with an object",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := harness.TestRun{Document: harness.OneNode(harness.SearchTool), Script: tc.script, Tools: map[string]func(string) (string, bool){
				"search": func(string) (string, bool) { return "broken", true },
			}}.Execute(t)
			if got := harness.FailureClass(p.Err); got != tc.class {
				t.Fatalf("class = %q, want %q: %v", got, tc.class, p.Err)
			}
			if tc.class != "" && (p.Err.Node != "a" || p.Err.At != "flow.json:2") {
				t.Errorf("failure at node %q, %q", p.Err.Node, p.Err.At)
			}
			if diff := cmp.Diff(tc.replies, toolReplies(t, p, "a#1")); diff != "" {
				t.Errorf("replies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestToolFailures(t *testing.T) {
	t.Parallel()
	script := `rules: [{turn: 1, call: [{tool: search}]}, {say: done}]`
	big := map[string]func(string) (string, bool){"search": func(string) (string, bool) { return strings.Repeat("x", 20_000), false }}
	p := harness.TestRun{Document: harness.OneNode(harness.SearchTool), Script: script, Tools: big}.Execute(t)
	if p.Err != nil {
		t.Fatalf("an oversized result failed the run: %v", p.Err)
	}
	if got := toolReplies(t, p, "a#1"); len(got) != 1 || !strings.HasPrefix(got[0], "!") || !strings.Contains(got[0], "10000") {
		t.Errorf("replies = %.200v", got)
	}
	p = harness.TestRun{Document: harness.OneNode(harness.SearchTool), Script: script, Tools: big, Denied: true,
		SetInput: func(in *contract.RunInput) { in.OnError = contract.OnErrorFail }}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassDenied || p.Err.Node != "a" || p.Err.Remedy == "" {
		t.Errorf("failure = %+v, want class %s with a remedy", p.Err, contract.ClassDenied)
	}
}

func TestMissingToolsAreReportedTogether(t *testing.T) {
	t.Parallel()
	p := harness.TestRun{
		Document: harness.OneNode(`,"tools":[{"name":"x","data_connection_id":"web"},
{"name":"y","data_connection_id":"web"}]`),
		Script: `rules: [{say: done}]`,
	}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassConnection || len(p.Err.Diagnostics) != 2 {
		t.Fatalf("failure = %+v", p.Err)
	}
	for i, want := range []string{`flow.json:2: tool "x"`, `flow.json:3: tool "y"`} {
		if !strings.HasPrefix(p.Err.Diagnostics[i], want) {
			t.Errorf("diagnostic %d = %q, want %q", i, p.Err.Diagnostics[i], want)
		}
	}
	if len(p.Status.Executions) != 0 {
		t.Error("a node ran")
	}
}

func TestStateTools(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	p := harness.TestRun{
		Document: harness.OneNode(""),
		Script: `rules:
- {kind: condense, say: '{"short": true}'}
- turn: 1
  call:
  - {tool: set_state, arguments: {key: b, value: {n: 12345678901234567890}}}
  - {tool: get_state, arguments: {keys: [b, nope]}}
  - {tool: get_state, arguments: {keys: inputData}}
  - {tool: set_state, arguments: {key: b, value: 2}}
  - {tool: list_state_keys}
  - {tool: set_state_filtered, arguments: {key: small, value: tiny}}
  - {tool: set_state_filtered, arguments: {key: big, value: ` + long + `}}
  - {tool: set_state, arguments: {key: ""}}
  - {tool: get_chat_history}
- {say: done}`,
		SetInput: func(in *contract.RunInput) {
			in.State = map[string]json.RawMessage{"inputData": json.RawMessage(`[1, 2]`)}
			in.History = []contract.ChatMessage{{Role: "user", Content: "before"}}
		},
	}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	want := []string{"ok", `{"b":{"n":12345678901234567890},"nope":null}`, `{"inputData":[1,2]}`, "ok", `["b","inputData"]`, "ok", "ok",
		`!expected {"key": "name", "value": any JSON}`, ""}
	if diff := cmp.Diff(want, toolReplies(t, p, "a#1")); diff != "" {
		t.Errorf("replies (-want +got):\n%s", diff)
	}
	for key, want := range map[string]string{"b": "2", "small": `"tiny"`, "big": `{"short":true}`} {
		if got := string(p.State[key]); got != want {
			t.Errorf("state %q = %s, want %s", key, got, want)
		}
	}
	var page contract.TranscriptPage
	harness.Query(t, p.Env, contract.QueryTranscript, &page, contract.TranscriptQuery{Thread: "chat"})
	if len(page.Messages) != 1 || !strings.Contains(string(page.Messages[0]), "before") {
		t.Errorf("chat history = %s", page.Messages)
	}
}

func TestStateSizeLimit(t *testing.T) {
	t.Parallel()
	p := harness.TestRun{Document: harness.OneNode(""), Script: `rules:
- {turn: 1, call: [{tool: set_state, arguments: {key: k, value: ` + strings.Repeat("v", 1<<20) + `}}]}
- {say: done}`}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if got := toolReplies(t, p, "a#1"); len(got) != 1 || !strings.HasPrefix(got[0], "!the state would hold 1048579 bytes, at most 1048576") {
		t.Errorf("replies = %.200v", got)
	}
}

func TestBlueprintFormat(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(harness.OneNode(""), `{"type":1}`,
		`{"type":2,"payload":{"format":"json","output_schema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}}`, 1)
	tests := map[string]struct {
		script string
		data   string
		class  string
		errs   []contract.FieldError
		calls  int
	}{
		"valid output":                 {script: `rules: [{say: "{\"n\": 1}"}]`, data: `{"n":1}`, calls: 1},
		"valid output in a code block": {script: "rules: [{say: \"Here:\\n```json\\n{\\\"n\\\": 2}\\n```\"}]", data: `{"n":2}`, calls: 1},
		"valid after a retry":          {script: `rules: [{turn: 1, say: "{\"n\": \"x\"}"}, {match: "'x' is not of type 'integer'", say: "{\"n\": 3}"}]`, data: `{"n":3}`, calls: 2},
		"invalid twice":                {script: `rules: [{say: "{}"}]`, class: contract.ClassOutputSchema, errs: []contract.FieldError{{Path: "$", Message: "'n' is a required property", SchemaPath: "required"}}, calls: 2},
		"no JSON twice":                {script: `rules: [{say: sorry}]`, class: contract.ClassOutputSchema, errs: []contract.FieldError{{Path: "$", Message: "No JSON output found but output_schema requires structured output"}}, calls: 2},
		"empty output, no retry":       {script: `rules: [{say: ""}]`, class: contract.ClassOutputSchema, calls: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := harness.TestRun{Document: doc, Script: tc.script}.Execute(t)
			if got := harness.FailureClass(p.Err); got != tc.class {
				t.Fatalf("class = %q, want %q: %v", got, tc.class, p.Err)
			}
			if p.Status.Usage.Calls != tc.calls {
				t.Errorf("%d model calls, want %d", p.Status.Usage.Calls, tc.calls)
			}
			if tc.class != "" {
				if diff := cmp.Diff(tc.errs, p.Err.Errors); diff != "" {
					t.Errorf("errors (-want +got):\n%s", diff)
				}
				return
			}
			if string(p.Result.ResultData) != tc.data || p.Result.ResultText != nil {
				t.Errorf("data = %s, text = %v", p.Result.ResultData, p.Result.ResultText)
			}
		})
	}
}

// TestBlueprintFormatWithoutExitNode checks that the output format applies to the node that supplies the result, and to no other.
func TestBlueprintFormatWithoutExitNode(t *testing.T) {
	t.Parallel()
	const doc = `{"name":"two","response_format":{"type":2,"payload":{"format":"json","output_schema":{"type":"object","required":["n"]}}},
"nodes":[{"id":"a","name":"A","prompt":"p"},{"id":"b","name":"B","prompt":"p"}],
"edges":[{"id":"1","source":"START","target":"a"},{"id":"2","source":"a","target":"b"},{"id":"3","source":"b","target":"END"}]}`
	p := harness.TestRun{Document: doc, Script: `rules: [{node: a, say: words}, {node: b, turn: 1, say: words}, {node: b, say: "{\"n\": 1}"}]`}.Execute(t)
	if p.Err != nil || string(p.Result.ResultData) != `{"n":1}` || p.Status.Usage.Calls != 3 {
		t.Errorf("result = %+v, %v, %d calls", p.Result, p.Err, p.Status.Usage.Calls)
	}
	p = harness.TestRun{Document: doc, Script: `default: {say: words}`}.Execute(t)
	if harness.FailureClass(p.Err) != contract.ClassOutputSchema {
		t.Errorf("result = %+v, %v", p.Result, p.Err)
	}
}

func TestSubAgents(t *testing.T) {
	t.Parallel()
	inline := `{"name":"Inline","nodes":[{"id":"i","name":"I","prompt":"p"}],"edges":[{"id":"e1","source":"START","target":"i"},{"id":"e2","source":"i","target":"END"}]}`
	tests := map[string]struct {
		doc, script string
		replies     []string
		usage       int
	}{
		"defined in the document": {
			doc: harness.SubAgentFlow,
			script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: "why?"}}]}
- {node: s, match: "^why", say: because}
- {node: a, say: done}`,
			replies: []string{"because"}, usage: 3,
		},
		"two concurrent, replies in order": {
			doc: harness.SubAgentFlow,
			script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: slow}}, {tool: call_sub_agent, arguments: {user_question: fast}}]}
- {node: s, match: slow, delay: 30ms, say: first}
- {node: s, say: second}
- {node: a, say: done}`,
			replies: []string{"first", "second"}, usage: 4,
		},
		"nesting limit": {
			doc: harness.SubAgentFlow,
			script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: deep}}]}
- {node: s, after: call_sub_agent, match: nest, say: bottom}
- {node: s, after: call_sub_agent, say: up}
- {node: s, call: [{tool: call_sub_agent, arguments: {user_question: deeper}}]}
- {node: a, say: done}`,
			replies: []string{"up"}, usage: 12,
		},
		"defined by the model": {
			doc: harness.OneNode(""),
			script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: q, agent_def: ` + inline + `}}]}
- {node: i, say: inline answer}
- {node: a, say: done}`,
			replies: []string{"inline answer"}, usage: 3,
		},
		"invalid definition": {
			doc: harness.OneNode(""),
			script: `rules:
- {node: a, turn: 1, call: [{tool: call_sub_agent, arguments: {user_question: q, agent_def: {name: X, nodes: [{id: i, name: I, prompt: p}], edges: []}}}]}
- {node: a, say: done}`,
			replies: []string{"!the sub-agent failed: the document has errors"}, usage: 2,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := harness.TestRun{Document: tc.doc, Script: tc.script}.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			got := toolReplies(t, p, "a#1")
			for i := range got {
				got[i], _, _ = strings.Cut(got[i], "\n")
			}
			if diff := cmp.Diff(tc.replies, got); diff != "" {
				t.Errorf("replies (-want +got):\n%s", diff)
			}
			if p.Result.Usage.Calls != tc.usage {
				t.Errorf("%d model calls, want %d", p.Result.Usage.Calls, tc.usage)
			}
		})
	}
}

func TestLaterNodesSeeEarlierOutputs(t *testing.T) {
	t.Parallel()
	p := harness.TestRun{
		Input: "the question",
		Document: `{"name":"two","nodes":[
{"id":"b","name":"Second","prompt":"p","is_exit_node":true},{"id":"a","name":"First","prompt":"p"}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"b"},{"id":"e3","source":"b","target":"END"}]}`,
		Script: `rules:
- {node: a, match: "^the question$", say: from a}
- {node: b, match: "^the question\n\n<output node=\"First\">\nfrom a\n</output>$", say: seen}`,
	}.Execute(t)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if *p.Result.ResultText != "seen" {
		t.Errorf("result = %q", *p.Result.ResultText)
	}
}

func TestStateAtJoin(t *testing.T) {
	t.Parallel()
	for _, slow := range []string{"a", "b"} {
		t.Run("slow "+slow, func(t *testing.T) {
			p := harness.TestRun{Document: harness.ForkAndJoin, Script: `rules:
- {node: a, turn: 1, call: [{tool: set_state, arguments: {key: k, value: from a}}, {tool: set_state, arguments: {key: only-a, value: 1}}]}
- {node: b, turn: 1, call: [{tool: set_state, arguments: {key: k, value: from b}}]}
- {node: ` + slow + `, turn: 2, delay: 50ms, say: done}
- {node: j, turn: 1, call: [{tool: get_state, arguments: {keys: [k, only-a]}}]}
- {say: done}`}.Execute(t)
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			if got := toolReplies(t, p, "j#2"); !slices.Equal(got, []string{`{"k":"from b","only-a":1}`}) {
				t.Errorf("state at the join = %v", got)
			}
			if len(p.Status.Conflicts) != 1 || p.Status.Conflicts[0].Kept.Exec != "b#1" || string(p.Status.Conflicts[0].Value) != `"from a"` {
				t.Errorf("conflicts = %+v", p.Status.Conflicts)
			}
		})
	}
}

func TestOutcomesWithoutResult(t *testing.T) {
	t.Parallel()
	loop := `{"name":"loop","nodes":[{"id":"a","name":"A","prompt":"p"},{"id":"x","name":"X","prompt":"p","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"again","source":"a","target":"a","condition_prompt":"again?"},
{"id":"out","source":"a","target":"x","condition_prompt":"done?"},{"id":"e4","source":"x","target":"END"}]}`
	tests := map[string]struct {
		document string
		script   string
		class    string
		text     string
	}{
		"an end without an exit node": {
			document: `{"name":"ends","nodes":[{"id":"a","name":"A","prompt":"p"},{"id":"x","name":"X","prompt":"p","is_exit_node":true}],
"edges":[{"id":"e1","source":"START","target":"a"},{"id":"e2","source":"a","target":"END"},{"id":"out","source":"a","target":"x","condition_prompt":"done?"},{"id":"e4","source":"x","target":"END"}]}`,
			script: `rules: [{kind: judge, yes: false, reason: because}, {say: ok}]`, class: contract.ClassNoExit,
			text: `node "a" at step 1 (flow.json:1): the run ended before an exit node ran; no edge was taken after [a#1]; a#1 "done?": no; add an edge`,
		},
		"no condition is met": {
			script: `rules: [{kind: judge, yes: false, reason: because}, {say: ok}]`, class: contract.ClassNoExit,
			text: `node "a" at step 1 (flow.json:1): the run ended before an exit node ran; no condition was met after [a#1]; a#1 "again?": no; a#1 "done?": no`,
		},
		"an endless loop": {
			script: `rules: [{question: "again?", yes: true}, {question: "done?", yes: false}, {say: ok}]`, class: contract.ClassStepLimit,
			text: `node "a" at step 26 (flow.json:1): the run would exceed its limit of 25 steps`,
		},
		"an unparsable judge answer": {
			script: `rules: [{question: "again?", say: perhaps}, {kind: judge, yes: true}, {say: ok}]`, class: contract.ClassConditionUnparsable,
			text: `node "a" at step 1 (flow.json:1): the question "again?" was answered "perhaps", neither yes nor no`,
		},
		"a script without a matching rule": {
			script: `rules: [{node: x, say: ok}]`, class: contract.ClassBadRequest, text: `node "a" at step 1 (flow.json:1): `,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.document == "" {
				tc.document = loop
			}
			p := harness.TestRun{Document: tc.document, Script: tc.script}.Execute(t)
			if harness.FailureClass(p.Err) != tc.class {
				t.Fatalf("class = %q, want %q: %v", harness.FailureClass(p.Err), tc.class, p.Err)
			}
			if !strings.HasPrefix(p.Err.Error(), tc.text) {
				t.Errorf("error = %q,\nwant prefix %q", p.Err.Error(), tc.text)
			}
		})
	}
}

// formatWithoutExit is a graph without exit nodes whose result is JSON.
const formatWithoutExit = `{"name":"f","response_format":{"type":2,"payload":{"format":"JSON","rules":"be brief","output_schema":{"type":"object","required":["n"]}}},
"nodes":[{"id":"a","name":"A","prompt":"p"},{"id":"b","name":"B","prompt":"p"}],
"edges":[{"id":"1","source":"START","target":"a"},{"id":"2","source":"a","target":"b","condition_prompt":"more?"},{"id":"3","source":"b","target":"END"}]}`

// forkWithoutExit is a fork without exit nodes whose result is that of the deferred node d, in JSON.
const forkWithoutExit = `{"name":"f","response_format":{"type":2,"payload":{"format":"JSON","output_schema":{"type":"object","required":["n"]}}},
"nodes":[{"id":"a","name":"A","prompt":"p"},{"id":"b","name":"B","prompt":"p"},{"id":"d","name":"D","prompt":"p","defer":true}],
"edges":[{"id":"1","source":"START","target":"a"},{"id":"2","source":"START","target":"b"},{"id":"3","source":"a","target":"d","condition_prompt":"more?"},
{"id":"4","source":"b","target":"d"},{"id":"5","source":"d","target":"END"}]}`

// TestFormatWithoutExitNode checks that in a graph without exit nodes whose result is JSON, a node is asked for JSON if none of
// its outgoing conditions is met, unless its output matches the schema already.
func TestFormatWithoutExitNode(t *testing.T) {
	t.Parallel()
	const no, yes = `{kind: judge, yes: false, reason: enough}`, `{kind: judge, yes: true}`
	tests := map[string]struct {
		document, script, data, failure string
		calls                           int
	}{
		"valid output":               {script: no + `, {say: '{"n":1}'}`, data: `{"n":1}`, calls: 2},
		"JSON on request":            {script: no + `, {turn: 1, say: plain}, {contains: be brief, say: '{"n":1}'}`, data: `{"n":1}`, calls: 3},
		"JSON after a retry":         {script: no + `, {turn: 1, say: plain}, {turn: 2, say: '{"m":1}'}, {say: '{"n":1}'}`, data: `{"n":1}`, calls: 4},
		"never JSON":                 {script: no + `, {say: plain}`, failure: `node "a" at step 1 (flow.json:2): Output validation failed after 1 retry`},
		"the result of another node": {document: forkWithoutExit, script: no + `, {node: d, say: '{"n":3}'}, {say: plain}`, data: `{"n":3}`, calls: 6},
		"a condition is met":         {script: yes + `, {node: a, say: plain}, {say: '{"n":1}'}`, data: `{"n":1}`, calls: 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.document == "" {
				tc.document = formatWithoutExit
			}
			p := harness.TestRun{Document: tc.document, Script: `rules: [` + tc.script + `]`}.Execute(t)
			switch {
			case tc.failure != "":
				if harness.FailureClass(p.Err) != contract.ClassOutputSchema || !strings.HasPrefix(p.Err.Error(), tc.failure) {
					t.Errorf("failure = %v, want %s", p.Err, tc.failure)
				}
			case p.Err != nil || string(p.Result.ResultData) != tc.data || p.Result.Usage.Calls != tc.calls:
				t.Errorf("result = %+v, %v", p.Result, p.Err)
			}
		})
	}
}

// TestFormatWithoutExitNodeInBranches checks the same for branches, whose invalid output fails the run only if it is the run's result.
func TestFormatWithoutExitNodeInBranches(t *testing.T) {
	t.Parallel()
	const flow = `{"name":"f","response_format":{"type":2,"payload":{"format":"JSON"}},"nodes":[{"id":"a","name":"A","prompt":"p"},{"id":"b","name":"B","prompt":"p"},{"id":"c","name":"C","prompt":"p"}],
"edges":[{"id":"1","source":"START","target":"a"},{"id":"2","source":"START","target":"b"},{"id":"3","source":"a","target":"c","condition_prompt":"more?"},{"id":"4","source":"b","target":"c","condition_prompt":"go?"},{"id":"5","source":"c","target":"END"}]}`
	for name, tc := range map[string]struct{ script, data, failure string }{
		"the result of another node": {script: `{question: "more?", yes: false}, {question: "go?", yes: true}, {node: c, say: '{"n":1}'}, {say: plain}`, data: `{"n":1}`},
		"no JSON":                    {script: `{kind: judge, yes: false}, {say: plain}`, failure: `node "b" at step 1 (flow.json:1): Output validation failed after 1 retry`},
		"JSON on request":            {script: `{kind: judge, yes: false}, {node: b, turn: 1, say: plain}, {node: b, say: '{"n":3}'}, {say: plain}`, data: `{"n":3}`},
		"valid output":               {script: `{kind: judge, yes: false}, {node: b, say: '{"n":2}'}, {say: plain}`, data: `{"n":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.TestRun{Document: flow, Script: `rules: [` + tc.script + `]`}.Execute(t)
			switch {
			case tc.failure != "":
				if harness.FailureClass(p.Err) != contract.ClassOutputSchema || !strings.HasPrefix(p.Err.Error(), tc.failure) {
					t.Errorf("failure = %v, want %s", p.Err, tc.failure)
				}
			case p.Err != nil || string(p.Result.ResultData) != tc.data:
				t.Errorf("result = %+v, %v", p.Result, p.Err)
			}
		})
	}
}

func TestInputValidation(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		set   func(in *contract.RunInput)
		class string
	}{
		"unsupported contract version": {func(in *contract.RunInput) { in.V = 2 }, contract.ClassBadRequest},
		"a later plan version":         {func(in *contract.RunInput) { in.Flow = contract.FlowRef{Plan: &plan.Flow{Version: 99}} }, contract.ClassPlanVersion},
		"an invalid plan":              {func(in *contract.RunInput) { in.Flow = contract.FlowRef{Plan: &plan.Flow{Version: 1}} }, contract.ClassInvalidFlow},
		"a document with errors":       {func(in *contract.RunInput) { in.Flow.Text = `{"nodes": 1}` }, contract.ClassInvalidFlow},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := harness.TestRun{Document: harness.OneNode(""), SetInput: tc.set}.Execute(t)
			if harness.FailureClass(p.Err) != tc.class {
				t.Errorf("failure = %v, want class %s", p.Err, tc.class)
			}
		})
	}
}
