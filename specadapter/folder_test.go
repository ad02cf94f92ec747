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
		"in agents/":     {"/x/config/agents/a/agent.json", "/x/config", "agents/a/agent.json"},
		"elsewhere":      {"/x/a/agent.json", "/x", "a/agent.json"},
		"at the top":     {"/agent.json", "/", "agent.json"},
		"below the top":  {"/a/agent.json", "/", "a/agent.json"},
		"named agents":   {"/agents/agent.json", "/", "agents/agent.json"},
		"a relative one": {"config/agents/a/agent.json", "config", "agents/a/agent.json"},
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
		t.Errorf("the folder itself was changed: %s", f.Name)
	}
	if _, err := specadapter.ReadFolder(fsys, "agents/b/agent.json"); err == nil {
		t.Error("a folder that is not there is read")
	}
}
