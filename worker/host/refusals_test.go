package host

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/tool"
	"weft/worker/config"
	"weft/workflows/plan"
)

// operation performs an operation with the given settings, and returns its remedy or warnings.
type operation func(t *testing.T, cfg *config.Config) string

// resolveOp resolves the connection of a tool.
func resolveOp(c plan.Connection, name string) operation {
	return func(t *testing.T, cfg *config.Config) string {
		settings, err := cfg.Tool()
		if err != nil {
			t.Fatal(err)
		}
		tools, err := tool.Open(settings)
		if err != nil {
			t.Fatal(err)
		}
		defer tools.Close()
		if _, err := tools.Resolve(c, name); err != nil {
			return contract.FailureOf(err).Remedy
		}
		return ""
	}
}

// compileOp compiles a flow. Its result is the failure's remedy and all diagnostics, or
// the warnings.
func compileOp(ref contract.FlowRef) operation {
	return func(_ *testing.T, cfg *config.Config) string {
		out, err := Compiler(cfg)(ref)
		if err == nil {
			return strings.Join(out.Warnings, "\n")
		}
		f := contract.FailureOf(err)
		return f.Remedy + "\n" + strings.Join(f.Diagnostics, "\n")
	}
}

// generateOp calls a model.
func generateOp(ref string) operation {
	return func(t *testing.T, cfg *config.Config) string {
		models, err := openModels(cfg, "", "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // so that a configured model is not called
		if _, err := models.Generate(ctx, ref, &llm.Call{}); !errors.Is(err, context.Canceled) {
			return contract.FailureOf(err).Remedy
		}
		return ""
	}
}

// remedyLines matches the lines for weft.yaml in a remedy: after these words, up to the next clause.
var remedyLines = regexp.MustCompile(`(?:in|in the worker's) weft\.yaml(?:, of the starter and the worker)?: (.*?)(?:; |\n|$)`)

// linesIn returns the settings that a remedy offers, each as a weft.yaml.
func linesIn(remedy string) []string {
	var out []string
	for _, m := range remedyLines.FindAllStringSubmatch(remedy, -1) {
		for _, line := range strings.Split(m[1], ", or ") {
			line, _, _ = strings.Cut(line, " (")
			out = append(out, strings.ReplaceAll(line, "} and ", "}\n"))
		}
	}
	return out
}

// graphOf returns a flow of one node that has a tool, with these connections.
func graphOf(connections, connection string) contract.FlowRef {
	text := strings.Replace(echo, `"prompt": "Repeat`, `"tools": [{"name": "look"`+connection+`}], "prompt": "Repeat`, 1)
	return contract.FlowRef{Name: "x.json", Text: `{"agents": [` + strings.Replace(text, "{", `{"id": "a",`, 1) + `], "data_connections": [` + connections + `]}`}
}

// secretConnection is a connection of a flow that refers to a secret.
var secretConnection = plan.Connection{ID: "web", URL: "https://tools.example.com/mcp", Secrets: []plan.Header{{Name: "A", Value: "c.A"}}}

// TestSecretInDocument checks that a document with a secret is rejected, and that the remedy names the reference and
// the setting, and says that the secret must be rotated.
func TestSecretInDocument(t *testing.T) {
	ref := contract.FlowRef{Name: "x.json", Text: `{"component_type":"Agent","agentspec_version":"26.1.2","name":"a","system_prompt":"x","llm_config":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"tools":[{"component_type":"RemoteTool","name":"crm","url":"https://crm.example.com/x","http_method":"GET","sensitive_headers":{"A":"canary-1234"}}]}`}
	remedy := compileOp(ref)(t, load(t, "", fakeEnv{}))
	if !strings.HasPrefix(remedy, "the secret is already in the run's history: rotate it") || !strings.Contains(remedy, `{"$component_ref": "crm.sensitive_headers.A"}`) || strings.Contains(remedy, "canary") {
		t.Errorf("remedy = %s", remedy)
	}
	lines := linesIn(remedy)
	if len(lines) != 1 {
		t.Fatalf("lines = %q", lines)
	}
	tools := resolveOp(plan.Connection{ID: "http:crm", Kind: plan.ConnectionHTTP, URL: "https://crm.example.com", Secrets: []plan.Header{{Name: "A", Value: "crm.sensitive_headers.A"}}}, "crm")
	if got := tools(t, load(t, lines[0], fakeEnv{"NAME": "x"})); got != "" {
		t.Errorf("still rejected with %s: %s", lines[0], got)
	}
}

// TestRemedySettings checks that each setting that a remedy offers is sufficient: with any one of its lines in weft.yaml,
// the same operation is accepted.
func TestRemedySettings(t *testing.T) {
	dir := flowsDir(t)
	// Replaces the placeholders for values that only the operator knows.
	fill := strings.NewReplacer("/PATH/TO/FLOWS", dir, "HOST", "tools.example.com", "PROGRAM", "mcp-look")
	tests := map[string]struct {
		settings string
		run      operation
		lines    int
	}{
		"private address":           {run: resolveOp(plan.Connection{ID: "web", URL: "http://10.1.2.3/mcp"}, "look"), lines: 2},
		"private IPv6 address":      {run: resolveOp(plan.Connection{ID: "web", URL: "http://[fd12::1]:80/mcp"}, "look"), lines: 2},
		"metadata address":          {run: resolveOp(plan.Connection{ID: "web", URL: "http://169.254.169.254/"}, "look"), lines: 2},
		"loopback":                  {run: resolveOp(plan.Connection{ID: "web", URL: "http://127.0.0.1:80/mcp"}, "look"), lines: 3},
		"loopback by name":          {run: resolveOp(plan.Connection{ID: "web", URL: "http://localhost/mcp"}, "look"), lines: 3},
		"unknown connection":        {run: resolveOp(plan.Connection{ID: "my web"}, "look"), lines: 1},
		"tool without a connection": {run: resolveOp(plan.Connection{}, "look"), lines: 1},
		"tool with two possible connections": {settings: "connections: {a: {url: 'https://a.example'}, b: {url: 'https://b.example'}}\n",
			run: resolveOp(plan.Connection{}, "look"), lines: 2},
		"document, accept: named":      {run: compileOp(contract.FlowRef{Name: "x.json", Text: echo}), settings: "flows: {dir: " + dir + ", accept: named}\n", lines: 1},
		"named flow without a folder":  {run: compileOp(contract.FlowRef{Name: "in"}), lines: 1},
		"unknown connection in a flow": {run: compileOp(graphOf("", `, "data_connection_id": "web"`)), lines: 1},
		"connection without a url in a flow": {run: compileOp(graphOf(`{"id": "web", "type": 1, "name": "W", "description": "D", "config": {}}`, `, "data_connection_id": "web"`)),
			lines: 1},
		"tool without a connection in a flow": {run: compileOp(graphOf("", "")), settings: "connections: {web: {url: 'https://a.example'}}\n", lines: 1},
		"command of an agent": {run: compileOp(contract.FlowRef{Name: "agent.json", Text: `{"name": "a", "description": "D", "system_prompt": "Look.",
			"mcp_servers": {"look": {"command": "mcp-look"}}}`}), lines: 1},
		"secret of a flow":        {run: resolveOp(secretConnection, "look"), lines: 1},
		"secret for another host": {run: resolveOp(secretConnection, "look"), settings: "secrets: {c.A: {value: x, hosts: [a.example]}}\n", lines: 1},
		"unknown provider":        {run: generateOp("acme/m"), lines: 1},
		"provider without URL":    {run: generateOp("compatible/m"), lines: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			remedy := tc.run(t, load(t, tc.settings, fakeEnv{}))
			lines := linesIn(remedy)
			if len(lines) != tc.lines {
				t.Fatalf("%d lines in %q, want %d", len(lines), remedy, tc.lines)
			}
			for _, line := range lines {
				settings := fill.Replace(line) + "\n"
				if key, _, _ := strings.Cut(line, ":"); !strings.HasPrefix(tc.settings, key+":") {
					settings = tc.settings + settings
				}
				if got := tc.run(t, load(t, settings, fakeEnv{"NAME": "value-of-it"})); len(linesIn(got)) != 0 {
					t.Errorf("still rejected with\n%s: %s", settings, got)
				}
			}
		})
	}
}

