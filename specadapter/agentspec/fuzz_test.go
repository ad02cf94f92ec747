package agentspec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"weft/specadapter"
	"weft/specadapter/agentspec"
	"weft/specadapter/source"
)

// FuzzLoad mutates the documents of the goldens. Whatever comes of them, loading does not
// panic, says why there is no model, and says the same the next time.
func FuzzLoad(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasPrefix(file.Name, "in.") {
				f.Add(file.Name, file.Data, strings.Contains(string(a.Comment), "components"), false)
				f.Add(file.Name, file.Data, false, true)
			}
		}
	}
	f.Fuzz(func(t *testing.T, name string, text []byte, components, strict bool) {
		o := agentspec.Options{Plugins: wayflow, Components: []agentspec.File{{Name: "lib.yaml", Text: []byte("$referenced_components: {lib: {component_type: ServerTool, name: lib}}")}}}
		if strict {
			o.Profile = agentspec.ProfileStrict
		}
		load := agentspec.Load
		if components {
			load = agentspec.LoadComponents
		}
		doc, diags := load(name, text, o)
		checkModel(t, doc, diags)
		again, diagsAgain := load(name, text, o)
		if render(diags) != render(diagsAgain) || doc != nil && dump(doc) != dump(again) {
			t.Fatalf("the second time it differs:\n%s\n%s", render(diags), render(diagsAgain))
		}
	})
}

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

// FuzzFiles mutates a file of components beside a document that refers to all in it.
func FuzzFiles(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if strings.HasPrefix(file.Name, "in.") {
				f.Add(file.Data, "llm=lib.yaml#llm", "llm")
				f.Add(file.Data, "start=lib.yaml#"+path, "start")
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, named, ref string) {
		from, to, _ := strings.Cut(named, "=")
		o := agentspec.Options{Components: []agentspec.File{{Name: "lib.yaml", Text: text}}, Named: map[string]string{from: to}}
		main := []byte("component_type: Agent\nname: a\nsystem_prompt: " + "help\nllm_config: {$component_ref: llm}\ntools: [{$component_ref: tool}]\ntransforms: [{$component_ref: start}]\n")
		if strings.IndexFunc(ref, func(r rune) bool { return r < 'a' || r > 'z' }) < 0 && ref != "" {
			main = []byte("$component_ref: " + ref + "\n")
		}
		doc, diags := agentspec.Load("in.yaml", main, o)
		checkModel(t, doc, diags)
	})
}
