package blueprint

import "weft/specadapter/source"

// unsupported warns of what has no effect on a run.
func (a *adaptation) unsupported(g *agent) {
	for _, s := range g.scripts {
		a.Warnf(s.at, CodeNoEffect, "give the agent a tool that runs it", "the script %s is described to the model, but nothing runs it yet", source.Quote(s.name))
	}
	if g.demands != nil && len(g.demands.Members) > 0 {
		g.a.Warnf(g.demands.Pos, CodeNoEffect, "start the run on a task queue whose workers meet them", "the demands of %s are not checked; any worker may run it", g.Name)
	}
}
