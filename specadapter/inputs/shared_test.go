package inputs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/workflows/plan"
	"weft/workflows/plan/pytext"
)

// sharedCases reads cases of the dialect's framework, or skips the test if there are none.
func sharedCases(t *testing.T, name string, out any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "cases", name))
	if err != nil {
		t.Skipf("../shared/cases/%s is not there", name)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
}

func params(t *testing.T, raw string) *Params {
	t.Helper()
	p, diags := Read("params.json", []byte(raw))
	if p == nil {
		t.Fatal(diags)
	}
	return p
}

// body returns an error's body without the agent's name, or nil.
func body(t *testing.T, err error) any {
	t.Helper()
	if err == nil {
		return nil
	}
	raw, marshalErr := json.Marshal(err)
	if marshalErr != nil {
		t.Fatal(marshalErr)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParametersMatchFramework(t *testing.T) {
	var in struct {
		Cases []struct {
			Name, Type string
			Schema     json.RawMessage `json:"parameters_schema"`
			Parameters json.RawMessage
			V1         any `json:"v1_seed"`
			V2         any `json:"v2_head"`
		}
	}
	sharedCases(t, "aof_validate_parameters.json", &in)
	if len(in.Cases) < 36 {
		t.Fatalf("%d cases", len(in.Cases))
	}
	for _, c := range in.Cases {
		for mode, want := range map[string]any{plan.InputsMerged: c.V1, plan.InputsAuthoritative: c.V2} {
			if c.Type == "procedural" {
				mode = plan.InputsProcedural
			}
			decl := &plan.Inputs{Mode: mode}
			if string(c.Schema) != "null" {
				decl.Schema = c.Schema
			}
			got := body(t, Check(t.Context(), "test", decl, params(t, string(c.Parameters))))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", c.Name, mode, diff)
			}
		}
	}
}

func TestTextMatchesFramework(t *testing.T) {
	var in struct {
		Cases []struct {
			Name       string
			Parameters json.RawMessage
			V1         json.RawMessage `json:"v1_242bf96"`
			Custom     json.RawMessage `json:"v2_custom_schema"`
			None       json.RawMessage `json:"v2_no_schema"`
		}
	}
	sharedCases(t, "aof_format_inputs.json", &in)
	if len(in.Cases) < 27 {
		t.Fatalf("%d cases", len(in.Cases))
	}
	some := json.RawMessage(`{"type":"object"}`)
	for _, c := range in.Cases {
		for _, v := range []struct {
			in   plan.Inputs
			want json.RawMessage
		}{
			{plan.Inputs{Mode: plan.InputsMerged}, c.V1},
			{plan.Inputs{Mode: plan.InputsMerged, Schema: some}, c.V1},
			{plan.Inputs{Mode: plan.InputsAuthoritative, Schema: some}, c.Custom},
			{plan.Inputs{Mode: plan.InputsAuthoritative}, c.None},
		} {
			got, err := Text(&v.in, params(t, string(c.Parameters)))
			var want string
			var raises struct{ Raises string }
			if json.Unmarshal(v.want, &want) != nil {
				if err := json.Unmarshal(v.want, &raises); err != nil {
					t.Fatal(err)
				}
				if err == nil || "ValueError: "+err.Error() != raises.Raises {
					t.Errorf("%s, %s: error is %v, want %s", c.Name, v.in.Mode, err, raises.Raises)
				}
				continue
			}
			if err != nil || got != want {
				t.Errorf("%s, %s:\ngot  %q, %v\nwant %q", c.Name, v.in.Mode, got, err, want)
			}
		}
	}
}

func TestPlaceholdersMatchFramework(t *testing.T) {
	var in struct {
		Params, Scope json.RawMessage
		Env           map[string]string
		RunID         string `json:"run_id"`
		SessionID     string `json:"session_id"`
		Cases         []struct{ Template, Expect json.RawMessage }
	}
	sharedCases(t, "aof_placeholders.json", &in)
	v := Values{Params: params(t, string(in.Params)), Scope: params(t, string(in.Scope)), Env: in.Env, RunID: in.RunID, SessionID: in.SessionID}
	for _, c := range in.Cases {
		template, err := pytext.Parse(c.Template)
		if err != nil {
			t.Fatal(err)
		}
		want, err := pytext.Parse(c.Expect)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Value(template).JSON(); got != want.JSON() {
			t.Errorf("%s became %s, want %s", c.Template, got, want.JSON())
		}
	}
	if len(in.Cases) < 22 {
		t.Errorf("%d cases", len(in.Cases))
	}
}
