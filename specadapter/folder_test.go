package specadapter_test

import (
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"weft/specadapter"
	"weft/specadapter/source"
)

func TestLocate(t *testing.T) {
	tests := map[string]struct{ path, root, main string }{
		"in agents/":         {"/x/config/agents/a/agent.json", "/x/config", "agents/a/agent.json"},
		"not in agents/":     {"/x/a/agent.json", "/x", "a/agent.json"},
		"in the root":        {"/agent.json", "/", "agent.json"},
		"one below the root": {"/a/agent.json", "/", "a/agent.json"},
		"only in agents/":    {"/agents/agent.json", "/", "agents/agent.json"},
		"relative path":      {"config/agents/a/agent.json", "config", "agents/a/agent.json"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			root, main := specadapter.Locate(filepath.FromSlash(tc.path))
			if filepath.ToSlash(root) != tc.root || main != tc.main {
				t.Errorf("got %s and %s, want %s and %s", root, main, tc.root, tc.main)
			}
		})
	}
}

func TestReadFolder(t *testing.T) {
	fsys := fstest.MapFS{"agents/a/agent.json": {Data: []byte("{}")}, "agents/a/agent.mcp.json": {Data: []byte("[]")}}
	f, err := specadapter.ReadFolder(fsys, "agents/a/agent.json")
	if err != nil {
		t.Fatal(err)
	}
	want := &specadapter.Folder{Name: "../c/agents/a/agent.json", Text: []byte("{}"), Files: []source.File{{Name: "../c/agents/a/agent.mcp.json", Text: "[]"}}}
	if diff := cmp.Diff(want, f.Under("../c")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if f.Name != "agents/a/agent.json" {
		t.Errorf("Under changed its receiver: %s", f.Name)
	}
	if _, err := specadapter.ReadFolder(fsys, "agents/b/agent.json"); err == nil {
		t.Error("no error for a missing folder")
	}
}
