package model

import (
	"fmt"
	"strings"
	"testing"

	"weft/specadapter/agentspec/catalog"
)

// TestSecretFields checks that every sensitive field of every component rejects an inline secret in both
// profiles, with its position and the reference to write instead, and that no message shows the secret.
func TestSecretFields(t *testing.T) {
	fields := 0
	for _, typ := range catalog.Types() {
		for _, f := range typ.Fields {
			if !f.Sensitive {
				continue
			}
			fields++
			value, ref := `"canary-1234"`, `"c.`+f.Name+`"`
			if f.Kind == catalog.Object {
				value, ref = `{"X-Key": "canary-1234"}`, `"c.`+f.Name+`.X-Key"`
			}
			t.Run(typ.Name+"/"+f.Name, func(t *testing.T) { checkSecretField(t, typ.Name, f.Name, value, ref) })
		}
	}
	if fields < 30 {
		t.Errorf("%d fields are sensitive", fields)
	}
}

func checkSecretField(t *testing.T, typ, field, value, ref string) {
	text := fmt.Sprintf("{\"agentspec_version\": \"26.2.0\",\n\"$referenced_components\": {\"c\": {\"component_type\": %q, \"id\": \"c\", \"name\": \"c\",\n%q: %s}}}", typ, field, value)
	for _, profile := range []string{"default", "strict"} {
		_, diags := LoadComponents("in.json", []byte(text), Options{Profile: profile})
		reported := 0
		for _, d := range diags {
			if strings.Contains(d.String()+d.Help, "canary") {
				t.Errorf("%s: the secret is shown: %s", profile, d)
			}
			if d.Code != "secret-inline" {
				continue
			}
			reported++
			if d.Line != 3 || d.Severity.String() != "error" || !strings.Contains(d.Help, `{"$component_ref": `+ref+`}`) {
				t.Errorf("%s: %s; %s, want %s", profile, d, d.Help, ref)
			}
		}
		if reported != 1 {
			t.Errorf("%s: %d secret-inline errors in %v", profile, reported, diags)
		}
	}
}
