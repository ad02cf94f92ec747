package main

import (
	"strings"

	"weft/workflows/plan"
)

// total is how many nodes a run will come to, where its flow tells.
type total struct {
	nodes int
	// atMost says that conditions may keep the run from some of them.
	atMost bool
}

// counter is a report that shows how much of a run is done.
type counter interface{ count(total) }

// totalOf is the total of a flow without loops; ok is false for others: nobody knows how
// often those run.
func totalOf(f *plan.Flow) (t total, ok bool) {
	out := map[string][]string{}
	for i := range f.Edges {
		e := &f.Edges[i]
		out[e.From] = append(out[e.From], e.To)
		t.atMost = t.atMost || e.Question != "" || e.Branch != ""
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
	t.nodes = len(seen) - 2
	return t, ok && t.nodes > 0
}

// plan notes what the run runs. The caller holds f.mu.
func (f *follower) plan(p *plan.Flow) {
	c, shows := f.report.(counter)
	if p == nil || !shows {
		return
	}
	if t, ok := totalOf(p); ok {
		c.count(t)
	}
}

// barWidth is how many characters a full bar has.
const barWidth = 20

// bar shows how much of a total is done.
func bar(done int, t total) string {
	done = min(done, t.nodes)
	full := done * barWidth / t.nodes
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}
