package workflows

import (
	"testing"

	"weft/workflows/plan"
	"weft/workflows/schedule/scheduletest"
)

// TestCallsOf checks the largest number of calls of a flow that a map node runs for each element.
func TestCallsOf(t *testing.T) {
	tests := map[string]struct {
		edges   string
		change  func(f *plan.Flow)
		calls   int
		bounded bool
	}{
		"one call":                {edges: "START>a a>END", calls: 1, bounded: true},
		"a chain with a question": {edges: "START>a a>b? a>c? b>c c>END", calls: 6, bounded: true},
		"a fork and a join":       {edges: "START>a START>b a>j b>j j>END", change: func(f *plan.Flow) { f.Node("j").Deferred = true }, calls: 3, bounded: true},
		"a node with two inputs":  {edges: "START>a START>b a>c b>c c>END", calls: 4, bounded: true},
		"many paths to END": {edges: "START>a a>b a>b a>b a>b b>c b>c b>c b>c c>d c>d c>d c>d d>END", calls: 1 + 4 + 16 + 64,
			bounded: false},
		"a loop":          {edges: "START>a a>b b>a? b>END?"},
		"a user question": {edges: "START>a a>END", change: func(f *plan.Flow) { f.Node("a").Kind = plan.KindAsk }},
		"another flow":    {edges: "START>a a>END", change: func(f *plan.Flow) { f.Node("a").Kind = plan.KindCall }},
		"declared inputs": {edges: "START>a a>END", change: func(f *plan.Flow) { f.Inputs = &plan.Inputs{} }},
		"listed tools": {edges: "START>a a>END", change: func(f *plan.Flow) {
			f.Node("a").Agent.Tools, f.Node("a").Agent.MaxCalls = []plan.Tool{{Name: "look", As: "look", Connection: "web"}}, 2
		}, calls: 6, bounded: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := scheduletest.Sketch(tc.edges)
			if tc.change != nil {
				tc.change(f)
			}
			if calls, bounded := callsOf(f); bounded != tc.bounded || bounded && calls != tc.calls {
				t.Errorf("got %d calls, bounded %t; want %d, %t", calls, bounded, tc.calls, tc.bounded)
			}
		})
	}
}
