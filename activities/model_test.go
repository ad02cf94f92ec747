package activities

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// profileOf stores a call profile with the run.
func profileOf(t *testing.T, r *fakeRun, p contract.Profile) contract.ProfileRef {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	r.content[contract.SHA(raw)] = raw
	return contract.ProfileRef{ContentRef: contract.ContentRef{Workflow: "wf", Run: "run", SHA: contract.SHA(raw)}, Body: raw}
}

func TestModelAnswers(t *testing.T) {
	r := newFakeRun()
	r.say(t, "t", 3)
	_, env := bench(t, Deps{Source: r})
	p := profileOf(t, r, contract.Profile{Model: "script", Node: "n", System: "be good",
		Script: scripted(t, r, `rules: [{node: n, turn: 2, step: 4, say: "<second>"}]`)})
	in := r.call("t", 2, 1)
	in.Profile, in.Step = p, 4
	out, f := perform[contract.ModelResult](t, env, contract.ActivityCallModel, in)
	if f != nil {
		t.Fatal(f)
	}
	m, err := contract.DecodeMessage(out.Message)
	if err != nil {
		t.Fatal(err)
	}
	if m.Role != contract.RoleAssistant || m.Text != "<second>" || out.Model != "script" || out.Attempt != 1 || out.Usage.Calls != 1 {
		t.Errorf("result is %+v, message %+v", out, m)
	}
	// The receiver hashes the message: encoding it again must not change it.
	var travelled contract.ModelResult
	if raw, err := json.Marshal(out); err != nil || json.Unmarshal(raw, &travelled) != nil || contract.SHA(travelled.Message) != contract.SHA(out.Message) {
		t.Error("the message changes when it is encoded")
	}
	// The worker that produced the answer sends no query for the next call.
	r.threads["t"] = append(r.threads["t"], out.Message, encode(t, contract.Message{Role: contract.RoleUser, Text: "go on"}))
	r.queries = nil
	in = r.call("t", 4, 1)
	in.Profile, in.Step = p, 4
	in.Profile.Body = nil
	_, f = perform[contract.ModelResult](t, env, contract.ActivityCallModel, in)
	if f == nil || f.Class != contract.ClassBadRequest || !strings.Contains(f.Text, "turn 3") {
		t.Errorf("without a rule: %+v", f)
	}
	if len(r.queries) != 0 {
		t.Errorf("queries = %v, want none", r.queries)
	}
}

func TestModelChecksJSON(t *testing.T) {
	output := &plan.Output{Schema: json.RawMessage(`{"type":"object","required":["a"]}`)}
	tests := map[string]struct {
		script  string
		output  *plan.Output
		noTools bool
		data    string
		errors  []string
		checked bool
	}{
		"good JSON":                      {`rules: [{say: 'so: {"a": 1}'}]`, output, false, `{"a":1}`, nil, true},
		"JSON that does not fit":         {`rules: [{say: '{"b": 1}'}]`, output, false, "", []string{"$: 'a' is a required property"}, true},
		"no JSON":                        {`rules: [{say: "hm"}]`, output, false, "", []string{"$: No JSON output found but output_schema requires structured output"}, true},
		"text, without an output schema": {`rules: [{say: "hm"}]`, nil, false, "", nil, false},
		"a call of a tool":               {`rules: [{say: '{"a": 1}', call: [{tool: x}]}]`, output, false, "", nil, false},
		"the last answer, without tools": {`rules: [{say: '{"a": 1}'}]`, output, true, `{"a":1}`, nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newFakeRun()
			r.say(t, "t", 1)
			_, env := bench(t, Deps{Source: r})
			in := r.call("t", 0, 1)
			in.NoTools = tc.noTools
			in.Profile = profileOf(t, r, contract.Profile{Model: "script", Node: "n", Output: tc.output, Script: scripted(t, r, tc.script)})
			out, f := perform[contract.ModelResult](t, env, contract.ActivityCallModel, in)
			if f != nil {
				t.Fatal(f)
			}
			if (out.Checked != nil) != tc.checked {
				t.Fatalf("checked is %+v", out.Checked)
			}
			if out.Checked != nil && (string(out.Checked.Data) != tc.data || cmp.Diff(tc.errors, messages(out.Checked)) != "") {
				t.Errorf("data is %s, errors %v", out.Checked.Data, messages(out.Checked))
			}
		})
	}
}

