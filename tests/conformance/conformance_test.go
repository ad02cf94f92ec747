package conformance

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// graphCase is a graph with the expected trace, which was recorded with LangGraph.
type graphCase struct {
	Name   string
	Nodes  []harness.GraphNode
	Edges  []harness.GraphEdge
	Judge  map[string][]bool
	Expect struct {
		Steps   json.RawMessage
		Status  string
		Error   string
		Result  string   `json:"result_node"`
		Exits   []string `json:"exit_nodes"`
		NoRoute []string `json:"no_route"`
	}
}

// judgeByVisit evaluates conditions by the number of executions of their source node.
func judgeByVisit(answers map[string][]bool) func(contract.JudgeInput) (bool, error) {
	var mu sync.Mutex
	visits := map[string]int{}
	return func(in contract.JudgeInput) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		key := in.Question + "@" + in.Node
		list, ok := answers[key]
		if !ok {
			return false, fmt.Errorf("no answer to %s", key)
		}
		visits[key]++
		return list[min(visits[key], len(list))-1], nil
	}
}

func graphCases(t *testing.T) []graphCase {
	var in struct{ Cases []graphCase }
	harness.DecodeJSON(t, harness.SpecFile(t, "cases/continuum_graph_cases.json"), &in)
	return in.Cases
}

// knownDifferences lists cases whose trace is expected to differ from the file, with the reason.
var knownDifferences = map[string]string{}

// branchModes are the two ways to execute branches: inline and as child workflows.
var branchModes = map[string]func(*plan.Flow) *plan.Flow{"inline": func(f *plan.Flow) *plan.Flow { return f }, "children": harness.WithChildBranches}

// TestContinuumGraphCases checks the executions, exits and errors of the specification's graphs.
func TestContinuumGraphCases(t *testing.T) {
	t.Parallel()
	for _, c := range graphCases(t) {
		for name, mode := range branchModes {
			t.Run(c.Name+"/"+name, func(t *testing.T) {
				if reason := knownDifferences[c.Name]; reason != "" {
					t.Skip(reason)
				}
				out, status, err := runPlan(t, harness.NewGraphEnv(t, harness.Fakes{Judge: judgeByVisit(c.Judge)}), mode(harness.GraphPlan(c.Name, c.Nodes, c.Edges)))
				checkGraphCase(t, &c, out, status, err)
			})
		}
	}
}

