package dialects

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/tests/harness"
)

// TestExamplesCoverNodeTypes checks that every node type of Agent Spec occurs in an example, and that each example has a recorded history.
func TestExamplesCoverNodeTypes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../examples/agentspec/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	seen := map[string]string{}
	for _, file := range files {
		parsed, diags := source.Parse(filepath.Base(file), []byte(harness.ReadFile(t, file)))
		if parsed == nil {
			t.Fatalf("%s does not parse: %v", file, diags)
		}
		doc, ok, diags := model.Read(parsed, model.Options{})
		if !ok {
			t.Fatalf("%s does not load: %v", file, diags)
		}
		for _, c := range doc.Components {
			seen[c.Type.Name] = file
		}
		history := "../testdata/history/example-agentspec-" + strings.TrimSuffix(filepath.Base(file), ".yaml") + ".json"
		if _, err := os.Stat(history); err != nil {
			t.Errorf("%s has no recorded history; run make record: %v", file, err)
		}
	}
	nodes := 0
	for _, kind := range catalog.Types() {
		if !slices.Contains(kind.Is, "Node") {
			continue
		}
		nodes++
		if seen[kind.Name] == "" {
			t.Errorf("no example has a %s; add one to examples/agentspec", kind.Name)
		}
	}
	if nodes < 14 {
		t.Errorf("%d node types, want at least 14", nodes)
	}
}
