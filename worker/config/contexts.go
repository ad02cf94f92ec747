package config

import (
	"maps"
	"slices"
	"strings"

	"weft/workflows/plan"
)

// Context returns the policy of an agent of a flow: that of the first matching rule, by name; nil if none
// matches.
func (c *Config) Context(f *plan.Flow, agent string) *plan.Context {
	for _, name := range slices.Sorted(maps.Keys(c.Contexts)) {
		r := c.Contexts[name]
		if !covers(r.Flows, f.Name) && !covers(r.Flows, f.ID) || !covers(r.Agents, agent) {
			continue
		}
		out := &plan.Context{How: r.How, Tokens: r.Tokens, Keep: r.Keep}
		if r.How == plan.ContextSummarise {
			s := plan.DefaultSummary
			s.Model = r.Model
			out.Summary = &s
		}
		return out
	}
	return nil
}

// covers reports whether a name matches one of the patterns, or there are none.
func covers(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return plan.Matches(p, name) })
}

// checkContexts rejects incomplete and contradictory rules.
func (l *loader) checkContexts() {
	for _, name := range slices.Sorted(maps.Keys(l.cfg.Contexts)) {
		r, at := l.cfg.Contexts[name], "contexts."+name
		if !slices.Contains(plan.Contexts, r.How) {
			l.check("%s.how: is %q, want %s", at, r.How, strings.Join(plan.Contexts, ", "))
		}
		if r.How == plan.ContextFail && r.Tokens == 0 {
			l.check("%s.tokens: is not set, want the threshold at which to fail", at)
		}
		if r.Model != "" && r.How != plan.ContextSummarise {
			l.check("%s.model: is only used for summaries, but how is %q; remove it, or set how: %s", at, r.How, plan.ContextSummarise)
		}
		if slices.Contains(r.Flows, "") || slices.Contains(r.Agents, "") {
			l.check("%s: empty pattern; write names, with * for any characters", at)
		}
	}
}
