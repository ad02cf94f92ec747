package specadapter_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/specadapter"
	"weft/specadapter/shape"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// other is a dialect whose documents have "steps"; it supports components and declares inputs.
type other struct{ received *source.Host }

func (other) Name() string         { return "other" }
func (other) Profiles() []string   { return []string{"default"} }
func (other) Schema() shape.Schema { return nil }

func (other) Detect(doc *source.Document) (bool, string) {
	return doc.Root.Get("steps") != nil, `an object with "steps"`
}

func (o other) Adapt(_ *source.Document, _ string, host source.Host) (*plan.Flow, plan.Source, []source.Diagnostic) {
	*o.received = host
	return &plan.Flow{Version: plan.Version, Name: "x", Dialect: "other",
		Nodes: []plan.Node{{ID: "a", Name: "a", Kind: plan.KindAgent, Agent: &plan.Agent{MaxCalls: 1, MaxErrors: 1}}},
		Edges: []plan.Edge{{ID: "1", From: plan.Start, To: "a"}, {ID: "2", From: "a", To: plan.End}}}, plan.Source{}, nil
}

func (other) Traits() specadapter.Traits {
	return specadapter.Traits{Inputs: true, Components: true}
}

// withOther adds the dialect for one test.
func withOther(t *testing.T) *source.Host {
	t.Helper()
	received, before := &source.Host{}, specadapter.Dialects
	specadapter.Dialects = append(before[:len(before):len(before)], other{received})
	t.Cleanup(func() { specadapter.Dialects = before })
	return received
}

func TestDetectDialect(t *testing.T) {
	withOther(t)
	tests := map[string]struct {
		text, dialect string
		// code, says and help are of the first diagnostic; empty fields are not compared.
		code, says, help string
	}{
		"one match": {text: `{"steps": []}`},
		"no match": {text: `{"x": 1}`, code: specadapter.CodeDialect, says: "unknown dialect: the document is an object",
			help: `other looks for an object with "steps"`},
		"ambiguous": {text: `{"nodes": [], "steps": []}`, code: specadapter.CodeAmbiguous, says: "matches several dialects: continuum, other",
			help: `select one with -dialect; continuum looks for an object with "nodes"`},
		"excluded by a field": {text: `{"nodes": [], "defaultModel": "a/b"}`, code: specadapter.CodeDialect, says: "unknown dialect",
			help: `koog looks for an object with "agents" that have a "type", "transitions" or "defaultModel", and without "nodes"`},
		"excluded by agents' type": {text: `{"nodes": [], "agents": [{"type": "task"}]}`, code: specadapter.CodeDialect, says: "unknown dialect",
			help: `continuum looks for an object with "nodes", or with "agents" and "data_connections", and no agents with a "type"`},
		"ambiguous, dialect selected": {text: `{"nodes": [], "steps": []}`, dialect: "other"},
		"unknown dialect selected":    {text: `{"steps": []}`, dialect: "nobody", code: specadapter.CodeDialect, says: `unknown dialect "nobody"`, help: "other"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			res, diags := specadapter.Load("x.json", []byte(tc.text), specadapter.Options{Dialect: tc.dialect})
			if tc.code == "" {
				if res == nil || res.Flow.Dialect != "other" {
					t.Fatalf("got %v, %v", res, diags)
				}
				return
			}
			if res != nil || len(diags) != 1 {
				t.Fatalf("got %v, %v", res, diags)
			}
			d := diags[0]
			if d.Code != tc.code || d.Line != 1 || !strings.Contains(d.Text, tc.says) || !strings.Contains(d.Help, tc.help) {
				t.Errorf("got %s", d)
			}
		})
	}
}

func TestComponents(t *testing.T) {
	received := withOther(t)
	o := specadapter.Options{Host: source.Host{
		Components:   []source.Component{{Name: "llm.yaml", Text: "a: 1"}},
		ComponentIDs: []source.ComponentID{{ID: "llm", Name: "llm.yaml", Key: "a"}},
	}}
	if res, diags := specadapter.Load("x.json", []byte(`{"steps": []}`), o); res == nil {
		t.Fatal(diags)
	}
	if diff := cmp.Diff(o.Host, *received); diff != "" {
		t.Errorf("host of the adapter (-want +got):\n%s", diff)
	}
	res, diags := specadapter.Load("g.json", grid(4), o)
	if res != nil || len(diags) != 1 || diags[0].Code != specadapter.CodeComponents ||
		diags[0].Text != `the dialect continuum does not support components, but "llm.yaml" was passed` {
		t.Errorf("continuum with components gave %v", diags)
	}
	if !specadapter.TraitsOf("other").Inputs || specadapter.TraitsOf("continuum") != (specadapter.Traits{}) || specadapter.TraitsOf("nobody") != (specadapter.Traits{}) {
		t.Error("unexpected traits")
	}
}
