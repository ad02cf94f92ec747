package blueprint

import "weft/specadapter/source"

// unsupported reports what runs cannot do yet: an error where the agent would be another one
// without it, a warning where its result stays the same.
func (a *adaptation) unsupported(g *agent) {
	if g.kind == typeProcedural {
		g.errorf(g.pos("type"), CodeNotYet, "run autonomous agents", "%s runs a program, which no run can do yet", g.what)
		return
	}
	for _, s := range g.servers {
		switch {
		case s.refused, s.orchestrator:
		default:
			a.errorf(s.file, s.at, CodeNotYet, "leave the server out", "%s uses the MCP server %s; no run can offer all tools of a server yet", g.what, source.Quote(s.name))
		}
	}
	for _, h := range g.hooks {
		if h.event == onRunStart {
			g.errorf(h.at, CodeNotYet, "leave the hook out", "%s has a hook before runs, which is not called yet", g.what)
		} else {
			g.warnf(h.at, CodeNoEffect, "start the agent "+source.Quote(h.agent)+" yourself", "%s has a hook after runs, which is not called yet", g.what)
		}
	}
	for _, s := range g.scripts {
		a.warnf(s.in, s.at, CodeNoEffect, "give the agent a tool that runs it", "the script %s is described to the model, but nothing runs it yet", source.Quote(s.name))
	}
	if g.demands != nil && len(g.demands.Members) > 0 {
		g.warnf(g.demands.Pos, CodeNoEffect, "start the run on a task queue of such workers", "%s has demands; any worker takes its runs", g.what)
	}
}
