package scaffold

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWrite writes a flow of each dialect, and checks that a second call does not replace files.
func TestWrite(t *testing.T) {
	for _, dialect := range Dialects {
		dir := filepath.Join(t.TempDir(), "new")
		names, err := Write(dialect, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"README.md", "weft.yaml", "flow.script", "flow.recording"} {
			if !slices.Contains(names, want) {
				t.Errorf("%s: %s is missing in %v", dialect, want, names)
			}
		}
		readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil || !strings.Contains(string(readme), Command(dialect)) {
			t.Errorf("%s: README.md does not contain %q: %v", dialect, Command(dialect), err)
		}
		if err := os.Remove(filepath.Join(dir, "flow.script")); err != nil {
			t.Fatal(err)
		}
		if _, err := Write(dialect, dir); err == nil || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("%s: second Write: %v, want already exists", dialect, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "flow.script")); err == nil {
			t.Errorf("%s: a file was written although others exist", dialect)
		}
	}
	if _, err := Write("cobol", t.TempDir()); err == nil || !strings.Contains(err.Error(), "available dialects: continuum, koog, agentspec, blueprint") {
		t.Errorf("Write with an unknown dialect: %v", err)
	}
}