func checkGraphCase(t *testing.T, c *graphCase, out *contract.RunResult, status contract.Status, err error) {
	t.Helper()
	var rounds [][]string
	if json.Unmarshal(c.Expect.Steps, &rounds) == nil {
		var want []string
		for i, round := range rounds {
			for _, node := range round {
				want = append(want, fmt.Sprintf("%s#%d", node, i+1))
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, harness.Executions(status)); diff != "" {
			t.Errorf("executions (-want +got):\n%s", diff)
		}
	} else if want := "25 rounds"; strings.Trim(string(c.Expect.Steps), `"`) != want || len(status.Executions) != 25 {
		t.Errorf("got %d executions, want %s", len(status.Executions), c.Expect.Steps)
	}
	if c.Expect.Status == "failed" {
		f := contract.FailureOf(err)
		if f == nil || f.Class != c.Expect.Error {
			t.Fatalf("error = %v, want class %s", err, c.Expect.Error)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if out.ResultNode != c.Expect.Result {
		t.Errorf("result node = %q, want %q", out.ResultNode, c.Expect.Result)
	}
	var exits []string
	for _, e := range out.ExitOutputs {
		exits = append(exits, e.Node)
	}
	if diff := cmp.Diff(c.Expect.Exits, exits); diff != "" {
		t.Errorf("exit nodes (-want +got):\n%s", diff)
	}
	var noRoute []string
	for _, e := range status.Executions {
		if e.NoRoute {
			noRoute = append(noRoute, e.Node)
		}
	}
	if len(noRoute)+len(c.Expect.NoRoute) > 0 && !slices.Equal(noRoute, c.Expect.NoRoute) {
		t.Errorf("nodes without a route = %v, want %v", noRoute, c.Expect.NoRoute)
	}
}

// ruleCase is a random graph with the expected executions.
type ruleCase struct {
	Name       string
	Nodes      []harness.GraphNode
	Edges      []harness.GraphEdge
	Answers    map[string]string
	Executions [][3]any
}

func (c *ruleCase) want() []string {
	var want []string
	for _, e := range c.Executions {
		n, _ := e[2].(float64)
		for range int(n) {
			want = append(want, fmt.Sprintf("%v#%v", e[0], e[1]))
		}
	}
	slices.Sort(want)
	return want
}

func (c *ruleCase) judge(in contract.JudgeInput) (bool, error) {
	answer, ok := c.Answers[fmt.Sprintf("%s@%d", in.Question, in.Step)]
	if !ok {
		return false, fmt.Errorf("no answer to %s at step %d", in.Question, in.Step)
	}
	return answer == "yes", nil
}

func ruleCases(t *testing.T) []ruleCase {
	var in struct{ Cases []ruleCase }
	harness.DecodeJSON(t, harness.SpecFile(t, "cases/step_rule_random.json"), &in)
	return in.Cases
}

// TestStepRuleCases checks the executions of the specification's random graphs.
func TestStepRuleCases(t *testing.T) {
	t.Parallel()
	for i, c := range ruleCases(t) {
		check := func(t *testing.T, mode func(*plan.Flow) *plan.Flow) {
			t.Parallel()
			var mu sync.Mutex
			rng := rand.New(rand.NewSource(int64(i)))
			env := harness.NewGraphEnv(t, harness.Fakes{Judge: c.judge, Delay: func() time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(rng.Intn(1000)) * time.Millisecond
			}})
			_, status, err := runPlan(t, env, mode(harness.GraphPlan(c.Name, c.Nodes, c.Edges)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want(), harness.Executions(status)); diff != "" {
				t.Errorf("executions (-want +got):\n%s", diff)
			}
		}
		for name, mode := range branchModes {
			t.Run(c.Name+"/"+name, func(t *testing.T) { check(t, mode) })
		}
	}
}

// TestSlowBranchDoesNotDelayOthers checks the duration of three chains before a join: with a barrier after each step it would be 1500 ms.
func TestSlowBranchDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	ms := map[string]int{"A1": 500, "A2": 100, "A3": 100, "B1": 100, "B2": 500, "B3": 100, "C1": 100, "C2": 100, "C3": 500}
	env := harness.NewGraphEnv(t, harness.Fakes{})
	for node, d := range ms {
		env.OnActivity(contract.ActivityCallModel, mock.Anything, mock.MatchedBy(func(in contract.ModelInput) bool { return nodeOf(in) == node })).
			Return(harness.AnswerModel).After(time.Duration(d) * time.Millisecond)
	}
	env.OnActivity(contract.ActivityCallModel, mock.Anything, mock.Anything).Return(harness.AnswerModel)
	start := env.Now()
	_, status, err := runPlan(t, env, threeChains())
	if err != nil {
		t.Fatal(err)
	}
	if took := env.Now().Sub(start); took < 700*time.Millisecond || took >= 1500*time.Millisecond { // on a busy machine the virtual clock advances further
		t.Errorf("took %s of virtual time, want 700ms", took)
	}
	if len(status.Executions) != 10 {
		t.Errorf("executions = %v, want 10", harness.Executions(status))
	}
}

func threeChains() *plan.Flow {
	nodes := []harness.GraphNode{{ID: "J", Exit: true}}
	var edges []harness.GraphEdge
	for _, chain := range []string{"A", "B", "C"} {
		from := plan.Start
		for i := range 3 {
			id := fmt.Sprint(chain, i+1)
			nodes = append(nodes, harness.GraphNode{ID: id})
			edges = append(edges, harness.GraphEdge{Source: from, Target: id})
			from = id
		}
		edges = append(edges, harness.GraphEdge{Source: from, Target: "J"})
	}
	return harness.GraphPlan("three chains", nodes, append(edges, harness.GraphEdge{Source: "J", Target: plan.End}))
}

// nodeOf returns the node of a model call, or "" if the call does not contain it.
func nodeOf(in contract.ModelInput) string {
	var p contract.Profile
	if len(in.Profile.Body) == 0 || json.Unmarshal(in.Profile.Body, &p) != nil {
		return ""
	}
	return p.Node
}
