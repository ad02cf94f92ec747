package inputs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/workflows/plan"
)

func TestRead(t *testing.T) {
	tests := map[string]struct{ name, raw, want string }{
		"object":                {"p.json", `{"b": 1, "a": "x"}`, ""},
		"YAML":                  {"p.yaml", "b: 1\na: x\n", ""},
		"list":                  {"p.json", "\n [1]", `p.json:2:2: error: the parameters are an array, expected an object [params-object]`},
		"string":                {"p.json", `"x"`, `p.json:1:1: error: the parameters are "x", expected an object [params-object]`},
		"invalid JSON":          {"p.json", `{"a": }`, `p.json:1:7: error: not JSON: `},
		"duplicate key":         {"p.json", "{\"a\": 1,\n\"a\": 2}", `p.json:2:1: error: duplicate key "a", first used at line 1 [duplicate-key]`},
		"empty":                 {"p.json", ``, `p.json:1:1: error: the document is empty [empty-document]`},
		"number out of range":   {"p.json", `{"a": [{"b": 1e999}]}`, `p.json:1:14: error: the number 1e999 in "a.0.b" is out of range [number-range]`},
		"very long number":      {"p.json", `{"a": ` + strings.Repeat("9", 500) + `}`, `p.json:1:7: error: the number 999`},
		"nested too deep":       {"p.json", `{"a": ` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, `p.json:1:1: error: the parameters are nested 71 deep, over the limit of 64 [too-large]`},
		"too large":             {"p.json", `{"a": "` + strings.Repeat("x", MaxBytes) + `"}`, `p.json: error: the parameters have 1048585 bytes, over the limit of 1048576 [too-large]`},
		"half a surrogate pair": {"p.json", `{"a": "\ud800"}`, `p.json:1:8: error: the escape \ud800 is half of a surrogate pair [invalid-utf8]`},
		"invalid UTF-8":         {"p.json", "{\"a\": \"\xff\"}", `p.json:1:8: error: byte 0xff is not valid UTF-8 [invalid-utf8]`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, diags := Read(tc.name, []byte(tc.raw))
			if tc.want == "" {
				if p == nil || fmt.Sprint(len(diags)) != "0" {
					t.Errorf("got %v", diags)
				}
				return
			}
			if p != nil || len(diags) != 1 || !strings.HasPrefix(diags[0].String(), tc.want) {
				t.Errorf("got %v\nwant %s", diags, tc.want)
			}
		})
	}
}