// TestRemedySecretInURL checks that the remedy replaces a secret in a URL by a placeholder.
func TestRemedySecretInURL(t *testing.T) {
	url := "https://kim:geheim@tools.example.com/mcp"
	for name, run := range map[string]operation{
		"resolved by a run": resolveOp(plan.Connection{ID: "web", URL: url}, "look"),
		"in a flow":         compileOp(graphOf(`{"id": "web", "type": 1, "name": "W", "description": "D", "config": {"url": "`+url+`"}}`, `, "data_connection_id": "web"`)),
		"in an agent":       compileOp(contract.FlowRef{Name: "agent.json", Text: `{"name": "a", "description": "D", "system_prompt": "Look.", "mcp_servers": {"web": {"url": "` + url + `"}}}`}),
	} {
		remedy := run(t, load(t, "", fakeEnv{}))
		lines := linesIn(remedy)
		if len(lines) != 1 || strings.Contains(remedy, "geheim") {
			t.Errorf("%s: remedy = %q", name, remedy)
			continue
		}
		if load(t, lines[0], fakeEnv{"TOKEN": "x"}).Connections["web"].URL != "https://tools.example.com/mcp" {
			t.Errorf("%s: line = %s", name, lines[0])
		}
	}
}

// TestMissingKeysAreReportedAtStart checks that a model that cannot be called is reported when the worker starts, and in the failure.
func TestMissingKeysAreReportedAtStart(t *testing.T) {
	const missing = `provider "openai" has no key: OPENAI_API_KEY is not set on the worker`
	for name, tc := range map[string]struct {
		settings string
		env      fakeEnv
		want     []string
	}{
		"default model": {"model: openai/gpt-5-mini", fakeEnv{}, []string{"worker: warning: the default model openai/gpt-5-mini: " + missing +
			"; runs that use it cannot continue: set OPENAI_API_KEY in the worker's environment (not the client's)"}},
		"configured provider": {"model: script\nproviders: {acme: {kind: openai, key_env: ACME_KEY}}", fakeEnv{},
			[]string{`worker: warning: provider "acme" has no key: ACME_KEY is not set on the worker; runs that use it cannot continue: set ACME_KEY in the worker's environment`}},
		"both": {"model: mistral/m\nproviders: {acme: {kind: compatible}}", fakeEnv{}, []string{"the default model mistral/m: provider \"mistral\" has no key: MISTRAL_API_KEY",
			`worker: warning: provider "acme" has no base URL; runs that use it cannot continue: set in the worker's weft.yaml: providers: {"acme": {base_url: `}},
		"key is set": {"model: openai/gpt-5-mini", fakeEnv{"OPENAI_API_KEY": "x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, tc.settings, tc.env)
			h, err := New(context.Background(), lazyClient(t), cfg)
			if err != nil {
				t.Fatal(err)
			}
			got := h.Describe("a", "n", cfg)
			if n := strings.Count(got, "warning: "); n != len(tc.want) {
				t.Errorf("%d warnings, want %d:\n%s", n, len(tc.want), got)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("no warning %q in:\n%s", want, got)
				}
			}
		})
	}
	models, err := openModels(load(t, "", fakeEnv{}), "", "OLLAMA_HOST is set, but nobody is there")
	if err != nil {
		t.Fatal(err)
	}
	_, err = models.Default()
	if f := contract.FailureOf(err); f == nil || f.Text != "no model is specified and the worker has no default model: OLLAMA_HOST is set, but nobody is there" ||
		!strings.Contains(f.Remedy, "set OPENAI_API_KEY, OLLAMA_HOST or WEFT_MODEL in the worker's environment (not the client's), or model in its weft.yaml, and restart the worker") {
		t.Errorf("failure of a run without a model = %+v", f)
	}
}
