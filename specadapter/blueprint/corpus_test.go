package blueprint_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/fstest"

	"weft/specadapter"
	"weft/specadapter/source"
)

const corpus = "../../../shared/corpus/blueprints"

// corpusFiles returns the files of the corpus in the framework's layout: agents/ and the registries
// side by side.
func corpusFiles(t *testing.T) (files fstest.MapFS, agents []string) {
	t.Helper()
	if _, err := os.Stat(corpus); err != nil {
		t.Skipf("the corpus is not here: %v", err)
	}
	files = fstest.MapFS{}
	err := fs.WalkDir(os.DirFS(corpus), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(corpus, p))
		if err != nil {
			return err
		}
		to := "agents/" + strings.TrimPrefix(p, "_history/")
		if rest, ok := strings.CutPrefix(p, "_config/"); ok {
			to = rest
		} else if path.Base(p) == "agent.json" {
			agents = append(agents, to)
		}
		files[to] = &fstest.MapFile{Data: data}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(agents)
	return files, agents
}

// codes returns the distinct codes of the diagnostics of a severity.
func codes(diags []source.Diagnostic, s source.Severity) string {
	var out []string
	for _, d := range diags {
		if d.Severity == s && !slices.Contains(out, d.Code) {
			out = append(out, d.Code)
		}
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

// rejected are the expected errors of agents of the corpus, by folder or by the name before @; all others load. Older
// agents that set the orchestrator's address themselves have it as an ordinary MCP
// server.
var (
	rejected = map[string]string{
		"browser-tester": "inline-command",
		"confluence-researcher@2025-11-30-8a95473":         "inline-command",
		"test-script-coordinator-owned@2026-01-24-93ad426": "script",
	}
	// warned are the expected warnings of current agents; older ones have no prompt file.
	warned = map[string]string{
		"high-demand-agent":         "no-effect no-prompt",
		"current-working-directory": "script", // the corpus has no programs
		"json-checker-agent":        "no-effect",
	}
)

func TestCorpus(t *testing.T) {
	files, agents := corpusFiles(t)
	loaded := 0
	for _, main := range agents {
		folder := path.Base(path.Dir(main))
		name, past, _ := strings.Cut(folder, "@")
		f, err := specadapter.ReadFolder(files, main)
		if err != nil {
			t.Fatal(err)
		}
		r, diags := specadapter.Load(f.Name, f.Text, specadapter.Options{Host: source.Host{Files: f.Files}})
		want, known := rejected[folder]
		if !known {
			want = rejected[name]
		}
		if want == "" {
			loaded++
		}
		if got := codes(diags, source.Error); got != want || (r != nil) != (want == "") {
			t.Errorf("%s: errors are %q, want %q: %v", folder, got, want, diags)
		}
		if got := codes(diags, source.Warning); past == "" && got != warned[name] {
			t.Errorf("%s: warnings are %q, want %q: %v", folder, got, warned[name], diags)
		}
		for _, d := range diags {
			if d.Line == 0 || d.Help == "" || files[d.File] == nil {
				t.Errorf("%s: %s has no position or no help", folder, d)
			}
		}
	}
	if len(agents) < 60 || loaded < 45 {
		t.Errorf("%d agents, %d of which load", len(agents), loaded)
	}
}

// TestCorpusDocuments loads the corpus' documents that are not agent folders: agents in the framework's documentation
// and its runners' own agents load; all others have no dialect.
func TestCorpusDocuments(t *testing.T) {
	files, _ := corpusFiles(t)
	want := map[string]string{
		"agent-types-03": "missing-field", "agent-types-05": "", "agent-types-06": "", "echo": "", "test": "",
		"capabilities-06": "", "capabilities-09": "", "capabilities-11": "", "capabilities-14": "capability", "capabilities-15": "capability",
		"hooks-01": "hook", "input-schema-02": "", "input-schema-03": "", "parameters-schema-20": "", "parameters-schema-22": "",
		"parameters-schema-23": "syntax", "seed003-01": "", "seed003-02": "syntax", "seed004-03": "", "seed004-04": "", "seed004-05": "",
	}
	seen := 0
	for name, f := range files {
		base := path.Base(name)
		if path.Ext(name) != ".json" || base == "agent.json" {
			continue
		}
		seen++
		w, agent := want[strings.TrimSuffix(base, ".json")]
		if !agent {
			w = specadapter.CodeDialect
		}
		if _, diags := specadapter.Load(name, f.Data, specadapter.Options{}); codes(diags, source.Error) != w {
			t.Errorf("%s: errors are %q, want %q", name, codes(diags, source.Error), w)
		}
	}
	if seen < 80 {
		t.Errorf("%d documents", seen)
	}
}
