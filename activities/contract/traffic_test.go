package contract

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"

	"weft/workflows/plan"
)

// TestRecordedTrafficMatchesTheSchemas validates the inputs, results and failures of recorded histories.
func TestRecordedTrafficMatchesTheSchemas(t *testing.T) {
	files, err := filepath.Glob("../../tests/testdata/history/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	seen := map[string]int{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var h historypb.History
		if err := (temporalproto.CustomJSONUnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &h); err != nil {
			t.Fatal(err)
		}
		flow := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName() == WorkflowFlow
		for _, e := range h.GetEvents() {
			for schema, payloads := range publicPayloads(e, flow) {
				seen[schema]++
				if err := check(t, schema, payloads.GetPayloads()[0].GetData()); err != nil {
					t.Errorf("%s, event %d: %#v", filepath.Base(file), e.GetEventId(), err)
				}
			}
		}
	}
	for _, schema := range []string{"run-input", "run-result", "failure"} {
		if seen[schema] == 0 {
			t.Errorf("no history has a %s", schema)
		}
	}
}

// publicPayloads returns the payloads of an event that clients send or receive, by schema.
func publicPayloads(e *historypb.HistoryEvent, flow bool) map[string]*commonpb.Payloads {
	out := map[string]*commonpb.Payloads{}
	if s := e.GetWorkflowExecutionStartedEventAttributes(); flow && s != nil && s.GetContinuedExecutionRunId() == "" && s.GetParentWorkflowExecution().GetWorkflowId() == "" {
		out["run-input"] = s.GetInput()
	}
	// A yielded result is only for the parent run.
	if s := e.GetWorkflowExecutionCompletedEventAttributes(); flow && s != nil && !bytes.HasPrefix(s.GetResult().GetPayloads()[0].GetData(), []byte(`{"status":"yielded"`)) {
		out["run-result"] = s.GetResult()
	}
	if d := e.GetWorkflowExecutionFailedEventAttributes().GetFailure().GetApplicationFailureInfo().GetDetails(); d != nil {
		out["failure"] = d
	}
	return out
}