// TestReadValues checks errors in parameters from flags or a request body, which have keys but no positions.
func TestReadValues(t *testing.T) {
	for _, in := range []*plan.Inputs{{Mode: plan.InputsNamed}, {Mode: plan.InputsMerged}} {
		var v Values
		err := v.Read(in, json.RawMessage(`{"m":1,"n":1e400}`), nil, "")
		if got, want := fmt.Sprint(err), `params: error: the number 1e400 in "n" is out of range [number-range]`+"\n\tuse a smaller number or a string"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		err = v.Read(in, nil, json.RawMessage(`{"n":[1e400]}`), "x")
		if got, want := fmt.Sprint(err), `scope: error: the number 1e400 in "n.0" is out of range`; !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

const report = `{"type":"object","required":["topic"],"properties":{"topic":{"type":"string"},"tags":{"type":"array","items":{"enum":["a","b"]}}},"additionalProperties":false}`

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		in     plan.Inputs
		params string
		want   string
	}{
		"merged, valid":                {plan.Inputs{Mode: plan.InputsMerged, Schema: json.RawMessage(report)}, `{"prompt":"p","topic":"t"}`, ""},
		"merged, without a prompt":     {plan.Inputs{Mode: plan.InputsMerged, Schema: json.RawMessage(report)}, `{"topic":"t"}`, `Parameters do not match agent's parameters_schema ("writer"): $: 'prompt' is a required property`},
		"authoritative, valid":         {plan.Inputs{Mode: plan.InputsAuthoritative, Schema: json.RawMessage(report)}, `{"topic":"t"}`, ""},
		"authoritative, with prompt":   {plan.Inputs{Mode: plan.InputsAuthoritative, Schema: json.RawMessage(report)}, `{"topic":"t","prompt":"p"}`, `("writer"): $: Additional properties are not allowed ('prompt' was unexpected)`},
		"several, in order":            {plan.Inputs{Mode: plan.InputsMerged, Schema: json.RawMessage(report)}, `{"tags":["a","c"],"x":1}`, `: $: 'topic' is a required property; $: 'prompt' is a required property; $.tags.1: 'c' is not one of ['a', 'b']; $: Additional properties are not allowed ('x' was unexpected)`},
		"documented":                   {plan.Inputs{Mode: plan.InputsMerged, Style: plan.StyleDocumented, Schema: json.RawMessage(report)}, `{"tags":["a","c"],"prompt":"p"}`, `: $.topic: 'topic' is a required property; $.tags[1]: 'c' is not one of ['a', 'b']`},
		"integer out of range":         {plan.Inputs{Mode: plan.InputsNamed, Schema: json.RawMessage(`{"properties":{"i":{"type":"integer"},"n":{"type":"number"},"l":{"type":"array","items":{"type":"integer"}}}}`)}, `{"i":99999999999999999999,"n":99999999999999999999,"l":[1,-9223372036854775809]}`, `("writer"): $.i: 99999999999999999999 is not a 64-bit integer; $.l: item 2: -9223372036854775809 is not a 64-bit integer`},
		"64-bit integers":              {plan.Inputs{Mode: plan.InputsNamed, Schema: json.RawMessage(`{"properties":{"i":{"type":"integer"},"l":{"type":"integer"}}}`)}, `{"i":9223372036854775807,"l":-9223372036854775808}`, ""},
		"no schema":                    {plan.Inputs{Mode: plan.InputsMerged}, `{"prompt":""}`, `: $.prompt: '' should be non-empty`},
		"null schema":                  {plan.Inputs{Mode: plan.InputsAuthoritative, Schema: json.RawMessage(`null`)}, `{}`, `: $: 'prompt' is a required property`},
		"schema with a file reference": {plan.Inputs{Mode: plan.InputsMerged, Schema: json.RawMessage(`{"allOf":[{"$ref":"file:///etc/passwd"}]}`)}, `{"prompt":"p"}`, `points outside the document`},
		"procedural, no schema":        {plan.Inputs{Mode: plan.InputsProcedural}, `{}`, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := Check(t.Context(), "writer", &tc.in, params(t, tc.params))
			if got := fmt.Sprint(err); !strings.Contains(got, tc.want) || (tc.want == "") != (err == nil) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestErrorBody checks that the error has the members that the framework's clients expect.
func TestErrorBody(t *testing.T) {
	err := Check(t.Context(), "writer", &plan.Inputs{Mode: plan.InputsMerged}, params(t, `{"prompt":7}`))
	raw, marshalErr := json.Marshal(err)
	if marshalErr != nil {
		t.Fatal(marshalErr)
	}
	want := `{"error":"parameter_validation_failed","message":"Parameters do not match agent's parameters_schema","agent_name":"writer",` +
		`"validation_errors":[{"path":"$.prompt","message":"7 is not of type 'string'","schema_path":"properties/prompt/type"}],"parameters_schema":` + implicit + `}`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

func TestMerge(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"prompt is appended": {`{"type":"object","required":["t"],"properties":{"t":{}},"additionalProperties":false}`,
			`{"type": "object", "required": ["t", "prompt"], "properties": {"t": {}, "prompt": {"type": "string", "minLength": 1}}, "additionalProperties": false}`},
		"missing members are added":    {`{"title":"x"}`, `{"title": "x", "type": "object", "properties": {"prompt": {"type": "string", "minLength": 1}}, "required": ["prompt"]}`},
		"existing prompt is unchanged": {`{"type":["object"],"properties":{"prompt":{"type":"integer"}},"required":["prompt"]}`, `{"type": "object", "properties": {"prompt": {"type": "integer"}}, "required": ["prompt"]}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(Schema(&plan.Inputs{Mode: plan.InputsMerged, Schema: json.RawMessage(tc.in)})); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	const all = `{"notes":"a\nb\n","prompt":"Do it.","n":1.50,"on":true,"none":null,"list":["ü",{"k":1e3}],"e":""}`
	block := "notes:\n  a\n  b\n  \n%sn: 1.5\non: True\nnone: null\nlist: [\"\\u00fc\", {\"k\": 1000.0}]\ne: \n</inputs>"
	some := json.RawMessage(report)
	tests := map[string]struct {
		in           plan.Inputs
		params, want string
	}{
		"merged":                      {plan.Inputs{Mode: plan.InputsMerged, Schema: some}, all, "<inputs>\n" + fmt.Sprintf(block, "") + "\n\nDo it."},
		"documented":                  {plan.Inputs{Mode: plan.InputsMerged, Schema: some, Style: plan.StyleDocumented}, `{"prompt":"p","none":null,"in":[null]}`, "<inputs>\nnone: None\nin: [null]\n</inputs>\n\np"},
		"authoritative":               {plan.Inputs{Mode: plan.InputsAuthoritative, Schema: some}, all, "<inputs>\n" + fmt.Sprintf(block, "prompt: Do it.\n")},
		"merged, prompt only":         {plan.Inputs{Mode: plan.InputsMerged, Schema: some}, `{"prompt":"a\nb"}`, "a\nb"},
		"authoritative, empty schema": {plan.Inputs{Mode: plan.InputsAuthoritative, Schema: json.RawMessage(`{}`)}, `{"prompt":"p"}`, "<inputs>\nprompt: p\n</inputs>"},
		"authoritative, no schema":    {plan.Inputs{Mode: plan.InputsAuthoritative}, `{"prompt":"p"}`, "p"},
		"authoritative, no values":    {plan.Inputs{Mode: plan.InputsAuthoritative, Schema: some}, `{}`, "<inputs>\n</inputs>"},
		"prompt that is a number":     {plan.Inputs{Mode: plan.InputsMerged, Schema: some}, `{"prompt":3}`, "3"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Text(&tc.in, params(t, tc.params))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFromText(t *testing.T) {
	if got := string(FromText("a \"b\"\n").JSON()); got != `{"prompt": "a \"b\"\n"}` {
		t.Errorf("got %s", got)
	}
}

// flow returns a flow with an agent that has placeholders.
func flow(prompt, schema string) *plan.Flow {
	agent := &plan.Agent{Prompt: prompt, System: "x"}
	if schema != "" {
		agent.Output = &plan.Output{Schema: json.RawMessage(schema), Repairs: 1}
	}
	return &plan.Flow{Name: "writer", Nodes: []plan.Node{{ID: "writer", Agent: agent}, {ID: "other"}},
		Inputs: &plan.Inputs{Mode: plan.InputsMerged, Schema: json.RawMessage(`{}`), Placeholders: true}}
}

func TestStart(t *testing.T) {
	f := flow("About ${params.prompt} for ${scope.who}, ${env.HOME}, ${runtime.run_id}.", `{"description":"${params.prompt}","properties":{"${params.prompt}":{"type":"string"}}}`)
	before, _ := json.Marshal(f)
	out, text, err := Start(t.Context(), f, Values{Params: FromText(`"${scope.who}"`), Scope: params(t, `{"who":["x",null]}`)})
	if err != nil {
		t.Fatal(err)
	}
	agent := out.Nodes[0].Agent
	if text != `"${scope.who}"` {
		t.Errorf("text is %q", text)
	}
	if want := `About "${scope.who}" for ['x', None], ${env.HOME}, ${runtime.run_id}.`; agent.Prompt != want || !strings.HasPrefix(agent.System, want+"\n\n## Required Output Format") {
		t.Errorf("prompt is %q, system %q", agent.Prompt, agent.System)
	}
	if got, want := string(agent.Output.Schema), `{"description":"\"${scope.who}\"","properties":{"${params.prompt}":{"type":"string"}}}`; got != want {
		t.Errorf("schema is %s, want %s", got, want)
	}
	if after, _ := json.Marshal(f); string(after) != string(before) {
		t.Error("the original flow was changed")
	}
	f.Inputs.Placeholders = false
	if same, _, err := Start(t.Context(), f, Values{Params: FromText("x")}); same != f || err != nil {
		t.Errorf("without placeholders the flow was copied, %v", err)
	}
}

func TestStartErrors(t *testing.T) {
	long := FromText(strings.Repeat("x", 600_000))
	tests := map[string]struct {
		flow   *plan.Flow
		params *Params
		want   string
	}{
		"invalid parameters":             {flow("x", ""), FromText(""), "'' should be non-empty"},
		"expanded prompt too large":      {flow("${params.prompt}${params.prompt}", ""), long, "the system prompt has at least 1200000 bytes"},
		"expanded prompt exceeds memory": {flow(strings.Repeat("${params.prompt}", 60_000), ""), long, "the system prompt has"},
		"expanded schema too large":      {flow("x", `{"a":"${params.prompt}","b":"${params.prompt}"}`), long, "the system prompt has at least"},
		"expanded schema invalid":        {flow("x", `{"pattern":"${params.prompt}"}`), FromText("("), `the output schema is invalid after its placeholders are replaced: "pattern"`},
		"text of parameters too long":    {flow("x", ""), FromText(strings.Repeat("x", MaxBytes+1)), "the text of the parameters has 1048577 bytes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, _, err := Start(t.Context(), tc.flow, Values{Params: tc.params}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %.200v, want %s", err, tc.want)
			}
		})
	}
}

func FuzzStart(f *testing.F) {
	for _, s := range []string{`{"prompt":"x"}`, `{"prompt":"${params.prompt}","a":[1,{"b":null}]}`, `{"a":"\n"}`, `{"prompt":1e5}`, `[]`, `{"prompt":"x","prompt":1}`} {
		f.Add([]byte(s), `{"properties":{"a":{"type":"string"}},"description":"${params.a}"}`, "${params.prompt} ${params.a}")
	}
	f.Fuzz(func(t *testing.T, raw []byte, schema, prompt string) {
		p, diags := Read("p.json", raw)
		if (p == nil) == (len(diags) == 0) {
			t.Fatalf("%v with %v", p, diags)
		}
		if p == nil {
			return
		}
		in := flow(prompt, "")
		in.Inputs.Schema = json.RawMessage(schema)
		out, text, err := Start(t.Context(), in, Values{Params: p})
		if err == nil && (out == nil || len(text) > MaxBytes) || err != nil && err.Error() == "" {
			t.Fatalf("%v, %q, %v", out, text, err)
		}
	})
}

// TestStartConnections checks that placeholders in the URLs and headers of connections are replaced, and that
// required headers must have a value.
func TestStartConnections(t *testing.T) {
	base := func(h ...plan.Header) *plan.Flow {
		f := flow("x", "")
		f.Connections = []plan.Connection{{ID: "shelf", URL: "https://${params.prompt}.example.com/mcp", Headers: h}}
		return f
	}
	tests := map[string]struct {
		header      plan.Header
		value, want string
	}{
		"replaced":                  {plan.Header{Name: "A", Value: "${scope.who}/${runtime.run_id}"}, "blue/r1", ""},
		"required and set":          {plan.Header{Name: "A", Value: "${scope.who}", Required: true}, "blue", ""},
		"required and secret":       {plan.Header{Name: "A", Value: "Bearer ${env.T}", Secret: true, Required: true}, "Bearer ${env.T}", ""},
		"required and missing":      {plan.Header{Name: "A", Value: "x ${scope.other}", Required: true}, "", `"shelf" requires the config A`},
		"required and empty":        {plan.Header{Name: "A", Value: "", Required: true}, "", `"shelf" requires the config A`},
		"missing, but not required": {plan.Header{Name: "A", Value: "${scope.other}"}, "${scope.other}", ""},
		"two lines":                 {plan.Header{Name: "A", Value: "${scope.lines}"}, "", "has a line break"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, _, err := Start(t.Context(), base(tc.header), Values{Params: FromText("p"), RunID: "r1", Scope: params(t, `{"who":"blue","lines":"a\nb"}`)})
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c := out.Connections[0]; c.Headers[0].Value != tc.value || c.URL != "https://p.example.com/mcp" {
				t.Errorf("got %+v", c)
			}
		})
	}
	_, _, err := Start(t.Context(), base(plan.Header{Name: "A", Required: true}), Values{Params: FromText("p")})
	if raw, _ := json.Marshal(err); !strings.HasPrefix(string(raw), `{"error":"missing_required_mcp_config","message":"`) || !strings.HasSuffix(string(raw), `"server_name":"shelf","missing_fields":["A"]}`) {
		t.Errorf("JSON is %s", raw)
	}
}
