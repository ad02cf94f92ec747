package blueprint_test

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"weft/specadapter"
	"weft/specadapter/source"
)

// TestScriptPinned checks that a procedural agent's script is pinned for the agent itself, for a hook and for an agent that
// another one starts. Without the script, loading only warns and starting fails.
func TestScriptPinned(t *testing.T) {
	base := map[string]string{
		"agents/a/agent.json": `{"name":"a","description":"d","type":"procedural","script":"s"}`,
		"agents/h/agent.json": `{"name":"h","description":"d","system_prompt":"p","hooks":{"on_run_start":{"type":"agent","agent_name":"a","on_error":"block"}}}`,
		"agents/o/agent.json": `{"name":"o","description":"d","system_prompt":"p","mcp_servers":{"o":{"ref":"orchestrator"}}}`,
	}
	const content = "#!/bin/sh\n"
	sum := sha256.Sum256([]byte(content))
	tests := map[string]struct {
		agent, entry, file string
		// started and read are the diagnostic when starting and when only reading; "" is a pinned script.
		started, read string
	}{
		"same folder":               {"a", "run.sh", "scripts/s/run.sh", "", ""},
		"subfolder":                 {"a", "bin/run it.sh", "scripts/s/bin/run it.sh", "", ""},
		"leading dot":               {"a", "./run.sh", "scripts/s/run.sh", "", ""},
		"hook":                      {"h", "run.sh", "scripts/s/run.sh", "", ""},
		"of another agent":          {"o", "run.sh", "scripts/s/run.sh", "", ""},
		"missing":                   {"a", "run.sh", "", "error script", "warning script"},
		"missing, hook":             {"h", "run.sh", "", "error script", "warning script"},
		"missing, of another agent": {"o", "run.sh", "", "warning not-started", ""},
		"outside the folder":        {"a", "../t/run.sh", "scripts/t/run.sh", "error script", "error script"},
		"absolute":                  {"a", "/bin/true", "", "error script", "error script"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{"scripts/s/script.json": {Data: []byte(`{"name":"s","description":"d","script_file":"` + tc.entry + `"}`)}}
			files := maps.Clone(base)
			if tc.file != "" {
				files[tc.file] = content
			}
			for file, text := range files {
				fsys[file] = &fstest.MapFile{Data: []byte(text)}
			}
			folder, err := specadapter.ReadFolder(fsys, "agents/"+tc.agent+"/agent.json")
			if err != nil {
				t.Fatal(err)
			}
			for starting, want := range map[bool]string{true: tc.started, false: tc.read} {
				res, diags := specadapter.Load(folder.Name, folder.Text, specadapter.Options{Dialect: "blueprint", Host: source.Host{Files: folder.Files, Starting: starting}})
				if got := scriptDiagnostic(diags); got != want {
					t.Errorf("starting %v: got %q, want %q: %v", starting, got, want, diags)
				}
				if (res == nil) != strings.HasPrefix(want, "error") {
					t.Errorf("starting %v: plan %v, %v", starting, res != nil, diags)
				}
				if res != nil && want == "" && tc.file != "" && !pinnedIn(t, res, hex.EncodeToString(sum[:])) {
					t.Errorf("starting %v: the plan does not have the script's hash", starting)
				}
				for _, d := range diags {
					if d.Code == "script" && (d.File != "scripts/s/script.json" || d.Line != 1 || d.Col < 40 || d.Help == "" || !strings.Contains(d.Text, tc.entry)) {
						t.Errorf("%s lacks position, value or remedy", d)
					}
				}
			}
		})
	}
}

// scriptDiagnostic returns the first diagnostic of the script's file or its agent, as severity and code.
func scriptDiagnostic(diags []source.Diagnostic) string {
	for _, d := range diags {
		if d.Code == "script" || d.Code == "not-started" {
			return d.Severity.String() + " " + d.Code
		}
	}
	return ""
}

func pinnedIn(t *testing.T, res *specadapter.Result, sum string) bool {
	t.Helper()
	flows := append(res.Flow.Agents, *res.Flow)
	for _, f := range flows {
		if p := f.Nodes[0].Program; p != nil && p.SHA == sum {
			return true
		}
	}
	return false
}
