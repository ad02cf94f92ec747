package dialects

import (
	"fmt"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
)

// checkStepLimit checks that a flow completes within this number of steps and fails with one less.
// The document has the placeholder LIMIT for the number.
func checkStepLimit(t *testing.T, steps int, r harness.TestRun) {
	t.Helper()
	doc := r.Document
	r.Profile, r.Input = "koog", "x"
	r.Document = strings.Replace(doc, "LIMIT", fmt.Sprint(steps), 1)
	if p := r.Execute(t); p.Err != nil {
		t.Errorf("%d steps: %v", steps, p.Err)
	}
	r.Document = strings.Replace(doc, "LIMIT", fmt.Sprint(steps-1), 1)
	if p := r.Execute(t); harness.FailureClass(p.Err) != contract.ClassStepLimit || !strings.Contains(p.Err.Text, fmt.Sprintf("given number of steps (%d)", steps-1)) {
		t.Errorf("%d steps: %v", steps-1, p.Err)
	}
}

const (
	wrapped  = `call: [{tool: finalize_task_result, arguments: {__wrapped_value__: done}}]`
	verified = `call: [{tool: finalize_task_result, arguments: {isCorrect: true, feedback: fine}}]`
)

// koogLater returns a flow in the syntax of Koog's later code.
func koogLater(agents, transitions string) string {
	return strings.Replace(koogFlow(agents, transitions), `"agents"`, `"defaultModel":"openai/gpt4o","agents"`, 1)
}

// TestStepsOfParallelAgents checks that the steps of each parallel agent are counted separately, and
// that the run continues with the count of the selected result.
func TestStepsOfParallelAgents(t *testing.T) {
	t.Parallel()
	agents := `{"name":"p","type":"parallel","config":{"maxIterations":LIMIT},"params":{"agents":["a","b","c"]%s}},
{"name":"a","type":"task","params":{"task":"a"}},{"name":"b","type":"verify","params":{"task":"b"}},{"name":"c","type":"transform"},
{"name":"end","type":"task","params":{"task":"end"}}`
	transitions := `{"from":"p","to":"end","condition":{"variable":"output.data","operation":"not_equals","value":"x"}}`
	merge := `,"merge":{"variable":"results.%d.output","operation":"equals","value":0}`
	script := "rules:\n- {node: p.a, " + wrapped + "}\n- {node: p.b, " + verified + "}\n- {node: end, " + wrapped + "}"
	flow := func(m string) harness.TestRun {
		return harness.TestRun{Document: koogLater(fmt.Sprintf(agents, m), transitions), Script: script, Input: "x"}
	}
	pick := func(i int) string { return fmt.Sprintf(merge, i) }
	noData := strings.Replace(transitions, `,"condition":{"variable":"output.data","operation":"not_equals","value":"x"}`, "", 1)
	checkStepLimit(t, 2+4+7+8, flow(""))
	checkStepLimit(t, 2+4+7+8, flow(pick(0)))
	r := flow(pick(1)) // a critique result has no data
	r.Document = strings.Replace(r.Document, transitions, noData, 1)
	checkStepLimit(t, 2+4+16+8, r)
	r = flow(pick(2))
	r.Document = strings.Replace(r.Document, transitions, noData, 1)
	checkStepLimit(t, 1+3+16, func() harness.TestRun { // b needs more steps than the selected path
		r := r
		r.Document = strings.Replace(r.Document, noData, "", 1)
		r.Document = strings.Replace(r.Document, `"transitions":[]`, `"transitions":[{"from":"p","to":"__finish__"}]`, 1)
		return r
	}())
}

// TestNoEdgeAtTheLimit checks that a run whose node has no matching edge fails with no_route even if
// no steps are left, and with step_limit if the limit is reached before.
func TestNoEdgeAtTheLimit(t *testing.T) {
	t.Parallel()
	doc := koogFlow(`{"name":"g","type":"transform","model":"openai/gpt4o","config":{"maxIterations":LIMIT}}`,
		`{"from":"g","to":"__finish__","condition":{"variable":"input.data","operation":"equals","value":"y"}}`)
	for limit, want := range map[string]string{"4": contract.ClassStepLimit, "5": contract.ClassNoRoute, "6": contract.ClassNoRoute} {
		p := harness.TestRun{Document: strings.Replace(doc, "LIMIT", limit, 1), Profile: "koog", Input: "x"}.Execute(t)
		if harness.FailureClass(p.Err) != want {
			t.Errorf("limit %s: %v, want %s", limit, p.Err, want)
		}
	}
	for limit, want := range map[string]string{"5": contract.ClassStepLimit, "6": ""} {
		p := harness.TestRun{Document: strings.Replace(doc, "LIMIT", limit, 1), Profile: "koog", Input: "y"}.Execute(t)
		if harness.FailureClass(p.Err) != want {
			t.Errorf("limit %s: %v, want %q", limit, p.Err, want)
		}
	}
}

