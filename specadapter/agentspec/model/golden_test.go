package model_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
)

// TestGolden loads every archive testdata/*.txtar. Inputs: one or more equivalent documents in.json, in.yaml
// or in.json5; options, with one of "components" (there is no main component), "dev" (secrets may be inline),
// "named REF=FILE#KEY" or "plugins" per line; any other input is a file of components. Expected outputs:
// default.txt and strict.txt, the diagnostics of each profile, and model.txt, if the default profile loads
// a model. UPDATE=1 rewrites the outputs; review the difference.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no testdata/*.txtar (%v)", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { golden(t, path) })
	}
}

var outputNames = []string{"default.txt", "strict.txt", "model.txt"}

func golden(t *testing.T, path string) {
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	var inputs []txtar.File
	for _, f := range a.Files {
		if strings.HasSuffix(f.Name, ".txt") {
			want[f.Name] = string(f.Data)
		} else {
			inputs = append(inputs, f)
		}
	}
	got := outputs(t, inputs)
	if os.Getenv("UPDATE") == "1" {
		a.Files = inputs
		for _, name := range outputNames {
			if got[name] != "" {
				a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(got[name])})
			}
		}
		if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, name := range outputNames {
		if got[name] != want[name] {
			t.Errorf("%s: %s differs\n--- want\n%s--- got\n%s", path, name, want[name], got[name])
		}
	}
}

// outputs loads every document of an archive in both profiles.
func outputs(t *testing.T, inputs []txtar.File) map[string]string {
	o, load := options(t, inputs)
	got := map[string]string{}
	count := 0
	for _, f := range inputs {
		if !strings.HasPrefix(f.Name, "in.") {
			continue
		}
		count++
		for _, profile := range []string{model.ProfileDefault, model.ProfileStrict} {
			o.Profile = profile
			doc, diags := load(f.Name, f.Data, o)
			checkModel(t, doc, diags)
			got[profile+".txt"] += render(diags)
			if doc == nil || profile != model.ProfileDefault {
				continue
			}
			model := dump(doc)
			if before, ok := got["model.txt"]; ok && before != model {
				t.Errorf("%s loads a different model than the previous inputs:\n%s", f.Name, model)
			}
			got["model.txt"] = model
		}
	}
	if count == 0 {
		t.Error("the archive has no file in.json, in.yaml or in.json5")
	}
	return got
}

func options(t *testing.T, inputs []txtar.File) (model.Options, func(string, []byte, model.Options) (*model.Document, []source.Diagnostic)) {
	o := model.Options{Named: map[string]string{}}
	load := model.Load
	for _, f := range inputs {
		if f.Name != "options" {
			if !strings.HasPrefix(f.Name, "in.") {
				o.Components = append(o.Components, model.File{Name: f.Name, Text: f.Data})
			}
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(string(f.Data)), "\n") {
			switch key, value, _ := strings.Cut(line, " "); key {
			case "components":
				load = model.LoadComponents
			case "dev":
				o.InlineSecrets = true
			case "named":
				ref, target, _ := strings.Cut(value, "=")
				o.Named[ref] = target
			case "plugins":
				o.Plugins = wayflow
			default:
				t.Errorf("options: unknown line %q", line)
			}
		}
	}
	return o, load
}

// dump formats a model without positions: its components in order, with references to each
// other by number.
func dump(doc *model.Document) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version %s\n", doc.Version)
	number := map[*model.Component]int{}
	for i, c := range doc.Components {
		number[c] = i + 1
		fmt.Fprintf(&b, "%d: %s key=%q\n", i+1, c, c.Key)
		for _, p := range c.Inputs {
			fmt.Fprintf(&b, "   in %s%s\n", property(p), map[bool]string{true: " unused"}[p.Unused])
		}
		for _, p := range c.Outputs {
			fmt.Fprintf(&b, "   out %s\n", property(p))
		}
		if len(c.Branches) > 0 && fmt.Sprint(c.Branches) != "[next]" {
			fmt.Fprintf(&b, "   branches %q\n", c.Branches)
		}
		if len(c.Undeclared) > 0 {
			fmt.Fprintf(&b, "   undeclared %q\n", c.Undeclared)
		}
		if c.Flow != nil {
			dumpFlow(&b, c.Flow, number)
			continue
		}
		for _, spec := range c.Type.Fields {
			if f := c.Field(spec.Name); f != nil {
				fmt.Fprintf(&b, "   %s = %s\n", spec.Name, field(f, number))
			}
		}
	}
	for _, s := range doc.Secrets {
		fmt.Fprintf(&b, "secret %q for %s of %d%s%s\n", s.Ref, s.Field, number[s.Component],
			map[bool]string{true: " header " + s.Header}[s.Header != ""], map[bool]string{true: " inline"}[s.Inline != ""])
	}
	return b.String()
}

func dumpFlow(b *strings.Builder, f *model.Flow, number map[*model.Component]int) {
	for _, e := range f.Control {
		fmt.Fprintf(b, "   edge %d.%s -> %d\n", number[e.From], e.Branch, number[e.To])
	}
	for _, e := range f.Data {
		fmt.Fprintf(b, "   data %d.%s -> %d.%s\n", number[e.From], e.Output, number[e.To], e.Input)
	}
	if f.Public {
		b.WriteString("   data by title\n")
	}
	for _, n := range f.Nodes {
		if list := f.Iterates(n); len(list) > 0 {
			fmt.Fprintf(b, "   %d goes over %q\n", number[n], list)
		}
	}
}

func property(p *model.Property) string {
	text := p.Title + ": " + p.Type.String()
	if p.Default != nil {
		text += " = " + string(p.Default.JSON())
	}
	return text
}

func field(f *model.Field, number map[*model.Component]int) string {
	var parts []string
	for _, c := range f.Components {
		parts = append(parts, fmt.Sprint(number[c]))
	}
	for i, s := range f.Secrets {
		if i < len(f.Keys) {
			s = f.Keys[i] + " " + s
		}
		parts = append(parts, "secret "+s)
	}
	if len(parts) == 0 && f.JSON != nil {
		parts = append(parts, string(f.JSON.JSON()))
	}
	return strings.Join(parts, ", ")
}

var (
	emitted    = regexp.MustCompile(`(?m)^[\w./-]+[^\t\n]*: (?:error|warning|info): .* \[([A-Za-z0-9-]+)\]$`)
	documented = regexp.MustCompile("(?m)^\\| `([A-Za-z0-9-]+)` \\| (?:error|warning|info|-)")
)

// TestREADMECodes checks that the README's table and the goldens have the same codes.
func TestREADMECodes(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	table, seen := map[string]bool{}, map[string]bool{}
	for _, m := range documented.FindAllStringSubmatch(string(readme), -1) {
		table[m[1]] = true
	}
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range emitted.FindAllStringSubmatch(string(raw), -1) {
			seen[m[1]] = true
			if !table[m[1]] {
				t.Errorf("%s: the code %s is not in README.md", path, m[1])
			}
		}
	}
	for _, code := range []string{"too-many", "too-deep", "too-complex", "more", "unknown-profile", "file-twice", "plugin-row"} {
		seen[code] = true // see hostile_test.go and options_test.go
	}
	for code := range table {
		if !seen[code] {
			t.Errorf("README.md has the code %s, but no golden does", code)
		}
	}
}
