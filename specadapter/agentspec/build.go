package agentspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// builder makes the plan of a component. Subflows of FlowNodes become part of the flow that has
// them; those that run several times, in parallel or under a guard, become flows of their
// own, which nodes of kind call run.
type builder struct {
	file string
	source.Reporter
	host      source.Host
	positions []plan.Position
	looked    map[*model.Component]bool

	// shared is what all flows of the document use.
	agents      []plan.Flow
	agentIDs    map[*model.Component]string
	connections []plan.Connection
	connected   map[*model.Component]string
	ids         map[string]bool
	// nodes counts those of all flows; full reports whether there are too many.
	nodes int
	full  bool

	// flow is the one that is being made; taken are its nodes' ids, at is the prefix of its
	// positions, outer are the inputs of its nodes that only the run's can feed.
	flow  *plan.Flow
	taken map[string]bool
	at    string
	outer []*model.Property
	// outers are those of the flows that are made.
	outers map[string][]*model.Property
	// keeps reports whether the flow that is being made works on collections of the run, and keepers those that were made.
	keeps   bool
	keepers map[string]bool
}

func (b *builder) root(c *model.Component) *plan.Flow {
	b.begin(c, c.ID, "")
	b.flow.Inputs = &plan.Inputs{Mode: plan.InputsNamed, Style: plan.StyleDocumented, Schema: objectOf(c.Inputs)}
	if c.Type.Acts() == "Flow" {
		b.rootFlow(c)
		b.flow.Inputs.Schema = objectOf(model.Merge(c.Inputs, b.outer))
	} else {
		b.rootAgent(c)
	}
	b.flow.Agents, b.flow.Connections = b.agents, b.connections
	return b.flow
}

// maxNodeRuns bounds how many nodes a flow runs, where the language has no bound.
const maxNodeRuns = 1000

func (b *builder) begin(c *model.Component, id, at string) {
	b.flow = &plan.Flow{Version: plan.Version, ID: id, Name: cmp.Or(c.Name, id), Dialect: Name, Description: c.Description,
		Values: &plan.Values{Read: "literal", Named: true}, NoRoute: &plan.NoRoute{}, Nodes: []plan.Node{}, Edges: []plan.Edge{}, Limits: plan.Limits{MaxSteps: maxNodeRuns}}
	b.taken, b.at = map[string]bool{plan.Start: true, plan.End: true}, at
}

// called gives the id of a subflow that runs by itself, which is made once.
func (b *builder) called(c *model.Component) string {
	if id, ok := b.agentIDs[c]; ok {
		return id
	}
	id := unique(b.ids, model.SafeID(cmp.Or(c.Name, c.ID)))
	b.agentIDs[c] = id
	flow, taken, at, outer, keeps := b.flow, b.taken, b.at, b.outer, b.keeps
	b.begin(c, id, plan.AgentPath(id))
	b.outer, b.keeps = nil, false
	b.rootFlow(c)
	b.agents = append(b.agents, *b.flow)
	b.outers[id], b.keepers[id] = b.outer, b.keeps
	b.flow, b.taken, b.at, b.outer, b.keeps = flow, taken, at, outer, keeps
	return id
}

// through lets the flows that a node calls have those of the run's inputs that only a run can give.
func (b *builder) through(n *plan.Node) {
	for _, id := range n.Call.Flows {
		for _, p := range b.outers[id] {
			if !slices.ContainsFunc(n.Ports.In, func(in plan.In) bool { return in.Name == p.Title }) {
				n.Ports.In = append(n.Ports.In, plan.In{Name: p.Title, Key: plan.InKey(p.Title), Type: schemaOf(p.Type)})
				b.outer = append(b.outer, p)
			}
		}
	}
	if slices.ContainsFunc(n.Call.Flows, func(id string) bool { return b.keepers[id] }) {
		b.keep(n)
	}
}

// rootFlow makes nodes of a flow that begins with the run's inputs and ends with its outputs.
func (b *builder) rootFlow(c *model.Component) {
	s := &layer{b: b, flow: c, start: plan.InKey, defaults: c.Input, outs: outputs(c.Outputs)}
	entry, ends := s.build()
	if b.full {
		return
	}
	b.edge(plan.Edge{From: plan.Start, To: entry}, c.At)
	for _, e := range ends {
		n := b.flow.Node(e.id)
		n.Exit = true
		if b.keeps && b.at != "" {
			n.Ports.In = append(n.Ports.In, changesIn)
			n.Ports.Out = append(n.Ports.Out, plan.Out{Name: plan.ChangesPort})
		}
		b.edge(plan.Edge{From: e.id, To: plan.End}, e.at)
	}
}