// TestStepsOfReactAgents checks the steps of a react agent: those of its own graph and of the inner one for thoughts and calls.
func TestStepsOfReactAgents(t *testing.T) {
	t.Parallel()
	doc := koogLater(`{"name":"r","type":"react","config":{"maxIterations":LIMIT},"params":{"task":"r"}}`, "")
	checkStepLimit(t, 2+11, harness.TestRun{Document: doc, Script: "rules: [{turn: 1, say: a thought}, {say: the answer}]"})
	withTool := strings.Replace(doc, `"agents"`, `"tools":[{"name":"web","type":"mcp","parameters":{"transport":"sse","url":"http://localhost:1/"}}],"agents"`, 1)
	checkStepLimit(t, 2+11+3+3, harness.TestRun{Document: withTool, Script: `rules:
- {turn: 1, say: a thought}
- {turn: 2, call: [{tool: search}]}
- {turn: 3, say: a thought}
- {turn: 4, call: [{tool: search}]}
- {turn: 5, say: a thought}
- {say: the answer}`, Tools: exampleTools, SetInput: func(in *contract.RunInput) { in.DataConnections = []contract.DataConnection{{ID: "web"}} }})
}

// TestUnknownModelsInKoog checks that a model missing from Koog's tables fails a run in the profile
// koog before its first call, and is accepted in the profile default.
func TestUnknownModelsInKoog(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ first, later string }{
		"openai/gpt-4o":             {"", "(normalized: 'openai.chat.gpt_4o')"},
		"openai/gpt-5":              {"", "(normalized: 'openai.chat.gpt_5')"},
		"openai/o3":                 {},
		"openai/GPT4oMini":          {},
		"openai/gpt4_1":             {first: "Unable to find model identifier from string: openai.chat.gpt41"},
		"openai/gpt-4.1":            {"from string: openai.gpt4.1", "Unable to find model identifier from string: 'openai/gpt-4.1' (normalized: 'openai.chat.gpt_4.1')"},
		"anthropic/claude-3-opus":   {"anthropic.claude3opus", "anthropic.claude_3_opus"},
		"anthropic/sonnet-4":        {first: "anthropic.sonnet4"},
		"google/gemini-pro":         {"google.geminipro", "google.gemini_pro"},
		"google/gemini-2.5-pro":     {"google.gemini2.5pro", "google.gemini_2.5_pro"},
		"google/gemini2_5pro":       {first: "google.gemini25pro"},
		"mistral/mistral-large":     {"mistral.mistrallarge", "mistral.mistral_large"},
		"mistral/chat/codestral":    {first: "mistral.chat/codestral"},
		"mistral/chat.codestral":    {},
		"deepseek/deepseek-chat":    {"deepseek.deepseekchat", "deepseek.deepseek_chat"},
		"openrouter/claude-3-opus":  {},
		"ollama/llama2":             {"ollama.llama2", "ollama.llama2"},
		"ollama/llama3.2":           {"ollama.llama3.2", "ollama.llama3.2"},
		"ollama/meta/llama3.2:3b":   {first: "ollama.meta/llama3.2:3b"},
		"ollama/meta.llama3.2:3b":   {},
		"gpt-4o":                    {"Index 1 out of bounds for length 1", "Invalid model string format: <gpt-4o>"},
		"my-own-provider/any-model": {},
	}
	for model, want := range tests {
		t.Run(model, func(t *testing.T) {
			doc := strings.Replace(koogFlow(`{"name":"a","type":"task","params":{"task":"t"}},{"name":"x","type":"transform"}`, `{"from":"a","to":"x"}`),
				`"agents"`, `"defaultModel":"`+model+`","agents"`, 1)
			second := strings.Replace(doc, `"to":"x"`, `"to":"x","condition":{"variable":"output.data","operation":"equals","value":"done"}`, 1)
			script := "rules: [{" + wrapped + "}]"
			for _, c := range []struct{ doc, want string }{{doc, want.first}, {second, want.later}} {
				p := harness.TestRun{Document: c.doc, Script: script, Profile: "koog"}.Execute(t)
				switch {
				case c.want == "" && p.Err != nil:
					t.Errorf("failure = %v, want none", p.Err)
				case c.want != "" && (p.Err == nil || !strings.Contains(p.Err.Text, c.want) || p.Status.Usage.Calls != 0 || p.Err.At != "flow.json:2"):
					t.Errorf("failure = %+v, want %q at the position of the model", p.Err, c.want)
				}
			}
			if p := (harness.TestRun{Document: doc, Script: script}).Execute(t); p.Err != nil {
				t.Errorf("profile default: %v", p.Err)
			}
		})
	}
}

