package continuum

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/specadapter/structured"
	"weft/workflows/plan"
)

const (
	defaultMaxCalls  = 10
	defaultMaxErrors = 3
)

// graph is the state of compiling one graph. Nodes are numbered in order, followed by start and end.
type graph struct {
	*adaptation
	object *source.Fields
	format responseFormat
	flow   plan.Flow
	// index maps node ids to numbers; nodePositions are the positions of the nodes.
	index         map[string]int
	nodePositions []source.Pos
	// edgePositions are the positions of the flow's edges; links are the edges between known nodes.
	edgePositions []source.Pos
	links         []link
	positions     []plan.Position
	nodeList      string
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
		names := []string{plan.Start, plan.End}
		for i := range g.flow.Nodes {
			names = append(names, g.flow.Nodes[i].ID)
		}
		g.nodeList = source.Listed(names[2:], source.ListedNames)
		known := source.NewSuggester(names)
		seen := map[string]source.Pos{}
		for i, v := range edges {
			g.edge(i, v, known, seen)
		}
		g.outputs()
		g.check(len(nodes), len(edges))
	}
	return &g.flow, g.positions
}

func (g *graph) head() {
	o := g.object
	g.lintUUID(o)
	name, invalid := o.Text("name"), !o.Is("name", source.String)
	if !invalid && strings.TrimSpace(name) == "" {
		name = g.flowName(g.flow.ID)
		g.Strictf(o.Pos("name"), CodeMissing, "set \"name\"", "%s has no name; using %s", o.Name, source.Quote(name))
	}
	g.flow.Name = name
	g.flow.Description = o.Text("description")
	o.Text("generation_prompt")
	g.requireField(o, "generation_prompt", "it has no effect on a run; set it to the prompt that generated the graph")
	g.requireField(o, "response_format", `answers are Markdown; use {"type": 1, "payload": null}`)
	g.format = g.responseFormat()
	o.Text("execution_plan")
	g.requireField(o, "execution_plan", "it has no effect on a run; draw the graph in Mermaid")
}

// fits reports whether a graph is within the limits of a plan. It also rejects one without nodes.
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

func (g *graph) addPosition(path string, at source.Pos) {
	g.positions = append(g.positions, plan.Position{Path: path, Line: at.Line, Col: at.Col})
}

func (g *graph) node(i int, v *source.Value) {
	o := g.adaptation.Fields(v, fmt.Sprintf("node %d", i+1), g.object.Path+"nodes[].").Check(&nodeShape)
	if !o.OK {
		return
	}
	id, usable := g.nodeID(o)
	if id != "" {
		o.Name = "node " + source.Quote(id)
	}
	n := plan.Node{ID: id, Kind: plan.KindAgent, Name: o.Required("name"), Exit: o.Flag("is_exit_node"), Deferred: o.Flag("defer")}
	agent := &plan.Agent{Prompt: o.Required("prompt"), MaxCalls: g.maxCalls(o), MaxErrors: defaultMaxErrors}
	tools := g.tools(o)
	agent.Tools, agent.Builtins = assignNames(tools, g.conns), builtins(tools)
	if n.Exit {
		g.lintExit(o, len(tools))
	}
	n.Agent = agent
	if !usable {
		return
	}
	g.index[id] = len(g.flow.Nodes)
	g.flow.Nodes = append(g.flow.Nodes, n)
	g.nodePositions = append(g.nodePositions, v.Pos)
	g.addPosition(plan.NodePath(id), v.Pos)
	for i := range tools {
		g.addPosition(plan.ToolPath(id, i), tools[i].at)
	}
}

// nodeID returns a node's id. usable reports whether edges can refer to it.
func (g *graph) nodeID(o *source.Fields) (id string, usable bool) {
	v, invalid := o.Expect("id", source.String), !o.Is("id", source.String)
	if v == nil {
		if !invalid {
			g.Errorf(o.Pos("id"), "V12", `set "id"`, "%s has no id", o.Name)
		}
		return "", false
	}
	switch id = v.Text; {
	case id == "":
		g.Errorf(v.Pos, "V1", "add an id", "the id of %s is empty", o.Name)
	case id == plan.Start || id == plan.End:
		g.Errorf(v.Pos, "V1", "use another id; edges use START and END for the flow's entry and exit", "%s has the id %s", o.Name, id)
	default:
		if first, double := g.index[id]; double {
			g.Errorf(v.Pos, "V1", "use a unique id", "duplicate node id %s, first used at line %d", source.Quote(id), g.nodePositions[first].Line)
			return id, false
		}
		g.lintUUID(o)
		return id, true
	}
	return id, false
}

