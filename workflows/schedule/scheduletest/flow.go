// Package scheduletest makes flows for tests.
package scheduletest

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"

	"weft/workflows/plan"
)

// Sketch makes a flow of edges written as "START>a a>b? b>END": a question mark is a
// condition. Nodes are declared in the order in which they appear; those in deferred are
// deferred.
func Sketch(edges string, deferred ...string) *plan.Flow {
	f := &plan.Flow{Version: plan.Version, Name: "sketch", Limits: plan.DefaultLimits, Policy: plan.DefaultPolicy}
	for i, e := range strings.Fields(edges) {
		from, to, _ := strings.Cut(e, ">")
		edge := plan.Edge{ID: fmt.Sprint("e", i), From: from, To: strings.TrimSuffix(to, "?")}
		if edge.To != to {
			edge.Question = e
		}
		f.Edges = append(f.Edges, edge)
		for _, id := range []string{edge.From, edge.To} {
			if id != plan.Start && id != plan.End && f.Node(id) == nil {
				f.Nodes = append(f.Nodes, plan.Node{ID: id, Name: strings.ToUpper(id), Kind: plan.KindAgent, Deferred: slices.Contains(deferred, id),
					Agent: &plan.Agent{Prompt: id, MaxCalls: 1, MaxErrors: 1}})
			}
		}
	}
	return f
}

// Random makes a flow with conditions, loops and deferred joins.
func Random(rng *rand.Rand) *plan.Flow {
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

// Describe lists a flow's nodes and edges, for the message of a failed test.
func Describe(f *plan.Flow) string {
	var b strings.Builder
	for _, n := range f.Nodes {
		fmt.Fprintf(&b, "%s deferred=%v\n", n.ID, n.Deferred)
	}
	for _, e := range f.Edges {
		fmt.Fprintf(&b, "%s -> %s %s\n", e.From, e.To, e.Question)
	}
	return b.String()
}
