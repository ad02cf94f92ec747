package progress

import (
	"strings"

	"weft/workflows/plan"
)

// Total is how many nodes a run will run.
type Total struct {
	Nodes int
	// AtMost says that conditions may keep the run from some of them.
	AtMost bool
}

// TotalOf returns the total of a flow without loops, and reports whether it is one.
func TotalOf(f *plan.Flow) (t Total, ok bool) {
	out := map[string][]string{}
	for i := range f.Edges {
		e := &f.Edges[i]
		out[e.From] = append(out[e.From], e.To)
		t.AtMost = t.AtMost || e.Question != "" || e.Branch != ""
	}
	const open, closed = 1, 2
	seen := map[string]int{plan.End: closed}
	var walk func(node string) bool
	walk = func(node string) bool {
		seen[node] = open
		for _, to := range out[node] {
			if seen[to] == open || seen[to] == 0 && !walk(to) {
				return false
			}
		}
		seen[node] = closed
		return true
	}
	ok = walk(plan.Start)
	t.Nodes = len(seen) - 2
	return t, ok && t.Nodes > 0
}

// barWidth is how many characters a full bar has.
const barWidth = 20

func bar(done int, t Total) string {
	done = min(done, t.Nodes)
	full := done * barWidth / t.Nodes
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}