func (g *graph) maxCalls(o *source.Fields) int {
	v := o.Get("max_iterations")
	if v == nil {
		return defaultMaxCalls
	}
	n, ok := v.Int()
	if !ok {
		g.Errorf(v.Pos, "V7", "use a whole number, or remove it for the default of 10", "max_iterations of %s is %s, expected a whole number from 1 to 2147483647",
			o.Name, v.Describe())
		return defaultMaxCalls
	}
	return n
}

// outputs sets the system messages, and the response format of the nodes that produce the result: the exit nodes or else
// those at which a branch ends. A node with only conditional edges and none to END is asked for it once no condition holds.
func (g *graph) outputs() {
	exits := slices.ContainsFunc(g.flow.Nodes, func(n plan.Node) bool { return n.Exit })
	ends, continues, always := make([]bool, g.end()), make([]bool, g.end()), make([]bool, g.end())
	for _, l := range g.links {
		ends[l.from] = ends[l.from] || l.to == g.end()
		continues[l.from] = continues[l.from] || l.to != g.end()
		always[l.from] = always[l.from] || !l.conditional
	}
	for i := range g.flow.Nodes {
		n := &g.flow.Nodes[i]
		n.Agent.System = fmt.Sprintf("You are the step %q of the flow %q. What earlier steps of this run gave is in the conversation, under their names. "+
			"Steps share values through the state: set_state writes a value, get_state reads values by their keys, list_state_keys lists the keys.\n\n%s",
			n.Name, g.flow.Name, n.Agent.Prompt)
		switch {
		case !g.format.json:
		case n.Exit || !exits && (ends[i] || !continues[i]):
			n.Agent.System = g.format.ask(n.Agent.System)
			n.Agent.Output = &plan.Output{Schema: g.format.schema, Repairs: 1}
		case !exits && !always[i]:
			n.Agent.Output = &plan.Output{Schema: g.format.schema, Repairs: 1,
				IfLast: g.format.ask("No step follows this one, so your answer is the result of the flow. Give it again in the format of the result.")}
		}
	}
}

// lintExit checks an exit node's tools against the response format.
func (g *graph) lintExit(o *source.Fields, tools int) {
	if !g.format.json && tools > 0 {
		g.Infof(o.Value.Pos, CodeExitTools, "move the tools to an earlier node if this node should only summarize",
			"%s is an exit node with Markdown output and has tools", o.Name)
	}
	if g.format.json && len(g.format.schema) == 0 && tools == 0 {
		g.Warnf(o.Value.Pos, "L9", `set "output_schema", or bind a tool that produces the output`,
			"%s must answer in JSON but has neither a schema nor a tool", o.Name)
	}
}

// edge compiles an AgentEdge. seen maps the ids of previous edges to positions.
func (g *graph) edge(i int, v *source.Value, names *source.Suggester, seen map[string]source.Pos) {
	o := g.adaptation.Fields(v, fmt.Sprintf("edge %d", i+1), g.object.Path+"edges[].").Check(&edgeShape)
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
	g.addPosition(plan.EdgePath(len(g.flow.Edges)), v.Pos)
	if from >= 0 && to >= 0 {
		g.links = append(g.links, link{from: from, to: to, edge: len(g.flow.Edges), conditional: e.Question != ""})
	}
	g.flow.Edges = append(g.flow.Edges, e)
	g.edgePositions = append(g.edgePositions, v.Pos)
}

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

