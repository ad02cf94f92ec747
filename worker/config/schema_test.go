package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/worker/store"
)

// TestSettingsAreDescribed checks that every setting has a description and a valid default.
func TestSettingsAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range schema.all() {
		if n.setting.doc == "" || strings.HasSuffix(n.setting.doc, ".") {
			t.Errorf("%s has the description %q", n.key, n.setting.doc)
		}
		if variable := variableOf(n.key); seen[variable] {
			t.Errorf("the environment variable of %s is not unique", n.key)
		} else {
			seen[variable] = true
		}
		if n.setting.def == "" {
			if k := n.setting.typ.Kind(); k == reflect.Bool || !n.setting.named && (k == reflect.Int || k == reflect.Int64) {
				t.Errorf("%s has no default", n.key)
			}
			continue
		}
		if _, err := n.setting.parse(n.setting.fromText(n.setting.def)); err != nil {
			t.Errorf("the default %q of %s: %v", n.setting.def, n.key, err)
		}
	}
	if len(seen) < 100 {
		t.Errorf("found only %d settings", len(seen))
	}
}

// TestNamesOfSettings checks that switches have positive names, and that names of durations contain no unit.
func TestNamesOfSettings(t *testing.T) {
	for _, n := range schema.all() {
		if strings.HasPrefix(n.name, "no_") || strings.HasSuffix(n.name, "_seconds") {
			t.Errorf("%s: use a positive name for a switch, and put the unit of a duration in its value", n.key)
		}
	}
}

// TestTagsAgreeWithConstants checks struct tags that repeat constants and defaults defined elsewhere.
func TestTagsAgreeWithConstants(t *testing.T) {
	if got := schema.child("store").child("threshold").setting.max; got != store.Inline {
		t.Errorf("maximum of store.threshold = %d, want %d", got, store.Inline)
	}
	got := load(t, "providers: {a: {kind: openai}}", fakeEnv{}).Providers["a"]
	want := unconfigured
	if want.Kind = "openai"; !cmp.Equal(got, want) {
		t.Errorf("defaults of a provider = %+v, want %+v", got, want)
	}
}

// TestVariableLongestSuffix checks that a variable sets the field that matches the longest suffix of its name.
func TestVariableLongestSuffix(t *testing.T) {
	c := load(t, "", fakeEnv{"WEFT_CONNECTIONS_C_CONNECT_TIMEOUT": "3s", "WEFT_CONNECTIONS_C_TIMEOUT": "4s"}).Connections
	if len(c) != 1 || c["c"].ConnectTimeout.Seconds() != 3 || c["c"].Timeout.Seconds() != 4 {
		t.Errorf("connections = %+v", c)
	}
}