// TestFirstMessagesInKoog checks that the default model must be known even if no agent uses it, and that a
// run without input starts with the task of the first agent in the transitions, or fails without one.
func TestFirstMessagesInKoog(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(koogFlow(`{"name":"x","type":"transform","model":"openai/o3"},{"name":"a","type":"task","model":"openai/o3","params":{"task":"the task"}}`, `{"from":"a","to":"x"}`),
		`"agents"`, `"defaultModel":"openai/gpt-4o","agents"`, 1)
	r := harness.TestRun{Document: doc, Profile: "koog", Script: `rules: [{match: "^the task$", call: [{tool: finalize_task_result, arguments: {__wrapped_value__: done}}]}]`}
	if p := r.Execute(t); p.Err != nil || *p.Result.ResultText != "done" {
		t.Errorf("without input: %v", p.Err)
	}
	r.Document = strings.Replace(doc, "gpt-4o", "gpt-4.1", 1)
	if p := r.Execute(t); p.Err == nil || p.Err.Node != "models" {
		t.Errorf("an unused unknown default model: %v", p.Err)
	}
	r.Document = strings.Replace(doc, `{"from":"a","to":"x"}`, "", 1)
	if p := r.Execute(t); harness.FailureClass(p.Err) != contract.ClassBadRequest || p.Err.Text != "No agents found" {
		t.Errorf("a transform agent first: %v", p.Err)
	}
	r.Input = "x"
	if p := r.Execute(t); p.Err != nil {
		t.Errorf("a transform agent first, with an input: %v", p.Err)
	}
}

// TestLooseSyntax checks that the profile default accepts, as Koog's first code does, variables without
// the prefix input. or output. and tool names that are not a list.
func TestLooseSyntax(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{"success": "no", "feedback": "yes", "input": "yes", "output.success": "no"} {
		agent, value := `{"name":"a","type":"verify","params":{"task":"t","toolNames":null}}`, `"f"`
		if variable == "input" {
			agent, value = `{"name":"a","type":"transform"}`, "7"
		}
		doc := koogFlow(agent+`,{"name":"yes","type":"transform"},{"name":"no","type":"transform"}`,
			fmt.Sprintf(`{"from":"a","to":"yes","condition":{"variable":%q,"operation":"equals","value":%s}},{"from":"a","to":"no"}`, variable, value))
		p := harness.TestRun{Document: doc, Script: "rules: [{call: [{tool: finalize_task_result, arguments: {isCorrect: true, feedback: f}}]}]",
			SetInput: func(in *contract.RunInput) { in.Value = []byte("7") }}.Execute(t)
		if p.Err != nil || p.Result.ResultNode != want {
			t.Errorf("%s: %v, %v", variable, p.Result, p.Err)
		}
	}
}

