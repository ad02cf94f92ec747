package koog_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/specadapter"
	"weft/specadapter/source"
)

// unquoted is a flow without optional quotes.
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

// TestLenientJSON checks that both profiles accept unquoted keys and strings, as the first code does.
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
		if diags[0].Code != source.CodeUnquoted || diags[0].Line != 2 || diags[0].Col != 3 || diags[0].Severity != source.Warning || !strings.Contains(diags[0].Text, `first "id"`) {
			t.Errorf("%s: %v", profile, diags)
		}
	}
}

// TestInvalidLenientJSON checks that invalid lenient JSON fails with a syntax error.
func TestInvalidLenientJSON(t *testing.T) {
	for name, edit := range map[string][2]string{
		"extra comma":      {"version: 1.0,", "version: 1.0,,"},
		"missing comma":    {"id: lenient,", "id: lenient"},
		"single quotes":    {"id: lenient", "id: 'lenient'"},
		"truncated":        {"]\n}", "]"},
		"space in a value": {"type: verify", "type: verify it"},
		"trailing text":    {"]\n}", "]\n} x"},
		"comment":          {"id:", "// x\nid:"},
	} {
		text := strings.Replace(unquoted, edit[0], edit[1], 1)
		res, diags := specadapter.Load("flow.json", []byte(text), specadapter.Options{})
		if res != nil || len(diags) != 1 || diags[0].Code != source.CodeSyntax || diags[0].Line == 0 {
			t.Errorf("%s: %v", name, diags)
		}
	}
	modeLater := strings.Replace(unquoted, "input.data", "output.data", 1)
	if res, diags := specadapter.Load("flow.json", []byte(modeLater), specadapter.Options{Profile: "koog"}); res != nil || !strings.Contains(codes(diags), "error syntax") {
		t.Errorf("the later code must reject unquoted strings: %v", diags)
	}
	if res, diags := specadapter.Load("flow.json", []byte(modeLater), specadapter.Options{}); res == nil {
		t.Errorf("default: %v", diags)
	}
	other := `{id: x, component_type: Flow, nodes: []}`
	if res, diags := specadapter.Load("flow.json", []byte(other), specadapter.Options{}); res != nil || codes(diags) != "error syntax" {
		t.Errorf("another dialect: %v", diags)
	}
}

// TestTextsAndNumbers checks that numbers are accepted as strings, and strings as numbers, where the published code does.
func TestTextsAndNumbers(t *testing.T) {
	doc := `{"id": 7, "version": 2, "defaultModel": null, "agents": [
 {"name": "a", "type": "task", "model": "openai/gpt4o", "runtime": null, "prompt": null, "config": {"temperature": "0.25", "maxIterations": "9", "topP": null}, "params": {"task": true}, "output": null}]}`
	for profile, want := range map[string]string{"default": "warning wrong-type, warning wrong-type, warning wrong-type, warning wrong-type, warning wrong-type", "koog": ""} {
		res, diags := specadapter.Load("flow.json", []byte(doc), specadapter.Options{Profile: profile})
		if res == nil || codes(diags) != want {
			t.Fatalf("%s: %v", profile, diags)
		}
		if res.Flow.ID != "7" || res.Flow.Revision != "2" || res.Flow.Nodes[0].Agent.Prompt != "true" {
			t.Errorf("%s: the flow is %+v", profile, res.Flow)
		}
	}
	invalid := strings.Replace(doc, `"0.25"`, `"warm"`, 1)
	if res, diags := specadapter.Load("flow.json", []byte(invalid), specadapter.Options{}); res != nil || !strings.Contains(codes(diags), "error wrong-type") {
		t.Errorf("a temperature that is not a number: %v", diags)
	}
}

// TestBlankOperations checks that a blank operation is unknown: the first code always takes the transition.
func TestBlankOperations(t *testing.T) {
	for _, op := range []string{`""`, `"  "`, `"equal"`} {
		doc := flow(`{"variable": "input.data", "operation": ` + op + `, "value": 1}`)
		modeLater := []byte(strings.Replace(string(doc), "input.data", "output.data", 1))
		code := "unknown-operation"
		if op != `"equal"` {
			code = "missing-field"
		}
		res, diags := specadapter.Load("f.json", doc, specadapter.Options{Profile: "koog"})
		if res == nil || codes(diags) != "warning unknown-operation" || res.Flow.Edges[1].Compare != nil {
			t.Errorf("the first code, %s: %v", op, diags)
		}
		for name, load := range map[string]func() (*specadapter.Result, []source.Diagnostic){
			"the later code": func() (*specadapter.Result, []source.Diagnostic) {
				return specadapter.Load("f.json", modeLater, specadapter.Options{Profile: "koog"})
			},
			"default": func() (*specadapter.Result, []source.Diagnostic) {
				return specadapter.Load("f.json", doc, specadapter.Options{})
			},
		} {
			if res, diags := load(); res != nil || !strings.Contains(codes(diags), "error "+code) {
				t.Errorf("%s, %s: %v", name, op, diags)
			}
		}
	}
	absent := flow(`{"variable": "input.data", "value": 1}`)
	if res, diags := specadapter.Load("f.json", absent, specadapter.Options{Profile: "koog"}); res != nil || codes(diags) != "error missing-field" {
		t.Errorf("no operation: %v", diags)
	}
}

