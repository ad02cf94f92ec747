package plan

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Reach is the part of a connection that a flow may use.
type Reach struct {
	// ID is the connection's id, "tool:NAME" for a tool without a connection.
	ID string `json:"id"`
	// Address is the URL or command that the flow or the run supplies, with * for each placeholder; empty means the
	// worker's own connection.
	Address string `json:"address,omitempty"`
	// Tools are the tools that may be called; absent means all.
	Tools []string `json:"tools,omitempty"`
}

// Address returns the URL or command that a flow or a run supplies for the connection, or "" if the worker resolves it by
// id.
func (c *Connection) Address() string { return cmp.Or(c.URL, c.Command) }

// Reaches lists what nodes of the flow use of connections, sorted by id. supplied are the connections that the run
// supplies, which take precedence over the flow's own.
func (f *Flow) Reaches(nodes []Node, supplied []Connection) []Reach {
	return f.reaches(nil, nodes, append(slices.Clip(supplied), f.Connections...))
}

// AllReaches is [Flow.Reaches] for all nodes of the flow and of its sub-agents.
func (f *Flow) AllReaches(supplied []Connection) []Reach {
	connections := append(slices.Clip(supplied), f.Connections...)
	out := f.reaches(nil, f.Nodes, connections)
	for i := range f.Agents {
		sub := &f.Agents[i]
		out = f.reaches(out, sub.Nodes, append(slices.Clip(connections), sub.Connections...))
	}
	return out
}

// reaches adds what nodes use of the given connections. Several connections may have the same id.
func (f *Flow) reaches(out []Reach, nodes []Node, connections []Connection) []Reach {
	add := func(id, tool string) {
		found := false
		for i := range connections {
			if connections[i].ID == id {
				found = true
				if k := connections[i].Kind; k == ConnectionAgent || k == ConnectionClient {
					continue // not an external connection
				}
				out = addReach(out, id, placeholder.ReplaceAllLiteralString(connections[i].Address(), "*"), tool)
			}
		}
		if !found {
			out = addReach(out, id, "", tool)
		}
	}
	for i := range nodes {
		for _, b := range nodes[i].BoundTools() {
			add(b.Tool.BoundTo(), b.Tool.Name)
		}
		for _, s := range nodes[i].TeamAgents() {
			if s.Agent.Remote != nil {
				add(s.Agent.Remote.Connection, "")
			}
			if s.Agent.Toolboxes != nil {
				for _, id := range s.Agent.Toolboxes.Connections {
					add(id, "")
				}
			}
		}
	}
	return out
}

// addReach adds a tool, or all tools if it is empty, and keeps the list sorted.
func addReach(list []Reach, id, address, tool string) []Reach {
	at, found := slices.BinarySearchFunc(list, Reach{ID: id, Address: address}, func(a, b Reach) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Address, b.Address))
	})
	if !found {
		list = slices.Insert(list, at, Reach{ID: id, Address: address})
	}
	r := &list[at]
	switch {
	case tool == "":
		r.Tools = nil
	case found && r.Tools == nil: // already includes all
	case !slices.Contains(r.Tools, tool):
		r.Tools = append(r.Tools, tool)
	}
	return list
}

// Intersect returns the part of list that is also in within.
func Intersect(list, within []Reach) []Reach {
	out := []Reach{}
	for _, r := range list {
		for _, w := range within {
			if r.ID != w.ID || !Matches(w.Address, r.Address) {
				continue
			}
			both := r
			switch {
			case r.Tools == nil:
				both.Tools = w.Tools
			case w.Tools != nil:
				both.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t string) bool { return !slices.Contains(w.Tools, t) })
			}
			if both.Tools == nil || len(both.Tools) > 0 {
				out = append(out, both)
			}
		}
	}
	return out
}

// placeholder matches the parts of a URL that are replaced by a run's parameters.
var placeholder = regexp.MustCompile(`\$\{[^}]*\}`)

// Covers reports whether a list includes a tool of a connection; an empty tool means any tool.
func Covers(list []Reach, id, address, tool string) bool {
	return slices.ContainsFunc(list, func(r Reach) bool {
		return r.ID == id && Matches(r.Address, address) && (tool == "" || r.Tools == nil || slices.Contains(r.Tools, tool))
	})
}

// Models lists the models that the flow and its sub-agents use in addition to the run's own, as provider/model, sorted
// and without duplicates.
func (f *Flow) Models() []string {
	var out []string
	for _, g := range append([]Flow{*f}, f.Agents...) {
		out = append(out, g.Model)
		for i := range g.Nodes {
			for _, s := range g.Nodes[i].TeamAgents() {
				out = append(out, s.Agent.Model)
				for _, c := range s.Agent.Contexts() {
					if c.Summary != nil {
						out = append(out, c.Summary.Model)
					}
				}
				for _, l := range s.Agent.LongMessagePolicies() {
					out = append(out, l.Summary.Model)
				}
			}
		}
	}
	return SplitModels(out...)
}

// SplitModels splits comma-separated lists of models; the result is sorted and has no duplicates.
func SplitModels(lists ...string) []string {
	var out []string
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// RunsPrograms reports whether the flow or a sub-agent runs a program.
func (f *Flow) RunsPrograms() bool {
	return slices.ContainsFunc(append([]Flow{*f}, f.Agents...), func(g Flow) bool {
		return slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.Program != nil })
	})
}

// MatchesAny reports whether a name matches one of the patterns, or there are no patterns.
func MatchesAny(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return Matches(p, name) })
}

// Matches reports whether a name matches a pattern, in which * matches any characters.
func Matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, last)
}

// DeclaresRuns reports whether the flow may start child runs of its own: branches, elements of maps, called flows.
func (f *Flow) DeclaresRuns() bool {
	from := map[string]bool{}
	return len(f.Agents) > 0 || slices.ContainsFunc(f.Edges, func(e Edge) bool {
		fork := from[e.From]
		from[e.From] = true
		return fork
	})
}

// StartsRuns reports whether a model may start child runs of the flow or of a sub-agent.
func (f *Flow) StartsRuns() bool {
	if len(f.Agents) > 0 {
		return true
	}
	return slices.ContainsFunc(f.Nodes, func(n Node) bool {
		return slices.ContainsFunc(n.TeamAgents(), func(s TeamAgent) bool {
			return len(s.Agent.Starts) > 0 || slices.Contains(s.Agent.Builtins, BuiltinCallSubAgent)
		})
	})
}
