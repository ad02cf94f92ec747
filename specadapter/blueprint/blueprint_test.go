package blueprint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"weft/specadapter"
	"weft/specadapter/adaptertest"
	"weft/specadapter/source"
)

func TestGolden(t *testing.T) { adaptertest.Golden(t) }

var (
	emitted    = regexp.MustCompile(`(?m)^[^\t\n]*: (?:error|warning|info): .* \[([A-Za-z0-9-]+)\]$`)
	documented = regexp.MustCompile("(?m)^\\| `([A-Za-z0-9-]+)` \\| (?:error|warning|info|-)")
)

// TestREADMECodes checks that the README's table and the goldens have the same codes.
func TestREADMECodes(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	table, seen := map[string]bool{}, map[string]bool{"encoding": true} // TestEncoding
	for _, m := range documented.FindAllStringSubmatch(string(readme), -1) {
		table[m[1]] = true
	}
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range emitted.FindAllStringSubmatch(string(raw), -1) {
			seen[m[1]] = true
			if !table[m[1]] && m[1] != "syntax" {
				t.Errorf("%s: the code %s is not in README.md", path, m[1])
			}
		}
	}
	for code := range table {
		if !seen[code] {
			t.Errorf("README.md has the code %s, but no golden does", code)
		}
	}
}

func TestEncoding(t *testing.T) {
	r, diags := specadapter.Load("a/agent.json", []byte(`{"name":"a","description":"b"}`), specadapter.Options{
		Host: source.Host{Files: []source.File{{Name: "a/agent.system-prompt.md", Text: "\xff"}}}})
	if r != nil || len(diags) != 1 || diags[0].String() != "a/agent.system-prompt.md:1:1: error: the file is not valid UTF-8 [encoding]\n\tsave the file as UTF-8" {
		t.Errorf("got %v", diags)
	}
}

// TestLargeAgents checks that large agents load within bounds, however invalid they are.
func TestLargeAgents(t *testing.T) {
	list := func(n int, item string) string { return strings.Repeat(item+",", n) + item }
	numbered := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	agent := func(fields string) string { return `{"name":"a","description":"b",` + fields + `}` }
	tests := map[string]struct{ agent, prompt, capability string }{
		"many capabilities": {agent(`"capabilities":[` + list(200_000, `"c"`) + `]`), "", `{"name":"c","description":"d"}`},
		"large capability":  {agent(`"capabilities":[` + list(900, `"c"`) + `]`), "", `{"name":"c","description":"` + strings.Repeat("x", 1<<20) + `"}`},
		"many servers":      {agent(`"mcp_servers":{` + numbered(50_000, `"s%d":{"ref":"x"},`) + `}`), "", ""},
		"many headers":      {agent(`"mcp_servers":{"s":{"url":"http://h","headers":{` + numbered(50_000, `"h%d":"",`) + `}}}`), "", ""},
		"many placeholders": {agent(`"parameters_schema":{"properties":{` + numbered(10_000, `"p%d":{},`) + `},"additionalProperties":false}`), numbered(80_000, "${params.x%d}\n"), ""},
		"unknown fields":    {agent(numbered(100_000, `"x%d":1,`)), "", ""},
		"hooks":             {agent(`"hooks":{` + numbered(100_000, `"x%d":1,`) + `}`), "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, diags := specadapter.Load("agents/a/agent.json", []byte(tc.agent), specadapter.Options{Dialect: "blueprint", Host: source.Host{Files: []source.File{
				{Name: "agents/a/agent.system-prompt.md", Text: tc.prompt}, {Name: "capabilities/c/capability.json", Text: tc.capability}}}})
			if took := time.Since(began); took > 3*time.Minute || len(diags) == 0 || len(diags) > source.MaxDiagnostics {
				t.Errorf("%d diagnostics after %s", len(diags), took)
			}
		})
	}
}

// FuzzFolder checks that no folder causes a panic, a hang or a plan together with an error.
func FuzzFolder(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		parts := regexp.MustCompile(`(?m)^-- (.*) --\n`).Split(string(raw), -1)
		parts = append(parts, "", "", "", "")
		f.Add(parts[1], parts[2], parts[3], parts[4])
	}
	f.Fuzz(func(t *testing.T, agent, mcp, capability, server string) {
		agent = strings.ReplaceAll(agent, `"ref": "`, `"ref": "s`)
		files := []source.File{
			{Name: "agents/a/agent.mcp.json", Text: mcp}, {Name: "agents/a/agent.system-prompt.md", Text: server},
			{Name: "capabilities/graph/capability.json", Text: capability}, {Name: "capabilities/graph/capability.mcp.json", Text: mcp},
			{Name: "mcp-servers/store/mcp-server.json", Text: server}, {Name: "scripts/s/script.json", Text: server},
		}
		r, diags := specadapter.Load("agents/a/agent.json", []byte(agent), specadapter.Options{Dialect: "blueprint", Host: source.Host{Files: files}})
		if (r == nil) != source.HasErrors(diags) {
			t.Fatalf("result %v with %v", r, diags)
		}
		for _, d := range diags {
			if d.Text == "" || d.Code == "" {
				t.Fatalf("%+v", d)
			}
		}
	})
}
