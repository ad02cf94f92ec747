package koog_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/specadapter"
)

// nested returns a flow of parallel agents, each given as its name and the names of the agents in it.
func nested(parallelAgents ...[]string) []byte {
	var agents []string
	for _, b := range parallelAgents {
		agents = append(agents, fmt.Sprintf(`{"name": %q, "type": "parallel", "params": {"agents": ["%s"]}}`, b[0], strings.Join(b[1:], `", "`)))
	}
	agents = append(agents, `{"name": "t", "type": "transform"}`, `{"name": "u", "type": "transform"}`)
	return []byte(`{"id": "f", "version": "1", "defaultModel": "openai/gpt4o", "agents": [` + strings.Join(agents, ",\n") + `], "transitions": [{"from": "p0", "to": "__finish__"}]}`)
}

// TestNestedParallelAgents checks that only the later code accepts nested parallel agents, that none contains
// itself, and that the size of the plan is bounded.
func TestNestedParallelAgents(t *testing.T) {
	var doubled [][]string
	for i := range 20 {
		doubled = append(doubled, []string{fmt.Sprintf("p%d", i), fmt.Sprintf("p%d", i+1), fmt.Sprintf("q%d", i+1)}, []string{fmt.Sprintf("q%d", i), fmt.Sprintf("p%d", i+1), fmt.Sprintf("q%d", i+1)})
	}
	doubled = append(doubled, []string{"p20", "t"}, []string{"q20", "u"})
	var deep [][]string
	for i := range 1000 {
		deep = append(deep, []string{fmt.Sprintf("p%d", i), fmt.Sprintf("p%d", i+1)})
	}
	deep = append(deep, []string{"p1000", "t"})
	for name, tc := range map[string]struct {
		doc                     []byte
		modeIntended, modeLater string
		nodes                   int
	}{
		"nested":             {doc: nested([]string{"p0", "p1", "t"}, []string{"p1", "t", "u"}), modeIntended: "error parallel", nodes: 3 + 2 + 2 + 2 + 2},
		"in itself":          {doc: nested([]string{"p0", "t", "p0"}), modeIntended: "error parallel", modeLater: "error parallel"},
		"cycle of two":       {doc: nested([]string{"p0", "p1"}, []string{"p1", "t", "p2"}, []string{"p2", "p1"}), modeIntended: "error parallel, error parallel, error parallel", modeLater: "error parallel"},
		"doubled each level": {doc: nested(doubled...), modeIntended: strings.TrimSuffix(strings.Repeat("error parallel, ", 80), ", "), modeLater: "error too-many"},
		"deep":               {doc: nested(deep...), modeIntended: strings.TrimSuffix(strings.Repeat("error parallel, ", 1000), ", "), modeLater: "error too-many"},
	} {
		t.Run(name, func(t *testing.T) {
			for profile, want := range map[string]string{"default": tc.modeIntended, "koog": tc.modeLater} {
				res, diags := specadapter.Load("f.json", tc.doc, specadapter.Options{Profile: profile})
				if got := codes(diags); got != want {
					t.Errorf("%s: %v, want %q", profile, diags, want)
				}
				if want == "" && len(res.Flow.Nodes) != tc.nodes {
					t.Errorf("%s: %d nodes, want %d", profile, len(res.Flow.Nodes), tc.nodes)
				}
			}
		})
	}
}
