package activities

import (
	"testing"

	"weft/activities/contract"
)

func TestCondense(t *testing.T) {
	tests := map[string]struct {
		script, callID string
		value, class   string
	}{
		"to JSON":                  {`rules: [{kind: condense, contains: "<task>\nsort them\n</task>\n\n<value key=\"list\">\n[3,\"<2>\"]\n</value>", say: "[2, 3]"}]`, "2", `[2,3]`, ""},
		"to JSON in a fence":       {"rules: [{kind: condense, say: \"```json\\n{\\\"a\\\": 1}\\n```\"}]", "2", `{"a":1}`, ""},
		"to text":                  {`rules: [{kind: condense, say: 'two and {"a": 3}'}]`, "2", `"two and {\"a\": 3}"`, ""},
		"to nothing":               {`rules: [{kind: condense, say: ""}]`, "2", `""`, ""},
		"a call that is not there": {`rules: [{kind: condense, say: x}]`, "7", "", contract.ClassTranscriptLost},
		"a failure":                {`rules: [{kind: condense, fail: {class: quota_exceeded}}]`, "2", "", contract.ClassQuotaExceeded},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newFakeRun()
			_, env := bench(t, Deps{Source: r})
			out, f := perform[contract.CondenseResult](t, env, contract.ActivityCondenseValue, contract.CondenseInput{
				Model: "script", Script: scripted(t, r, tc.script), Node: "n", Step: 1, Prompt: "sort them", Key: "list", CallID: tc.callID,
				Call: r.keep(t, contract.Message{Role: contract.RoleAssistant, Calls: []contract.ToolCall{
					{ID: "1", Name: "x", Arguments: "{}"},
					{ID: "2", Name: "set_state_filtered", Arguments: `{"key":"list","value":[3,"<2>"]}`},
				}}),
			})
			if tc.class != "" {
				if f == nil || f.Class != tc.class {
					t.Errorf("failure is %+v, want %s", f, tc.class)
				}
				return
			}
			if f != nil {
				t.Fatal(f)
			}
			if string(out.Value) != tc.value || out.Usage.Calls != 1 {
				t.Errorf("value is %s, usage %+v", out.Value, out.Usage)
			}
		})
	}
}
