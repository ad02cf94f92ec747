package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/programs"
	"weft/worker/config"
	"weft/workflows/plan"
)

// fakeEnv replaces the environment of the process, so that tests do not depend on it.
type fakeEnv map[string]string

func (e fakeEnv) LookupEnv(name string) (string, bool) {
	v, ok := e[name]
	return v, ok
}

func (e fakeEnv) Environ() []string {
	var out []string
	for k, v := range e {
		out = append(out, k+"="+v)
	}
	return out
}

func load(t *testing.T, text string, env fakeEnv) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	all := fakeEnv{"WEFT_SEAL_KEYS": programs.SealKeys}
	maps.Copy(all, env)
	cfg, err := config.Load(config.Options{File: file, Env: all})
	if err != nil {
		t.Fatal(err)
	}
	cfg.File = "weft.yaml"
	return cfg
}

// lazyClient returns a client that connects on first use, which never happens in these tests.
func lazyClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

const echo = `{
  "name": "Echo",
  "generation_prompt": "say it again",
  "response_format": {"type": 1, "payload": null},
  "nodes": [{"id": "echo", "name": "Echo", "prompt": "Repeat the input.", "is_exit_node": true}],
  "edges": [
    {"id": "in", "source": "START", "target": "echo"},
    {"id": "out", "source": "echo", "target": "END"}
  ],
  "execution_plan": "graph TD\n    START([START]) --> echo[Echo]\n    echo --> END([END])"
}`

