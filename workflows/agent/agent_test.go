package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/runtime"
	"weft/workflows/schedule/scheduletest"
	"weft/workflows/workflowtest"
)

func TestRepairTextPreservesSchema(t *testing.T) {
	schema, err := json.Marshal(json.RawMessage(`{"z":"<b>","a":1}`)) // as decoded from a payload
	if err != nil {
		t.Fatal(err)
	}
	got := repairText(schema, []contract.FieldError{{Path: "$", Message: "'a' is a required property"}, {Path: "$.b", Message: "x"}})
	want := "<output-validation-error>\nYour output did not match the required schema.\n\n## Validation Errors\n" +
		"- $: 'a' is a required property\n- $.b: x\n\n## Required Schema\n```json\n{\n  \"z\": \"<b>\",\n  \"a\": 1\n}\n```\n\n" +
		"Please provide output matching the schema exactly. Output ONLY valid JSON.\n</output-validation-error>"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// newAgentRun returns the run of one agent in a flow whose state may hold limit bytes.
func newAgentRun(t *testing.T, limit int) *agentRun {
	f := scheduletest.Sketch("START>a a>END")
	f.Limits.MaxStateBytes = limit
	r := newRun(t)
	r.Flow = f
	return &agentRun{run: r, execution: &runtime.Execution{Node: &f.Nodes[0], ID: "a#1", Step: 1, Strand: "a#1", View: &contract.View{}}}
}

func TestSetState(t *testing.T) {
	tests := map[string]struct {
		args   []string
		state  string
		failed string
	}{
		"one value":                              {[]string{`{"key":"k","value":{"b": 1,  "a": "x"}}`}, `k={"b":1,"a":"x"}`, ""},
		"null":                                   {[]string{`{"key":"k","value":null}`}, "k=null", ""},
		"last of two writes":                     {[]string{`{"key":"k","value":1}`, `{"key":"k","value":2}`}, "k=2", ""},
		"keys are sorted":                        {[]string{`{"key":"z","value":1}`, `{"key":"a","value":2}`}, "a=2 z=1", ""},
		"exactly the limit":                      {[]string{`{"key":"key","value":"123456789012345"}`}, "key=123456789012345", ""},
		"replaced by a value of the same size":   {[]string{`{"key":"key","value":"123456789012345"}`, `{"key":"key","value":"abcdefghijklmno"}`}, "key=abcdefghijklmno", ""},
		"one byte too many":                      {[]string{`{"key":"key","value":"1234567890123456"}`}, "", "would hold 21 bytes, at most 20"},
		"one byte too many with another key":     {[]string{`{"key":"a","value":123456789}`, `{"key":"b","value":1234567890}`}, "a=123456789", "would hold 21 bytes"},
		"replaced by a value one byte too large": {[]string{`{"key":"key","value":"123456789012345"}`, `{"key":"key","value":"1234567890123456"}`}, "key=123456789012345", "would hold 21 bytes"},
		"no key":                                 {[]string{`{"value":1}`}, "", "expected"},
		"empty key":                              {[]string{`{"key":"","value":1}`}, "", "expected"},
		"no value":                               {[]string{`{"key":"k"}`}, "", "expected"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAgentRun(t, 20)
			failed := ""
			for _, raw := range tc.args {
				var args builtinArgs
				if err := json.Unmarshal([]byte(raw), &args); err != nil {
					t.Fatal(err)
				}
				if r := setState(a.run, a.execution, &args); r.Failed {
					failed = r.Text
				} else if r.Text != "ok" {
					t.Errorf("result is %q, want \"ok\"", r.Text)
				}
			}
			if got := workflowtest.State(a.execution.View); got != tc.state {
				t.Errorf("state is %s, want %s", got, tc.state)
			}
			if (failed == "") != (tc.failed == "") || !strings.Contains(failed, tc.failed) {
				t.Errorf("failure is %q, want %q", failed, tc.failed)
			}
		})
	}
}

func TestGetState(t *testing.T) {
	a := newAgentRun(t, 100)
	workflowtest.Write(a.execution.View, "s", 1, "k", "v")
	workflowtest.Write(a.execution.View, "s", 1, "odd \"<key>", "w")
	tests := map[string]struct{ args, want string }{
		"one key":                             {`{"keys":["k"]}`, `{"k":"v"}`},
		"several keys in the requested order": {`{"keys":["odd \"<key>","none","k"]}`, `{"odd \"<key>":"w","none":null,"k":"v"}`},
		"keys is a string":                    {`{"keys":"k"}`, `{"k":"v"}`},
		"key instead of keys":                 {`{"key":"k"}`, `{"k":"v"}`},
		"no keys":                             {`{"keys":[]}`, `{}`},
		"no arguments":                        {`{}`, `!get_state expects {"keys": ["name", …]}`},
		"keys are numbers":                    {`{"keys":[1]}`, `!get_state expects {"keys": ["name", …]}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var args builtinArgs
			if err := json.Unmarshal([]byte(tc.args), &args); err != nil {
				t.Fatal(err)
			}
			r := getState(a.execution.View, &args)
			got := r.Text
			if r.Failed {
				got = "!" + got
			} else if !json.Valid([]byte(got)) {
				t.Errorf("%s is not valid JSON", got)
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	tests := map[string]struct{ text, want, failed string }{
		"object":            {` {"a": 1} `, `{"a": 1}`, ""},
		"blank":             {" \n", "{}", ""},
		"null":              {"null", "{}", ""},
		"array":             {"[1]", "", "cannot unmarshal array"},
		"truncated object":  {`{"a":`, "", "unexpected end"},
		"two objects":       {`{} {}`, "", "invalid character"},
		"nested too deeply": {strings.Repeat(`{"a":`, 11_000) + "1" + strings.Repeat("}", 11_000), "", "exceeded max depth"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := arguments(tc.text)
			if string(got) != tc.want || (err == nil) != (tc.failed == "") || err != nil && !strings.Contains(err.Error(), tc.failed) {
				t.Errorf("arguments(%.40q) = %s, %v", tc.text, got, err)
			}
		})
	}
}

// newRun returns a run whose workflow has ended.
func newRun(t *testing.T) *runtime.Run {
	t.Helper()
	var r *runtime.Run
	workflowtest.Run(t, func(ctx workflow.Context) { r = runtime.New(ctx) })
	return r
}

// TestAppendReplyBoundsResult checks that the model gets an error if the result of a built-in tool is too large.
func TestAppendReplyBoundsResult(t *testing.T) {
	const storeLimit = 8 << 20
	for _, tc := range []struct {
		limit, n int
		fails    bool
	}{{0, contract.MaxPayload/2 - 10_000, false}, {0, contract.MaxPayload/2 + 10_000, true}, {storeLimit, contract.MaxPayload/2 + 10_000, false}, {storeLimit, storeLimit/2 + 10_000, true}} {
		a := newAgentRun(t, 20)
		a.run.Allow(tc.limit)
		a.thread = a.run.Transcript.Open("t")
		a.appendReply(&contract.ToolCall{ID: "1", Name: "sub"}, contract.ToolReply{Text: strings.Repeat("x", tc.n)})
		m, err := contract.DecodeMessage(a.thread.Entries[0].Raw)
		if err != nil || m.Error != tc.fails || tc.fails && !strings.Contains(m.Text, "request less") {
			t.Errorf("%d bytes with a store limit of %d: %.200q, %v", tc.n, tc.limit, m.Text, err)
		}
	}
}
