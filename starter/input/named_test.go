package input

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/worker/config"
)

// TestNamed checks that only flows in flows.dir are found, by name and by path.
func TestNamed(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	for _, name := range []string{"flows/triage.json", "flows/both.json", "flows/both.yaml", "flows/agents/writer/agent.json", "flows/deep/x.json", "triage.json", "agents/writer/agent.json", "mine.json"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(`{"name": "x", "description": "x"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"linked": "flows", "away.json": "flows/triage.json"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	const other = " is not a flow of flows.dir (flows), and workers with flows.accept: named run only such flows"
	for given, want := range map[string]string{
		"both.yaml": "flows/both.yaml both.yaml", "writer": "flows/agents/writer/agent.json writer",
		"flows/triage.json": "flows/triage.json triage.json", "linked/triage.json": "flows/triage.json triage.json",
		filepath.Join(root, "flows/triage.json"): "flows/triage.json triage.json",
		"flows/agents/writer":                    "flows/agents/writer/agent.json writer", "flows/agents/writer/agent.json": "flows/agents/writer/agent.json writer",
		"triage.json": other, "mine.json": other, "agents/writer": other, "flows/deep/x.json": other, "-": `flow "-" not found`, "away.json": other,
		"triag": `flow "triag" not found in flows.dir (flows.accept: named, flows.dir: flows); did you mean "triage"?`,
		"both":  "is ambiguous", "../triage": "is not a plain file name", "flows": "flows/agent.json: no such file",
	} {
		file, name, err := Named(config.Flows{Dir: "flows"}, given)
		got := file + " " + name
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || err != nil && !strings.Contains(got, want) {
			t.Errorf("Named(%s) = %q, want %q", given, got, want)
		}
	}
	if _, _, err := Named(config.Flows{}, "triage"); err == nil || !strings.Contains(err.Error(), "flows.dir is not set; set it") {
		t.Errorf("without flows.dir: %v", err)
	}
}
