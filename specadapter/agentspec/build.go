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

// builder compiles a component to a plan. Subflows of FlowNodes are inlined. Subflows that run
// several times, in parallel or with error handling become separate flows, which nodes of kind
// call run.
type builder struct {
	file string
	source.Reporter
	host      source.Host
	positions []plan.Position
	checked   map[*model.Component]bool

	// State of all flows of the document.
	agents      []plan.Flow
	agentIDs    map[*model.Component]string
	connections []plan.Connection
	connected   map[*model.Component]string
	ids         map[string]bool
	// nodes is the number of nodes of all flows; full reports whether the limit is exceeded.
	nodes int
	full  bool

	// flow is the flow being compiled; taken are its nodes' ids, pathPrefix is the prefix of its
	// positions, runInputs are inputs of its nodes that only the run's inputs can feed.
	flow       *plan.Flow
	taken      map[string]bool
	pathPrefix string
	runInputs  []*model.Property
	// flowRunInputs are the runInputs of the compiled flows, by id.
	flowRunInputs map[string][]*model.Property
	// usesStores reports whether the flow being compiled uses in-memory datastores; storeFlows are compiled ones that do.
	usesStores bool
	storeFlows map[string]bool
}

func (b *builder) root(c *model.Component) *plan.Flow {
	b.startFlow(c, c.ID, "")
	b.flow.Inputs = &plan.Inputs{Mode: plan.InputsNamed, Style: plan.StyleDocumented, Schema: objectOf(c.Inputs)}
	if c.Type.Acts() == "Flow" {
		b.rootFlow(c)
		b.flow.Inputs.Schema = objectOf(model.Merge(c.Inputs, b.runInputs))
	} else {
		b.rootAgent(c)
	}
	b.flow.Agents, b.flow.Connections = b.agents, b.connections
	return b.flow
}

// maxNodeRuns is the maximum number of node executions of a flow; the language has no limit.
const maxNodeRuns = 1000

func (b *builder) startFlow(c *model.Component, id, at string) {
	b.flow = &plan.Flow{Version: plan.Version, ID: id, Name: cmp.Or(c.Name, id), Dialect: Name, Description: c.Description,
		Values: &plan.Values{Read: "literal", Named: true}, NoRoute: &plan.NoRoute{}, Nodes: []plan.Node{}, Edges: []plan.Edge{}, Limits: plan.Limits{MaxSteps: maxNodeRuns}}
	b.taken, b.pathPrefix = map[string]bool{plan.Start: true, plan.End: true}, at
}

// subflowID returns the id of a subflow that is a separate flow. It is compiled once.
func (b *builder) subflowID(c *model.Component) string {
	if id, ok := b.agentIDs[c]; ok {
		return id
	}
	id := unique(b.ids, model.SafeID(cmp.Or(c.Name, c.ID)))
	b.agentIDs[c] = id
	flow, taken, at, runInputs, usesStores := b.flow, b.taken, b.pathPrefix, b.runInputs, b.usesStores
	b.startFlow(c, id, plan.AgentPath(id))
	b.runInputs, b.usesStores = nil, false
	b.rootFlow(c)
	b.agents = append(b.agents, *b.flow)
	b.flowRunInputs[id], b.storeFlows[id] = b.runInputs, b.usesStores
	b.flow, b.taken, b.pathPrefix, b.runInputs, b.usesStores = flow, taken, at, runInputs, usesStores
	return id
}

// passRunInputs adds inputs to a call node for the run's inputs that its flows need, and ports for the datastores that they use.
func (b *builder) passRunInputs(n *plan.Node) {
	for _, id := range n.Call.Flows {
		for _, p := range b.flowRunInputs[id] {
			if !slices.ContainsFunc(n.Ports.In, func(in plan.In) bool { return in.Name == p.Title }) {
				n.Ports.In = append(n.Ports.In, plan.In{Name: p.Title, Key: plan.InKey(p.Title), Type: schemaOf(p.Type)})
				b.runInputs = append(b.runInputs, p)
			}
		}
	}
	if slices.ContainsFunc(n.Call.Flows, func(id string) bool { return b.storeFlows[id] }) {
		b.addStorePorts(n)
	}
}

// rootFlow compiles a flow that starts with the run's inputs and ends with its outputs.
func (b *builder) rootFlow(c *model.Component) {
	s := &flowBuilder{b: b, flow: c, start: plan.InKey, defaults: c.Input, outs: outputs(c.Outputs)}
	entry, ends := s.build()
	if b.full {
		return
	}
	b.edge(plan.Edge{From: plan.Start, To: entry}, c.At)
	for _, e := range ends {
		n := b.flow.Node(e.id)
		n.Exit = true
		if b.usesStores && b.pathPrefix != "" {
			n.Ports.In = append(n.Ports.In, changesIn)
			n.Ports.Out = append(n.Ports.Out, plan.Out{Name: plan.ChangesPort})
		}
		b.edge(plan.Edge{From: e.id, To: plan.End}, e.at)
	}
}

