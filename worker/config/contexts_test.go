package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/specadapter"
	"weft/workflows/plan"
)

func loadContexts(t *testing.T, text string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return Load(Options{File: file, Env: noEnv{}})
}

type noEnv struct{}

func (noEnv) Environ() []string               { return nil }
func (noEnv) LookupEnv(string) (string, bool) { return "", false }

// TestContexts checks that a context rule is added to the plan of every agent that it matches.
func TestContexts(t *testing.T) {
	cfg, err := loadContexts(t, `contexts:
  a: {how: truncate, tokens: 1000, keep: 4, flows: ["tri*"], agents: ["*er"]}
  b: {how: summarise, tokens: 5000, model: openai/small, agents: ["so*al*n"]}
  c: {how: fail, tokens: 9000}
`)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ flow, agent, how string }{
		{"triage", "answer", plan.ContextTruncate}, {"triage", "eros", plan.ContextFail}, {"other", "answer", plan.ContextFail},
		{"x", "some/all/in", plan.ContextSummarise}, {"x", "some/in", plan.ContextFail},
	}
	for _, tc := range tests {
		f := &plan.Flow{Name: tc.flow, Nodes: []plan.Node{{ID: tc.agent, Agent: &plan.Agent{}}}}
		bounds := cfg.Bounds()
		f.Bind(&bounds)
		if got := f.Nodes[0].Agent.Context; got == nil || got.How != tc.how {
			t.Errorf("context of agent %s in flow %s = %+v, want %s", tc.agent, tc.flow, got, tc.how)
		}
	}
	const doc = `{"name":"triage","nodes":[{"id":"answer","name":"A","prompt":"p"},{"id":"other","name":"B","prompt":"p"}],
"edges":[{"id":"1","source":"START","target":"answer"},{"id":"2","source":"answer","target":"other"},{"id":"3","source":"other","target":"END"}]}`
	res, diags := specadapter.Load("flow.json", []byte(doc), cfg.Reading("", ""))
	if res == nil {
		t.Fatal(diags)
	}
	if c := res.Flow.Nodes[0].Agent.Context; c == nil || c.How != plan.ContextTruncate || c.Tokens != 1000 || c.Keep != 4 {
		t.Errorf("context in the plan = %+v", c)
	}
	if c := res.Flow.Nodes[1].Agent.Context; c == nil || c.How != plan.ContextTruncate {
		t.Errorf("context in the plan = %+v", c)
	}
}

func TestContextProblems(t *testing.T) {
	for text, want := range map[string]string{
		`contexts: {a: {tokens: 5}}`:                            `contexts.a.how: is "", expected one of fail, truncate, summarise`,
		`contexts: {a: {how: fail}}`:                            "contexts.a.tokens: is not set; set it to the threshold at which to fail",
		`contexts: {a: {how: truncate, model: x/y}}`:            `contexts.a.model: is only used for summaries, but how is "truncate"`,
		`contexts: {a: {how: truncate, agents: [""]}}`:          "contexts.a: empty pattern",
		`contexts: {a: {how: truncate, tokens: -1, keep: two}}`: "contexts.a.tokens",
	} {
		if _, err := loadContexts(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
