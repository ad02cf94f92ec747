// Package scheduletest builds flows for tests.
package scheduletest

import (
	"fmt"
	"slices"
	"strings"

	"weft/workflows/plan"
)

// Sketch returns a flow with edges written as "START>a a>b? b>END"; a question mark adds a
// condition. Nodes are declared in the order in which they appear, and deferred if listed in
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
