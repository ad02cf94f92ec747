package blueprint

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

type hook struct {
	event, agent string
	block        bool
	seconds      int
	// flow is the flow of its agent, or nil.
	flow *plan.Flow
}

// The events of hooks.
const (
	onRunStart  = "on_run_start"
	onRunFinish = "on_run_finish"
)

// maxHookSeconds is the maximum timeout of a hook: one day.
const maxHookSeconds = 86_400

func (g *agent) readHooks() {
	v := g.Expect("hooks", source.Object)
	if v == nil {
		return
	}
	all := g.a.object(v, "hooks of "+g.Name)
	all.RejectUnknown(CodeHook, hooksShape.Names()...)
	for _, event := range []string{onRunStart, onRunFinish} {
		if h := all.Expect(event, source.Object); h != nil && g.a.hookName != "" {
			g.a.Warnf(h.Pos, CodeNoEffect, "remove it", "%s has a hook %s but runs as %s; hooks of hooks do not run", g.Name, event, g.a.hookName)
		} else if h != nil {
			g.hooks = append(g.hooks, g.hook(event, h))
		}
	}
}

func (g *agent) hook(event string, v *source.Value) hook {
	o := g.a.object(v, event+" of "+g.Name)
	o.RejectUnknown(CodeHook, hookShape.Names()...)
	onError := o.Text("on_error")
	h := hook{event: event, agent: o.Required("agent_name"), block: onError == "block", seconds: 300}
	if kind := o.Text("type"); kind != "agent" && kind != "" {
		o.a.Errorf(o.Pos("type"), CodeHook, `use "agent"`, "the type of %s is %s", o.Name, source.Quote(kind))
	}
	if onError != "" && onError != "block" && onError != "continue" {
		o.a.Errorf(o.Pos("on_error"), CodeHook, `use "block" or "continue"`, "on_error of %s is %s", o.Name, source.Quote(onError))
	}
	if t := o.Value.Get("timeout_seconds"); t != nil && t.Kind != source.Null {
		n, ok := t.Int()
		if !ok || n < 1 || n > maxHookSeconds {
			o.a.Errorf(t.Pos, CodeHook, "use a whole number of seconds from 1 to 86400", "timeout_seconds of %s is %s", o.Name, t.Describe())
		}
		h.seconds = n
	}
	if h.agent != "" && g.a.hookName == "" {
		h.flow = o.hookFlow(&h)
	}
	return h
}

// hookFlow returns the flow of a hook's agent, or nil. A missing agent is an error only if the hook blocks.
func (o *object) hookFlow(h *hook) *plan.Flow {
	file, ok := "", false
	if plainName.MatchString(h.agent) {
		file, ok = o.a.registryFile(dirAgents, h.agent, fileAgent)
	}
	switch {
	case !ok && path.Base(path.Dir(o.file())) == h.agent:
		o.a.Errorf(o.Pos("agent_name"), CodeHook, "name another agent", "%s refers to its own agent", o.Name)
		return nil
	case !ok && h.block && h.event == onRunStart:
		o.a.Errorf(o.Pos("agent_name"), CodeHook, "use the name of a folder in agents/", "%s refers to the agent %s, which is not found; no run can start without it", o.Name, source.Quote(h.agent))
		return nil
	case !ok:
		o.a.Warnf(o.Pos("agent_name"), CodeHook, "use the name of a folder in agents/", "%s refers to the agent %s, which is not found; the hook is ignored", o.Name, source.Quote(h.agent))
		return nil
	}
	root := o.a.parse(file)
	if root == nil {
		return nil
	}
	other := *o.a
	other.main, other.hookName = file, o.Name
	if root.Kind != source.Object {
		other.object(root, "the agent "+source.Quote(h.agent))
		return nil
	}
	g := other.agent(root)
	other.warnUnsupported(g)
	f := other.plan(g)
	f.ID = h.event
	markStarter(g, f)
	return f
}

func (g *agent) addHooks(f *plan.Flow) {
	for _, h := range g.hooks {
		if h.flow == nil {
			continue
		}
		f.Hooks = cmp.Or(f.Hooks, &plan.Hooks{})
		f.Agents = append(f.Agents, *h.flow)
		hook := &plan.Hook{Flow: h.flow.ID, Block: h.block, Seconds: h.seconds}
		if h.event == onRunStart {
			f.Hooks.Before = hook
		} else {
			f.Hooks.After = hook
		}
	}
}

