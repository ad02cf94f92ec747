package koog

import (
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// resultPrefix begins the state keys of what parallel agents give.
const resultPrefix = "$result/"

// parallelNodes makes a fork, a node for each parallel agent, and a join that merges their values.
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
		if n.Agent != nil && b.mode != meant {
			n.Agent.Conversation = plan.ConversationFork
		}
		b.around[id] = part.around
		b.add(n, child.at)
		b.always = append(b.always, plan.Edge{From: ag.name, To: id}, plan.Edge{From: id, To: b.out[ag.name]})
		m.Results = append(m.Results, plan.Result{Node: id, Name: child.name, Key: n.StateKey})
	}
	b.add(plan.Node{ID: b.out[ag.name], Name: ag.name + " (merge)", Kind: plan.KindMerge, Deferred: true, Merge: &m}, ag.at)
}

// parallelAgent is an agent that runs in a parallel agent, or in one inside it.
type parallelAgent struct {
	agent *agent
	// path is where it stands: the names of the agents around it, and its own.
	path string
	// around is how many steps the graphs of the parallel agents take that lie between it and
	// the outermost one.
	around int
}

// innerSteps are what the graph of a parallel agent inside another one takes before its agents
// begin: its start and the step that forks. One more ends it, with the result that it picks.
const innerSteps = 2

// parallelAgents are the agents that run in a parallel agent, and m says which of their results goes
// on. All of them get the same value and the same conversation, however deep they stand, and the
// real code picks by place alone: so the agents of an inner parallel agent stand beside the
// outer one's, and the result of the inner one is that of the agent which it picks.
func (b *builder) parallelAgents(ag *agent, path string, m *plan.Merge) []parallelAgent {
	var out []parallelAgent
	var at []int // where the result of each child is
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
			in[i].around += innerSteps
		}
		picked := 0
		if inner.Pick != nil {
			picked = *inner.Pick
			in[picked].around++
		}
		if fail == "" {
			fail = inner.Fail
		}
		at = append(at, len(out)+picked)
		out = append(out, in...)
	}
	b.merge(ag, m, at)
	if fail != "" {
		m.Fail = fail // an inner agent's failure comes first
	}
	return out
}

// children are a parallel agent's agents as it lists them; the published code uses the document's order.
func (b *builder) children(ag *agent) []*agent {
	out := source.Map(ag.children, func(name string) *agent { return b.doc.byName[name] })
	if b.mode != meant {
		slices.SortStableFunc(out, func(x, y *agent) int { return x.at.Compare(y.at) })
	}
	return out
}

// merge says how the results of parallel agents become one value; at is where each of them is
// in m. The real code takes the result that the variable names, whatever the condition says, and
// the first without one.
func (b *builder) merge(ag *agent, m *plan.Merge, at []int) {
	if ag.merge == nil {
		if b.mode != meant {
			m.Pick = &at[0]
		}
		return
	}
	if ag.wrong {
		return
	}
	index, field, path, problem := mergeVariable(ag.merge.variable, len(at))
	op := strings.ToLower(ag.merge.op)
	if problem == "" && !value.Known(op) {
		problem = fmt.Sprintf("Unsupported operation: %s", ag.merge.op)
	}
	if problem != "" {
		m.Fail = problem
		if b.mode == meant {
			b.Errorf(ag.merge.at, CodeParallel, `use {"variable": "results.0.output", "operation": "equals", "value": ...}`, "merge of agent %s: %s", source.Quote(ag.name), problem)
		}
		return
	}
	m.Pick = &at[index]
	if b.mode == meant {
		m.Field = field
		m.Compare = &plan.Compare{Text: fmt.Sprintf("%s %s %s", ag.merge.variable, op, ag.merge.value.Brief()), Path: path, Op: op,
			Value: ag.merge.value.JSON(), Rules: b.rules()}
	}
}

// mergeVariable reads results.INDEX.FIELD.
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

// nesting reports parallel agents that run in themselves, and more of them than a plan can hold:
// each level may double them.
func (a *adaptation) nesting(d *document) {
	counts := map[string]int{} // how many agents a parallel one is with those in it, -1 while they are counted
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
			case child == nil: // reported
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
