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

// asking asks a worker with some settings for something, and gives what it is told.
type asking func(t *testing.T, cfg *config.Config) string

// resolving asks for a tool's connection.
func resolving(c plan.Connection, name string) asking {
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

// compiling asks for the plan of a flow. What is told are the failure's remedy and all
// diagnostics.
func compiling(ref contract.FlowRef) asking {
	return func(_ *testing.T, cfg *config.Config) string {
		out, err := Compiler(cfg)(ref)
		if err == nil {
			return strings.Join(out.Warnings, "\n")
		}
		f := contract.FailureOf(err)
		return f.Remedy + "\n" + strings.Join(f.Diagnostics, "\n")
	}
}

// modelling asks for a model.
func modelling(ref string) asking {
	return func(t *testing.T, cfg *config.Config) string {
		models, err := openModels(cfg, "", "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // a model that is ready is not called
		if _, err := models.Generate(ctx, ref, &llm.Call{}); !errors.Is(err, context.Canceled) {
			return contract.FailureOf(err).Remedy
		}
		return ""
	}
}

// said finds the lines for weft.yaml in a remedy: behind these words, up to the next clause.
var said = regexp.MustCompile(`(?:in|in the worker's) weft\.yaml(?:, of the starter and the worker)?: (.*?)(?:; |\n|$)`)

// linesIn are the documents that a remedy offers, each a weft.yaml that should do.
func linesIn(remedy string) []string {
	var out []string
	for _, m := range said.FindAllStringSubmatch(remedy, -1) {
		for _, line := range strings.Split(m[1], ", or ") {
			line, _, _ = strings.Cut(line, " (")
			out = append(out, strings.ReplaceAll(line, "} and ", "}\n"))
		}
	}
	return out
}

// graphOf is a flow of one node with a tool, and connections.
func graphOf(connections, connection string) contract.FlowRef {
	text := strings.Replace(echo, `"prompt": "Repeat`, `"tools": [{"name": "look"`+connection+`}], "prompt": "Repeat`, 1)
	return contract.FlowRef{Name: "x.json", Text: `{"agents": [` + strings.Replace(text, "{", `{"id": "a",`, 1) + `], "data_connections": [` + connections + `]}`}
}

// secretive is a connection of a flow that names a secret.
var secretive = plan.Connection{ID: "web", URL: "https://tools.example.com/mcp", Secrets: []plan.Header{{Name: "A", Value: "c.A"}}}

// A document that comes with a run and holds a secret is refused: the reference and the setting
// are named, and that the secret has to be changed.
func TestSecretInARawStart(t *testing.T) {
	ref := contract.FlowRef{Name: "x.json", Text: `{"component_type":"Agent","agentspec_version":"26.1.2","name":"a","system_prompt":"x","llm_config":{"component_type":"OpenAiConfig","name":"m","model_id":"m"},
"tools":[{"component_type":"RemoteTool","name":"crm","url":"https://crm.example.com/x","http_method":"GET","sensitive_headers":{"A":"canary-1234"}}]}`}
	told := compiling(ref)(t, load(t, "", fakeEnv{}))
	if !strings.HasPrefix(told, "the secret is already in the run's history: rotate it") || !strings.Contains(told, `{"$component_ref": "crm.sensitive_headers.A"}`) || strings.Contains(told, "canary") {
		t.Errorf("it is told %s", told)
	}
	lines := linesIn(told)
	if len(lines) != 1 {
		t.Fatalf("lines %q", lines)
	}
	tools := resolving(plan.Connection{ID: "http:crm", Kind: plan.ConnectionHTTP, URL: "https://crm.example.com", Secrets: []plan.Header{{Name: "A", Value: "crm.sensitive_headers.A"}}}, "crm")
	if still := tools(t, load(t, lines[0], fakeEnv{"NAME": "x"})); still != "" {
		t.Errorf("with %s: %s", lines[0], still)
	}
}

// Each refusal says the very line that lifts it: with any of its lines in weft.yaml the same
// is not refused.
func TestRefusalsNameTheLineThatAllowsIt(t *testing.T) {
	dir := flowsDir(t)
	// What only the operator knows stands for itself in a line.
	fill := strings.NewReplacer("/PATH/TO/FLOWS", dir, "HOST", "tools.example.com", "PROGRAM", "mcp-look")
	tests := map[string]struct {
		settings string
		ask      asking
		lines    int
	}{
		"a private address":           {ask: resolving(plan.Connection{ID: "web", URL: "http://10.1.2.3/mcp"}, "look"), lines: 2},
		"a private IPv6 address":      {ask: resolving(plan.Connection{ID: "web", URL: "http://[fd12::1]:80/mcp"}, "look"), lines: 2},
		"the metadata address":        {ask: resolving(plan.Connection{ID: "web", URL: "http://169.254.169.254/"}, "look"), lines: 2},
		"loopback":                    {ask: resolving(plan.Connection{ID: "web", URL: "http://127.0.0.1:80/mcp"}, "look"), lines: 3},
		"a name of loopback":          {ask: resolving(plan.Connection{ID: "web", URL: "http://localhost/mcp"}, "look"), lines: 3},
		"an unknown connection":       {ask: resolving(plan.Connection{ID: "my web"}, "look"), lines: 1},
		"a tool without a connection": {ask: resolving(plan.Connection{}, "look"), lines: 1},
		"a tool that could be of two connections": {settings: "connections: {a: {url: 'https://a.example'}, b: {url: 'https://b.example'}}\n",
			ask: resolving(plan.Connection{}, "look"), lines: 2},
		"a document where only names are taken": {ask: compiling(contract.FlowRef{Name: "x.json", Text: echo}), settings: "flows: {dir: " + dir + ", accept: named}\n", lines: 1},
		"a name where there is no folder":       {ask: compiling(contract.FlowRef{Name: "in"}), lines: 1},
		"a flow's unknown connection":           {ask: compiling(graphOf("", `, "data_connection_id": "web"`)), lines: 1},
		"a flow's connection without a url": {ask: compiling(graphOf(`{"id": "web", "type": 1, "name": "W", "description": "D", "config": {}}`, `, "data_connection_id": "web"`)),
			lines: 1},
		"a flow's tool without a connection": {ask: compiling(graphOf("", "")), settings: "connections: {web: {url: 'https://a.example'}}\n", lines: 1},
		"an agent's command": {ask: compiling(contract.FlowRef{Name: "agent.json", Text: `{"name": "a", "description": "D", "system_prompt": "Look.",
			"mcp_servers": {"look": {"command": "mcp-look"}}}`}), lines: 1},
		"a flow's secret":          {ask: resolving(secretive, "look"), lines: 1},
		"a secret at another host": {ask: resolving(secretive, "look"), settings: "secrets: {c.A: {value: x, hosts: [a.example]}}\n", lines: 1},
		"an unknown provider":      {ask: modelling("acme/m"), lines: 1},
		"a provider without URL":   {ask: modelling("compatible/m"), lines: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			remedy := tc.ask(t, load(t, tc.settings, fakeEnv{}))
			lines := linesIn(remedy)
			if len(lines) != tc.lines {
				t.Fatalf("%d lines in %q, want %d", len(lines), remedy, tc.lines)
			}
			for _, line := range lines {
				settings := fill.Replace(line) + "\n"
				if key, _, _ := strings.Cut(line, ":"); !strings.HasPrefix(tc.settings, key+":") {
					settings = tc.settings + settings
				}
				if still := tc.ask(t, load(t, settings, fakeEnv{"NAME": "value-of-it"})); len(linesIn(still)) != 0 {
					t.Errorf("with\n%sit is told still: %s", settings, still)
				}
			}
		})
	}
}

// A secret in a URL is not repeated; the line has a place for it.
func TestRefusalsOfSecretsInURLs(t *testing.T) {
	url := "https://kim:geheim@tools.example.com/mcp"
	for name, a := range map[string]asking{
		"at the run":  resolving(plan.Connection{ID: "web", URL: url}, "look"),
		"in a flow":   compiling(graphOf(`{"id": "web", "type": 1, "name": "W", "description": "D", "config": {"url": "`+url+`"}}`, `, "data_connection_id": "web"`)),
		"of an agent": compiling(contract.FlowRef{Name: "agent.json", Text: `{"name": "a", "description": "D", "system_prompt": "Look.", "mcp_servers": {"web": {"url": "` + url + `"}}}`}),
	} {
		remedy := a(t, load(t, "", fakeEnv{}))
		lines := linesIn(remedy)
		if len(lines) != 1 || strings.Contains(remedy, "geheim") {
			t.Errorf("%s: it is told %q", name, remedy)
			continue
		}
		if load(t, lines[0], fakeEnv{"TOKEN": "x"}).Connections["web"].URL != "https://tools.example.com/mcp" {
			t.Errorf("%s: the line is %s", name, lines[0])
		}
	}
}

// What keeps a model from being called is said when the worker starts, and in the failure.
func TestMissingKeysAreReportedAtStart(t *testing.T) {
	const missing = `provider "openai" has no key: OPENAI_API_KEY is not set on the worker`
	for name, tc := range map[string]struct {
		settings string
		env      fakeEnv
		want     []string
	}{
		"of the default model": {"model: openai/gpt-5-mini", fakeEnv{}, []string{"worker: warning: the default model openai/gpt-5-mini: " + missing +
			"; runs that use it cannot continue: set OPENAI_API_KEY in the worker's environment (not the client's)"}},
		"of a configured provider": {"model: script\nproviders: {acme: {kind: openai, key_env: ACME_KEY}}", fakeEnv{},
			[]string{`worker: warning: provider "acme" has no key: ACME_KEY is not set on the worker; runs that use it cannot continue: set ACME_KEY in the worker's environment`}},
		"of both": {"model: mistral/m\nproviders: {acme: {kind: compatible}}", fakeEnv{}, []string{"the default model mistral/m: provider \"mistral\" has no key: MISTRAL_API_KEY",
			`worker: warning: provider "acme" has no base URL; runs that use it cannot continue: set in the worker's weft.yaml: providers: {"acme": {base_url: `}},
		"that is there": {"model: openai/gpt-5-mini", fakeEnv{"OPENAI_API_KEY": "x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, tc.settings, tc.env)
			h, err := New(context.Background(), lazy(t), cfg)
			if err != nil {
				t.Fatal(err)
			}
			got := h.Describe("a", "n", cfg)
			if n := strings.Count(got, "warning: "); n != len(tc.want) {
				t.Errorf("%d warnings, want %d:\n%s", n, len(tc.want), got)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("the worker does not say %q but\n%s", want, got)
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
		t.Errorf("the failure of a run without a model is %+v", f)
	}
}