// rootAgent makes a flow of one agent. With a person in the loop it is a conversation, which
// ends with the agent's outputs; without outputs it goes on until the run is cancelled.
func (b *builder) rootAgent(c *model.Component) {
	n := plan.Node{ID: b.id("", c), Name: cmp.Or(c.Name, c.ID), Kind: plan.KindAgent, Exit: true, Ports: &plan.Ports{}}
	for _, p := range c.Inputs {
		n.Ports.In = append(n.Ports.In, input(p, plan.InKey(p.Title)))
	}
	n.Ports.Out = outputs(c.Outputs)
	if isTeam(c) {
		inputs := model.Merge(append([][]*model.Property{c.Inputs}, b.team(c, &n, c.Outputs, true))...)
		b.flow.Inputs.Schema = objectOf(inputs)
	} else {
		n.Agent = b.agent(c, n.ID, true)
	}
	b.add(n, c.At)
	b.edge(plan.Edge{From: plan.Start, To: n.ID}, c.At)
	b.edge(plan.Edge{From: n.ID, To: plan.End}, c.At)
}

// room counts a node, or an agent of a team, and reports whether the plan may have it.
func (b *builder) room(at source.Pos) bool {
	if b.nodes++; b.nodes > plan.MaxNodes/2 {
		if !b.full {
			b.Errorf(at, CodeTooManyNodes, "nest fewer subflows", "the flow, subflows included, has more than %d nodes", plan.MaxNodes/2)
		}
		b.full = true
	}
	return !b.full
}

func (b *builder) add(n plan.Node, at source.Pos) {
	if !b.room(at) {
		return
	}
	b.flow.Nodes = append(b.flow.Nodes, n)
	b.place(plan.NodePath(n.ID), at)
}

func (b *builder) edge(e plan.Edge, at source.Pos) {
	e.ID = fmt.Sprint(len(b.flow.Edges) + 1)
	b.place(plan.EdgePath(len(b.flow.Edges)), at)
	b.flow.Edges = append(b.flow.Edges, e)
}

// place notes where a part was written. Parts from other files have no position.
func (b *builder) place(path string, at source.Pos) {
	if at.File == b.file {
		b.positions = append(b.positions, plan.Position{Path: b.at + path, Line: at.Line, Col: at.Col})
	}
}

// id is a node's id: the author's name, behind that of the FlowNode that has it.
func (b *builder) id(path string, c *model.Component) string {
	return unique(b.taken, path+model.SafeID(cmp.Or(c.Name, c.ID, c.Type.Name)))
}

// unique is a name that is not taken, and takes it.
func unique(taken map[string]bool, name string) string {
	for n, base := 2, name; taken[name]; n++ {
		name = fmt.Sprintf("%s~%d", base, n)
	}
	taken[name] = true
	return name
}

func input(p *model.Property, key string) plan.In {
	return plan.In{Name: p.Title, Key: key, Type: schemaOf(p.Type), Default: jsonOf(p.Default)}
}

func output(p *model.Property) plan.Out {
	return plan.Out{Name: p.Title, Type: schemaOf(p.Type), Default: jsonOf(p.Default)}
}

func outputs(list []*model.Property) []plan.Out { return source.Map(list, output) }

func jsonOf(v *source.Value) json.RawMessage {
	if v == nil {
		return nil
	}
	return v.JSON()
}

// schemaOf returns a type as a JSON Schema, nil for any type.
func schemaOf(s *model.Shape) json.RawMessage {
	if s == nil || s.Kind == model.AnyShape && s.Enum == nil {
		return nil
	}
	return json.RawMessage(shapeJSON(s))
}

func shapeJSON(s *model.Shape) string {
	if s.Enum != nil {
		plain := *s
		plain.Enum = nil
		return `{"anyOf":[` + shapeJSON(&plain) + `],"enum":[` + joined(s.Enum, func(v *source.Value) string { return string(v.JSON()) }) + `]}`
	}
	switch s.Kind {
	case model.AnyShape:
		return "{}"
	case model.ArrayShape:
		return `{"type":"array","items":` + shapeJSON(s.Items) + `}`
	case model.UnionShape:
		return `{"anyOf":[` + joined(s.Members, shapeJSON) + `]}`
	case model.ObjectShape:
		more := "false"
		if s.More != nil {
			more = shapeJSON(s.More)
		}
		props := joined(s.Props, func(p model.Prop) string { return quoted(p.Name) + ":" + shapeJSON(p.Type) })
		return `{"type":"object","properties":{` + props + `},"additionalProperties":` + more + `}`
	}
	return `{"type":"` + s.Kind.String() + `"}`
}

// joined writes the elements of an array or object.
func joined[T any](list []T, write func(T) string) string {
	return strings.Join(source.Map(list, write), ",")
}

func quoted(text string) string { return string(value.AppendString(nil, text)) }

// objectOf returns the schema of an object whose members are properties; those without a default are required.
func objectOf(list []*model.Property) json.RawMessage {
	props := joined(list, func(p *model.Property) string {
		if p.Schema != nil {
			return quoted(p.Title) + ":" + string(p.Schema.JSON())
		}
		return quoted(p.Title) + ":" + shapeJSON(cmp.Or(p.Type, model.AnyType))
	})
	required := slices.DeleteFunc(slices.Clone(list), func(p *model.Property) bool { return p.Default != nil })
	return json.RawMessage(`{"type":"object","properties":{` + props + `},"required":[` +
		joined(required, func(p *model.Property) string { return quoted(p.Title) }) + `],"additionalProperties":false}`)
}

