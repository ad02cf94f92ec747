package blueprint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"weft/specadapter/inputs"
	"weft/specadapter/source"
	"weft/workflows/plan/pytext"
)

// sharedCases reads cases of the dialect's framework, or skips the test if there are none.
func sharedCases(t *testing.T, name string, out any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "cases", name))
	if err != nil {
		t.Skipf("../shared/cases/%s is not there", name)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
}

// commandLine returns the command line of a procedural agent.
func commandLine(command string, raw json.RawMessage) ([]string, error) {
	words, err := split(command)
	if err != nil || len(raw) == 0 {
		return words, err
	}
	params, diags := inputs.Read("params", raw)
	if params == nil {
		return nil, fmt.Errorf("%v", diags)
	}
	return append(words, inputs.Arguments(params)...), nil
}

func TestArguments(t *testing.T) {
	tests := map[string]struct {
		command, params string
		want            []string
		bad             string
	}{
		"program only":       {"run", "", []string{"run"}, ""},
		"blanks":             {"  a\tb \n", "", []string{"a", "b"}, ""},
		"quotes":             {`a 'b c' "d e"f''`, "", []string{"a", "b c", "d ef"}, ""},
		"empty word":         {`a '' ""`, "", []string{"a", "", ""}, ""},
		"backslashes":        {`a\ b 'c\d' "e\f\"\\"`, "", []string{"a b", `c\d`, `e\f"\`}, ""},
		"no expansion":       {`$HOME * ~ #x`, "", []string{"$HOME", "*", "~", "#x"}, ""},
		"unclosed quote":     {`a 'b`, "", nil, "unclosed quote"},
		"trailing backslash": {`a \`, "", nil, "trailing backslash"},
		"values in order":    {"x", `{"b":true,"a":false,"n":null,"f":1.50,"l":["ü",true,null],"o":{"k":[1]},"s":"-x y"}`, []string{"x", "--b", "--n", "None", "--f", "1.5", "--l", "ü,True,None", "--o", "{'k': [1]}", "--s", "-x y"}, ""},
		"invalid JSON":       {"x", `{`, nil, "unexpected end of text"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := commandLine(tc.command, json.RawMessage(tc.params))
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Errorf("error is %v, want %s", err, tc.bad)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestArgumentsMatchFramework(t *testing.T) {
	var in []struct {
		Command    string
		Parameters json.RawMessage
		Expect     []string
	}
	sharedCases(t, "aof_procedural_cli_args.json", &in)
	for _, c := range in {
		got, err := commandLine(c.Command, c.Parameters)
		if diff := cmp.Diff(c.Expect, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.Command, err, diff)
		}
	}
	if len(in) < 4 {
		t.Errorf("%d cases", len(in))
	}
}

func TestUsageMatchesFramework(t *testing.T) {
	var in []struct {
		Script struct {
			Name, Description string
			File              string          `json:"script_file"`
			Params            json.RawMessage `json:"parameters_schema"`
		}
		Expect string
	}
	sharedCases(t, "aof_script_usage.json", &in)
	for _, c := range in {
		s := script{name: c.Script.Name, description: c.Script.Description, file: c.Script.File}
		var err error
		if s.params, err = pytext.Parse(c.Script.Params); err != nil {
			t.Fatal(err)
		}
		if got := s.usage(); got != c.Expect {
			t.Errorf("got  %q\nwant %q", got, c.Expect)
		}
	}
	if len(in) < 3 {
		t.Errorf("%d cases", len(in))
	}
}

func TestUsage(t *testing.T) {
	tests := map[string]struct{ params, want string }{
		"no schema":     {"", "uv run --script scripts/s/s.py\n```"},
		"no parameters": {`{"properties":{}}`, "uv run --script scripts/s/s.py\n```"},
		"all kinds": {`{"required":["n","e"],"properties":{"n":{"type":"number","default":1.50,"description":"Count"},"e":{"enum":["a",1]},"t":{"type":["string","null"]},"s":{}}}`,
			"uv run --script scripts/s/s.py --n <N> --e <a|1> [--t <t>] [--s <s>]\n```\n\n**Arguments:**\n- `--n` (required) (number) [default: 1.5] - Count\n- `--e` (required) One of: a, 1\n- `--t` (optional) (['string', 'null'])\n- `--s` (optional)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := script{name: "s", description: "d", file: "s.py"}
			if tc.params != "" {
				s.params, _ = pytext.Parse([]byte(tc.params))
			}
			if got, want := s.usage(), "## Local Script: s\n**Description:** d\n\n**Usage:**\n```bash\n"+tc.want; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// TestServers checks that a server's configuration is the registry's, overridden by the agent's.
func TestServers(t *testing.T) {
	doc, diags := source.Parse("agents/a/agent.json", []byte(`{"name":"a","description":"b"}`))
	if doc == nil {
		t.Fatal(diags)
	}
	a := newAdaptation(doc, ProfileDefault, source.Host{Connections: map[string]bool{"own": true, "cmd": true}, Files: []source.File{
		{Name: "agents/a/agent.mcp.json", Text: `{"mcpServers":{"s":{"ref":"store","config":{"X-B":"2","X-C":3}},"o":{"ref":"orchestrator"},"w":{"ref":"own"},"cmd":{"command":"x"},"u":{"type":"sse","url":"http://h/mcp"}}}`},
		{Name: "mcp-servers/store/mcp-server.json", Text: `{"id":"store","name":"Store","description":"Keeps","url":"http://h/s","default_config":{"X-A":"${runtime.run_id}","X-B":"1"}}`},
		{Name: "mcp-servers/orchestrator/mcp-server.json", Text: `{"id":"orchestrator","name":"O","url":"${runner.orchestrator_mcp_url}","config_schema":{"X-Agent-Session-Id":{"required":true}}}`},
	}})
	g := a.agent(doc.Root)
	var got []string
	for _, s := range g.servers {
		line := fmt.Sprintf("%s %s %s orchestrator=%v configured=%v", s.name, s.title, s.url, s.orchestrator, s.configured)
		for _, h := range s.headers {
			line += " " + h.name + "=" + h.value
		}
		got = append(got, line)
	}
	want := []string{
		"s Store http://h/s orchestrator=false configured=false X-A=${runtime.run_id} X-B=2 X-C=3",
		"o O ${runner.orchestrator_mcp_url} orchestrator=true configured=false",
		"w   orchestrator=false configured=true", "cmd   orchestrator=false configured=true", "u  http://h/mcp orchestrator=false configured=false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s\n%v", diff, a.Diags)
	}
	f := a.plan(g)
	var conns []string
	for _, c := range f.Connections {
		conns = append(conns, c.ID+" "+c.URL)
	}
	if diff := cmp.Diff([]string{"s http://h/s", "own ", "cmd ", "u http://h/mcp"}, conns); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func names(files []source.File) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Name)
	}
	slices.Sort(out)
	return out
}

func agentsFS(extra map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, text := range map[string]string{
		"agents/a/agent.json":             `{"name":"a","capabilities":["c","no","../x"],"hooks":{"on_run_start":{"agent_name":"b"}},"script":"s"}`,
		"agents/a/agent.system-prompt.md": "p", "agents/a/README.md": "not wanted", "agents/a/notes/x.json": "{}",
		"agents/b/agent.json": `{"name":"b","capabilities":["d"]}`, "agents/b/.disabled": "",
		"agents/z/agent.json":                      `{"name":"z"}`,
		"capabilities/c/capability.json":           `{"name":"c","script":"t"}`,
		"capabilities/c/capability.mcp.json":       `{"mcpServers":{"m":{"ref":"m"}}}`,
		"capabilities/d/capability.json":           `broken`,
		"mcp-servers/m/mcp-server.json":            `{"url":"http://h"}`,
		"mcp-servers/orchestrator/mcp-server.json": `{"url":"${runner.orchestrator_mcp_url}"}`,
		"scripts/s/script.json":                    `{}`, "scripts/t/script.json": `{}`, "scripts/t/t.py": "not wanted",
	} {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range extra {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

func TestCollect(t *testing.T) {
	closure := []string{"agents/a/agent.system-prompt.md", "agents/b/.disabled", "agents/b/agent.json", "capabilities/c/capability.json",
		"capabilities/c/capability.mcp.json", "capabilities/d/capability.json", "mcp-servers/m/mcp-server.json", "scripts/t/script.json"}
	text, files, _, err := Collect(agentsFS(nil), "agents/a/agent.json")
	if err != nil || !strings.HasPrefix(string(text), `{"name":"a"`) {
		t.Fatal(string(text), err)
	}
	if diff := cmp.Diff(closure, names(files)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	_, files, _, err = Collect(agentsFS(map[string]string{"agents/a/agent.mcp.json": `{"mcpServers":{"x":{"ref":"orchestrator"}}}`}), "agents/a/agent.json")
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{"agents/a/agent.mcp.json", "agents/z/agent.json", "mcp-servers/orchestrator/mcp-server.json"}, closure...)
	slices.Sort(want)
	if diff := cmp.Diff(want, names(files)); diff != "" {
		t.Errorf("with the orchestrator (-want +got):\n%s", diff)
	}
}

// TestCollectBesideStrayFiles checks that other files in agents/ are ignored.
func TestCollectBesideStrayFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, agentsFS(map[string]string{"agents/a/agent.mcp.json": `{"mcpServers":{"x":{"ref":"orchestrator"}}}`, "agents/README.md": "# Agents", "agents/notes": "x"})); err != nil {
		t.Fatal(err)
	}
	_, files, _, err := Collect(os.DirFS(dir), "agents/a/agent.json")
	if err != nil || !slices.Contains(names(files), "agents/z/agent.json") {
		t.Errorf("%v, %v", names(files), err)
	}
}

// TestCollectLeavesOutAgents checks that the orchestrator's unreadable agents are left out with a warning, and that the
// others are collected.
func TestCollectLeavesOutAgents(t *testing.T) {
	dir := t.TempDir()
	agents := func(name string) string { return filepath.Join(dir, "agents", name) }
	files := map[string]string{"agents/a/agent.mcp.json": `{"mcpServers":{"x":{"ref":"orchestrator"}}}`,
		"agents/long/agent.json": strings.Repeat(" ", MaxFileBytes+1), "agents/prompt/agent.json": `{"name":"prompt","description":"d"}`}
	if err := os.CopyFS(dir, agentsFS(files)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"folder/agent.json", "prompt/agent.system-prompt.md", "pipe"} {
		if err := os.MkdirAll(agents(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("/etc", agents("etc")), os.Symlink("loop", agents("loop")), syscall.Mkfifo(agents("pipe/agent.json"), 0o600),
		syscall.Mkfifo(agents("fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, collected, warnings, err := Collect(root.FS(), "agents/a/agent.json")
	if err != nil || !slices.Contains(names(collected), "agents/z/agent.json") || slices.Contains(names(collected), "agents/prompt/agent.json") {
		t.Errorf("%v, %v", names(collected), err)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, w.File+": "+w.Text)
	}
	want := []string{
		"agents/etc/agent.json: no run can start the agent in agents/etc: read agents/etc/agent.json: path escapes from parent",
		"agents/folder/agent.json: no run can start the agent in agents/folder: read agents/folder/agent.json: it is not a regular file",
		"agents/long/agent.json: no run can start the agent in agents/long: read agents/long/agent.json: it exceeds the limit of 1048576 bytes for an agent's file",
		"agents/loop/agent.json: no run can start the agent in agents/loop: read agents/loop/agent.json: too many levels of symbolic links",
		"agents/pipe/agent.json: no run can start the agent in agents/pipe: read agents/pipe/agent.json: it is not a regular file",
		"agents/prompt/agent.json: no run can start the agent in agents/prompt: read agents/prompt/agent.system-prompt.md: it is not a regular file",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCollectElsewhere checks that an agent outside agents/ finds registries in its folder and in the parent folder.
func TestCollectElsewhere(t *testing.T) {
	fsys := fstest.MapFS{}
	for _, name := range []string{"x/agent.json", "capabilities/c/capability.json", "x/capabilities/d/capability.json"} {
		fsys[name] = &fstest.MapFile{Data: []byte(`{"capabilities":["c","d"]}`)}
	}
	_, files, _, err := Collect(fsys, "x/agent.json")
	if diff := cmp.Diff([]string{"capabilities/c/capability.json", "x/capabilities/d/capability.json"}, names(files)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	sub, err := fs.Sub(fsys, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, files, _, err = Collect(sub, "agent.json"); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", names(files), err)
	}
}

func TestCollectBounds(t *testing.T) {
	many := map[string]string{"agents/a/agent.mcp.json": `{"mcpServers":{"x":{"url":"${runner.orchestrator_mcp_url}"}}}`}
	for i := range MaxFiles {
		many[fmt.Sprintf("agents/n%03d/agent.json", i)] = `{}`
	}
	large := map[string]string{"agents/a/agent.mcp.json": many["agents/a/agent.mcp.json"]}
	for i := range 6 {
		large[fmt.Sprintf("agents/n%d/agent.json", i)] = `{}`
		large[fmt.Sprintf("agents/n%d/agent.system-prompt.md", i)] = strings.Repeat("x", MaxFileBytes)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "agents", "a", "agent.mcp.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "agents", "a", "agent.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		fsys fs.FS
		want string
	}{
		"too many":       {agentsFS(many), "more than 500 files"},
		"too large":      {agentsFS(large), "more than 4194304 bytes"},
		"file too large": {agentsFS(map[string]string{"capabilities/c/capability.text.md": strings.Repeat("x", MaxFileBytes+1)}), "read capabilities/c/capability.text.md: it exceeds the limit of 1048576 bytes"},
		"not a file":     {os.DirFS(dir), "read agents/a/agent.mcp.json: it is not a regular file"},
		"no main file":   {fstest.MapFS{}, "read agents/a/agent.json: file does not exist"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, _, _, err := Collect(tc.fsys, "agents/a/agent.json"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %s", err, tc.want)
			}
		})
	}
}

// TestCollectFollowsNoLinkOutside checks that symbolic links do not lead out of the folder.
func TestCollectFollowsNoLinkOutside(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"secret.md": "secret", "root/agents/a/agent.json": "{}", "root/agents/b/agent.system-prompt.md": "inside"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "root", "agents", "a", "agent.system-prompt.md")
	root, err := os.OpenRoot(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for target, want := range map[string]string{"../../../secret.md": "escapes", filepath.Join(dir, "secret.md"): "escapes", "../b/agent.system-prompt.md": ""} {
		if err := os.Symlink(target, link); err != nil {
			t.Skip(err)
		}
		_, files, _, err := Collect(root.FS(), "agents/a/agent.json")
		if got := fmt.Sprint(err); want != "" && !strings.Contains(got, want) || want == "" && (err != nil || len(files) != 1 || files[0].Text != "inside") {
			t.Errorf("link to %s: %v, %v", target, names(files), err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzCollect checks that the collected files are bounded and lie inside the folder, whatever the files contain.
func FuzzCollect(f *testing.F) {
	f.Add(`{"capabilities":["c"],"hooks":{"on_run_start":{"agent_name":"b"}}}`, `{"mcpServers":{"x":{"ref":"orchestrator"}}}`)
	f.Add(`{"script":"../x","capabilities":[1,null,"/"]}`, `{"mcpServers":[]}`)
	f.Add(`{"hooks":[],"mcp_servers":{"a":null,"b":{"ref":{}}}}`, `]`)
	f.Fuzz(func(t *testing.T, agent, mcp string) {
		_, files, _, err := Collect(agentsFS(map[string]string{"agents/a/agent.json": agent, "agents/a/agent.mcp.json": mcp}), "agents/a/agent.json")
		if err != nil && len(agent) <= MaxFileBytes && len(mcp) <= MaxFileBytes {
			t.Fatal(err)
		}
		for _, file := range files {
			if !fs.ValidPath(file.Name) || slices.Contains([]string{"agents/a/README.md", "scripts/t/t.py"}, file.Name) {
				t.Fatal(file.Name)
			}
		}
	})
}