func TestDescribe(t *testing.T) {
	cfg := load(t, `
task_queue: mine
model: openai/gpt-5-mini
connections:
  search: {url: "https://tools.example/mcp", headers: {X-Key: "${SEARCH_KEY}"}}
  files: {command: mcp-files}
`, fakeEnv{"OPENAI_API_KEY": "sk-geheim", "MISTRAL_API_KEY": "geheim", "SEARCH_KEY": "geheim", "WEFT_TASK_QUEU": "x"})
	h, err := New(context.Background(), lazyClient(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := `worker: warning: the environment variable WEFT_TASK_QUEU is not a setting; did you mean WEFT_TASK_QUEUE?
worker: temporal here:7233, namespace default, task queue mine
worker: settings weft.yaml
worker: default model openai/gpt-5-mini
worker: providers with a key: mistral, openai
worker: connections: files, search
`
	if diff := cmp.Diff(want, h.Describe("here:7233", "default", cfg)); diff != "" {
		t.Errorf("Describe() (-want +got):\n%s", diff)
	}
}

func TestDescribeWithoutModel(t *testing.T) {
	tests := map[string]struct {
		env  fakeEnv
		want string
	}{
		"no provider":        {env: fakeEnv{}, want: "default model none: set OPENAI_API_KEY or OLLAMA_HOST in this worker's environment, or model in weft.yaml; otherwise each flow or run must name one"},
		"unreachable Ollama": {env: fakeEnv{"OLLAMA_HOST": "127.0.0.1:1"}, want: "default model none: OLLAMA_HOST is set, but its models cannot be listed: "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, "", tc.env)
			h, err := New(context.Background(), lazyClient(t), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got := h.Describe("a", "n", cfg); !strings.Contains(got, tc.want) {
				t.Errorf("Describe() = %s, want %q in it", got, tc.want)
			}
		})
	}
}

func TestNewRejectsInvalidSettings(t *testing.T) {
	tests := map[string]struct {
		file string
		want string
	}{
		"missing secret": {file: "connections: {c: {url: 'https://x.example', headers: {A: '${NOPE}'}}}",
			want: "connections.c.headers.A: the environment variable NOPE is not set, nor is NOPE_FILE"},
		"unknown transport":               {file: "connections: {c: {transport: pigeon}}", want: `connections.c.transport: unknown transport "pigeon"`},
		"tool with an unknown connection": {file: "tools: {search: nowhere}", want: `tools.search: unknown connection "nowhere"`},
		"model with an unknown provider":  {file: "model: acme/m", want: `unknown provider "acme"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := New(context.Background(), lazyClient(t), load(t, tc.file, fakeEnv{}))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New() error = %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestFunctions(t *testing.T) {
	look := tool.Func("look", "", func(context.Context, struct{}) (string, error) { return "", nil })
	book := tool.Func("book", "", func(context.Context, struct{}) (string, error) { return "", nil })
	cfg := load(t, "connections: {here: {transport: local, retry: never}}\ntools: {see: here}\n", fakeEnv{})
	h, err := New(context.Background(), lazyClient(t), cfg, look, book)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Describe("a", "n", cfg); !strings.Contains(got, "worker: functions: book, look\n") {
		t.Errorf("Describe() = %s", got)
	}
	unbound := strings.Replace(echo, `"prompt": "Repeat`, `"tools": [{"name": "look"}], "prompt": "Repeat`, 1)
	if _, err := Compiler(cfg, h.functions...)(contract.FlowRef{Text: unbound, Name: "x.json"}); err != nil {
		t.Errorf("a flow whose tool is a function: %v", err)
	}
	if _, err := Compiler(cfg)(contract.FlowRef{Text: unbound, Name: "x.json"}); err == nil {
		t.Error("the flow compiles without the function")
	}
	_, err = New(context.Background(), lazyClient(t), load(t, "connections: {here: {transport: local, url: 'http://x'}}", fakeEnv{}), look, look)
	var problems config.Problems
	if !errors.As(err, &problems) || len(problems) != 2 || !strings.Contains(err.Error(), `function "look": duplicate name`) ||
		!strings.Contains(err.Error(), "connections.here: transport local") {
		t.Errorf("New() error = %v", err)
	}
}

func TestCompiler(t *testing.T) {
	compile := Compiler(load(t, "limits: {max_steps: 77}\ntimeouts: {tool: 9s}\n", fakeEnv{}))
	got, err := compile(contract.FlowRef{Text: echo, Name: "echo.json"})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := got.Plan.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if got.Plan.Name != "Echo" || got.Plan.Limits.MaxSteps != 77 || got.Plan.Policy.ToolSeconds != 9 || got.Hash != hash || got.Hash == "" {
		t.Errorf("compiled %+v", got)
	}
	if at := got.Source.At(plan.NodePath("echo")); at != "echo.json:5" {
		t.Errorf("node location = %q, want echo.json:5", at)
	}
}

// TestCompilerMaxSteps checks that the step limit of a flow applies unless the settings set one.
func TestCompilerMaxSteps(t *testing.T) {
	var agents []string
	for i := range 30 {
		agents = append(agents, fmt.Sprintf(`{"name":"a%d","type":"transform"}`, i))
	}
	chain := `{"id":"chain","version":"1","defaultModel":"openai/gpt4o","agents":[` + strings.Join(agents, ",") + `]}`
	for _, tc := range []struct {
		settings, text, profile string
		want                    int
	}{
		{"", echo, "", plan.DefaultLimits.MaxSteps},
		{"", chain, "default", 60},
		{"", chain, "koog", 300},
		{"limits: {max_steps: 7}\n", chain, "default", 7},
		{"limits: {max_steps: 7}\n", chain, "koog", 7},
	} {
		got, err := Compiler(load(t, tc.settings, fakeEnv{}))(contract.FlowRef{Text: tc.text, Name: "flow.json", Profile: tc.profile})
		if err != nil {
			t.Fatal(err)
		}
		if got.Plan.Limits.MaxSteps != tc.want {
			t.Errorf("%q, profile %q, settings %q: %d steps, want %d", got.Plan.Name, tc.profile, tc.settings, got.Plan.Limits.MaxSteps, tc.want)
		}
	}
}

// TestCompilerComponents checks that components are rejected if the dialect does not support them.
func TestCompilerComponents(t *testing.T) {
	ref := contract.FlowRef{Text: echo, Name: "echo.json", Components: []contract.Document{{Name: "models.yaml", Text: "small: {}"}},
		ComponentIDs: []contract.ComponentID{{ID: "llm", Name: "models.yaml", Key: "small"}}}
	_, err := Compiler(load(t, "", fakeEnv{}))(ref)
	f := contract.FailureOf(err)
	if f.Class != contract.ClassInvalidFlow || !strings.Contains(f.Text, `the dialect continuum does not support components, but "models.yaml" was passed`) {
		t.Errorf("failure = %v", err)
	}
}

// TestCompilerFiles checks that a client can send a flow with additional files, if the dialect supports them.
func TestCompilerFiles(t *testing.T) {
	compile := Compiler(load(t, "", fakeEnv{}))
	ref := contract.FlowRef{Name: "agents/say/agent.json",
		Text: `{"name": "say", "description": "Says it", "capabilities": ["tone"], "input_schema": {"type": "object"}, "output_schema": {"type": "object"}}`,
		Files: []contract.Document{
			{Name: "agents/say/agent.system-prompt.md", Text: "Say it."},
			{Name: "capabilities/tone/capability.json", Text: `{"name": "tone", "description": "Be kind"}`},
			{Name: "capabilities/tone/capability.text.md", Text: "Speak kindly."},
		}}
	got, err := compile(ref)
	if err != nil {
		t.Fatal(err, contract.FailureOf(err).Diagnostics)
	}
	if raw, err := json.Marshal(got.Plan); err != nil || !strings.Contains(string(raw), "Speak kindly.") || !strings.Contains(string(raw), "Say it.") {
		t.Errorf("plan = %s: %v", raw, err)
	}
	ref.Files = ref.Files[:1]
	if _, err := compile(ref); err == nil || !strings.Contains(contract.FailureOf(err).Text, `"tone"`) {
		t.Errorf("without the capability: error = %v", err)
	}
	ref.Text, ref.Name = echo, "echo.json"
	f := contract.FailureOf(func() error { _, err := compile(ref); return err }())
	if f == nil || f.Class != contract.ClassInvalidFlow || f.Remedy == "" ||
		f.Text != `the dialect continuum does not support additional files, but flow.files has "agents/say/agent.system-prompt.md"` {
		t.Errorf("continuum with files: failure = %+v", f)
	}
}

func TestCompilerListsAllErrors(t *testing.T) {
	compile := Compiler(load(t, "", fakeEnv{}))
	tests := map[string]struct {
		ref  contract.FlowRef
		want []string
	}{
		"several errors": {
			ref:  contract.FlowRef{Text: strings.NewReplacer(`"target": "echo"`, `"target": "nobody"`, `"is_exit_node": true`, `"is_exit_node": 7`).Replace(echo), Name: "x.json"},
			want: []string{"x.json:5:91: ", "x.json:6:12: ", "x.json:7:47: "},
		},
		"no name":         {ref: contract.FlowRef{Text: "{"}, want: []string{"document:1:"}},
		"unknown dialect": {ref: contract.FlowRef{Text: echo, Name: "x.json", Dialect: "klingon"}, want: []string{"x.json:1:1: error: unknown dialect \"klingon\""}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := compile(tc.ref)
			var f *contract.Failure
			if !errors.As(err, &f) || f.Class != contract.ClassInvalidFlow || f.Remedy == "" || len(f.Diagnostics) != len(tc.want) {
				t.Fatalf("error = %#v, want %d diagnostics", err, len(tc.want))
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(f.Diagnostics[i], want) {
					t.Errorf("diagnostic %d = %q, want prefix %q", i, f.Diagnostics[i], want)
				}
			}
		})
	}
}

// TestProblemsHaveLocations checks that problems found by New have the locations of the settings.
func TestProblemsHaveLocations(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := load(t, "providers: {acme: {kind: foo}}\nconnections:\n  a: {url: 'ftp://x'}\n  b: {}\n  c.d: {url: 'https://x.example', headers: {A: '${NOPE}'}}\nflows: {dir: /no/such/folder}\nmodel: openai/m\n",
		fakeEnv{"OPENAI_API_KEY_FILE": empty, "WEFT_AGENTS_TRUSTED": "/no/such/agents"})
	_, err := New(context.Background(), lazyClient(t), cfg)
	var problems config.Problems
	if !errors.As(err, &problems) {
		t.Fatal(err)
	}
	for _, want := range []string{
		`weft.yaml:1:26: providers.acme.kind: unknown kind "foo"`,
		`weft.yaml:3:12: connections.a.url: "ftp://x" has scheme`, `weft.yaml:4:3: connections.b.url: is empty`,
		`weft.yaml:5:44: connections.c.d.headers.A: the environment variable NOPE is not set`,
		`weft.yaml:6:14: flows.dir: stat /no/such/folder`,
		`providers.openai: OPENAI_API_KEY_FILE refers to ` + empty + `, which is empty`,
	} {
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, want) }) {
			t.Errorf("no problem %q in:\n%s", want, strings.Join(problems, "\n"))
		}
	}
}
