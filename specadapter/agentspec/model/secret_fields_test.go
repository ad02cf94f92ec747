package model

import (
	"fmt"
	"strings"
	"testing"

	"weft/specadapter/agentspec/catalog"
)

// Every sensitive field of every component refuses the secret itself, in both profiles, at its
// place, and says which reference to write. Nothing that is said shows it.
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
			t.Run(typ.Name+"/"+f.Name, func(t *testing.T) { secretField(t, typ.Name, f.Name, value, ref) })
		}
	}
	if fields < 30 {
		t.Errorf("%d fields are sensitive", fields)
	}
}

func secretField(t *testing.T, typ, field, value, ref string) {
	text := fmt.Sprintf("{\"agentspec_version\": \"26.2.0\",\n\"$referenced_components\": {\"c\": {\"component_type\": %q, \"id\": \"c\", \"name\": \"c\",\n%q: %s}}}", typ, field, value)
	for _, profile := range []string{"default", "strict"} {
		_, diags := LoadComponents("in.json", []byte(text), Options{Profile: profile})
		said := 0
		for _, d := range diags {
			if strings.Contains(d.String()+d.Help, "canary") {
				t.Errorf("%s: the secret is shown: %s", profile, d)
			}
			if d.Code != "secret-inline" {
				continue
			}
			said++
			if d.Line != 3 || d.Severity.String() != "error" || !strings.Contains(d.Help, `{"$component_ref": `+ref+`}`) {
				t.Errorf("%s: %s; %s, want %s", profile, d, d.Help, ref)
			}
		}
		if said != 1 {
			t.Errorf("%s: %d diagnostics of %v", profile, said, diags)
		}
	}
}
