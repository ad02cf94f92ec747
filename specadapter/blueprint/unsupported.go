package blueprint

import "weft/specadapter/source"

// unsupported reports what runs cannot do yet: an error where the agent would be another one
// without it, a warning where its result stays the same.
func (a *adaptation) unsupported(g *agent) {
	for _, s := range g.servers {
		if s.orchestrator && !s.refused {
			a.errorf(s.file, s.at, CodeNotYet, "leave the server out", "%s starts other agents through %s, which no run can do yet", g.what, source.Quote(s.name))
		}
	}
	for _, s := range g.scripts {
		a.warnf(s.in, s.at, CodeNoEffect, "give the agent a tool that runs it", "the script %s is described to the model, but nothing runs it yet", source.Quote(s.name))
	}
	if g.demands != nil && len(g.demands.Members) > 0 {
		g.warnf(g.demands.Pos, CodeNoEffect, "start the run on a task queue of such workers", "%s has demands; any worker takes its runs", g.what)
	}
}