// TestEncodedTypesMatchTheSchemas validates values as the current code encodes them.
func TestEncodedTypesMatchTheSchemas(t *testing.T) {
	text, raw := "done", json.RawMessage(`{"a":1}`)
	message, err := (&Message{Role: RoleTool, Parts: []Part{{Text: "x"}, {Ref: &ContentRef{SHA: "s"}}}, CallID: "1", Name: "n", Error: true}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	flow := &plan.Flow{Version: 1, Name: "n", Dialect: "continuum", Limits: plan.DefaultLimits, Policy: plan.DefaultPolicy,
		Nodes: []plan.Node{{ID: "a", Name: "A", Kind: plan.KindAgent, Agent: &plan.Agent{Prompt: "p", System: "s", MaxCalls: 1, MaxErrors: 1, Output: &plan.Output{Schema: raw}}}},
		Edges: []plan.Edge{{ID: "e", From: plan.Start, To: "a"}}}
	tests := map[string]struct {
		schema string
		v      any
	}{
		"a run with a plan":         {"run-input", RunInput{V: Version, Flow: FlowRef{Plan: flow, Source: &plan.Source{File: "f", Positions: []plan.Position{{Path: "p", Line: 1, Col: 1}}}}, State: map[string]json.RawMessage{"k": raw}, Script: raw, Model: "script"}},
		"a result that is JSON":     {"run-result", RunResult{Status: "completed", ResultData: raw, FlowHash: strings.Repeat("0", 64)}},
		"a result that is text":     {"run-result", RunResult{Status: "completed", ResultText: &text, ExitOutputs: []ExitOutput{{Node: "n", Step: 1}}, FlowHash: strings.Repeat("0", 64)}},
		"a failure with everything": {"failure", Failure{Class: ClassOutputSchema, Text: "t", Errors: []FieldError{{Path: "$", Message: "m"}}, Answers: []Answer{{Execution: "a#1"}}, Diagnostics: []string{"d"}}},
		"a status":                  {"status", Status{Status: "running", Executions: []Execution{{Node: "a", Step: 1, Data: raw}}, Conflicts: []Conflict{{Key: "k"}}}},
		"an empty status":           {"status", Status{Status: "running"}},
		"a page":                    {"transcript-page", TranscriptPage{Messages: []json.RawMessage{message}, Total: 1, Threads: []ThreadInfo{{"t", 1}}}},
		"a message":                 {"message", message},
		"a query":                   {"transcript-query", TranscriptQuery{Thread: "t", From: 1, Upto: 2}},
		"content":                   {"content-page", ContentPage{Data: []byte("x"), Total: 1}},
		"a query for content":       {"content-query", ContentQuery{SHA: "s", Offset: 1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			encoded, err := json.Marshal(tc.v)
			if err != nil {
				t.Fatal(err)
			}
			if err := check(t, tc.schema, encoded); err != nil {
				t.Errorf("%s: %#v", encoded, err)
			}
		})
	}
}

// TestSchemasReject checks that the schemas reject invalid values.
func TestSchemasReject(t *testing.T) {
	tests := map[string]struct{ schema, json string }{
		"a misspelt field":         {"run-input", `{"v": 1, "flow": {"name": "x"}, "inptu": "y"}`},
		"no flow":                  {"run-input", `{"v": 1}`},
		"another version":          {"run-input", `{"v": 2, "flow": {"name": "x"}}`},
		"a model without provider": {"run-input", `{"v": 1, "flow": {"name": "x"}, "model": "gpt"}`},
		"an empty flow":            {"run-input", `{"v": 1, "flow": {}}`},
		"a result without usage":   {"run-result", `{"status": "completed", "result_text": "x", "exit_outputs": [], "flow_hash": ""}`},
		"a failure without class":  {"failure", `{"text": "x"}`},
		"an unknown status":        {"status", `{"status": "odd", "executions": [], "usage": {"calls": 0, "input_tokens": 0, "output_tokens": 0}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var invalid *jsonschema.ValidationError
			if err := check(t, tc.schema, []byte(tc.json)); err == nil || !asInvalid(err, &invalid) {
				t.Errorf("%s is accepted as %s (%v)", tc.json, tc.schema, err)
			}
		})
	}
}

func asInvalid(err error, to **jsonschema.ValidationError) (ok bool) {
	*to, ok = err.(*jsonschema.ValidationError)
	return ok
}

var fence = regexp.MustCompile("(?s)```([a-z]+)( [a-z-]+)?\n(.*?)```\n")

// TestReadme checks the examples in README.md: JSON against the schema that its code fence names,
// programs against the files that the end-to-end tests run.
func TestReadme(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, found := string(raw), map[string]int{}
	for _, m := range fence.FindAllStringSubmatch(readme, -1) {
		kind, schema, text := m[1], strings.TrimSpace(m[2]), m[3]
		found[kind]++
		switch kind {
		case "json":
			if err := check(t, schema, []byte(text)); err != nil {
				t.Errorf("%s\ndoes not match the schema %s: %#v", text, schema, err)
			}
		case "js", "python":
			files := map[string][]string{"js": {"node/start.mjs", "node/answer.mjs"}, "python": {"python/start.py", "python/answer.py"}}[kind]
			file := files[min(found[kind], len(files))-1]
			program, err := os.ReadFile("../../tests/clients/" + file)
			// The first program is quoted completely, the second in part.
			if err != nil || found[kind] == 1 && text != string(program) || !strings.Contains(string(program), text) {
				t.Errorf("the example in %s is not tests/clients/%s: %v", kind, file, err)
			}
		case "go":
			program, err := os.ReadFile("../../tests/clients/go/main.go")
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range strings.Split(text, "\t// …\n") {
				if !strings.Contains(string(program), part) {
					t.Errorf("this is not in tests/clients/go/main.go:\n%s", part)
				}
			}
		}
	}
	if found["json"] < 6 || found["js"] != 2 || found["python"] != 2 || found["go"] != 1 {
		t.Errorf("README.md has %v", found)
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(fence.ReplaceAllString(readme, ""), -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("README.md links to %s: %v", m[1], err)
		}
	}
	for _, class := range classes(t) {
		if class != ClassCancelled && !strings.Contains(readme, "`"+class+"`") {
			t.Errorf("README.md does not describe the class %s", class)
		}
	}
}

// classes returns the failure classes that the source declares.
func classes(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("failure.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile(`\tClass\w+ += "(\w+)"`).FindAllStringSubmatch(string(raw), -1) {
		out = append(out, m[1])
	}
	if len(out) < 10 {
		t.Fatalf("classes are %q", out)
	}
	return out
}
