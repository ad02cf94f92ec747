package koog_test

import (
	"strings"
	"testing"

	"weft/specadapter"
	"weft/specadapter/source"
)

// unquoted is a flow without a quote that is not needed.
const unquoted = `{
  id: lenient, version: 1.0,
  defaultModel: openai/gpt-4o-mini,
  agents: [
    {name: first, type: task, params: {task: "two
lines", toolNames: []}},
    {"name": second, type: verify, config: {temperature: "0.5", maxIterations: "60"}, params: {task: 7}}
  ],
  transitions: [
    {from: first, to: second, condition: {variable: input.data, operation: EQUALS, value: yes}},
    {from: first, to: __finish__}
  ]
}`

func codes(diags []source.Diagnostic) string {
	var out []string
	for i := range diags {
		out = append(out, diags[i].Severity.String()+" "+diags[i].Code)
	}
	return strings.Join(out, ", ")
}

// Texts and keys without quotes are the first code's JSON; both profiles take them.
func TestLenientJSON(t *testing.T) {
	for _, profile := range []string{"default", "koog"} {
		res, diags := specadapter.Load("flow.json", []byte(unquoted), specadapter.Options{Profile: profile})
		if res == nil {
			t.Fatalf("%s: %v", profile, diags)
		}
		f := res.Flow
		if f.ID != "lenient" || f.Revision != "1.0" || f.Model != "openai/gpt-4o-mini" || len(f.Nodes) != 2 ||
			f.Nodes[0].Agent.Prompt != "two\nlines" || f.Nodes[1].Agent.Prompt != "7" || string(f.Edges[1].Compare.Value) != `"yes"` {
			t.Errorf("%s: the flow is %+v", profile, f)
		}
		if diags[0].Code != source.CodeUnquoted || diags[0].Line != 2 || diags[0].Col != 3 || diags[0].Severity != source.Warning || !strings.Contains(diags[0].Text, `the first is "id"`) {
			t.Errorf("%s: %v", profile, diags)
		}
	}
}

// What is not JSON without its quotes either has the error of JSON.
func TestNotEvenLenient(t *testing.T) {
	for name, edit := range map[string][2]string{
		"a comma too many": {"version: 1.0,", "version: 1.0,,"},
		"a comma missing":  {"id: lenient,", "id: lenient"},
		"single quotes":    {"id: lenient", "id: 'lenient'"},
		"cut off":          {"]\n}", "]"},
		"a blank inside":   {"type: verify", "type: verify it"},
		"more behind":      {"]\n}", "]\n} x"},
		"a comment":        {"id:", "// x\nid:"},
	} {
		text := strings.Replace(unquoted, edit[0], edit[1], 1)
		res, diags := specadapter.Load("flow.json", []byte(text), specadapter.Options{})
		if res != nil || len(diags) != 1 || diags[0].Code != source.CodeSyntax || diags[0].Line == 0 {
			t.Errorf("%s: %v", name, diags)
		}
	}
	later := strings.Replace(unquoted, "input.data", "output.data", 1)
	if res, diags := specadapter.Load("flow.json", []byte(later), specadapter.Options{Profile: "koog"}); res != nil || !strings.Contains(codes(diags), "error syntax") {
		t.Errorf("the later code takes no text without quotes: %v", diags)
	}
	if res, diags := specadapter.Load("flow.json", []byte(later), specadapter.Options{}); res == nil {
		t.Errorf("default: %v", diags)
	}
	other := `{id: x, component_type: Flow, nodes: []}`
	if res, diags := specadapter.Load("flow.json", []byte(other), specadapter.Options{}); res != nil || codes(diags) != "error syntax" {
		t.Errorf("another dialect: %v", diags)
	}
}

// Numbers stand for texts and texts for numbers where the real code takes them so.
func TestTextsAndNumbers(t *testing.T) {
	doc := `{"id": 7, "version": 2, "defaultModel": null, "agents": [
 {"name": "a", "type": "task", "model": "openai/gpt4o", "runtime": null, "prompt": null, "config": {"temperature": "0.25", "maxIterations": "9", "topP": null}, "params": {"task": true}, "output": null}]}`
	for profile, want := range map[string]string{"default": "warning wrong-type, warning wrong-type, warning wrong-type, warning wrong-type", "koog": ""} {
		res, diags := specadapter.Load("flow.json", []byte(doc), specadapter.Options{Profile: profile})
		if res == nil || codes(diags) != want {
			t.Fatalf("%s: %v", profile, diags)
		}
		if res.Flow.ID != "7" || res.Flow.Revision != "2" || res.Flow.Nodes[0].Agent.Prompt != "true" {
			t.Errorf("%s: the flow is %+v", profile, res.Flow)
		}
	}
	wrong := strings.Replace(doc, `"0.25"`, `"warm"`, 1)
	if res, diags := specadapter.Load("flow.json", []byte(wrong), specadapter.Options{}); res != nil || !strings.Contains(codes(diags), "error wrong-type") {
		t.Errorf("a temperature that is no number: %v", diags)
	}
}