// rootAgent compiles an agent to a flow of one node. With human_in_the_loop it is a conversation, which
// ends with the agent's outputs; without outputs it continues until the run is cancelled.
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

// countNode counts a node or an agent of a team. It reports whether the plan is within the limit.
func (b *builder) countNode(at source.Pos) bool {
	if b.nodes++; b.nodes > plan.MaxNodes/2 {
		if !b.full {
			b.Errorf(at, CodeTooManyNodes, "nest fewer subflows", "the flow, subflows included, has more than %d nodes", plan.MaxNodes/2)
		}
		b.full = true
	}
	return !b.full
}

func (b *builder) add(n plan.Node, at source.Pos) {
	if !b.countNode(at) {
		return
	}
	b.flow.Nodes = append(b.flow.Nodes, n)
	b.addPosition(plan.NodePath(n.ID), at)
}

func (b *builder) edge(e plan.Edge, at source.Pos) {
	e.ID = fmt.Sprint(len(b.flow.Edges) + 1)
	b.addPosition(plan.EdgePath(len(b.flow.Edges)), at)
	b.flow.Edges = append(b.flow.Edges, e)
}

// addPosition records the position of a part. Parts from other files have no position.
func (b *builder) addPosition(path string, at source.Pos) {
	if at.File == b.file {
		b.positions = append(b.positions, plan.Position{Path: b.pathPrefix + path, Line: at.Line, Col: at.Col})
	}
}

// id returns a unique id for a node: its name, prefixed with the path of the enclosing FlowNode.
func (b *builder) id(path string, c *model.Component) string {
	return unique(b.taken, path+model.SafeID(cmp.Or(c.Name, c.ID, c.Type.Name)))
}

// unique returns name with a suffix if it is taken, and marks the result as taken.
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

// joined formats the elements of an array or object, separated by commas.
func joined[T any](list []T, write func(T) string) string {
	return strings.Join(source.Map(list, write), ",")
}

func quoted(text string) string { return string(value.AppendString(nil, text)) }

// objectOf returns the schema of an object with the properties as members; those without a default are required.
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

// flowBuilder compiles the nodes of a flow, or of a subflow that is inlined in another.
type flowBuilder struct {
	b    *builder
	flow *model.Component
	// path is the prefix of the ids of its nodes: the id of the FlowNode and a slash.
	path string
	// start returns the state key from which the start node reads an input; defaults returns the property with its default.
	start    func(title string) string
	defaults func(title string) *model.Property
	// outs are the outputs of its end nodes.
	outs []plan.Out

	number map[*model.Component]int
	// reads are the state keys of inputs, writes those of outputs.
	reads    map[port]string
	writes   map[port][]string
	ids      map[*model.Component]string
	compiled map[*model.Component]*compiledNode
}

type port struct {
	node  *model.Component
	title string
}

// compiledNode holds the nodes of the plan at which a compiled node is entered and left.
type compiledNode struct {
	entry string
	exits []exit
}

// exit is a node of the plan that control leaves by a branch; label reports whether it has several branches.
type exit struct {
	id, branch string
	label      bool
	at         source.Pos
}

// build compiles the nodes and edges. It returns the first node and the end nodes.
func (s *flowBuilder) build() (entry string, ends []exit) {
	s.number, s.ids, s.compiled = map[*model.Component]int{}, map[*model.Component]string{}, map[*model.Component]*compiledNode{}
	for i, n := range s.flow.Flow.Nodes {
		s.number[n] = i
		s.ids[n] = s.b.id(s.path, n)
	}
	s.connect()
	for _, n := range s.flow.Flow.Nodes {
		if s.b.full {
			return "", nil
		}
		s.compiled[n] = s.node(n)
		if n.Type.ActsAs("EndNode") {
			ends = append(ends, s.compiled[n].exits...)
		}
	}
	for _, e := range s.flow.Flow.Control {
		for _, x := range s.compiled[e.From].exits {
			if x.branch != e.Branch {
				continue
			}
			edge := plan.Edge{From: x.id, To: s.compiled[e.To].entry}
			if x.label {
				edge.Branch = e.Branch
			}
			s.b.edge(edge, e.At)
		}
	}
	return s.compiled[s.flow.Flow.Start].entry, ends
}

// connect assigns state keys: one per output, or one per input if several outputs feed it.
func (s *flowBuilder) connect() {
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

// key returns the state key of an input that is fed by the outputs from.
func (s *flowBuilder) key(to port, from []port, known map[string]string) string {
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

func (s *flowBuilder) inPorts(n *model.Component) []plan.In {
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
		if in.Key == "" && in.Default == nil && !n.Type.ActsAs("EndNode") && !s.flow.Flow.HasOutput(p.Title) {
			in.Key = plan.InKey(p.Title)
			s.b.runInputs = append(s.b.runInputs, p)
		}
		out = append(out, in)
	}
	return out
}

func (s *flowBuilder) outPorts(n *model.Component) []plan.Out {
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
