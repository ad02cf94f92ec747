package dialects

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/tests/harness"
)

// blueprintRun runs an agent as the starter does.
func blueprintRun(t *testing.T, r harness.TestRun, folder *specadapter.Folder, params string) harness.Outcome {
	t.Helper()
	res, diags := specadapter.Load(folder.Name, folder.Text, specadapter.Options{Dialect: "blueprint", Host: source.Host{Files: folder.Files}})
	if res == nil {
		t.Fatal(diags)
	}
	r.SetInput = func(in *contract.RunInput) {
		in.Flow, in.Params = contract.FlowRef{Plan: res.Flow, Source: &res.Source}, json.RawMessage(params)
	}
	return r.Execute(t)
}

func agentFolder(agent string) *specadapter.Folder {
	return &specadapter.Folder{Name: "agent.json", Text: []byte(agent)}
}

const judgeAgent = `{"name":"judge","description":"Answers","system_prompt":"Decide.","output_schema":{"type":"object","required":["answer"],` +
	`"properties":{"answer":{"type":"string","enum":["yes","no"]}},"additionalProperties":false}}`

// TestBlueprintOutputIsRetriedOnce checks that the model is sent the framework's error message for invalid output, once, in the same thread.
func TestBlueprintOutputIsRetriedOnce(t *testing.T) {
	t.Parallel()
	p := blueprintRun(t, harness.TestRun{Script: `rules:
- {turn: 1, say: '{"answer": "maybe"}'}
- {turn: 2, say: "Sorry:\n` + "```json\\n{\\\"answer\\\": \\\"yes\\\"}\\n```" + `"}`}, agentFolder(judgeAgent), `{"prompt":"Well?"}`)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if p.Result.ResultText != nil || string(p.Result.ResultData) != `{"answer":"yes"}` || p.Result.Usage.Calls != 2 {
		t.Errorf("result = %s after %d calls", harness.ResultText(p.Result), p.Result.Usage.Calls)
	}
	messages := p.Messages(t, "judge#1")
	if len(messages) != 4 {
		t.Fatalf("%d messages", len(messages))
	}
	want := "<output-validation-error>\nYour output did not match the required schema.\n\n## Validation Errors\n- $.answer: 'maybe' is not one of ['yes', 'no']\n\n" +
		"## Required Schema\n```json\n{\n  \"type\": \"object\",\n  \"required\": [\n    \"answer\"\n  ],\n  \"properties\": {\n    \"answer\": {\n      \"type\": \"string\",\n" +
		"      \"enum\": [\n        \"yes\",\n        \"no\"\n      ]\n    }\n  },\n  \"additionalProperties\": false\n}\n```\n\n" +
		"Please provide output matching the schema exactly. Output ONLY valid JSON.\n</output-validation-error>"
	if diff := cmp.Diff(want, messages[2].Text); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBlueprintOutputFailsAfterOneRetry(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script, want string
		calls        int
	}{
		"no JSON twice":          {`rules: [{say: I cannot say.}]`, "Output validation failed after 1 retry: $: No JSON output found but output_schema requires structured output", 2},
		"invalid twice":          {`rules: [{json: {answer: 7}}]`, "Output validation failed after 1 retry: $.answer: 7 is not of type 'string'; $.answer: 7 is not one of ['yes', 'no']", 2},
		"no output":              {`rules: [{say: " "}]`, "No result received but output_schema requires structured output", 1},
		"no output of the retry": {`rules: [{turn: 1, say: x}, {turn: 2, say: " "}]`, "No result received from retry attempt", 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := blueprintRun(t, harness.TestRun{Script: tc.script}, agentFolder(judgeAgent), `{"prompt":"Well?"}`)
			if p.Err == nil || p.Err.Class != contract.ClassOutputSchema || p.Err.Text != tc.want || p.Err.Remedy == "" || p.Status.Usage.Calls != tc.calls {
				t.Errorf("failure = %v after %d calls, want %s after %d", p.Err, p.Status.Usage.Calls, tc.want, tc.calls)
			}
		})
	}
}

// TestBlueprintText checks an agent without an output schema, whose result is text, and without a system prompt.
func TestBlueprintText(t *testing.T) {
	t.Parallel()
	p := blueprintRun(t, harness.TestRun{Script: `rules: [{match: ^Hello$, say: "{\"not\": \"data\"}"}]`}, agentFolder(`{"name":"a","description":"b"}`), `{"prompt":"Hello"}`)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	if *p.Result.ResultText != `{"not": "data"}` || p.Result.ResultData != nil {
		t.Errorf("result = %+v", p.Result)
	}
}

// TestBlueprintCorpusRuns runs agents of the framework's own examples.
func TestBlueprintCorpusRuns(t *testing.T) {
	t.Parallel()
	const corpus = "../../../shared/corpus/blueprints"
	if _, err := os.Stat(corpus); err != nil {
		t.Skipf("no corpus: %v", err)
	}
	tests := map[string]struct{ params, input, answer, want string }{
		"parametric-agent": {`{"format":"essay","max_words":100.0,"topic":"Ü","prompt":"Go."}`, "<inputs>\nformat: essay\nmax_words: 100.0\ntopic: Ü\n</inputs>\n\nGo.",
			"An essay.", "An essay."},
		"prompt-assistant":          {`{"user_request":"new","prompt":"Now."}`, "<inputs>\nuser_request: new\n</inputs>\n\nNow.", `{"system_prompt":"You are."}`, `{"system_prompt":"You are."}`},
		"structured-output-agent":   {`{"prompt":"Is it?"}`, "Is it?", `{"answer":"no","rationale":"r"}`, `{"answer":"no","rationale":"r"}`},
		"simple-agent":              {`{"prompt":"Hi"}`, "Hi", "Hello.", "Hello."},
		"local-codebase-researcher": {`{"question":"Where is it?","project_dir":"/x","prompt":"Look."}`, "<inputs>\nquestion: Where is it?\nproject_dir: /x\n</inputs>\n\nLook.", "There.", "There."},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			folder, err := specadapter.ReadFolder(os.DirFS(corpus), name+"/agent.json")
			if err != nil {
				t.Fatal(err)
			}
			script, err := json.Marshal(map[string]any{"rules": []map[string]string{{"say": tc.answer}}})
			if err != nil {
				t.Fatal(err)
			}
			p := blueprintRun(t, harness.TestRun{Script: string(script)}, folder, tc.params)
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			messages := p.Messages(t, name+"#1")
			if got := harness.ResultText(p.Result); got != tc.want || !strings.Contains(harness.MessageText(messages[0]), tc.input) {
				t.Errorf("result = %s, want %s; prompt = %q", got, tc.want, harness.MessageText(messages[0]))
			}
		})
	}
}
