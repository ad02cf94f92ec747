package model_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"weft/specadapter/agentspec/model"
)

// FuzzLoad mutates the documents of the goldens: loading must not panic, must report why there
// is no model, and must be deterministic.
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
		o := model.Options{Plugins: wayflow, Components: []model.File{{Name: "lib.yaml", Text: []byte("$referenced_components: {lib: {component_type: ServerTool, name: lib}}")}}}
		if strict {
			o.Profile = model.ProfileStrict
		}
		load := model.Load
		if components {
			load = model.LoadComponents
		}
		doc, diags := load(name, text, o)
		checkModel(t, doc, diags)
		again, diagsAgain := load(name, text, o)
		if render(diags) != render(diagsAgain) || doc != nil && dump(doc) != dump(again) {
			t.Fatalf("the second load differs:\n%s\n%s", render(diags), render(diagsAgain))
		}
	})
}

// FuzzFiles mutates a file of components together with a document that refers to them.
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
		o := model.Options{Components: []model.File{{Name: "lib.yaml", Text: text}}, Named: map[string]string{from: to}}
		main := []byte("component_type: Agent\nname: a\nsystem_prompt: " + "help\nllm_config: {$component_ref: llm}\ntools: [{$component_ref: tool}]\ntransforms: [{$component_ref: start}]\n")
		if strings.IndexFunc(ref, func(r rune) bool { return r < 'a' || r > 'z' }) < 0 && ref != "" {
			main = []byte("$component_ref: " + ref + "\n")
		}
		doc, diags := model.Load("in.yaml", main, o)
		checkModel(t, doc, diags)
	})
}
