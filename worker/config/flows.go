package config

import (
	"maps"
	"slices"
	"strings"

	"weft/specadapter"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// Reading returns the options for reading a flow's document with this configuration. An empty dialect is
// detected, an empty profile is the default one.
func (c *Config) Reading(dialect, profile string) specadapter.Options {
	o := specadapter.Options{
		Dialect: dialect, Profile: profile, Bounds: c.Bounds(), Policy: c.Timeouts.policy(),
		Host: source.Host{UnboundTools: map[string]bool{}, Connections: map[string]bool{}},
	}
	for name := range c.Tools {
		o.UnboundTools[name] = true
	}
	for name := range c.Activities {
		o.UnboundTools[name] = true
	}
	for id := range c.Connections {
		o.Connections[id] = true
	}
	return o
}

// Bounds returns what the settings bound of every flow that the worker runs.
func (c *Config) Bounds() plan.Bounds {
	out := plan.Bounds{Limits: plan.Limits(c.Limits)}
	for _, name := range slices.Sorted(maps.Keys(c.Contexts)) {
		r := c.Contexts[name]
		rule := plan.ContextRule{Flows: r.Flows, Agents: r.Agents, Context: plan.Context{How: r.How, Tokens: r.Tokens, Keep: r.Keep}}
		if r.How == plan.ContextSummarise {
			s := plan.DefaultSummary
			s.Model = r.Model
			rule.Context.Summary = &s
		}
		out.Contexts = append(out.Contexts, rule)
	}
	return out
}

func (l *loader) checkContexts() {
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Contexts)) {
		r, at := l.cfg.Contexts[name], "contexts."+name
		if !slices.Contains(plan.Contexts, r.How) {
			l.check("%s.how: is %q, expected one of %s", at, r.How, strings.Join(plan.Contexts, ", "))
		}
		if r.How == plan.ContextFail && r.Tokens == 0 {
			l.check("%s.tokens: is not set; set it to the threshold at which to fail", at)
		}
		if r.Model != "" && r.How != plan.ContextSummarise {
			l.check("%s.model: is only used for summaries, but how is %q; remove it, or set how: %s", at, r.How, plan.ContextSummarise)
		}
		if slices.Contains(r.Flows, "") || slices.Contains(r.Agents, "") {
			l.check("%s: empty pattern; use names, with * for any characters", at)
		}
	}
}