// TestToolsOfOneName checks that two tools of the same name are an error, and only a warning in the profile koog.
func TestToolsOfOneName(t *testing.T) {
	const one = `{"name": "t", "type": "mcp", "parameters": {"transport": "sse", "url": "http://localhost:%d/"}}`
	tools := fmt.Sprintf(one+","+one+","+one, 1, 2, 3)
	doc := []byte(`{"id": "f", "version": "1", "defaultModel": "openai/gpt-4o", "tools": [` + tools + `], "agents": [{"name": "a", "type": "task", "params": {"task": "t"}}]}`)
	for profile, want := range map[string]string{"default": "error duplicate-name, error duplicate-name", "koog": "warning duplicate-name, warning duplicate-name"} {
		res, diags := specadapter.Load("f.json", doc, specadapter.Options{Profile: profile})
		if codes(diags) != want {
			t.Errorf("%s: %v", profile, diags)
		}
		if profile == "koog" && (res == nil || len(res.Flow.Connections) != 3) {
			t.Errorf("%s: the flow is %+v", profile, res)
		}
	}
}

// TestNonStringHeaders checks that a number is accepted as a header's value with a warning; the first code
// accepts it silently and the later one rejects it.
func TestNonStringHeaders(t *testing.T) {
	doc := func(value, variable string) []byte {
		return []byte(`{"id": "f", "version": "1", "defaultModel": "openai/gpt4o", "tools": [{"name": "t", "type": "mcp",
"parameters": {"transport": "sse", "url": "http://localhost:1/", "headers": {"X-Tenant": ` + value + `}}}],
"agents": [{"name": "a", "type": "task", "params": {"task": "t"}}],
"transitions": [{"from": "a", "to": "__finish__", "condition": {"variable": "` + variable + `", "operation": "equals", "value": 1}}]}`)
	}
	for _, tc := range []struct{ value, want, modeIntended, first, modeLater string }{
		{`"7"`, "7", "", "", ""},
		{`42.50`, "42.50", "warning wrong-type", "", "error wrong-type"},
		{`true`, "true", "warning wrong-type", "", "error wrong-type"},
		{`null`, "", "error wrong-type", "error wrong-type", "error wrong-type"},
		{`["x"]`, "", "error wrong-type", "error wrong-type", "error wrong-type"},
	} {
		res, diags := specadapter.Load("f.json", doc(tc.value, "input.data"), specadapter.Options{})
		if codes(diags) != tc.modeIntended {
			t.Errorf("default, %s: %v", tc.value, diags)
		}
		if tc.want != "" && (res == nil || len(res.Flow.Connections[0].Headers) != 1 || res.Flow.Connections[0].Headers[0].Value != tc.want) {
			t.Errorf("default, %s: the flow is %+v", tc.value, res)
		}
		for variable, want := range map[string]string{"input.data": tc.first, "output.data": tc.modeLater} {
			if _, diags := specadapter.Load("f.json", doc(tc.value, variable), specadapter.Options{Profile: "koog"}); codes(diags) != want {
				t.Errorf("koog, %s, %s: %v, want %q", variable, tc.value, diags, want)
			}
		}
	}
	secret := strings.Replace(string(doc("123456", "input.data")), "X-Tenant", "X-Api-Key", 1)
	if _, diags := specadapter.Load("f.json", []byte(secret), specadapter.Options{}); strings.Contains(fmt.Sprint(diags), "123456") {
		t.Errorf("a message shows the secret: %v", diags)
	}
}

// TestNonStringElements checks that numbers are accepted as strings in lists, with a warning.
func TestNonStringElements(t *testing.T) {
	doc := []byte(`{"id": "f", "version": "1", "tools": [{"name": "t", "type": "mcp", "parameters": {"transport": "stdio", "command": "serve", "args": ["--port", 8080, true]}}],
"agents": [{"name": "p", "type": "parallel", "params": {"agents": [7]}}, {"name": "7", "type": "task", "params": {"task": "t"}}]}`)
	res, diags := specadapter.Load("f.json", doc, specadapter.Options{})
	if codes(diags) != "warning command, warning wrong-type, warning wrong-type, warning wrong-type" {
		t.Fatal(diags)
	}
	if args := res.Flow.Connections[0].Args; len(args) != 3 || args[1] != "8080" || args[2] != "true" {
		t.Errorf("the arguments are %q", args)
	}
	if !strings.Contains(diags[1].Text, `an argument of tool "t" is 8080`) || diags[1].Col == 0 {
		t.Errorf("%v", diags[1])
	}
}

// TestUnknownOperationsAsWritten checks that an unknown operation is quoted in its original case.
func TestUnknownOperationsAsWritten(t *testing.T) {
	doc := flow(`{"variable": "input.data", "operation": "BIGGER", "value": 1}`)
	for _, profile := range []string{"default", "koog"} {
		_, diags := specadapter.Load("f.json", doc, specadapter.Options{Profile: profile})
		if len(diags) != 1 || diags[0].Code != "unknown-operation" || !strings.Contains(diags[0].Text, `"BIGGER"`) {
			t.Errorf("%s: %v", profile, diags)
		}
	}
}
