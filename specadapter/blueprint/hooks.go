package blueprint

import (
	"path"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

type hook struct {
	event, agent string
	block        bool
	seconds      int
	// flow is that of its agent, or nil.
	flow *plan.Flow
}

// The events of hooks.
const (
	onRunStart  = "on_run_start"
	onRunFinish = "on_run_finish"
)

// maxHookSeconds is the longest that a hook may take: a day.
const maxHookSeconds = 86_400

func (g *agent) readHooks() {
	v := g.Want("hooks", source.Object)
	if v == nil {
		return
	}
	all := g.a.object(v, "hooks of "+g.Name)
	all.Closed(CodeHook, hooksShape.Names()...)
	for _, event := range []string{onRunStart, onRunFinish} {
		if h := all.Want(event, source.Object); h != nil && g.a.hooking != "" {
			g.a.Warnf(h.Pos, CodeNoEffect, "remove it", "%s has a hook %s but runs as %s; hooks of hooks do not run", g.Name, event, g.a.hooking)
		} else if h != nil {
			g.hooks = append(g.hooks, g.hook(event, h))
		}
	}
}

func (g *agent) hook(event string, v *source.Value) hook {
	o := g.a.object(v, event+" of "+g.Name)
	o.Closed(CodeHook, hookShape.Names()...)
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
	if h.agent != "" && g.a.hooking == "" {
		h.flow = o.hookFlow(&h)
	}
	return h
}

// hookFlow returns the flow of a hook's agent, or nil. A missing agent is an error where the hook blocks.
func (o *object) hookFlow(h *hook) *plan.Flow {
	file, ok := "", false
	if plainName.MatchString(h.agent) {
		file, ok = o.a.registered(dirAgents, h.agent, fileAgent)
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
	other.main, other.hooking = file, o.Name
	if root.Kind != source.Object {
		other.object(root, "the agent "+source.Quote(h.agent))
		return nil
	}
	g := other.agent(root)
	other.unsupported(g)
	f := other.plan(g)
	f.ID = h.event
	mark(g, f)
	return f
}

func (g *agent) hooksOf(f *plan.Flow) {
	for i := range g.hooks {
		h := &g.hooks[i]
		if h.flow == nil {
			continue
		}
		if f.Hooks == nil {
			f.Hooks = &plan.Hooks{}
		}
		f.Agents = append(f.Agents, *h.flow)
		hook := &plan.Hook{Flow: h.flow.ID, Block: h.block, Seconds: h.seconds}
		if h.event == onRunStart {
			f.Hooks.Before = hook
		} else {
			f.Hooks.After = hook
		}
	}
}