// tagsHeader is the config of the orchestrator's server that restricts the list of agents to those with all of its tags.
const tagsHeader = "X-Agent-Tags"

// callbackHeader is the config that determines when started sessions call back. It is an extension of the framework.
const callbackHeader = "X-Agent-Callback"

// Values of callbackHeader: when the requested turn ends, as in the framework, or when the
// session expects no more callbacks of its own.
const (
	callbackTurn    = "turn"
	callbackSettled = "settled"
)

func (g *agent) checkCallback(s *server) {
	for _, h := range s.headers {
		if strings.EqualFold(h.name, callbackHeader) && h.value != callbackTurn && h.value != callbackSettled {
			g.a.Errorf(h.at, CodeServerConfig, "use "+callbackTurn+" or "+callbackSettled, "the config %s is %s, expected %s or %s",
				source.Quote(h.name), source.Quote(h.value), callbackTurn, callbackSettled)
		}
	}
}

// markStarter stores the tags of the agents that an agent may start in Starts, until all agents are known.
func markStarter(g *agent, f *plan.Flow) {
	if s := g.orchestrator(); s != nil && f.Nodes[0].Agent != nil {
		f.Nodes[0].Agent.Starts = []plan.Startable{{Tags: []string{s.headerValue(tagsHeader)}}}
		f.Nodes[0].Agent.CallbackWhenSettled = s.headerValue(callbackHeader) == callbackSettled
	}
}

// starters returns the agents of a flow and its sub-agents that start others.
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

// setStartable sets the agents that the flow's starters can start, and adds their flows.
func (a *adaptation) setStartable(g *agent, f *plan.Flow) {
	markStarter(g, f)
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
		read := func() { other, flow, first = a.compileOther(file) }
		if a.collector == nil {
			read()
		} else if !a.collector.tryRead(file, read) {
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
		markStarter(other, flow)
		addAgent(f, flow)
	}
	slices.SortFunc(all, func(x, y plan.Startable) int { return strings.Compare(x.Agent, y.Agent) })
	for _, n := range starters(f) {
		n.Starts = visible(all, n.Starts[0].Tags[0])
	}
}

// addAgent adds a flow and the flows of its hooks, whose ids are prefixed with the flow's id, to the agents of f.
func addAgent(f, flow *plan.Flow) {
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

// visible returns the agents, with those hidden that lack one of the comma-separated tags.
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

// orchestrator returns the agent's entry of the framework's own server, or nil.
func (g *agent) orchestrator() *server {
	if i := slices.IndexFunc(g.servers, func(s server) bool { return s.orchestrator && !s.invalid }); i >= 0 {
		return &g.servers[i]
	}
	return nil
}

func (s *server) headerValue(name string) string {
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

// otherAgents returns the sorted file names of all other agents in the registries.
func (a *adaptation) otherAgents() []string {
	var out []string
	for _, root := range roots(path.Dir(a.main)) {
		dir := path.Join(root, dirAgents)
		if a.collector != nil {
			list, _ := fs.ReadDir(a.collector.fsys, dir) // empty if the folder does not exist
			for _, e := range list {
				file := path.Join(dir, e.Name(), fileAgent)
				if plainName.MatchString(e.Name()) && (e.IsDir() || e.Type()&fs.ModeSymlink != 0) {
					a.collector.tryRead(file, func() { a.exists(file) })
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

// compileOther compiles another agent. It returns no flow if the agent is disabled, and the first error if it is invalid.
func (a *adaptation) compileOther(file string) (*agent, *plan.Flow, *source.Diagnostic) {
	doc, diags := source.Parse(file, []byte(a.files[file]))
	if doc == nil {
		return nil, nil, &diags[0]
	}
	o := *a
	o.Reader, o.main, o.parsed = source.NewReader(), file, map[string]*source.Value{}
	if _, off := o.agentFile(fileDisabled); off {
		return nil, nil, nil
	}
	if doc.Root.Kind != source.Object {
		return nil, nil, &source.Diagnostic{File: file, Text: "the document is " + doc.Root.Kind.String() + ", expected an object"}
	}
	g := o.agent(doc.Root)
	o.warnUnsupported(g)
	for i := range o.Diags {
		if o.Diags[i].Severity == source.Error {
			return nil, nil, &o.Diags[i]
		}
	}
	return g, o.plan(g), nil
}
