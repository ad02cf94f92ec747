package prepare

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/plan"
)

// Nodes may take tools by what connections offer at the run's start. Once that is known, they
// become tools of the node like any other, in the plan that the run carries.

// withToolboxes adds the connections of the flow's boxes to those that are listed.
func (p *Preparation) withToolboxes(wants []want) []want {
	for i := range p.Run.Flow.Nodes {
		for _, s := range p.Run.Flow.Nodes[i].TeamAgents() {
			if s.Agent.Toolboxes == nil {
				continue
			}
			for _, id := range s.Agent.Toolboxes.Connections {
				k := slices.IndexFunc(wants, func(w want) bool { return w.bound.ID == id })
				if k < 0 {
					k = len(wants)
					wants = append(wants, want{node: &p.Run.Flow.Nodes[i], bound: contract.ResolvedConnection{ID: id, Connection: p.connection(id)}})
				}
				wants[k].all = true
				wants[k].boxedAt = p.Run.Source.At(plan.NodePath(s.ID))
			}
		}
	}
	return wants
}

// expandToolboxes makes tools of what the boxes' connections offer, and says what is missing.
func (p *Preparation) expandToolboxes(wants []want) []string {
	var problems []string
	reported := map[string]bool{}
	p.ownAgents(func(a *plan.Agent) bool { return a.Toolboxes != nil }, func(s plan.TeamAgent) {
		problems = append(problems, p.expandToolbox(s, wants, reported)...)
	})
	return problems
}

// ownAgents changes agents in the run's own copy of the plan.
func (p *Preparation) ownAgents(which func(*plan.Agent) bool, change func(plan.TeamAgent)) {
	p.Run.Flow.Nodes = slices.Clone(p.Run.Flow.Nodes)
	for i := range p.Run.Flow.Nodes {
		n := &p.Run.Flow.Nodes[i]
		if !slices.ContainsFunc(n.TeamAgents(), func(s plan.TeamAgent) bool { return which(s.Agent) }) {
			continue
		}
		own := *n.Agent
		own.Members = slices.Clone(own.Members)
		n.Agent = &own
		for _, s := range n.TeamAgents() {
			if which(s.Agent) {
				change(s)
			}
		}
	}
}

// expandToolbox makes tools of what the boxes of one agent offer.
func (p *Preparation) expandToolbox(s plan.TeamAgent, wants []want, reported map[string]bool) []string {
	var problems []string
	toolboxes := s.Agent.Toolboxes
	s.Agent.Tools = slices.Clone(s.Agent.Tools)
	left, offered := p.take(s.Agent, wants)
	s.Agent.Toolboxes = nil
	if left == nil && !toolboxes.All && !toolboxes.Lenient {
		return nil // a connection that could not be listed matters only where something is missing
	}
	for _, id := range toolboxes.Connections {
		for k := range wants {
			if wants[k].bound.ID == id && wants[k].problem != "" && !reported[id] {
				reported[id] = true
				problems = append(problems, wants[k].problem)
			}
		}
	}
	for _, name := range left {
		if !toolboxes.Lenient && !p.callsNoTools() {
			problems = append(problems, fmt.Sprintf("%s: the tool %q of node %q is offered by none of its connections %s; they offer: %s [V10]",
				p.Run.Source.At(plan.NodePath(s.ID)), name, s.ID, strings.Join(toolboxes.Connections, ", "), textutil.Some(offered)))
		}
	}
	return problems
}

// take adds the wanted tools to an agent's own. It returns the names that it did not find, and
// what there is.
func (p *Preparation) take(a *plan.Agent, wants []want) (left, offered []string) {
	taken := map[string]bool{}
	for _, b := range a.Builtins {
		taken[b] = true
	}
	for i := range a.Tools {
		taken[a.Tools[i].As] = true
	}
	if a.Finish != nil {
		taken[a.Finish.Name] = true
	}
	for _, k := range []*plan.Contacts{a.Ask, a.Handoff} {
		if k != nil {
			taken[k.Name] = true
		}
	}
	found := map[string]bool{}
	for _, id := range a.Toolboxes.Connections {
		k := slices.IndexFunc(wants, func(w want) bool { return w.bound.ID == id })
		for _, name := range wants[k].offered {
			offered = append(offered, name)
			as := safeName(name)
			if !a.Toolboxes.All && !slices.Contains(a.Toolboxes.Names, name) || taken[as] {
				continue
			}
			taken[as], found[name] = true, true
			a.Tools = append(a.Tools, plan.Tool{Name: name, As: as, Connection: id, Confirm: slices.Contains(a.Toolboxes.Confirm, id)})
		}
	}
	for _, name := range a.Toolboxes.Names {
		if !found[name] && !taken[name] {
			left = append(left, name)
		}
	}
	return left, offered
}

// names lists the tools of an encoded catalogue.
func names(raw json.RawMessage) []string {
	var c contract.Catalogue
	if json.Unmarshal(raw, &c) != nil {
		return nil
	}
	var out []string
	for i := range c.Tools {
		out = append(out, c.Tools[i].Name)
	}
	return out
}

// maxToolName is the longest name of a tool that all providers take.
const maxToolName = 64

// safeName is a tool's name as all providers take it.
func safeName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
	if len(s) > maxToolName {
		return s[:maxToolName-9] + "_" + contract.SHA([]byte(s))[:8]
	}
	return s
}