// layer is the work on one flow, or on a subflow in its place in another.
type layer struct {
	b    *builder
	flow *model.Component
	// path is what the ids of its nodes begin with: the FlowNode, and /.
	path string
	// start is the state key from which the start node takes an input, and defaults replace missing ones.
	start    func(title string) string
	defaults func(title string) *model.Property
	// outs are what its end nodes leave.
	outs []plan.Out

	number map[*model.Component]int
	// reads are the keys of inputs, writes those to which an output goes.
	reads  map[port]string
	writes map[port][]string
	ids    map[*model.Component]string
	ways   map[*model.Component]*way
}

type port struct {
	node  *model.Component
	title string
}

type way struct {
	entry string
	exits []exit
}

// exit is a node of the plan by which control leaves; label reports whether it has several branches.
type exit struct {
	id, branch string
	label      bool
	at         source.Pos
}

// build makes the nodes, and returns where the flow begins and ends.
func (s *layer) build() (entry string, ends []exit) {
	s.number, s.ids, s.ways = map[*model.Component]int{}, map[*model.Component]string{}, map[*model.Component]*way{}
	for i, n := range s.flow.Flow.Nodes {
		s.number[n] = i
		s.ids[n] = s.b.id(s.path, n)
	}
	s.connect()
	for _, n := range s.flow.Flow.Nodes {
		if s.b.full {
			return "", nil
		}
		s.ways[n] = s.node(n)
		if n.Type.ActsAs("EndNode") {
			ends = append(ends, s.ways[n].exits...)
		}
	}
	for _, e := range s.flow.Flow.Control {
		for _, x := range s.ways[e.From].exits {
			if x.branch != e.Branch {
				continue
			}
			edge := plan.Edge{From: x.id, To: s.ways[e.To].entry}
			if x.label {
				edge.Branch = e.Branch
			}
			s.b.edge(edge, e.At)
		}
	}
	return s.ways[s.flow.Flow.Start].entry, ends
}

// connect assigns state keys: one to each output, or one to an input that several outputs feed.
func (s *layer) connect() {
	titles, edges := map[string][]port{}, map[port][]port{}
	for _, n := range s.flow.Flow.Nodes {
		for _, p := range n.Outputs {
			if !n.Type.ActsAs("EndNode") {
				titles[p.Title] = append(titles[p.Title], port{n, p.Title})
			}
		}
	}
	for _, e := range s.flow.Flow.Data {
		if to := (port{e.To, e.Input}); !e.From.Type.ActsAs("EndNode") {
			edges[to] = append(edges[to], port{e.From, e.Output})
		}
	}
	s.reads, s.writes = map[port]string{}, map[port][]string{}
	known := map[string]string{}
	for _, n := range s.flow.Flow.Nodes {
		if n.Type.ActsAs("StartNode") {
			continue
		}
		for _, p := range n.Inputs {
			to := port{n, p.Title}
			from := edges[to]
			if s.flow.Flow.Public {
				from = titles[p.Title]
			}
			if len(from) > 0 {
				s.reads[to] = s.key(to, from, known)
			}
		}
	}
}

// key is the state key of an input that has these sources.
func (s *layer) key(to port, from []port, known map[string]string) string {
	var name strings.Builder
	for _, p := range from {
		name.WriteString(strconv.Itoa(s.number[p.node]) + "." + strconv.Quote(p.title) + " ")
	}
	if k, ok := known[name.String()]; ok {
		return k
	}
	k := "$" + s.ids[from[0].node] + "." + from[0].title
	if len(from) > 1 {
		k = "$" + s.ids[to.node] + ".@." + to.title
	}
	known[name.String()] = k
	for _, p := range from {
		s.writes[p] = append(s.writes[p], k)
	}
	return k
}

func (s *layer) ins(n *model.Component) []plan.In {
	var out []plan.In
	for _, p := range n.Inputs {
		if p.Unused {
			continue
		}
		in := input(p, s.reads[port{n, p.Title}])
		in.Name = n.InnerName(catalog.InputMapping, p.Title)
		if inner := n.InnerInput(p.Title); in.Default == nil && inner != nil {
			in.Default = jsonOf(inner.Default)
		}
		if in.Key == "" && in.Default == nil && !n.Type.ActsAs("EndNode") && !s.flow.Flow.Gives(p.Title) {
			in.Key = plan.InKey(p.Title)
			s.b.outer = append(s.b.outer, p)
		}
		out = append(out, in)
	}
	return out
}

func (s *layer) leaves(n *model.Component) []plan.Out {
	var out []plan.Out
	for _, p := range n.Outputs {
		o := output(p)
		o.Name = n.InnerName(catalog.OutputMapping, p.Title)
		o.Keys = s.writes[port{n, p.Title}]
		if inner := n.InnerOutput(p.Title); o.Default == nil && inner != nil {
			o.Default = jsonOf(inner.Default)
		}
		out = append(out, o)
	}
	return out
}
