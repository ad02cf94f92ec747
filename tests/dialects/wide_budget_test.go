package dialects

import (
	"encoding/json"
	"fmt"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows"
)

// wideFork forks so many branches of so many nodes, and joins them.
func wideFork(t *testing.T, branches, length int) string {
	t.Helper()
	type object = map[string]any
	var nodes, edges []object
	edge := func(from, to string) {
		edges = append(edges, object{"id": fmt.Sprint("e", len(edges)), "source": from, "target": to})
	}
	for b := range branches {
		from := "START"
		for n := range length {
			id := fmt.Sprintf("b%d-%d", b, n)
			nodes = append(nodes, object{"id": id, "name": id, "prompt": "p"})
			edge(from, id)
			from = id
		}
		edge(from, "join")
	}
	nodes = append(nodes, object{"id": "join", "name": "Join", "prompt": "p", "defer": true, "is_exit_node": true})
	edge("join", "END")
	doc, err := json.Marshal(object{"name": "Wide", "nodes": nodes, "edges": edges})
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

// TestWideForkSharesTheBudget forks more branches than start at once: those that start later have the same share.
func TestWideForkSharesTheBudget(t *testing.T) {
	t.Parallel()
	const branches, length = 60, 8
	p := harness.TestRun{Document: wideFork(t, branches, length), Script: `rules: [{say: ok}]`,
		Settings: workflows.Settings{BudgetLimits: &contract.BudgetLimits{Most: contract.Budget{Calls: 2 * branches * length}}}}.Execute(t)
	if p.Err != nil || p.Result.Usage.Calls != branches*length+1 {
		t.Errorf("the run ended with %v", p.Err)
	}
}

// TestWideForkWithAFailure has branches fail that start at once, and one that starts in place of another. The run fails with the first of
// them, and what the others did before is in its trace.
func TestWideForkWithAFailure(t *testing.T) {
	t.Parallel()
	for node, step := range map[string]int{"b0-0": 1, "b30-1": 2, "b59-0": 1, "join": 3} {
		p := harness.TestRun{Document: wideFork(t, 60, 2), Script: fmt.Sprintf(`rules: [{node: %s, fail: {class: refused, text: no way}}, {say: ok}]`, node)}.Execute(t)
		if f := contract.FailureOf(p.Err); p.Err == nil || f.Class != contract.ClassRefused || f.Node != node || f.Step != step {
			t.Errorf("%s: the run ended with %v", node, p.Err)
		}
	}
}
