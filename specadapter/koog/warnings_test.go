package koog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weft/specadapter"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// TestWarningsAreTrue checks against random conditions that never-holds is not reported for a condition that holds for some
// value, and shadowed not for a transition that some value takes.
func TestWarningsAreTrue(t *testing.T) {
	const task = `{"name":"a","type":"task","params":{"task":"t"}%s}`
	schema := func(s string) string { return fmt.Sprintf(task, `,"output":{"schema":`+s+`}`) }
	numbers := []string{"1", "1.0", "0", "-1", "2", "3", "1.5", "0.5", "-0.25", "9007199254740993", "9007199254740992.0", "9223372036854775807", "-9223372036854775808", "1e308", "-1e308", "1e20", "100000000000000000001"}
	texts := []string{`""`, `"a"`, `"A"`, `"b"`, `"Ab"`, `"aa"`, `"1"`, `"true"`, `"z"`}
	positiveInt := []string{"1", "1.0", "0", "-1", "2", "3", "9007199254740993", "9007199254740992.0", "9223372036854775807", "-9223372036854775808", "1e20"}
	all := append(append([]string{"true", "false", "null", "[]", `["a"]`, "{}", `{"k":1}`}, numbers...), texts...)
	agents := []struct {
		agent  string
		values []string
	}{
		{fmt.Sprintf(task, ""), all},
		{schema(`{"type":"object"}`), all},
		{schema(`{"type":["integer","null"]}`), append([]string{"null"}, positiveInt...)},
		{schema(`{"type":"integer"}`), positiveInt},
		{schema(`{"type":"number"}`), numbers},
		{schema(`{"type":"string"}`), texts},
		{schema(`{"type":"boolean"}`), []string{"true", "false"}},
		{schema(`{"type":"array"}`), []string{"[]", `["a"]`}},
		{`{"name":"a","type":"react","params":{"task":"t"}}`, texts},
		{`{"name":"a","type":"verify","params":{"task":"t"}}`, []string{`{"success":true,"feedback":"a","input":"b"}`, `{"success":false,"feedback":"","input":1}`}},
	}
	constants := append(append([]string{"true", "false"}, numbers...), texts...)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 2500 {
		ag := agents[r.IntN(len(agents))]
		few := [3]string{} // so that conditions meet
		near := r.IntN(len(constants) - 3)
		for k := range few {
			few[k] = constants[near+r.IntN(4)]
		}
		conditions := make([]string, 1+r.IntN(6))
		for k := range conditions {
			conditions[k] = fmt.Sprintf("input.data %s %s", value.Operations[r.IntN(len(value.Operations))], few[r.IntN(len(few))])
		}
		for _, profile := range []string{"default", "strict"} {
			doc := branches(ag.agent, conditions...)
			res, diags := specadapter.Load("f.json", []byte(doc), specadapter.Options{Profile: profile})
			if res == nil {
				t.Fatal(diags)
			}
			edges := conditional(res.Flow)
			held, taken := make([]int, len(edges)), make([]int, len(edges))
			for _, raw := range ag.values {
				for k, first := 0, true; k < len(edges); k++ {
					if holds(t, edges[k].Compare, raw) {
						held[k]++
						if first {
							taken[k]++
						}
						first = false
					}
				}
			}
			for _, d := range diags {
				k := d.Line - 3
				if k < 0 || k >= len(edges) {
					continue
				}
				if d.Code == "never-holds" && held[k] > 0 || d.Code == "shadowed" && taken[k] > 0 {
					t.Fatalf("%d, %s: %s\n%s", i, profile, d, doc)
				}
			}
		}
	}
}

// conditional returns the edges with a condition.
func conditional(f *plan.Flow) []plan.Edge {
	var out []plan.Edge
	for _, e := range f.Edges {
		if e.Compare != nil {
			out = append(out, e)
		}
	}
	return out
}

func holds(t *testing.T, c *plan.Compare, raw string) bool {
	t.Helper()
	have, err := value.Parse([]byte(raw))
	if err == nil {
		have, err = value.Operand(c.Rules, c.Path, have)
	}
	want, invalid := value.Parse(c.Value)
	if err != nil || invalid != nil {
		t.Fatal(raw, err, invalid)
	}
	return value.Holds(c.Rules, c.Op, have, want)
}

// TestTypesOfTransformedValues checks that a transformation has the type of the field it selects from a verification's result.
func TestTypesOfTransformedValues(t *testing.T) {
	flow := func(agent string) string {
		return `{"id":"f","version":"1","agents":[` + agent + `,{"name":"t","type":"transform","params":{"transformations":[{"value":"input.success"}]}}],
"transitions":[{"from":"a","to":"t"},
{"from":"t","to":"__finish__","condition":{"variable":"input.data","operation":"equals","value":"yes"}},
{"from":"t","to":"__finish__"}]}`
	}
	for agent, want := range map[string]string{
		`{"name":"a","type":"verify","params":{"task":"t"}}`: "warning never-holds",
		`{"name":"a","type":"task","params":{"task":"t"},"output":{"schema":{"type":"object","properties":{"success":{"type":"string"}}}}}`: "",
	} {
		if _, diags := specadapter.Load("f.json", []byte(flow(agent)), specadapter.Options{}); codes(diags) != want {
			t.Errorf("%s: %v, want %q", agent, diags, want)
		}
	}
}

// TestAllDiagnosticsAtOnce checks that all errors of a document are reported together, without errors that follow from others.
func TestAllDiagnosticsAtOnce(t *testing.T) {
	doc := func(kind, to, operation string) []byte {
		return []byte(`{"id":"f","version":"1","agents":[
{"name":"v","type":"` + kind + `","params":{"task":"t"}},
{"name":"s","type":"task","params":{"task":"t"},"output":{"schema":{"type":"string"}}},
{"name":"n","type":"task"},
{"name":"p","type":"parallel","params":{"agents":["s","n"],"merge":{"variable":"results.7.output","operation":"equals","value":1}}},
{"name":"lost","type":"react","params":{"task":"t","reasoningInterval":0}}],
"transitions":[{"from":"v","to":"s"},
{"from":"s","to":"p","condition":{"variable":"input.data","operation":"more","value":5}},
{"from":"s","to":"` + to + `","condition":{"variable":"input.data","operation":"` + operation + `","value":"x"}},
{"from":"s","to":"p"}]}`)
	}
	for name, tc := range map[string]struct{ kind, to, operation, want string }{
		"agent type":    {"verfy", "p", "equals", "error agent-type, warning missing-field, error parallel, warning unreachable-agent, error config, warning never-holds"},
		"unknown agent": {"verify", "q", "equals", "warning missing-field, error parallel, error config, warning never-holds, error unknown-agent"},
		"operation":     {"verify", "p", "equal", "warning missing-field, error parallel, warning unreachable-agent, error config, warning never-holds, error unknown-operation"},
	} {
		_, diags := specadapter.Load("f.json", doc(tc.kind, tc.to, tc.operation), specadapter.Options{})
		if codes(diags) != tc.want {
			t.Errorf("%s: %q, want %q\n%v", name, codes(diags), tc.want, diags)
		}
	}
}
