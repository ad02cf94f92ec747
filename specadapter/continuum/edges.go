package continuum

import (
	"fmt"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// edge reads one AgentEdge. seen are the ids of the edges before it.
func (g *graph) edge(i int, v *source.Value, names *source.Suggester, seen map[string]source.Pos) {
	o := g.adaptation.Fields(v, fmt.Sprintf("edge %d", i+1), g.object.Path+"edges[].").Of(&edgeShape)
	if !o.OK {
		return
	}
	id := o.Required("id")
	if strings.TrimSpace(id) != "" {
		o.Name = "edge " + source.Quote(id)
		if first, double := seen[id]; double {
			g.Errorf(o.Pos("id"), "V13", "use a unique id", "duplicate edge id %s, first used at line %d", source.Quote(id), first.Line)
		} else {
			seen[id] = o.Pos("id")
			g.lintUUID(o)
		}
	}
	e := plan.Edge{ID: id, Question: g.question(o)}
	var from, to int
	e.From, from = g.endpoint(o, "source", plan.Start, plan.End, names)
	e.To, to = g.endpoint(o, "target", plan.End, plan.Start, names)
	g.place(plan.EdgePath(len(g.flow.Edges)), v.Pos)
	if from >= 0 && to >= 0 {
		g.links = append(g.links, link{from: from, to: to, edge: len(g.flow.Edges), conditional: e.Question != ""})
	}
	g.flow.Edges = append(g.flow.Edges, e)
	g.edgePlaces = append(g.edgePlaces, v.Pos)
}

// question reads condition_prompt; a blank one is none.
func (g *graph) question(o *source.Fields) string {
	s := o.Text("condition_prompt")
	if s != "" && strings.TrimSpace(s) != "" {
		return s
	}
	if v := o.Get("condition_prompt"); v != nil && v.Kind == source.String {
		g.Warnf(v.Pos, CodeBlankCondition, "use null or a yes/no question", "the condition_prompt of %s is blank; the edge is always taken", o.Name)
	}
	return ""
}

// endpoint reads one end of an edge and its number, -1 where there are none. A misspelt id
// that resembles a known one is an error and still counts as that node, so that one
// mistake does not look like several.
func (g *graph) endpoint(o *source.Fields, key, special, wrong string, names *source.Suggester) (string, int) {
	id, bad := o.Text(key), !o.Is(key, source.String)
	if bad {
		return id, -1
	}
	switch id {
	case "":
		g.Errorf(o.Pos(key), "V2", fmt.Sprintf("use the id of a node, or %s", special), "%s has no %s", o.Name, key)
		return id, -1
	case special:
		return id, g.number(special)
	case wrong:
		g.Errorf(o.Pos(key), "V3", fmt.Sprintf("use the id of a node, or %s", special), "%s has %s as its %s", o.Name, wrong, key)
		return id, -1
	}
	if n, ok := g.index[id]; ok {
		return id, n
	}
	near := names.Nearest(id)
	help := "nodes are: " + g.nodeList
	if near != "" {
		help = fmt.Sprintf("did you mean %q?", near)
	}
	g.Errorf(o.Pos(key), "V2", help, "unknown node %s as the %s of %s", source.Quote(id), key, o.Name)
	if near == "" || near == wrong {
		return id, -1
	}
	return id, g.number(near)
}

// number is a node's number, or that of START or END.
func (g *graph) number(id string) int {
	switch id {
	case plan.Start:
		return g.start()
	case plan.End:
		return g.end()
	}
	return g.index[id]
}
