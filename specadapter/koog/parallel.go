package koog

import (
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// resultPrefix is the prefix of the state keys of parallel agents' results.
const resultPrefix = "$result/"

// parallelNodes adds a fork, a node for each parallel agent, and a join that merges their results.
func (b *builder) parallelNodes(ag *agent) {
	input := "$input/" + ag.name
	b.out[ag.name] = b.unique(ag.name + ".merge")
	b.add(plan.Node{ID: ag.name, Name: ag.name, Kind: plan.KindTransform, Transform: &plan.Transform{}, Choice: plan.ChooseAll, StateKey: input}, ag.at)
	m := plan.Merge{Input: input}
	for _, part := range b.parallelAgents(ag, ag.name, &m) {
		child := part.agent
		id := b.unique(part.path)
		n := b.node(child, id, child.name)
		n.StateKey = resultPrefix + id
		if n.Agent != nil && b.mode != modeIntended {
			n.Agent.Conversation = plan.ConversationFork
		}
		b.outerSteps[id] = part.outerSteps
		b.add(n, child.at)
		b.innerEdges = append(b.innerEdges, plan.Edge{From: ag.name, To: id}, plan.Edge{From: id, To: b.out[ag.name]})
		m.Results = append(m.Results, plan.Result{Node: id, Name: child.name, Key: n.StateKey})
	}
	b.add(plan.Node{ID: b.out[ag.name], Name: ag.name + " (merge)", Kind: plan.KindMerge, Deferred: true, Merge: &m}, ag.at)
}

// parallelAgent is an agent that runs inside a parallel agent, directly or nested.
type parallelAgent struct {
	agent *agent
	// path consists of the names of the enclosing agents and its own.
	path string
	// outerSteps is the number of steps that the graphs of the parallel agents between it and the
	// outermost one take.
	outerSteps int
}

// innerSteps is the number of steps of a nested parallel agent's graph before its agents start:
// its start and the fork. The end of the graph adds one step to the result that it picks.
const innerSteps = 2

// parallelAgents returns the agents that run in a parallel agent, and sets in m how their results are merged.
// At any depth they receive the same value and the same conversation, and the published code picks a
// result by index alone. So the agents of a nested parallel agent run next to those of the outer one,
// and the nested one's result is the result of the agent that it picks.
func (b *builder) parallelAgents(ag *agent, path string, m *plan.Merge) []parallelAgent {
	var out []parallelAgent
	var at []int // index of the result of each child in out
	fail := ""
	for _, child := range b.children(ag) {
		path := path + "." + child.name
		if child.kind != kindParallel {
			at = append(at, len(out))
			out = append(out, parallelAgent{agent: child, path: path})
			continue
		}
		var inner plan.Merge
		in := b.parallelAgents(child, path, &inner)
		for i := range in {
			in[i].outerSteps += innerSteps
		}
		picked := 0
		if inner.Pick != nil {
			picked = *inner.Pick
			in[picked].outerSteps++
		}
		if fail == "" {
			fail = inner.Fail
		}
		at = append(at, len(out)+picked)
		out = append(out, in...)
	}
	b.merge(ag, m, at)
	if fail != "" {
		m.Fail = fail // the failure of a nested agent takes precedence
	}
	return out
}

// children returns a parallel agent's agents in the order of its list, or of the document as in the published code.
func (b *builder) children(ag *agent) []*agent {
	out := source.Map(ag.children, func(name string) *agent { return b.doc.byName[name] })
	if b.mode != modeIntended {
		slices.SortStableFunc(out, func(x, y *agent) int { return x.at.Compare(y.at) })
	}
	return out
}

// merge sets in m how the results of parallel agents are merged into one value; at holds the index of each
// result in m. The published code picks the result that the variable names, regardless of the
// condition, and the first one without a merge.
func (b *builder) merge(ag *agent, m *plan.Merge, at []int) {
	if ag.merge == nil {
		if b.mode != modeIntended {
			m.Pick = &at[0]
		}
		return
	}
	if ag.invalid {
		return
	}
	index, field, path, problem := mergeVariable(ag.merge.variable, len(at))
	op := strings.ToLower(ag.merge.op)
	if problem == "" && !value.Known(op) {
		problem = fmt.Sprintf("Unsupported operation: %s", ag.merge.op)
	}
	if problem != "" {
		m.Fail = problem
		if b.mode == modeIntended {
			b.Errorf(ag.merge.at, CodeParallel, `use {"variable": "results.0.output", "operation": "equals", "value": ...}`, "merge of agent %s: %s", source.Quote(ag.name), problem)
		}
		return
	}
	m.Pick = &at[index]
	if b.mode == modeIntended {
		m.Field = field
		m.Compare = &plan.Compare{Text: fmt.Sprintf("%s %s %s", ag.merge.variable, op, ag.merge.value.Brief()), Path: path, Op: op,
			Value: ag.merge.value.JSON(), Rules: b.rules()}
	}
}

// mergeVariable parses results.INDEX.FIELD.
func mergeVariable(text string, n int) (index int, field string, path []string, problem string) {
	parts := strings.Split(text, ".")
	switch {
	case len(parts) < 3:
		return 0, "", nil, fmt.Sprintf("Expected format for merge condition variable: 'results.<index>.<property>', got: %s", text)
	case parts[0] != "results":
		return 0, "", nil, fmt.Sprintf("Expected 'results' keyword in merge condition variable, got: %s", parts[0])
	}
	v, err := value.Constant(value.Tagged, value.Of(parts[1]))
	switch {
	case err != nil || v.Kind != value.Int:
		return 0, "", nil, fmt.Sprintf("Invalid index in merge condition: %s", parts[1])
	case v.Int < 0 || v.Int >= int64(n):
		return 0, "", nil, fmt.Sprintf("Index out of bounds in merge condition: %d (available: 0..%d)", v.Int, n-1)
	case parts[2] != "output" && parts[2] != "input" && parts[2] != "name":
		return 0, "", nil, fmt.Sprintf("Unsupported property in merge condition: %s", parts[2])
	}
	return int(v.Int), parts[2], parts[3:], ""
}

// checkNesting reports parallel agents that contain themselves, and nesting that exceeds the number of nodes
// in a plan: each level can double it.
func (a *adaptation) checkNesting(d *document) {
	counts := map[string]int{} // number of agents in a parallel agent, including itself; -1 while counting
	var count func(ag *agent) int
	count = func(ag *agent) int {
		if ag.kind != kindParallel {
			return 1
		}
		if n, known := counts[ag.name]; known {
			return n
		}
		counts[ag.name] = -1
		sum := 1
		for i, name := range ag.children {
			child := d.byName[name]
			switch {
			case child == nil: // already reported
			case counts[name] < 0:
				a.Errorf(ag.childPos[i], CodeParallel, "remove the parallel agent from its own agents", "the parallel agent %s runs itself through %s",
					source.Quote(ag.name), source.Quote(name))
			default:
				sum = min(sum+count(child), plan.MaxNodes)
			}
		}
		counts[ag.name] = sum
		return sum
	}
	sum := 1
	for _, ag := range d.agents {
		if sum += count(ag); ag.kind == kindParallel {
			sum++ // the fork and the join
		}
		if sum > plan.MaxNodes {
			a.Errorf(ag.at, CodeTooMany, "split the flow or nest fewer parallel agents",
				"with agent %s, parallel agents would run more than %d agents", source.Quote(ag.name), plan.MaxNodes)
			return
		}
	}
}
