package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestExampleRecordings replays the recordings of all examples.
func TestExampleRecordings(t *testing.T) {
	files, err := filepath.Glob("../tests/examples/*/*.recording")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d recordings, want at least 5: %v", len(files), err)
	}
	var stdout, stderr strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, env: emptyEnv{}}
	if code := a.run(t.Context(), append([]string{"test"}, files...)); code != exitOK || strings.Count(stdout.String(), "ok    ") != len(files) {
		t.Errorf("code %d\n%s\n%s", code, stdout.String(), stderr.String())
	}
}

// TestTestCommand replays valid, modified and invalid recordings.
func TestTestCommand(t *testing.T) {
	const example = "../tests/examples/continuum/triage.recording"
	raw, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, old, text string) string {
		changed := strings.Replace(string(raw), old, text, 1)
		if changed == string(raw) {
			t.Fatalf("no %q in the example", old)
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	other := write("other.yaml", "say: We refund", "say: We will not refund")
	branch := write("turned.yaml", "yes: true", "yes: false")
	for name, tc := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"unmodified":                    {[]string{"test", example}, exitOK, "ok    " + example + ": 6 calls, completed\n", ""},
		"with -flow":                    {[]string{"test", "-flow", "../tests/examples/continuum/triage.json", example}, exitOK, "ok    ", "warning"},
		"other result":                  {[]string{"test", example, other}, exitFailed, ": the result's text\n  expected: We refund order", ""},
		"other branch":                  {[]string{"test", branch}, exitFailed, "node refund, step 2", ""},
		"as JSON":                       {[]string{"test", "-output", "json", other}, exitFailed, `"what": "the result's text"`, ""},
		"as JSON lines":                 {[]string{"test", "-output", "jsonl", other}, exitFailed, `"ok":false`, ""},
		"missing file":                  {[]string{"test", "missing.yaml"}, exitBadInput, "", "read the recording: missing.yaml: no such file"},
		"script instead of a recording": {[]string{"test", "../tests/examples/continuum/triage.script"}, exitBadInput, "", `has no field "recorded"`},
		"unsupported version":           {[]string{"test", write("v.yaml", "version: 1", "version: 7")}, exitBadInput, "", "version is 7, but this build replays 1"},
		"unknown field":                 {[]string{"test", write("f.yaml", "kind: EvaluateCondition", "kidn: Judge")}, exitBadInput, "", `unknown field "kidn"`},
		"duplicate call":                {[]string{"test", write("t.yaml", "classify#1/judge/2\n      kind", "classify#1/judge/1\n      kind")}, exitBadInput, "", "duplicate call"},
		"invalid YAML":                  {[]string{"test", write("y.yaml", "rules:", "rules: [")}, exitBadInput, "", "y.yaml:"},
		"call without kind":             {[]string{"test", write("k.yaml", "kind: EvaluateCondition\n", "tool: x\n")}, exitBadInput, "", "without at or kind"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, env: emptyEnv{}}
			if code := a.run(t.Context(), tc.args); code != tc.code {
				t.Errorf("code %d, want %d", code, tc.code)
			}
			if !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) {
				t.Errorf("stdout %s\nstderr %s", stdout.String(), stderr.String())
			}
		})
	}
}

// emptyEnv is an environment without variables.
type emptyEnv struct{}

func (emptyEnv) LookupEnv(string) (string, bool) { return "", false }

func (emptyEnv) Environ() []string { return nil }
