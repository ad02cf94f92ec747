// Package adaptertest runs the golden tests of a dialect: archives with a document, the
// expected plan and the expected diagnostics, which are compared byte by byte.
//
// It is only for tests.
//
// Start at [Golden].
package adaptertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"weft/specadapter"
	"weft/specadapter/source"
)

// update rewrites the expected outputs in the archives; review the diff.
var update = os.Getenv("UPDATE") == "1"

// Golden runs every archive testdata/*.txtar, in the txtar format.
//
// The inputs in an archive are in.json, in.yaml, or in with another extension; if there are several,
// all must compile to the same plan. Each line of the file options is "profile NAME", "dialect NAME",
// "unbound TOOL", "connection ID" or "main FILE". With main that file is the only input, and all other
// files belong to the same flow. The expected outputs are plan.json, if no diagnostic is an error, and
// diagnostics.txt, if there are diagnostics. If the archive contains positions.txt, the positions of the
// plan's parts are compared too. UPDATE=1 rewrites the outputs.
func Golden(t *testing.T) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no testdata/*.txtar (%v)", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { run(t, path) })
	}
}

func run(t *testing.T, path string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a := txtar.Parse(raw)
	got := outputs(t, a)
	want := map[string]string{}
	for _, f := range a.Files {
		if isOutput(f.Name) {
			want[f.Name] = string(f.Data)
		}
	}
	if update {
		replace(a, got)
		if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, name := range outputNames {
		if name == "positions.txt" && want[name] == "" {
			continue
		}
		if got[name] != want[name] {
			t.Errorf("%s: %s differs\n--- want\n%s--- got\n%s", path, name, want[name], got[name])
		}
	}
}

var outputNames = []string{"plan.json", "diagnostics.txt", "positions.txt"}

func isOutput(name string) bool { return slices.Contains(outputNames, name) }

// replace replaces the outputs in the archive; positions only if the archive contains them.
func replace(a *txtar.Archive, got map[string]string) {
	positions := slices.ContainsFunc(a.Files, func(f txtar.File) bool { return f.Name == "positions.txt" })
	a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return isOutput(f.Name) })
	for _, name := range outputNames {
		if data := got[name]; data != "" && (name != "positions.txt" || positions) {
			a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(data)})
		}
	}
}

func outputs(t *testing.T, a *txtar.Archive) map[string]string {
	got := map[string]string{}
	inputs := 0
	for _, f := range a.Files {
		o, main := options(t, a)
		if f.Name != main && (main != "" || !strings.HasPrefix(f.Name, "in.")) {
			continue
		}
		inputs++
		r, diags := specadapter.Load(f.Name, f.Data, o)
		for _, d := range diags {
			got["diagnostics.txt"] += d.String() + "\n"
		}
		if (r == nil) != source.HasErrors(diags) {
			t.Errorf("%s: result is %v with diagnostics %v", f.Name, r, diags)
		}
		if r == nil {
			continue
		}
		text := render(t, r)
		if before, ok := got["plan.json"]; ok && before != text {
			t.Errorf("%s: the plan differs from that of the previous inputs:\n%s", f.Name, text)
		}
		got["plan.json"] = text
		if inputs == 1 {
			for _, p := range r.Source.Positions {
				got["positions.txt"] += fmt.Sprintf("%d:%d %s\n", p.Line, p.Col, p.Path)
			}
		}
	}
	if inputs == 0 {
		t.Error("the archive has no input: in.json, in.yaml or the main file of its options")
	}
	return got
}

func render(t *testing.T, r *specadapter.Result) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r.Flow); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// options parses the file options; main is the file name of its line main, if any.
func options(t *testing.T, a *txtar.Archive) (o specadapter.Options, main string) {
	o = specadapter.Options{Host: source.Host{UnboundTools: map[string]bool{}, Connections: map[string]bool{}}}
	for _, f := range a.Files {
		if f.Name != "options" {
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(string(f.Data)), "\n") {
			switch key, value, _ := strings.Cut(line, " "); key {
			case "profile":
				o.Profile = value
			case "dialect":
				o.Dialect = value
			case "unbound":
				o.UnboundTools[value] = true
			case "connection":
				o.Connections[value] = true
			case "main":
				main = value
			default:
				t.Errorf("options: unknown line %q", line)
			}
		}
	}
	for _, f := range a.Files {
		if main != "" && f.Name != main && f.Name != "options" && !isOutput(f.Name) {
			o.Files = append(o.Files, source.File{Name: f.Name, Text: string(f.Data)})
		}
	}
	return o, main
}