// TestForeignCallsInKoog checks that calls of tools that an agent does not have appear as text in the shared
// conversation of the profile koog: for a react agent these include finalize_task_result.
func TestForeignCallsInKoog(t *testing.T) {
	t.Parallel()
	doc := koogLater(`{"name":"a","type":"task","params":{"task":"a"}},{"name":"r","type":"react","params":{"task":"r"}},{"name":"z","type":"task","params":{"task":"z"}}`, "")
	p := harness.TestRun{Document: doc, Profile: "koog", Input: "x", Script: `rules:
- {node: a, call: [{tool: nope, arguments: {q: 1}}], match: "^a$"}
- {node: a, match: '^\{"tool_name":"nope","tool_result":"Tool with name ''nope'' not found', call: [{tool: finalize_task_result, arguments: {__wrapped_value__: done}}]}
- {node: r, contains: '{"tool_name":"finalize_task_result","tool_args":{"__wrapped_value__":"done"}}', say: the answer}
- {node: z, contains: '{"tool_name":"finalize_task_result"', say: shown as a text}
- {node: z, call: [{tool: finalize_task_result, arguments: {__wrapped_value__: end}}]}`}.Execute(t)
	if p.Err != nil || *p.Result.ResultText != "end" {
		t.Errorf("result = %v, %v", p.Result, p.Err)
	}
}

// TestNestedParallelAgents checks parallel agents in parallel agents: each agent starts from the
// conversation before the outer one, the result is that of the agent selected by the inner one, and
// the steps of all enclosing graphs are counted.
func TestNestedParallelAgents(t *testing.T) {
	t.Parallel()
	const pick = `,"merge":{"variable":"results.%d.output","operation":"equals","value":0}`
	agents := `{"name":"before","type":"task","config":{"maxIterations":LIMIT},"params":{"task":"before"}},
{"name":"p","type":"parallel","params":{"agents":["q","a"]%s}},
{"name":"a","type":"task","params":{"task":"a"}},
{"name":"q","type":"parallel","params":{"agents":["c","r","b"]%s}},
{"name":"b","type":"transform"},
{"name":"r","type":"parallel","params":{"agents":["b","c"],"merge":{"variable":"results.1.output","operation":"equals","value":0}}},
{"name":"c","type":"verify","params":{"task":"c"}},
{"name":"end","type":"task","params":{"task":"end"}}`
	const transitions = `{"from":"before","to":"p"},{"from":"p","to":"end"}`
	script := func(seen string) string {
		return `rules:
- {node: p.q.r.c, contains: from a, say: a sees the others' agents}
- {node: p.q.r.c, contains: was first, call: [{tool: finalize_task_result, arguments: {isCorrect: true, feedback: from r}}]}
- {node: p.q.c, contains: was first, call: [{tool: finalize_task_result, arguments: {isCorrect: false, feedback: from c}}]}
- {node: p.a, contains: was first, call: [{tool: finalize_task_result, arguments: {__wrapped_value__: from a}}]}
- {node: before, call: [{tool: finalize_task_result, arguments: {__wrapped_value__: was first}}]}
- {node: end, contains: ` + seen + `, call: [{tool: finalize_task_result, arguments: {__wrapped_value__: done}}]}`
	}
	// Children are in the order of the document: q has b, r and c; p has a and q.
	// The limit must suffice for the path of the selected result and for each other agent: at least r.c.
	for name, tc := range map[string]struct {
		p, q         string
		steps, least int
		seen         string
	}{
		"an agent of the outer one":        {"", fmt.Sprintf(pick, 1), 7, 4 + 16 + 2, "from a"},
		"an agent of the inner one":        {fmt.Sprintf(pick, 1), fmt.Sprintf(pick, 2), 2 + 16 + 1, 4 + 16 + 1, "from c"},
		"an agent of the innermost one":    {fmt.Sprintf(pick, 1), fmt.Sprintf(pick, 1), 4 + 16 + 2, 4 + 16 + 2, "from r"},
		"the first agent of the inner one": {fmt.Sprintf(pick, 1), "", 2 + 3 + 1, 4 + 16 + 1, "was first"},
	} {
		t.Run(name, func(t *testing.T) {
			r := harness.TestRun{Document: koogLater(fmt.Sprintf(agents, tc.p, tc.q), transitions), Script: script(tc.seen), Profile: "koog", Input: "x"}
			limit := max(2+8+4+tc.steps+8, 1+8+3+tc.least)
			doc := r.Document
			for steps, ok := range map[int]bool{limit: true, limit - 1: false} {
				r.Document = strings.Replace(doc, "LIMIT", fmt.Sprint(steps), 1)
				if p := r.Execute(t); ok && p.Err != nil || !ok && harness.FailureClass(p.Err) != contract.ClassStepLimit {
					t.Errorf("%d steps: %v", steps, p.Err)
				}
			}
		})
	}
	r := harness.TestRun{Document: strings.Replace(koogLater(fmt.Sprintf(agents, "", fmt.Sprintf(pick, 3)), transitions), "LIMIT", "99", 1), Script: script("x"), Profile: "koog", Input: "x"}
	if p := r.Execute(t); p.Err == nil || p.Err.Text != "Index out of bounds in merge condition: 3 (available: 0..2)" {
		t.Errorf("a merge index out of range: %v", p.Err)
	}
}