func TestModelFailures(t *testing.T) {
	tests := map[string]struct {
		set   func(t *testing.T, r *fakeRun, in *contract.ModelInput)
		class string
		text  string
	}{
		"a profile whose body has another hash": {func(_ *testing.T, _ *fakeRun, in *contract.ModelInput) {
			in.Profile.Body = json.RawMessage(`{"model":"script","node":"forged"}`)
		}, contract.ClassTranscriptLost, "the call's profile"},
		"a profile that the run does not have": {func(_ *testing.T, _ *fakeRun, in *contract.ModelInput) {
			in.Profile = contract.ProfileRef{ContentRef: contract.ContentRef{SHA: "x"}}
		}, contract.ClassTranscriptLost, "gone"},
		"an unknown provider": {func(t *testing.T, r *fakeRun, in *contract.ModelInput) {
			in.Profile = profileOf(t, r, contract.Profile{Model: "nobody/x", Node: "n"})
		}, contract.ClassBadRequest, `"nobody"`},
		"a provider without a key": {func(t *testing.T, r *fakeRun, in *contract.ModelInput) {
			in.Profile = profileOf(t, r, contract.Profile{Model: "openai/x", Node: "n"})
		}, contract.ClassConnection, "no key"},
		"a catalogue without the tool": {func(t *testing.T, r *fakeRun, in *contract.ModelInput) {
			r.content["c"] = nil
			raw := []byte(`{"tools":[]}`)
			r.content[contract.SHA(raw)] = raw
			in.Profile = profileOf(t, r, contract.Profile{Model: "script", Node: "n", Tools: []contract.ProfileTool{
				{Name: "find", As: "find", Catalogue: contract.ContentRef{SHA: contract.SHA(raw)}}}})
		}, contract.ClassConnection, `no tool "find"`},
		"an answer that history cannot hold": {func(t *testing.T, r *fakeRun, in *contract.ModelInput) {
			in.Profile = profileOf(t, r, contract.Profile{Model: "script", Node: "n",
				Script: scripted(t, r, `{"rules":[{"say":"`+strings.Repeat("é", 1<<20)+`"}]}`)})
		}, contract.ClassTooLarge, "the model's answer"},
		"a retryable failure of the provider": {func(t *testing.T, r *fakeRun, in *contract.ModelInput) {
			in.Profile = profileOf(t, r, contract.Profile{Model: "script", Node: "n", Script: scripted(t, r, `rules: [{fail: {class: rate_limited, text: slow down}}]`)})
		}, contract.ClassRateLimited, "slow down"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newFakeRun()
			r.say(t, "t", 1)
			a, env := bench(t, Deps{Source: r})
			in := r.call("t", 0, 1)
			in.Profile = profileOf(t, r, contract.Profile{Model: "script", Node: "n"})
			tc.set(t, r, in)
			_, f := perform[contract.ModelResult](t, env, contract.ActivityCallModel, in)
			if f == nil || f.Class != tc.class || !strings.Contains(f.Error(), tc.text) {
				t.Errorf("failure is %+v, want %s about %q", f, tc.class, tc.text)
			}
			if _, ok := a.cache.content(contract.SHA([]byte(`{"model":"script","node":"forged"}`))); ok {
				t.Error("a forged profile was cached")
			}
		})
	}
}

func TestToolsAsTheModelSeesThem(t *testing.T) {
	r := newFakeRun()
	raw, err := json.Marshal(contract.Catalogue{Tools: []contract.ToolSpec{
		{Name: "find", Description: "Finds.", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "other"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.content[contract.SHA(raw)] = raw
	catalogue := contract.ContentRef{SHA: contract.SHA(raw)}
	a, _ := bench(t, Deps{Source: r})
	tools, err := a.toolsOf(t.Context(), &contract.Profile{
		Builtins: []string{plan.BuiltinGetState, "of a later build"},
		Tools: []contract.ProfileTool{
			{Name: "find", As: "search", Description: "Use it for books.", Catalogue: catalogue},
			{Name: "find", As: "plain", Description: "Finds.", Catalogue: catalogue},
			{Name: "find", As: "declared", Description: "Finds birds.", Alone: true, Catalogue: catalogue, Schema: json.RawMessage(`{"type":"object","properties":{"bird":{}}}`)},
			{Name: "find", As: "undescribed", Catalogue: catalogue, Schema: json.RawMessage(`{"type":"object","properties":{"bird":{}}}`)},
			{Name: "sub", As: "expert", Description: "Knows birds."},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range tools {
		got = append(got, x.Function.Name+": "+x.Function.Description)
		if schema, ok := x.Function.Parameters.(json.RawMessage); !ok || !json.Valid(schema) {
			t.Errorf("%s has the schema %v", x.Function.Name, x.Function.Parameters)
		} else if declared := x.Function.Name == "declared" || x.Function.Name == "undescribed"; declared != strings.Contains(string(schema), "bird") {
			t.Errorf("%s has the schema %s", x.Function.Name, schema)
		}
	}
	want := []string{
		"get_state: Read values that earlier steps stored. Unknown keys are null.",
		"search: Use it for books.\n\nFinds.", "plain: Finds.", "declared: Finds birds.", "undescribed: Finds.",
		"expert: Ask another agent and get its final answer. Knows birds.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, name := range append(slices.Clone(plan.Builtins), plan.SessionTools...) {
		if b, ok := builtins[name]; !ok || b.description == "" || !json.Valid([]byte(b.schema)) {
			t.Errorf("the builtin %s is not described", name)
		}
	}
}
