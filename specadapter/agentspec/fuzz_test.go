package agentspec_test

import (
	"os"
	"path/filepath"
	"testing"

	"weft/specadapter"
	"weft/specadapter/agentspec"
	"weft/specadapter/source"
)

// FuzzPlan mutates documents that run. A model makes a plan that the interpreter takes, or
// diagnostics that say why not, and nothing panics.
func FuzzPlan(f *testing.F) {
	paths, _ := filepath.Glob("../../tests/examples/agentspec/*.yaml")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		res, diags := specadapter.Load("f.yaml", text, specadapter.Options{Dialect: agentspec.Name})
		if (res == nil) != source.HasErrors(diags) {
			t.Fatalf("a plan: %v, with %v", res != nil, diags)
		}
		for _, d := range diags {
			if d.Code == specadapter.CodePlan {
				t.Fatalf("the interpreter does not take the plan: %s", d)
			}
		}
	})
}
