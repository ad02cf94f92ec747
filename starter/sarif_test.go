package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// sarifSchema returns the schema of SARIF 2.1.0 (OASIS, revision rtm.5).
func sarifSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	f, err := os.Open("testdata/sarif-2.1.0-rtm.5.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("sarif", plain); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("sarif")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runValidate runs starter validate, which must fail, in a folder with files and returns its standard output.
func runValidate(t *testing.T, files map[string]string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, env: mapEnv{}}
	if code := a.run(context.Background(), append([]string{"validate"}, args...)); code != exitBadInput {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	return stdout.String()
}

func TestSARIF(t *testing.T) {
	schema := sarifSchema(t)
	got := runValidate(t, map[string]string{
		"a b/ü.json": `{"name": "ü", "nodes": [{"id": "ä", "name": "A", "prompt": "p", "is_exit_node": true, "max_iterations": -3}],
 "edges": [{"id": "in", "source": "START", "target": "ä"}, {"id": "é", "source": "ä", "target": "nowhere"}]}`,
		"a b/broken.json": `{"name": `, "a b/other.yaml": "x: 1\n", "a b/.hidden.json": "{",
	}, "a b", "missing.json", "-output", "sarif")
	var v any
	if err := json.Unmarshal([]byte(got), &v); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		t.Fatalf("%v in\n%s", err, got)
	}
	if broken := schema.Validate(map[string]any{"version": "2.1.0", "runs": []any{map[string]any{}}}); broken == nil {
		t.Error("the schema accepts a run without a tool, so it does not check anything")
	}
	var log struct {
		Runs []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Locations []struct {
					Physical struct {
						Artifact struct{ URI string }                  `json:"artifactLocation"`
						Region   *struct{ StartLine, StartColumn int } `json:"region"`
					} `json:"physicalLocation"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(got), &log); err != nil {
		t.Fatal(err)
	}
	type finding struct {
		rule, level, uri string
		line, column     int
	}
	var found []finding
	for _, r := range log.Runs[0].Results {
		f := finding{rule: r.RuleID, level: r.Level, uri: r.Locations[0].Physical.Artifact.URI}
		if at := r.Locations[0].Physical.Region; at != nil {
			f.line, f.column = at.StartLine, at.StartColumn
		}
		if log.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("rule %d of %v, want %s", r.RuleIndex, log.Runs[0].Tool.Driver.Rules, r.RuleID)
		}
		found = append(found, f)
	}
	want := []finding{
		{"syntax", "error", "a%20b/broken.json", 1, 9},
		{"unknown-dialect", "note", "a%20b/other.yaml", 1, 1},
		{"unreadable", "error", "missing.json", 0, 0},
	}
	var rest []finding
	for _, f := range found {
		if !strings.Contains(f.uri, "%C3%BC") {
			rest = append(rest, f)
		}
	}
	if diff := cmp.Diff(want, rest, cmp.AllowUnexported(finding{})); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	// The column of the edge's target counts characters: two of those before it have two bytes.
	target := finding{"V2", "error", "a%20b/%C3%BC.json", 2, 1 + len([]rune(` "edges": [{"id": "in", "source": "START", "target": "ä"}, {"id": "é", "source": "ä", "target": `))}
	ok := false
	for _, f := range found {
		ok = ok || f == target
	}
	if !ok {
		t.Errorf("findings = %v, want %v among them", found, target)
	}
}
