package blueprint

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// tagsHeader is the config of the orchestrator's server that lists only agents with all of its tags.
const tagsHeader = "X-Agent-Tags"

// callbackHeader is the config that says when started sessions call back. The framework has none.
const callbackHeader = "X-Agent-Callback"

// Values of callbackHeader: after the turn that was asked for, which is the framework's own time,
// or when a session expects no callbacks of its own any more.
const (
	callbackTurn    = "turn"
	callbackSettled = "settled"
)

// callsBack looks at an orchestrator's config.
func (g *agent) callsBack(s *server) {
	for _, h := range s.headers {
		if strings.EqualFold(h.name, callbackHeader) && h.value != callbackTurn && h.value != callbackSettled {
			g.a.Errorf(h.at, CodeServerConfig, "use "+callbackTurn+" or "+callbackSettled, "the config %s is %s, want %s or %s",
				source.Quote(h.name), source.Quote(h.value), callbackTurn, callbackSettled)
		}
	}
}

// mark notes the tags of the agents that an agent may start, until all agents are known.
func mark(g *agent, f *plan.Flow) {
	if s := g.orchestrator(); s != nil && f.Nodes[0].Agent != nil {
		f.Nodes[0].Agent.Starts = []plan.Startable{{Tags: []string{s.headersOf(tagsHeader)}}}
		f.Nodes[0].Agent.CallbackWhenSettled = s.headersOf(callbackHeader) == callbackSettled
	}
}

// starters are the agents of a flow, and of those beside it, that start others.
func starters(f *plan.Flow) []*plan.Agent {
	var out []*plan.Agent
	if n := f.Nodes[0].Agent; n != nil && n.Starts != nil {
		out = append(out, n)
	}
	for i := range f.Agents {
		out = append(out, starters(&f.Agents[i])...)
	}
	return out
}

// startable gives agents with the orchestrator's server, and those of hooks, the agents that they can start.
func (a *adaptation) startable(g *agent, f *plan.Flow) {
	mark(g, f)
	if len(starters(f)) == 0 {
		return
	}
	at := g.orchestrator()
	if at == nil {
		at = &server{at: g.Value.Pos}
	}
	all := []plan.Startable{{Agent: f.ID, Type: g.kind, Tags: g.tags()}}
	for _, file := range a.otherAgents() {
		var other *agent
		var flow *plan.Flow
		var first *source.Diagnostic
		read := func() { other, flow, first = a.other(file) }
		if a.collector == nil {
			read()
		} else if !a.collector.without(file, read) {
			continue
		}
		switch {
		case first != nil:
			a.Warnf(at.at, CodeNotStarted, "fix "+first.File+", or remove the agent", "%s cannot start the agent in %s: %s", g.Name, path.Dir(file), first.Text)
			continue
		case flow == nil:
			continue
		case f.SubFlow(flow.ID) != nil:
			a.Warnf(at.at, CodeNotStarted, "rename it", "%s cannot start the agent in %s: another agent has the name %s", g.Name, path.Dir(file), source.Quote(flow.ID))
			continue
		}
		all = append(all, plan.Startable{Agent: flow.ID, Type: other.kind, Tags: other.tags()})
		mark(other, flow)
		lift(f, flow)
	}
	slices.SortFunc(all, func(x, y plan.Startable) int { return strings.Compare(x.Agent, y.Agent) })
	for _, n := range starters(f) {
		n.Starts = visible(all, n.Starts[0].Tags[0])
	}
}

// lift puts a flow and those of its hooks, which get its name before theirs, beside others.
func lift(f, flow *plan.Flow) {
	subs := flow.Agents
	flow.Agents = nil
	for i := range subs {
		id := subs[i].ID
		subs[i].ID = flow.ID + "/" + id
		for _, h := range []*plan.Hook{flow.Hooks.Before, flow.Hooks.After} {
			if h != nil && h.Flow == id {
				h.Flow = subs[i].ID
			}
		}
	}
	f.Agents = append(append(f.Agents, *flow), subs...)
}

// visible hides agents that have not all of some tags, separated by commas.
func visible(all []plan.Startable, tags string) []plan.Startable {
	out := slices.Clone(all)
	for i := range out {
		for tag := range strings.SplitSeq(tags, ",") {
			if tag = strings.TrimSpace(tag); tag != "" && !slices.Contains(out[i].Tags, tag) {
				out[i].Hidden = true
			}
		}
	}
	return out
}

// orchestrator is the agent's entry of the framework's own server, or nil.
func (g *agent) orchestrator() *server {
	for i := range g.servers {
		if g.servers[i].orchestrator && !g.servers[i].refused {
			return &g.servers[i]
		}
	}
	return nil
}

func (s *server) headersOf(name string) string {
	for _, h := range s.headers {
		if strings.EqualFold(h.name, name) {
			return h.value
		}
	}
	return ""
}

func (g *agent) tags() []string {
	var out []string
	for _, item := range g.Value.Get("tags").Elements() {
		if item.Kind == source.String {
			out = append(out, item.Text)
		}
	}
	return out
}

// otherAgents are the files of all agents in the registries, without this one, by name.
func (a *adaptation) otherAgents() []string {
	var out []string
	for _, root := range roots(path.Dir(a.main)) {
		dir := path.Join(root, dirAgents)
		if a.collector != nil {
			list, _ := fs.ReadDir(a.collector.fsys, dir) // none where there is no such folder
			for _, e := range list {
				file := path.Join(dir, e.Name(), fileAgent)
				if plainName.MatchString(e.Name()) && (e.IsDir() || e.Type()&fs.ModeSymlink != 0) {
					a.collector.without(file, func() { a.has(file) })
				}
			}
		}
		for name := range a.files {
			if path.Base(name) == fileAgent && name != a.main && path.Dir(path.Dir(name)) == dir {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// other adapts another agent. It returns no flow for a disabled one, and the first error of a wrong one.
func (a *adaptation) other(file string) (*agent, *plan.Flow, *source.Diagnostic) {
	doc, diags := source.Parse(file, []byte(a.files[file]))
	if doc == nil {
		return nil, nil, &diags[0]
	}
	o := *a
	o.Reader, o.main, o.parsed = source.NewReader(), file, map[string]*source.Value{}
	if _, off := o.beside(fileDisabled); off {
		return nil, nil, nil
	}
	if doc.Root.Kind != source.Object {
		return nil, nil, &source.Diagnostic{File: file, Text: "the document is " + doc.Root.Kind.String() + ", want an object"}
	}
	g := o.agent(doc.Root)
	o.unsupported(g)
	for i := range o.Diags {
		if o.Diags[i].Severity == source.Error {
			return nil, nil, &o.Diags[i]
		}
	}
	return g, o.plan(g), nil
}