// TestToolResultsInKoog checks that models are sent tool results as JSON in the profile koog, including those from
// a connection of the worker, and as text in the profile default.
func TestToolResultsInKoog(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(koogFlow(`{"name":"a","type":"task","model":"openai/o3","params":{"task":"t"}}`, ""), `"agents"`,
		`"tools":[{"name":"web","type":"mcp","parameters":{"transport":"sse","url":"`+greetings(t)+`/sse"}}],"agents"`, 1)
	greeting := map[string]func(string) (string, bool){"greeting": func(string) (string, bool) { return "Hello, <A>!", false }}
	for profile, want := range map[string]string{
		"koog":    `^\{"content":\[\{"text":"Hello, <A>!","type":"text"\}\]\}$`,
		"default": "^Hello, <A>!$",
	} {
		r := harness.TestRun{Document: doc, Profile: profile, Input: "x", ToolSettings: tool.Settings{AllowPrivate: true}, Script: `rules:
- {turn: 1, call: [{tool: greeting, arguments: {name: <A>}}]}
- {turn: 2, match: '` + want + `', call: [{tool: finalize_task_result, arguments: {__wrapped_value__: done}}]}`}
		if p := r.Execute(t); p.Err != nil || *p.Result.ResultText != "done" {
			t.Errorf("%s: %v", profile, p.Err)
		}
		r.Tools, r.SetInput = greeting, func(in *contract.RunInput) { in.DataConnections = []contract.DataConnection{{ID: "web"}} }
		if p := r.Execute(t); p.Err != nil || *p.Result.ResultText != "done" {
			t.Errorf("%s, connection of the worker: %v", profile, p.Err)
		}
	}
}

// TestEndToEndStepsOfSlowParallelAgents checks that a parallel agent is charged only for the steps of its own path, even if it
// continues in a new run after the others have ended: alone in that run, or in a branch of it.
func TestEndToEndStepsOfSlowParallelAgents(t *testing.T) {
	t.Parallel()
	h := harness.NewWorker(t, 0)
	agents := `{"name":"p","type":"parallel","config":{"maxIterations":LIMIT},"params":{"agents":[%s]}},
{"name":"a","type":"task","params":{"task":"a"}},{"name":"b","type":"react","params":{"task":"b"}},{"name":"c","type":"react","params":{"task":"c"}}`
	for name, slow := range map[string][]string{"one": {"b"}, "two": {"b", "c"}} {
		t.Run(name, func(t *testing.T) {
			script := "rules:\n- {node: p.a, " + wrapped + "}\n- {node: p.b, turn: 1, delay: DELAY, say: a thought}\n- {node: p.c, turn: 1, delay: DELAY, say: a thought}\n- {say: done}"
			doc := koogLater(fmt.Sprintf(agents, `"a","`+strings.Join(slow, `","`)+`"`), `{"from":"p","to":"__finish__"}`)
			quick := harness.TestRun{Document: doc, Script: strings.ReplaceAll(script, "DELAY", "1ms")}
			const steps = 1 + 3 + 10
			checkStepLimit(t, steps, quick)
			for limit, want := range map[int]string{steps: "", steps - 1: contract.ClassStepLimit} {
				run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: strings.Replace(doc, "LIMIT", fmt.Sprint(limit), 1), Name: "flow.json", Profile: "koog"},
					Input: "x", MaxEvents: 1, Script: harness.Script(t, strings.ReplaceAll(script, "DELAY", "3s"))})
				_, err := harness.Result(t, run)
				if got := contract.FailureOf(err); err != nil != (want != "") || err != nil && got.Class != want {
					t.Errorf("%d steps: %v, want %q", limit, err, want)
				}
			}
		})
	}
}
