package blueprint

import (
	"path"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// hook is an agent that is run before or after a run.
type hook struct {
	event, agent, onError string
	seconds               int
	at                    source.Pos
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

// readHooks reads the agent's hooks.
func (g *agent) readHooks() {
	v := g.get("hooks", source.Object)
	if v == nil {
		return
	}
	all := g.a.object(g.file, v, "hooks of "+g.what)
	all.closed(onRunStart, onRunFinish)
	for _, event := range []string{onRunStart, onRunFinish} {
		if h := all.get(event, source.Object); h != nil && g.a.hooking != "" {
			g.warnf(h.Pos, CodeNoEffect, "leave it out", "%s has a hook %s, but runs as %s; hooks of hooks are not called", g.what, event, g.a.hooking)
		} else if h != nil {
			g.hooks = append(g.hooks, g.hook(event, h))
		}
	}
}

func (g *agent) hook(event string, v *source.Value) hook {
	o := g.a.object(g.file, v, event+" of "+g.what)
	o.closed("type", "agent_name", "on_error", "timeout_seconds")
	h := hook{event: event, agent: o.required("agent_name"), onError: o.text("on_error"), seconds: 300, at: v.Pos}
	if kind := o.text("type"); kind != "agent" && kind != "" {
		o.errorf(o.pos("type"), CodeHook, `write "agent"`, "the type of %s is %s", o.what, source.Quote(kind))
	}
	switch h.onError {
	case "":
		h.onError = "continue"
	case "block", "continue":
	default:
		o.errorf(o.pos("on_error"), CodeHook, `write "block" or "continue"`, "on_error of %s is %s", o.what, source.Quote(h.onError))
	}
	if t := o.value.Get("timeout_seconds"); t != nil && t.Kind != source.Null {
		n, ok := t.Int()
		if !ok || n < 1 || n > maxHookSeconds {
			o.errorf(t.Pos, CodeHook, "write a whole number of seconds from 1 to 86400", "timeout_seconds of %s is %s", o.what, t.Describe())
		}
		h.seconds = n
	}
	if h.agent != "" && g.a.hooking == "" {
		h.flow = o.hookFlow(&h)
	}
	return h
}

// hookFlow makes the flow of a hook's agent, under the hook's own id, or returns nil after a
// report. An agent that is not there is an error where the hook must not fail.
func (o *object) hookFlow(h *hook) *plan.Flow {
	file, ok := "", false
	if plainName.MatchString(h.agent) {
		file, ok = o.a.registered(dirAgents, h.agent, fileAgent)
	}
	switch {
	case !ok && path.Base(path.Dir(o.file)) == h.agent:
		o.errorf(o.pos("agent_name"), CodeHook, "name another agent", "%s names the agent that has it", o.what)
		return nil
	case !ok && h.onError == "block" && h.event == onRunStart:
		o.errorf(o.pos("agent_name"), CodeHook, "write the name of a folder in agents/", "%s names the agent %s, which is not there, and no run may start without it", o.what, source.Quote(h.agent))
		return nil
	case !ok:
		o.warnf(o.pos("agent_name"), CodeHook, "write the name of a folder in agents/", "%s names the agent %s, which is not there; the hook is left out", o.what, source.Quote(h.agent))
		return nil
	}
	root := o.a.parse(file)
	if root == nil {
		return nil
	}
	other := *o.a
	other.main, other.diags, other.errors, other.hooking = file, nil, 0, o.what
	var f *plan.Flow
	if root.Kind == source.Object {
		g := other.agent(root)
		other.unsupported(g)
		f = other.plan(g)
		f.ID = h.event
		mark(g, f)
	} else {
		other.object(file, root, "the agent "+source.Quote(h.agent))
	}
	o.a.diags = append(o.a.diags, other.diags...)
	o.a.errors += other.errors
	return f
}

// hooksOf are the plan's.
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
		hook := &plan.Hook{Flow: h.flow.ID, Block: h.onError == "block", Seconds: h.seconds}
		if h.event == onRunStart {
			f.Hooks.Before = hook
		} else {
			f.Hooks.After = hook
		}
	}
}

// closed reports members that are none of these: the framework refuses them in hooks.
func (o *object) closed(known ...string) {
	o.others(known, func(m source.Member) {
		o.errorf(m.KeyPos, CodeHook, "remove it", "%s has the field %s, which hooks may not have", o.what, source.Quote(m.Key))
	}, func(at source.Pos, more int) {
		o.errorf(at, CodeHook, "remove them", "%s has %d more fields that hooks may not have", o.what, more)
	})
}
