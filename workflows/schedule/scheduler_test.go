package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule/scheduletest"
)

// simulate runs a flow on the scheduler alone, with random durations of executions. It returns
// node#step of all executions, sorted.
func simulate(f *plan.Flow, yes func(question string, step int) bool, maxSteps int, rng *rand.Rand) []string {
	f.Limits.MaxSteps = maxSteps
	g := NewGraph(f)
	s := New(g)
	taken := func(edges []int, step int) []int {
		return slices.DeleteFunc(slices.Clone(edges), func(e int) bool {
			q := f.Edges[e].Question
			return q != "" && !yes(q, step)
		})
	}
	arrive := func(edges []int, step int, x *Execution) {
		var err error
		if x == nil {
			err = s.Arrive(taken(edges, 0), 1, "", contract.View{})
		} else {
			err = s.Leave(x, step, taken(edges, step), contract.View{})
		}
		if limit := (*StepLimitError)(nil); err != nil && !errors.As(err, &limit) {
			panic(err)
		}
	}
	var ran []string
	arrive(g.Starts, 0, nil)
	for {
		for _, x := range s.ready(nil) {
			ran = append(ran, fmt.Sprintf("%s#%d", f.Nodes[x.Node].ID, x.Step))
		}
		if len(s.Running) == 0 {
			break
		}
		x := s.Running[rng.Intn(len(s.Running))]
		arrive(g.Out(x.Node), x.Step, x)
	}
	if !s.Finished() {
		ran = append(ran, "stuck")
	}
	slices.Sort(ran)
	return ran
}

type randomCase struct {
	Name  string
	Nodes []struct {
		ID    string
		Defer bool
	}
	Edges []struct {
		Source, Target string
		Condition      *string `json:"condition_prompt"`
	}
	Answers    map[string]string
	Executions [][3]any
}

func (c *randomCase) flow() *plan.Flow {
	f := &plan.Flow{Name: c.Name}
	for _, n := range c.Nodes {
		f.Nodes = append(f.Nodes, plan.Node{ID: n.ID, Deferred: n.Defer})
	}
	for i, e := range c.Edges {
		edge := plan.Edge{ID: fmt.Sprint("e", i), From: e.Source, To: e.Target}
		if e.Condition != nil {
			edge.Question = *e.Condition
		}
		f.Edges = append(f.Edges, edge)
	}
	return f
}

func TestSchedulerMatchesStepRule(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "cases", "step_rule_random.json"))
	if err != nil {
		t.Skip("../shared/cases/step_rule_random.json does not exist")
	}
	var in struct{ Cases []randomCase }
	if err := json.Unmarshal(raw, &in); err != nil {
		t.Fatal(err)
	}
	for _, c := range in.Cases {
		var want []string
		for _, e := range c.Executions {
			for range int(e[2].(float64)) {
				want = append(want, fmt.Sprintf("%s#%d", e[0], int(e[1].(float64))))
			}
		}
		slices.Sort(want)
		for seed := range int64(12) {
			got := simulate(c.flow(), func(q string, step int) bool {
				return c.Answers[fmt.Sprintf("%s@%d", q, step)] == "yes"
			}, 100, rand.New(rand.NewSource(seed)))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s, timing %d (-want +got):\n%s", c.Name, seed, diff)
			}
		}
	}
}

// TestNestedJoins checks joins nested in loops: the inner one runs first in every iteration.
func TestNestedJoins(t *testing.T) {
	tests := map[string]struct {
		edges    string
		deferred []string
		// iterations is how often the question of a back edge is answered with yes.
		iterations int
		want       string
	}{
		"outer join that needs an inner join": {
			"START>plan plan>research plan>outline research>web research>papers web>facts papers>facts facts>write outline>write write>check check>plan? check>END",
			[]string{"facts", "write"}, 1,
			"START plan#1 outline#2 research#2 papers#3 web#3 facts#4 write#5 check#6 plan#7 outline#8 research#8 papers#9 web#9 facts#10 write#11 check#12",
		},
		"edge that bypasses the inner join": {
			"START>a a>b a>c b>inner c>inner inner>outer a>outer outer>a? outer>END", []string{"inner", "outer"}, 1,
			"START a#1 b#2 c#2 inner#3 outer#4 a#5 b#6 c#6 inner#7 outer#8",
		},
		"three levels": {
			"START>a a>b a>x b>c b>y c>d c>z d>one z>one one>two y>two two>three x>three three>a? three>END", []string{"one", "two", "three"}, 1,
			"START a#1 b#2 x#2 c#3 y#3 d#4 z#4 one#5 two#6 three#7 a#8 b#9 x#9 c#10 y#10 d#11 z#11 one#12 two#13 three#14",
		},
		"nested loops": {
			"START>a a>p a>q p>in q>in in>p? in>out a>out out>a? out>END", []string{"in", "out"}, 1,
			"START a#1 p#2 q#2 in#3 p#4 in#5 out#6 a#7 p#8 q#8 in#9 out#10",
		},
		"inner join without arrivals in one iteration": {
			"START>a a>b a>c b>inner? c>outer inner>outer outer>a? outer>END", []string{"inner", "outer"}, 1,
			"START a#1 b#2 c#2 inner#3 outer#4 a#5 b#6 c#6 outer#7",
		},
		"two joins on a cycle: the first from START runs first": {
			"START>a START>b a>j b>k j>k k>j? k>END", []string{"j", "k"}, 1,
			"START a#1 b#1 j#2 k#3 j#4 k#5",
		},
		"two independent joins": {
			"START>a a>b a>c b>j c>k j>END k>END", []string{"j", "k"}, 0,
			"START a#1 b#2 c#2 j#3 k#3",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			want := strings.Fields(tc.want)[1:]
			slices.Sort(want)
			for timing := range int64(12) {
				asked := map[string]int{}
				got := simulate(scheduletest.Sketch(tc.edges, tc.deferred...), func(q string, _ int) bool {
					asked[q]++
					return asked[q] <= tc.iterations
				}, 100, rand.New(rand.NewSource(timing)))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("timing %d (-want +got):\n%s", timing, diff)
				}
			}
		})
	}
}

// answersOf answers conditions by question and step, more often no as steps grow.
func answersOf(seed int64) func(string, int) bool {
	return func(q string, step int) bool {
		h := int64(0)
		for _, r := range q {
			h = h*131 + int64(r)
		}
		return rand.New(rand.NewSource(seed^h^int64(step)<<20)).Intn(10+step) < 6
	}
}

func TestExecutionsIndependentOfTiming(t *testing.T) {
	for seed := range int64(400) {
		f := random(rand.New(rand.NewSource(seed)))
		var first []string
		for timing := range int64(12) {
			// A low limit ends infinite loops.
			got := simulate(f, answersOf(seed), 9, rand.New(rand.NewSource(timing)))
			if timing == 0 {
				first = got
			} else if diff := cmp.Diff(first, got); diff != "" {
				t.Fatalf("graph %d, timing %d:\n%s\n%s", seed, timing, diff, describe(f))
			}
			if slices.Contains(got, "stuck") {
				t.Fatalf("graph %d, timing %d is stuck:\n%s", seed, timing, describe(f))
			}
		}
	}
}
