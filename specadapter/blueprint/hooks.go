package blueprint

import (
	"weft/specadapter/source"
)

// hook is an agent that is run before or after a run.
type hook struct {
	event, agent, onError string
	seconds               int
	at                    source.Pos
}

// The events of hooks.
const (
	onRunStart  = "on_run_start"
	onRunFinish = "on_run_finish"
)

// readHooks reads the agent's hooks.
func (g *agent) readHooks() {
	v := g.get("hooks", source.Object)
	if v == nil {
		return
	}
	all := g.a.object(g.file, v, "hooks of "+g.what)
	all.closed(onRunStart, onRunFinish)
	for _, event := range []string{onRunStart, onRunFinish} {
		if h := all.get(event, source.Object); h != nil {
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
		if !ok {
			o.errorf(t.Pos, CodeHook, "write a whole number of seconds from 1 on", "timeout_seconds of %s is %s", o.what, t.Describe())
		}
		h.seconds = n
	}
	if _, ok := g.a.registered(dirAgents, h.agent, fileAgent); len(g.a.files) > 0 && h.agent != "" && !ok {
		o.warnf(o.pos("agent_name"), CodeHook, "write the name of a folder in agents/", "%s names the agent %s, which is not there", o.what, source.Quote(h.agent))
	}
	return h
}

// closed reports members that are none of these: the framework refuses them in hooks.
func (o *object) closed(known ...string) {
	o.others(known, func(m source.Member) {
		o.errorf(m.KeyPos, CodeHook, "remove it", "%s has the field %s, which hooks may not have", o.what, source.Quote(m.Key))
	}, func(at source.Pos, more int) {
		o.errorf(at, CodeHook, "remove them", "%s has %d more fields that hooks may not have", o.what, more)
	})
}
