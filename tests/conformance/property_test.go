package conformance

import (
	"fmt"
	"hash/fnv"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// TestExecutionsDoNotDependOnTiming checks with random graphs and random timings that timing does not
// affect which nodes are executed at which steps.
func TestExecutionsDoNotDependOnTiming(t *testing.T) {
	t.Parallel()
	const graphs, timings = 80, 4
	compared := 0
	for seed := range int64(graphs) {
		f := randomGraph(rand.New(rand.NewSource(seed)))
		var first []string
		for timing := range int64(timings) {
			var mu sync.Mutex
			rng := rand.New(rand.NewSource(timing))
			env := harness.NewGraphEnv(t, harness.Fakes{
				Judge: func(in contract.JudgeInput) (bool, error) { return answerAt(seed, in.Question, in.Step), nil },
				Delay: func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(rng.Intn(1000)) * time.Millisecond
				},
			})
			_, status, err := runPlan(t, env, f)
			if class := harness.FailureClass(contract.FailureOf(err)); class == contract.ClassStepLimit {
				break // such a run stops immediately, so the progress of other branches depends on timing
			} else if class != "" && class != contract.ClassNoExit {
				t.Fatalf("graph %d, timing %d: %v", seed, timing, err)
			}
			if timing == 0 {
				first = harness.Executions(status)
				continue
			}
			compared++
			if diff := cmp.Diff(first, harness.Executions(status)); diff != "" {
				t.Fatalf("graph %d, timing %d (-first +got):\n%s\n%+v", seed, timing, diff, f.Edges)
			}
		}
	}
	if compared < graphs {
		t.Errorf("compared only %d runs, want at least %d", compared, graphs)
	}
}

// answerAt evaluates a condition by its text and step only. The probability of a no grows with the step, so that loops end.
func answerAt(seed int64, question string, step int) bool {
	h := fnv.New64()
	fmt.Fprint(h, seed, question, step)
	return rand.New(rand.NewSource(int64(h.Sum64()))).Intn(10+2*step) < 6
}

// randomGraph returns a graph with forks, conditions, loops and deferred joins.
func randomGraph(rng *rand.Rand) *plan.Flow {
	n := 3 + rng.Intn(6)
	var nodes []harness.GraphNode
	for i := range n {
		nodes = append(nodes, harness.GraphNode{ID: fmt.Sprint("N", i), Defer: rng.Intn(3) == 0})
	}
	var edges []harness.GraphEdge
	add := func(from, to string) {
		e := harness.GraphEdge{Source: from, Target: to}
		if rng.Intn(2) == 0 {
			question := fmt.Sprint("q", len(edges))
			e.Condition = &question
		}
		edges = append(edges, e)
	}
	for range 1 + rng.Intn(3) {
		add(plan.Start, nodes[rng.Intn(n)].ID)
	}
	for range n + rng.Intn(n) {
		to := plan.End
		if rng.Intn(5) > 0 {
			to = nodes[rng.Intn(n)].ID
		}
		add(nodes[rng.Intn(n)].ID, to)
	}
	return harness.GraphPlan("random", nodes, edges)
}
