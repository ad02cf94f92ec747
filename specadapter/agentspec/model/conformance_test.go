package model_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
)

// corpus returns a folder of the shared corpus and the rows of its index. It skips the test if there is none.
func corpus(t *testing.T, name string) (dir string, rows [][]string) {
	t.Helper()
	dir = filepath.Join("..", "..", "..", "..", "shared", "corpus", name)
	raw, err := os.ReadFile(filepath.Join(dir, "INDEX.tsv"))
	if err != nil {
		t.Skipf("../shared/corpus/%s not found", name)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n")[1:] {
		rows = append(rows, strings.Split(line, "\t"))
	}
	return dir, rows
}

// placeholders match the texts that the corpus' own tests replace before they load a file.
var placeholders = regexp.MustCompile(`\[\[\w+\]\]|\bMCP_SERVER_URL\b`)

func readCorpus(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return placeholders.ReplaceAll(raw, []byte("http://localhost:5006"))
}

// withInlineSecrets are the files that contain a secret instead of a reference to it.
var withInlineSecrets = []string{
	"cts/llms/ocigenaiconfig_with_ociclientconfigwithapikey_with_agent.yaml",
	"wayflow-docs/howto_ociagent.json", "wayflow-docs/howto_ociagent.yaml", "wayflow-tests/agent_5.yaml",
}

// components reports whether a file has no main component.
func components(t *testing.T, file string, text []byte) bool {
	t.Helper()
	doc, _ := source.Parse(file, text)
	if doc == nil {
		return false
	}
	for _, m := range doc.Root.Members {
		if m.Key != "$referenced_components" && m.Key != "agentspec_version" {
			return false
		}
	}
	return true
}

func TestCorpus(t *testing.T) {
	dir, rows := corpus(t, "agentspec")
	for _, row := range rows {
		file, verdict := row[0], row[10]
		for _, profile := range []string{model.ProfileDefault, model.ProfileStrict} {
			t.Run(profile+"/"+file, func(t *testing.T) {
				o := model.Options{Profile: profile, InlineSecrets: slices.Contains(withInlineSecrets, file)}
				if strings.Contains(verdict, "plugin") || strings.Contains(verdict, "registry") {
					o.Plugins = wayflow
				}
				if main := strings.Replace(file, "main_config", "component_config", 1); main != file {
					o.Components = []model.File{{Name: main, Text: readCorpus(t, filepath.Join(dir, main))}}
				}
				load, text := model.Load, readCorpus(t, filepath.Join(dir, file))
				if components(t, file, text) {
					load = model.LoadComponents
				}
				doc, diags := load(file, text, o)
				want := strings.HasPrefix(verdict, "yes") || profile == model.ProfileDefault && strings.HasPrefix(verdict, "lenient only")
				if (doc != nil) != want {
					t.Errorf("the verdict is %q; loaded: %v\n%s", verdict, doc != nil, render(diags))
				}
				checkModel(t, doc, diags)
			})
		}
	}
}

// checkModel checks what holds for every document.
func checkModel(t *testing.T, doc *model.Document, diags []source.Diagnostic) {
	t.Helper()
	if (doc == nil) != source.HasErrors(diags) {
		t.Errorf("document %v with diagnostics\n%s", doc, render(diags))
	}
	for _, d := range diags {
		if d.Text == "" || d.Code == "" || d.Severity != source.Info && d.Help == "" || strings.Contains(d.String(), "%!") {
			t.Errorf("incomplete diagnostic %#v", d)
		}
	}
	if doc == nil {
		return
	}
	done := map[*model.Component]bool{}
	for _, c := range doc.Components {
		for _, spec := range c.Type.Fields {
			if spec.Required && c.Field(spec.Name) == nil {
				t.Errorf("%s has no %s, but there is no error", c, spec.Name)
			}
			for _, part := range c.Components(spec.Name) {
				if !done[part] {
					t.Errorf("%s is listed before its part %s", c, part)
				}
			}
		}
		if done[c] {
			t.Errorf("%s appears twice", c)
		}
		done[c] = true
		for _, p := range append(c.Inputs, c.Outputs...) {
			if p.Title == "" || p.Type == nil {
				t.Errorf("%s has the incomplete property %+v", c, p)
			}
		}
	}
}

func render(diags []source.Diagnostic) string {
	var b strings.Builder
	for _, d := range diags {
		b.WriteString(d.String() + "\n")
	}
	return b.String()
}

// errorCodes returns the distinct codes of the errors, sorted.
func errorCodes(diags []source.Diagnostic) []string {
	var codes []string
	for _, d := range diags {
		if d.Severity == source.Error && !slices.Contains(codes, d.Code) {
			codes = append(codes, d.Code)
		}
	}
	slices.Sort(codes)
	return codes
}

// TestCorpusUnknownPlugins checks that a component of an unregistered plugin is reported once, at
// its type.
func TestCorpusUnknownPlugins(t *testing.T) {
	dir, rows := corpus(t, "agentspec")
	for _, row := range rows {
		if !strings.Contains(row[10], "plugin") {
			continue
		}
		t.Run(row[0], func(t *testing.T) {
			text := readCorpus(t, filepath.Join(dir, row[0]))
			_, diags := model.Load(row[0], text, model.Options{})
			if got := errorCodes(diags); fmt.Sprint(got) != "[type-unknown]" {
				t.Errorf("errors are %v\n%s", got, render(diags))
			}
			lines := strings.Split(string(text), "\n")
			for _, d := range diags {
				if line := lines[d.Line-1]; d.Severity == source.Error && !strings.Contains(line, "component_type") {
					t.Errorf("%s is at the line %s", d, line)
				}
			}
		})
	}
}

// TestCorpusInlinedSecrets checks that files with an inline secret have no other error.
func TestCorpusInlinedSecrets(t *testing.T) {
	dir, _ := corpus(t, "agentspec")
	for _, file := range withInlineSecrets {
		text := readCorpus(t, filepath.Join(dir, file))
		_, diags := model.Load(file, text, model.Options{})
		if got := errorCodes(diags); fmt.Sprint(got) != "[secret-inline]" {
			t.Errorf("%s: errors are %v", file, got)
		}
		doc, _ := model.Load(file, text, model.Options{InlineSecrets: true})
		if doc == nil || len(doc.Secrets) != 1 || doc.Secrets[0].Inline == "" || strings.Contains(render(diags), doc.Secrets[0].Inline) {
			t.Errorf("%s: secrets are %+v, or a message shows one", file, doc)
		}
	}
}
