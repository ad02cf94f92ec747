package continuum

import (
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

const (
	defaultMaxCalls  = 10
	defaultMaxErrors = 3
)

// graph is one graph while it is read. Nodes are numbered in order, then start and end.
type graph struct {
	*adaptation
	object *source.Fields
	format responseFormat
	flow   plan.Flow
	// index numbers the nodes; places are where they begin.
	index  map[string]int
	places []source.Pos
	// edgePlaces are where the flow's edges begin; links are those between known nodes.
	edgePlaces []source.Pos
	links      []link
	positions  []plan.Position
	nodeList   string
}

type link struct {
	from, to, edge int
	conditional    bool
}

func (g *graph) start() int { return len(g.flow.Nodes) }
func (g *graph) end() int   { return len(g.flow.Nodes) + 1 }

func (a *adaptation) graph(f graphFile) (*plan.Flow, []plan.Position) {
	g := &graph{adaptation: a, object: f.Fields, index: map[string]int{}}
	g.flow = plan.Flow{Version: plan.Version, ID: f.id, Dialect: Name, Nodes: []plan.Node{}, Edges: []plan.Edge{}}
	g.head()
	nodes, edges := g.object.List("nodes"), g.object.List("edges")
	if g.fits(len(nodes), len(edges)) {
		for i, v := range nodes {
			g.node(i, v)
		}
		names := g.suggester()
		seen := map[string]source.Pos{}
		for i, v := range edges {
			g.edge(i, v, names, seen)
		}
		g.outputs()
		g.check(len(nodes), len(edges))
	}
	return &g.flow, g.positions
}

func (g *graph) head() {
	o := g.object
	g.lintUUID(o)
	name, bad := o.Text("name"), !o.Is("name", source.String)
	if !bad && strings.TrimSpace(name) == "" {
		name = g.flowName(g.flow.ID)
		g.Strictf(o.Pos("name"), CodeMissing, "set \"name\"", "%s has no name; using %s", o.Name, source.Quote(name))
	}
	g.flow.Name = name
	g.flow.Description = o.Text("description")
	o.Text("generation_prompt")
	g.expected(o, "generation_prompt", "it has no effect on a run; set it to the prompt that generated the graph")
	g.expected(o, "response_format", `answers are Markdown; use {"type": 1, "payload": null}`)
	g.format = g.responseFormat()
	o.Text("execution_plan")
	g.expected(o, "execution_plan", "it has no effect on a run; draw the graph in Mermaid")
}

// fits refuses a graph without nodes, or with more than a plan holds.
func (g *graph) fits(nodes, edges int) bool {
	if v := g.object.Get("nodes"); nodes == 0 && (v == nil || v.Kind == source.Array) {
		g.Errorf(g.object.Pos("nodes"), CodeNoNodes, "add at least one node", "%s has no nodes", g.object.Name)
	}
	if nodes > plan.MaxNodes || edges > plan.MaxEdges {
		g.Errorf(g.object.Pos("nodes"), CodeTooManyElements, "split the flow, for example into sub-agents",
			"%s has %d nodes and %d edges; the limits are %d and %d", g.object.Name, nodes, edges, plan.MaxNodes, plan.MaxEdges)
		return false
	}
	return true
}

func (g *graph) place(path string, at source.Pos) {
	g.positions = append(g.positions, plan.Position{Path: path, Line: at.Line, Col: at.Col})
}

// suggester knows all names that an edge can use.
func (g *graph) suggester() *source.Suggester {
	names := []string{plan.Start, plan.End}
	for i := range g.flow.Nodes {
		names = append(names, g.flow.Nodes[i].ID)
	}
	g.nodeList = source.Listed(names[2:], source.ListedNames)
	return source.NewSuggester(names)
}
