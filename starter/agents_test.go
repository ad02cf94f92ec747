package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAgentsSkipped checks that folders without an agent are omitted from the list and reported, and
// that hidden folders and files are ignored.
func TestAgentsSkipped(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agents/one/agent.json": `{"name":"one","description":"First"}`, "agents/draft/agent.jsn": "{}", "agents/.git/config": "", "agents/README.md": "",
		"agents/wrong/agent.json": `{`, "agents/bare/notes/agent.json": "{}", "lone/one/agent.json": `{"name":"one","description":"First"}`, "none/a/b": "",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		folder, names, stderr string
		code                  int
	}{
		"some skipped": {"", "one wrong", "skipped, no agent.json: bare, draft\n", exitOK},
		"none skipped": {"lone", "one", "", exitOK},
		"all skipped":  {"none", "", "no agents in", exitBadInput},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, env: mapEnv{}}
			if code := a.run(t.Context(), []string{"agents", filepath.Join(dir, tc.folder), "-output", "json"}); code != tc.code {
				t.Fatalf("exit code %d, want %d: %s", code, tc.code, &stderr)
			}
			if got := stderr.String(); !strings.Contains(got, tc.stderr) || tc.stderr == "" && got != "" {
				t.Errorf("stderr = %q, want %q", got, tc.stderr)
			}
			var list struct {
				Agents []struct{ Name string } `json:"agents"`
			}
			if tc.code == exitOK {
				if err := json.Unmarshal(stdout.Bytes(), &list); err != nil {
					t.Fatal(err)
				}
			}
			var names []string
			for _, v := range list.Agents {
				names = append(names, v.Name)
			}
			if got := strings.Join(names, " "); got != tc.names {
				t.Errorf("agents = %q, want %q", got, tc.names)
			}
		})
	}
}