// endpoint returns the id and number of one end of an edge; the number is -1 if there is none. A misspelt
// id that resembles a known one is an error but stands for that node, so that one mistake does not cause
// several diagnostics.
func (g *graph) endpoint(o *source.Fields, key, special, opposite string, names *source.Suggester) (string, int) {
	id, invalid := o.Text(key), !o.Is(key, source.String)
	if invalid {
		return id, -1
	}
	switch id {
	case "":
		g.Errorf(o.Pos(key), "V2", fmt.Sprintf("use the id of a node, or %s", special), "%s has no %s", o.Name, key)
		return id, -1
	case special:
		return id, g.number(special)
	case opposite:
		g.Errorf(o.Pos(key), "V3", fmt.Sprintf("use the id of a node, or %s", special), "%s has %s as its %s", o.Name, opposite, key)
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
	if near == "" || near == opposite {
		return id, -1
	}
	return id, g.number(near)
}

// number returns the number of a node, of START or of END.
func (g *graph) number(id string) int {
	switch id {
	case plan.Start:
		return g.start()
	case plan.End:
		return g.end()
	}
	return g.index[id]
}

// responseFormat is the format of a graph's result; the zero value is Markdown.
type responseFormat struct {
	json   bool
	schema json.RawMessage
	rules  string
}

// ask appends the request for the format to a message.
func (f *responseFormat) ask(text string) string {
	if len(f.schema) > 0 {
		text = structured.Enrich(text, f.schema)
	} else {
		text = structured.EnrichAny(text)
	}
	return structured.Rules(text, f.rules)
}

// invalidFormat reports an invalid response_format (V8).
func (g *graph) invalidFormat(v *source.Value, help, field, expected string) {
	g.Errorf(v.Pos, "V8", help, "%s of %s is %s, expected %s", field, g.object.Name, v.Describe(), expected)
}

func (g *graph) responseFormat() responseFormat {
	const shape = `use {"type": 1, "payload": null} for Markdown or {"type": 2, "payload": {...}} for JSON`
	v := g.object.Get("response_format")
	if v == nil {
		return responseFormat{}
	}
	if v.Kind != source.Object {
		g.invalidFormat(v, shape, "response_format", "an object")
		return responseFormat{}
	}
	where := g.object.Path + "response_format."
	o := g.adaptation.Fields(v, "response_format", where).Check(&formatShape)
	payload := o.Get("payload")
	if payload != nil && payload.Kind != source.Object {
		g.invalidFormat(payload, shape, "payload", "an object or null")
		payload = nil
	}
	kind := o.Get("type")
	if kind == nil {
		g.Errorf(v.Pos, "V8", shape, "the response_format of %s has no type", g.object.Name)
		return responseFormat{}
	}
	switch n, _ := kind.Int(); n {
	case 1:
		if payload != nil && payload.Kind == source.Object {
			g.Warnf(payload.Pos, CodeUnusedPayload, "use null or type 2", "the payload has no effect with type 1")
		}
		return responseFormat{}
	case 2:
		return g.blueprint(payload, where+"payload.")
	}
	g.invalidFormat(kind, shape, "type", "1 (Markdown) or 2 (Blueprint)")
	return responseFormat{}
}

func (g *graph) blueprint(payload *source.Value, where string) responseFormat {
	f := responseFormat{json: true}
	if payload == nil {
		return f
	}
	o := g.adaptation.Fields(payload, "payload", where).Check(&payloadShape)
	switch v := o.Get("format"); {
	case v == nil:
		g.requireField(o, "format", `answers are JSON; set "format": "JSON"`)
	case v.Kind != source.String || !strings.EqualFold(strings.TrimSpace(v.Text), "json"):
		g.invalidFormat(v, `use "JSON", the only format`, "format", `"JSON"`)
	}
	if v := o.Get("rules"); v != nil && v.Kind == source.String {
		f.rules = v.Text
	} else if v != nil {
		g.invalidFormat(v, "use one string", "rules", "a string")
	}
	f.schema = g.outputSchema(o)
	return f
}

// outputSchema validates and returns output_schema; nil if it is absent or {}.
func (g *graph) outputSchema(o *source.Fields) json.RawMessage {
	v := o.Get("output_schema")
	if v == nil {
		return nil
	}
	if v.Kind != source.Object {
		g.invalidFormat(v, "use a JSON Schema", "output_schema", "an object")
		return v.JSON()
	}
	g.CheckSchema(v, "V8", "output_schema of "+g.object.Name)
	if len(v.Members) == 0 {
		return nil
	}
	return v.JSON()
}
