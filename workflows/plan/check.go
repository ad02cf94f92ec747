package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// MaxNodes and MaxEdges bound a plan, so that reachability stays cheap.
const (
	MaxNodes = 20_000
	MaxEdges = 100_000
)

const (
	// maxLimit bounds limits and timeouts: a year in seconds, nine hours in milliseconds.
	maxLimit = 366 * 24 * 3600
	// maxLimitBytes bounds size limits: it is the largest payload that a store accepts.
	maxLimitBytes = 1 << 30
)

// Decode reads a plan and checks it. The error describes the first problem.
func Decode(raw []byte) (*Flow, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	var f Flow
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("decode plan: unexpected data after the plan")
	}
	if p := f.Check(); len(p) > 0 {
		return nil, fmt.Errorf("plan %q: %s", f.Name, p[0])
	}
	return &f, nil
}

// Check lists the problems that would prevent the interpreter from running the flow. Adapters report more, with
// positions; this is the minimum for plans from other sources.
func (f *Flow) Check() []string { return f.check(f) }

// check checks a flow whose agents are those of root, which can be f itself.
func (f *Flow) check(root *Flow) []string {
	c := checker{f: f, root: root}
	if f.Version != Version {
		return []string{fmt.Sprintf("version is %d, but this build supports %d", f.Version, Version)}
	}
	if len(f.Nodes) > MaxNodes || len(f.Edges) > MaxEdges {
		return []string{fmt.Sprintf("plan has %d nodes and %d edges, at most %d and %d are allowed", len(f.Nodes), len(f.Edges), MaxNodes, MaxEdges)}
	}
	nodes := c.nodes()
	c.edges(nodes)
	c.inputs()
	c.hooks()
	c.values()
	c.retries()
	for _, l := range []struct {
		name    string
		n, most int
	}{
		{"limits.max_steps", f.Limits.MaxSteps, maxLimit}, {"limits.max_state_bytes", f.Limits.MaxStateBytes, maxLimitBytes},
		{"limits.max_depth", f.Limits.MaxDepth, maxLimit}, {"limits.filter_bytes", f.Limits.FilterBytes, maxLimitBytes},
		{"policy.model_seconds", f.Policy.ModelSeconds, maxLimit}, {"policy.tool_seconds", f.Policy.ToolSeconds, maxLimit},
		{"policy.heartbeat_seconds", f.Policy.HeartbeatSeconds, maxLimit}, {"policy.retry_seconds", f.Policy.RetrySeconds, maxLimit},
		{"policy.first_retry_millis", f.Policy.FirstRetryMillis, maxLimit},
	} {
		if l.n < 1 || l.n > l.most {
			c.add("%s must be 1 to %d, got %d", l.name, l.most, l.n)
		}
	}
	for i := range f.Agents {
		for _, p := range f.Agents[i].check(root) {
			c.add("agent %q: %s", f.Agents[i].ID, p)
		}
	}
	return c.problems
}

type checker struct {
	f, root  *Flow
	problems []string
}

// maxProblems limits the number of problems, because they can be recorded in history.
const maxProblems = 100

func (c *checker) add(format string, args ...any) {
	if len(c.problems) == maxProblems {
		return
	}
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *checker) nodes() map[string]bool {
	ids := map[string]bool{}
	for i := range c.f.Nodes {
		n := &c.f.Nodes[i]
		switch {
		case n.ID == "" || n.ID == Start || n.ID == End:
			c.add("node %d has the invalid id %q", i+1, n.ID)
		case ids[n.ID]:
			c.add("two nodes have the id %q", n.ID)
		}
		ids[n.ID] = true
		c.ports(n)
		switch n.Kind {
		case KindAgent:
			c.agent(n)
			c.members(n)
		case KindAsk:
			if n.Ask == nil || n.Ask.Text == "" {
				c.add("node %q has no ask.text", n.ID)
			}
		case KindProgram:
			c.program(n)
		case KindTransform, KindMerge:
			c.pure(n)
		case KindPass, KindBranch, KindSay, KindTool, KindCall:
			c.namedValues(n)
		default:
			c.add("node %q has the unknown kind %q", n.ID, n.Kind)
		}
	}
	return ids
}

func (c *checker) agent(n *Node) {
	if n.Agent == nil {
		c.add("node %q has no agent configuration", n.ID)
		return
	}
	if n.Agent.MaxCalls < 1 || n.Agent.MaxErrors < 1 {
		c.add("node %q: max_calls and max_errors must be at least 1, got %d and %d", n.ID, n.Agent.MaxCalls, n.Agent.MaxErrors)
	}
	if o := n.Agent.Output; o != nil && o.Style != StyleFramework && o.Style != StyleDocumented {
		c.add("node %q: output.style must be %q or empty, got %q", n.ID, StyleDocumented, o.Style)
	}
	c.params(n)
	c.finish(n)
	c.context(n)
	c.starts(n)
	names := map[string]bool{}
	for _, b := range n.Agent.Builtins {
		names[b] = true
	}
	for _, t := range n.Agent.Tools {
		if t.Name == "" || t.As == "" {
			c.add("node %q has a tool without a name", n.ID)
		} else if names[t.As] {
			c.add("node %q has two tools named %q", n.ID, t.As)
		}
		names[t.As] = true
	}
}

func (c *checker) inputs() {
	in := c.f.Inputs
	if in == nil {
		return
	}
	if in.Mode != InputsMerged && in.Mode != InputsAuthoritative && in.Mode != InputsProcedural && in.Mode != InputsNamed {
		c.add("inputs.mode must be %q, %q, %q or %q, got %q", InputsMerged, InputsAuthoritative, InputsProcedural, InputsNamed, in.Mode)
	}
	if in.Style != StyleFramework && in.Style != StyleDocumented {
		c.add("inputs.style must be %q or empty, got %q", StyleDocumented, in.Style)
	}
}

func (c *checker) edges(nodes map[string]bool) {
	started := false
	for i, e := range c.f.Edges {
		if e.From == Start {
			started = true
		} else if !nodes[e.From] {
			c.add("edge %d comes from %q, which is not a node", i+1, e.From)
		}
		if e.To != End && !nodes[e.To] {
			c.add("edge %d leads to %q, which is not a node", i+1, e.To)
		}
	}
	if !started {
		c.add("no edge comes from %s", Start)
	}
}
