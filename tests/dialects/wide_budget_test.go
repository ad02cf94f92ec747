package dialects

import (
	"encoding/json"
	"fmt"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows"
)

// wideFork returns a flow with this many branches of length nodes each, and a join.
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

// TestWideForkSharesTheBudget checks that branches beyond the concurrency limit, which start later, get the same share.
func TestWideForkSharesTheBudget(t *testing.T) {
	t.Parallel()
	const branches, length = 60, 8
	p := harness.TestRun{Document: wideFork(t, branches, length), Script: `rules: [{say: ok}]`,
		Settings: workflows.Settings{BudgetLimits: &contract.BudgetLimits{Most: contract.Budget{Calls: 2 * branches * length}}}}.Execute(t)
	if p.Err != nil || p.Result.Usage.Calls != branches*length+1 {
		t.Errorf("run ended with %v", p.Err)
	}
}

// TestWideForkWithAFailure checks the failure of a run if a node fails in a branch that starts at once, in one that starts when another
// ends, or after the join.
func TestWideForkWithAFailure(t *testing.T) {
	t.Parallel()
	for node, step := range map[string]int{"b0-0": 1, "b30-1": 2, "b59-0": 1, "join": 3} {
		p := harness.TestRun{Document: wideFork(t, 60, 2), Script: fmt.Sprintf(`rules: [{node: %s, fail: {class: refused, text: no way}}, {say: ok}]`, node)}.Execute(t)
		if f := contract.FailureOf(p.Err); p.Err == nil || f.Class != contract.ClassRefused || f.Node != node || f.Step != step {
			t.Errorf("%s: run ended with %v", node, p.Err)
		}
	}
}
