package structured

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

func TestEnrich(t *testing.T) {
	tests := map[string]struct{ prompt, schema, want string }{
		"schema":       {"P", `{"b":1,"a":{}}`, "P" + head + "{\n  \"b\": 1,\n  \"a\": {}\n}" + tail},
		"non-ASCII":    {"P", `{"ü😀":"\u007f` + "\x7f" + `"}`, "P" + head + "{\n  \"\\u00fc\\ud83d\\ude00\": \"\\u007f\\u007f\"\n}" + tail},
		"no schema":    {"P", ``, "P"},
		"null":         {"P", `null`, "P"},
		"empty":        {"P", `{}`, "P"},
		"invalid JSON": {"P", `{`, "P"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Enrich(tc.prompt, json.RawMessage(tc.schema)); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestRules(t *testing.T) {
	if got := Rules("P", " \n"); got != "P" {
		t.Errorf("blank rules gave %q", got)
	}
	if got, want := Rules(EnrichAny("P"), "Be brief."), "P"+anyJSON+"\n\n## Additional Rules\n\nBe brief."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEnrichAsUpstream checks that the prompts match those of the Agent Orchestrator Framework byte for byte.
func TestEnrichAsUpstream(t *testing.T) {
	raw, err := os.ReadFile("../../../shared/cases/aof_prompts.json")
	if err != nil {
		t.Skipf("the conformance cases are not here: %v", err)
	}
	var cases struct {
		Enrich []struct {
			Prompt *string         `json:"system_prompt"`
			Schema json.RawMessage `json:"output_schema"`
			Expect *string         `json:"expect"`
		} `json:"enrich"`
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	for i, c := range cases.Enrich {
		var compact bytes.Buffer
		if len(c.Schema) > 0 {
			if err := json.Compact(&compact, c.Schema); err != nil {
				t.Fatal(err)
			}
		}
		if got := Enrich(text(c.Prompt), compact.Bytes()); got != text(c.Expect) {
			t.Errorf("case %d:\ngot  %q\nwant %q", i, got, text(c.Expect))
		}
	}
	if len(cases.Enrich) == 0 {
		t.Error("no cases")
	}
}
