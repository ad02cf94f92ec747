package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds are an operator's settings for every flow that a worker runs.
type Bounds struct {
	// Limits are upper bounds for those of the flow; a zero field means no bound.
	Limits Limits `json:"limits,omitzero"`
	// Contexts apply to agents whose flow does not handle long conversations. The first rule that matches an agent
	// applies.
	Contexts []ContextRule `json:"contexts,omitempty"`
}

// ContextRule is a policy for the agents of some flows, selected by patterns of names or ids; no pattern means all.
type ContextRule struct {
	Flows   []string `json:"flows,omitempty"`
	Agents  []string `json:"agents,omitempty"`
	Context Context  `json:"context"`
}

// Bind applies the bounds to the flow and its sub-agents, and describes the limits that it reduced.
func (f *Flow) Bind(b *Bounds) []string {
	var out []string
	cut := func(name string, value *int, most int) {
		if most > 0 && *value > most {
			out = append(out, fmt.Sprintf("limits.%s: %d, cut to %d", name, *value, most))
			*value = most
		}
	}
	flows := []*Flow{f}
	for i := range f.Agents {
		flows = append(flows, &f.Agents[i])
	}
	for _, g := range flows {
		cut("max_steps", &g.Limits.MaxSteps, b.Limits.MaxSteps)
		cut("max_state_bytes", &g.Limits.MaxStateBytes, b.Limits.MaxStateBytes)
		cut("max_depth", &g.Limits.MaxDepth, b.Limits.MaxDepth)
		cut("filter_bytes", &g.Limits.FilterBytes, b.Limits.FilterBytes)
		g.bindContexts(b.Contexts)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// bindContexts sets the policy of agents without one to the first that matches.
func (f *Flow) bindContexts(rules []ContextRule) {
	for i := range f.Nodes {
		for _, s := range f.Nodes[i].TeamAgents() {
			k := slices.IndexFunc(rules, func(r ContextRule) bool {
				return (MatchesAny(r.Flows, f.Name) || MatchesAny(r.Flows, f.ID)) && MatchesAny(r.Agents, s.ID)
			})
			if s.Agent.Context == nil && k >= 0 {
				c := rules[k].Context
				s.Agent.Context = &c
			}
		}
	}
}

// Seconds is a duration in seconds. In JSON it is text with a unit, such as "30s".
type Seconds int

// MarshalText returns the duration as seconds: "90s".
func (s Seconds) MarshalText() ([]byte, error) { return []byte(strconv.Itoa(int(s)) + "s"), nil }

// UnmarshalText parses a duration in full seconds, such as "90s" or "2m".
func (s *Seconds) UnmarshalText(text []byte) error {
	if n, err := strconv.Atoi(strings.TrimSuffix(string(text), "s")); err == nil && strings.HasSuffix(string(text), "s") {
		*s = Seconds(n) // also values that overflow a time.Duration
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d%time.Second != 0 {
		return fmt.Errorf("invalid duration %.40q; use full seconds, such as 30s or 2m", text)
	}
	*s = Seconds(d / time.Second)
	return nil
}
