package dialects

import (
	"encoding/json"
	"fmt"
	"testing"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows"
)

// TestWideForkSharesTheBudget forks more branches than start at once: those that start later have the same share.
func TestWideForkSharesTheBudget(t *testing.T) {
	t.Parallel()
	const branches, length = 60, 8
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
	p := harness.TestRun{Document: string(doc), Script: `rules: [{say: ok}]`,
		Settings: workflows.Settings{BudgetLimits: &contract.BudgetLimits{Most: contract.Budget{Calls: 2 * branches * length}}}}.Execute(t)
	if p.Err != nil || p.Result.Usage.Calls != branches*length+1 {
		t.Errorf("the run ended with %v", p.Err)
	}
}
