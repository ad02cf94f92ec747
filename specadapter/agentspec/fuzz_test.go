package agentspec_test

import (
	"os"
	"path/filepath"
	"testing"

	"weft/specadapter"
	"weft/specadapter/agentspec"
	"weft/specadapter/source"
)

// FuzzPlan mutates valid documents: compiling must not panic, and must return either a valid plan
// or the errors that explain why there is none.
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
			t.Fatalf("plan %v with diagnostics %v", res != nil, diags)
		}
		for _, d := range diags {
			if d.Code == specadapter.CodePlan {
				t.Fatalf("the interpreter rejects the plan: %s", d)
			}
		}
	})
}
