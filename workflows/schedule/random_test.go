package schedule

import (
	"fmt"
	"math/rand"
	"strings"

	"weft/workflows/plan"
)

// random returns a random flow with conditions, loops and deferred joins.
func random(rng *rand.Rand) *plan.Flow {
	n := 3 + rng.Intn(6)
	f := &plan.Flow{Name: "random", Limits: plan.DefaultLimits}
	for i := range n {
		f.Nodes = append(f.Nodes, plan.Node{ID: fmt.Sprint("N", i), Deferred: rng.Intn(3) == 0})
	}
	add := func(from, to string) {
		e := plan.Edge{ID: fmt.Sprint("e", len(f.Edges)), From: from, To: to}
		if rng.Intn(2) == 0 {
			e.Question = fmt.Sprint("q", len(f.Edges))
		}
		f.Edges = append(f.Edges, e)
	}
	for range 1 + rng.Intn(3) {
		add(plan.Start, f.Nodes[rng.Intn(n)].ID)
	}
	for range n + rng.Intn(n) {
		to := plan.End
		if rng.Intn(5) > 0 {
			to = f.Nodes[rng.Intn(n)].ID
		}
		add(f.Nodes[rng.Intn(n)].ID, to)
	}
	return f
}

// describe lists a flow's nodes and edges, for the message of a failed test.
func describe(f *plan.Flow) string {
	var b strings.Builder
	for _, n := range f.Nodes {
		fmt.Fprintf(&b, "%s deferred=%v\n", n.ID, n.Deferred)
	}
	for _, e := range f.Edges {
		fmt.Fprintf(&b, "%s -> %s %s\n", e.From, e.To, e.Question)
	}
	return b.String()
}
