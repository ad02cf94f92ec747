package dialects

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
)

// toolboxesFlow returns a flow in which every kind of agent uses the tools of a server, in parallel
// and in a loop with two iterations.
func toolboxesFlow(server string) string {
	text := koogFlow(`{"name":"all","type":"parallel","config":{"maxIterations":300},"params":{"agents":["one","two"],"merge":{"variable":"results.0.output","operation":"equals","value":"Hello, A!"}}},
{"name":"one","type":"task","params":{"task":"one"}},{"name":"two","type":"task","params":{"task":"two","toolNames":["greeting"]}},
{"name":"write","type":"task","params":{"task":"write","toolNames":["greeting","empty"]}},{"name":"check","type":"verify","params":{"task":"check"}},
{"name":"think","type":"react","params":{"task":"think"}}`,
		`{"from":"all","to":"write"},{"from":"write","to":"check"},
{"from":"check","to":"think","condition":{"variable":"output.success","operation":"EQUALS","value":true}},{"from":"check","to":"write"}`)
	return strings.Replace(text, `"agents"`, `"defaultModel":"openai/gpt4o","tools":[{"name":"g","type":"mcp","parameters":{"transport":"sse","url":"`+server+`/sse"}}],"agents"`, 1)
}

const toolboxesScript = `rules:
- {node: all.one, match: "^one", call: [{tool: greeting, arguments: {name: A}}]}
- {node: all.one, match: "Hello, A!", call: [{tool: finalize_task_result, arguments: {__wrapped_value__: "Hello, A!"}}]}
- {node: all.two, match: "^two", call: [{tool: greeting, arguments: {name: B}}]}
- {node: all.two, match: "Hello, B!", call: [{tool: finalize_task_result, arguments: {__wrapped_value__: "Hello, B!"}}]}
- {node: write, match: "^write", call: [{tool: empty}, {tool: greeting, arguments: {name: C}}]}
- {node: write, match: "Hello, C!", call: [{tool: finalize_task_result, arguments: {__wrapped_value__: "Hello, C!"}}]}
- {node: check, step: 5, call: [{tool: finalize_task_result, arguments: {isCorrect: false, feedback: again}}]}
- {node: check, match: "^check", call: [{tool: greeting, arguments: {name: D}}]}
- {node: check, match: "Hello, D!", call: [{tool: finalize_task_result, arguments: {isCorrect: true, feedback: fine}}]}
- {node: think, contains: "Hello, E!", match: plan the next steps, say: another thought}
- {node: think, contains: "Hello, E!", say: the end}
- {node: think, match: plan the next steps, say: a thought}
- {node: think, call: [{tool: greeting, arguments: {name: E}}]}`

// TestEndToEndToolboxesContinued checks that runs that use a server's tools can continue as new at every boundary.
func TestEndToEndToolboxesContinued(t *testing.T) {
	t.Parallel()
	doc := toolboxesFlow(greetings(t))
	for _, profile := range []string{"default", "koog"} {
		h := harness.NewWorker(t, 0)
		h.Worker.Stop()
		tools, err := tool.Open(tool.Settings{AllowPrivate: true})
		if err != nil {
			t.Fatal(err)
		}
		h.Queue += "-" + profile
		h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, tools)
		in := contract.RunInput{Flow: contract.FlowRef{Text: doc, Name: "flow.json", Profile: profile}, Input: "go", Script: harness.Script(t, toolboxesScript)}
		plain, err := harness.Result(t, h.Start(t, in))
		if err != nil {
			t.Fatalf("%s: %v", profile, contract.FailureOf(err))
		}
		in.MaxEvents = 1
		run := h.Start(t, in)
		forced, err := harness.Result(t, run)
		if err != nil {
			t.Fatalf("%s, continued: %v", profile, contract.FailureOf(err))
		}
		if diff := cmp.Diff(plain, forced); diff != "" || *plain.ResultText != "the end" {
			t.Errorf("%s (-plain +continued):\n%s", profile, diff)
		}
		if n := harness.RunCount(t, h.Client, run); n < 10 {
			t.Errorf("%s: %d runs, want at least 10", profile, n)
		}
	}
}
