package model

import (
	"cmp"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// Flow is the graph of a component of type Flow.
type Flow struct {
	// Start is the node where a run starts; it is one of Nodes.
	Start *Component
	// Nodes are in source order.
	Nodes []*Component
	// Control and Data are in source order.
	Control []ControlEdge
	Data    []DataEdge
	// Public reports whether the flow has no list of data edges: each output feeds every
	// input of the same title, like a shared variable.
	Public bool

	index map[*Component]int
	ends  []string // cache of the branch names of the end nodes
	// into maps nodes to the data edges into them, lists maps titles to the types of outputs
	// that are arrays; created on demand.
	into  map[*Component][]int
	lists map[string][]*Shape
	// titles caches the titles of the outputs in the flow.
	titles map[string]bool
	// invalidControl and looseData are invalid edges whose ends are known; their targets are not
	// reported as unconnected.
	invalidControl []ControlEdge
	invalidData    []DataEdge
	// dataUncertain reports whether a data edge has errors, so that the sources of inputs are uncertain.
	dataUncertain bool
	// partial reports whether the nodes are known but not all edges.
	partial bool
}

// ControlEdge is an edge from a branch of a node to another node.
type ControlEdge struct {
	At       source.Pos
	From, To *Component
	Branch   string
}

// DataEdge passes an output to an input. If several edges feed an input, the source that ran
// last takes effect.
type DataEdge struct {
	At     source.Pos
	From   *Component
	Output string
	To     *Component
	Input  string
}

func (f *Flow) acting(as string) []*Component {
	return slices.DeleteFunc(slices.Clone(f.Nodes), func(n *Component) bool { return !n.Type.ActsAs(as) })
}

// Has reports whether a node is one of the flow's.
func (f *Flow) Has(node *Component) bool {
	_, ok := f.index[node]
	return ok
}

// flow reads the graph of a Flow and reports errors of single edges.
func (l *loader) flow(c *Component) *Flow {
	f := &Flow{index: map[*Component]int{}, Start: c.Component("start_node")}
	for i, n := range c.Components("nodes") {
		if f.Has(n) {
			l.Warnf(l.itemAt(c, "nodes", i), "node-twice", "list each node once", "nodes of %s lists %s twice", c, n)
			continue
		}
		f.index[n] = len(f.Nodes)
		f.Nodes = append(f.Nodes, n)
	}
	if f.partial = c.broken; f.partial && c.Field("nodes") == nil {
		f.partial = false
		return f
	}
	l.control(c, f)
	l.data(c, f)
	return f
}

func (l *loader) control(c *Component, f *Flow) {
	for i, e := range c.Components("control_flow_connections") {
		edge := ControlEdge{At: l.itemAt(c, "control_flow_connections", i), From: e.Component("from_node"), To: e.Component("to_node"), Branch: e.Text("from_branch")}
		switch {
		case unknownIO(e) || !l.edgeNodes(c, f, e, "from_node", "to_node"):
			c.broken = c.broken || unknownIO(e)
			f.partial = f.partial || c.broken
		case !l.knownBranch(c, e, &edge):
			f.invalidControl = append(f.invalidControl, edge)
		default:
			f.Control = append(f.Control, edge)
		}
	}
	f.Control = l.withoutSelfLoops(f.Control)
}

func (l *loader) data(c *Component, f *Flow) {
	f.Public = c.Field("data_flow_connections") == nil
	f.dataUncertain = f.Public && c.source.Get("data_flow_connections") != nil && c.broken
	for i, e := range c.Components("data_flow_connections") {
		edge := DataEdge{At: l.itemAt(c, "data_flow_connections", i), From: e.Component("source_node"), Output: e.Text("source_output"),
			To: e.Component("destination_node"), Input: e.Text("destination_input")}
		switch {
		case unknownIO(e) || !l.edgeNodes(c, f, e, "source_node", "destination_node"):
			f.dataUncertain = f.dataUncertain || unknownIO(e)
		case !l.edgeProps(e, &edge):
			f.invalidData = append(f.invalidData, edge)
		default:
			f.Data = append(f.Data, edge)
		}
	}
}

// itemAt returns the position of an item, or of the reference to it, in a list of components.
func (l *loader) itemAt(c *Component, field string, i int) source.Pos {
	items := c.JSON(field).Items
	if i >= len(items) || len(items) != len(c.Components(field)) {
		return c.FieldPos(field)
	}
	return cmp.Or(refOf(items[i]), items[i]).Pos
}

func (l *loader) edgeNodes(c *Component, f *Flow, e *Component, ends ...string) bool {
	ok := true
	for _, end := range ends {
		n := e.Component(end)
		if n == nil {
			// A plugin's edge may lack the field.
			return false
		}
		if f.Has(n) {
			continue
		}
		help := "add it to nodes"
		for _, other := range f.Nodes {
			if other.ID == n.ID && len(f.Nodes) < 1000 {
				help = `nodes has a different component with that id; define it once, in "$referenced_components", and refer to it by $component_ref`
			}
		}
		l.Errorf(e.FieldPos(end), "edge-node-in-flow", help, "%s of %s is %s, which is not a node of %s", end, e, n, c)
		ok = false
	}
	return ok
}

// knownBranch reports whether an edge leaves a node by one of its branches. It may correct the branch with a warning.
func (l *loader) knownBranch(c, e *Component, edge *ControlEdge) bool {
	if edge.From.Type.Unknown || edge.From.broken || edge.From.Type.ActsAs("EndNode") {
		return true
	}
	if slices.Contains(edge.From.Branches, edge.Branch) {
		return true
	}
	written := e.Field("from_branch") != nil
	meant, has := DefaultBranch, "several branches"
	if len(edge.From.Branches) == 1 {
		meant, has = edge.From.Branches[0], "one branch"
	}
	if !written && slices.Contains(edge.From.Branches, meant) && l.work(e.At, len(c.Components("control_flow_connections"))) && !taken(c, e, edge.From, meant) {
		l.Warnf(e.At, "branch-unknown", "use from_branch: "+meant, "%s has no from_branch, and %s has %s; it is read as the branch %s, which no other edge has", e, edge.From, has, meant)
		edge.Branch = meant
		return true
	}
	if !written {
		l.Errorf(e.At, "branch-unknown", "use one of: "+strings.Trim(list(edge.From.Branches), "[]"), "%s has no from_branch, and %s has %s", e, edge.From, has)
		return false
	}
	mapping, to := edge.From.JSON("mapping"), ""
	if edge.From.Type.ActsAs("BranchingNode") && l.work(e.At, len(mapping.Members)) {
		to = TextOf(mapping.Get(edge.Branch))
	}
	if to != "" {
		l.Warnf(e.FieldPos("from_branch"), "branch-unknown", "use "+source.Quote(to), "from_branch of %s is %s, which is a value in the mapping of %s and not a branch; it is read as that value's branch %s",
			e, source.Quote(edge.Branch), edge.From, source.Quote(to))
		edge.Branch = to
		return true
	}
	l.Errorf(e.FieldPos("from_branch"), "branch-unknown", "use one of: "+strings.Trim(list(edge.From.Branches), "[]"), "unknown branch %s of %s as the from_branch of %s",
		source.Quote(edge.Branch), edge.From, e)
	return false
}

// taken reports whether another edge leaves a node by a branch or has no from_branch.
func taken(c, edge, from *Component, branch string) bool {
	return slices.ContainsFunc(c.Components("control_flow_connections"), func(e *Component) bool {
		return e != edge && e.Component("from_node") == from && (e.Field("from_branch") == nil || e.Text("from_branch") == branch)
	})
}

// by returns the branch of an edge for messages, or "" if its node has only one.
func (e *ControlEdge) by() string {
	if len(e.From.Branches) < 2 {
		return ""
	}
	return " by the branch " + source.Quote(e.Branch)
}

// withoutSelfLoops removes edges from a node to itself by a branch that another edge also leaves by.
func (l *loader) withoutSelfLoops(edges []ControlEdge) []ControlEdge {
	type way struct {
		from   *Component
		branch string
	}
	on := map[way]bool{}
	for _, e := range edges {
		if e.From != e.To {
			on[way{e.From, e.Branch}] = true
		}
	}
	var out []ControlEdge
	for _, e := range edges {
		if e.From == e.To && on[way{e.From, e.Branch}] && !e.From.Type.ActsAs("StartNode") && !e.From.Type.ActsAs("EndNode") {
			l.Warnf(e.At, "branch-two-edges", "remove it, or loop with a branch of a BranchingNode",
				"an edge from %s to itself leaves it%s, as does another edge; it is ignored", e.From, e.by())
			continue
		}
		out = append(out, e)
	}
	return out
}

// edgeProps checks that output and input of a data edge exist and have compatible types.
func (l *loader) edgeProps(e *Component, edge *DataEdge) bool {
	from, to := edge.From.Output(edge.Output), edge.To.Input(edge.Input)
	badFrom, badTo := from == nil && !unknownIO(edge.From), to == nil && !unknownIO(edge.To)
	if badFrom {
		l.Errorf(e.FieldPos("source_output"), "data-edge-prop-exists", expected(edge.From.Outputs), "unknown output %s of %s as the source_output of %s",
			source.Quote(edge.Output), edge.From, e)
	}
	if badTo {
		l.Errorf(e.FieldPos("destination_input"), "data-edge-prop-exists", expected(edge.To.Inputs), "unknown input %s of %s as the destination_input of %s",
			source.Quote(edge.Input), edge.To, e)
	}
	if from != nil && to != nil && !l.castable(edge.At, from.Type, to.Type) {
		if to.Default != nil && !l.Strict {
			l.Warnf(edge.At, "data-edge-castable", "use compatible types or remove the edge", "output %s of %s is %s, which cannot be converted to input %s of %s, %s; the edge is ignored and the input has its default",
				source.Quote(from.Title), edge.From, from.Type, source.Quote(to.Title), edge.To, to.Type)
			return false
		}
		l.Errorf(edge.At, "data-edge-castable", "use compatible types, or convert the value in a node between the two",
			"output %s of %s is %s, which cannot be converted to input %s of %s, %s", source.Quote(from.Title), edge.From, from.Type, source.Quote(to.Title), edge.To, to.Type)
	}
	return !badFrom && !badTo
}

// checkUnconnected checks the data flow as if every node were reachable.
func (l *loader) checkUnconnected(c *Component, g *graph) {
	if g.dataUncertain {
		return
	}
	g.partial = true
	for n := range g.reached {
		g.reached[n] = true
	}
	l.checkData(c, g)
}

func (l *loader) checkCounts(c *Component, f *Flow) {
	unknown := func(n *Component) bool { return n.Type.Unknown }
	if n := len(f.acting("StartNode")); n > 1 || n == 0 && !slices.ContainsFunc(f.Nodes, unknown) {
		l.Errorf(c.FieldPos("nodes"), "flow-start-count", "list one StartNode", "%s has %d start nodes, expected one", c, n)
	}
	if len(f.acting("EndNode")) == 0 && !slices.ContainsFunc(f.Nodes, unknown) {
		l.Errorf(c.FieldPos("nodes"), "end-count", "add an EndNode", "%s has no EndNode", c)
	}
}

func checkFlow(l *loader, c *Component) {
	f := c.Flow
	l.checkCounts(c, f)
	l.checkStart(c, f)
	l.checkEnds(c, f)
	l.checkOutputs(c, f)
	l.checkVariables(c)
	g := newGraph(f)
	if !slices.ContainsFunc(g.edges, func(e ControlEdge) bool { return e.From == f.Start }) {
		l.checkUnconnected(c, g)
		return
	}
	l.checkBranches(c, g)
	if l.checkReach(c, g) && !f.dataUncertain {
		l.checkData(c, g)
	}
	l.checkLoops(g)
}

// checkStart requires start_node to be the StartNode of the flow, with one outgoing edge.
func (l *loader) checkStart(c *Component, f *Flow) {
	starts := f.acting("StartNode")
	if !f.Has(f.Start) || !f.Start.Type.ActsAs("StartNode") && !f.Start.Type.Unknown && !l.isPlugin(f.Start.Type) {
		help := "point start_node to the StartNode in nodes"
		if len(starts) == 1 && starts[0].ID == f.Start.ID {
			help = `define it once, in "$referenced_components", and let both start_node and nodes refer to it by $component_ref`
		}
		l.Errorf(c.FieldPos("start_node"), "flow-start-identity", help, "start_node of %s is %s, which is not the start node in nodes", c, f.Start)
		return
	}
	l.checkLeave(c, f)
}

func (l *loader) checkLeave(c *Component, f *Flow) {
	out := 0
	for _, e := range f.Control {
		if e.From == f.Start {
			out++
			if out == 2 {
				l.Errorf(e.At, "start-out-edges", "keep one edge; use a BranchingNode to branch or a ParallelFlowNode to run in parallel", "more than one edge leaves the start node of %s", c)
			}
		}
		if e.To.Type.ActsAs("StartNode") {
			l.Errorf(e.At, "edge-into-start", "connect it to the node after the start", "an edge of %s enters the start node", c)
		}
	}
	if out == 0 && !c.broken {
		l.Errorf(c.FieldPos("control_flow_connections"), "start-out-edges", "add a ControlFlowEdge from the start node", "no edge leaves the start node of %s", c)
	}
}

func (l *loader) checkEnds(c *Component, f *Flow) {
	in := map[*Component]bool{}
	for _, e := range f.invalidControl {
		in[e.To] = true
	}
	for _, e := range f.Control {
		in[e.To] = true
		if e.From.Type.ActsAs("EndNode") {
			l.Errorf(e.At, "edge-out-of-end", "remove the edge", "an edge leaves %s, an end of %s", e.From, c)
		}
	}
	for _, n := range f.acting("EndNode") {
		if !in[n] {
			l.Errorf(l.itemAt(c, "nodes", f.index[n]), "end-incoming", "add an edge to it or remove it", "no edge of %s enters %s", c, n)
		}
	}
}

// checkOutputs compares the outputs of the end nodes with those of the flow.
func (l *loader) checkOutputs(c *Component, f *Flow) {
	first := map[string]*Property{}
	count := map[string]int{}
	ends := slices.DeleteFunc(f.acting("EndNode"), func(n *Component) bool { return n.broken })
	for _, n := range ends {
		for _, p := range n.Outputs {
			count[p.Title]++
			if other := first[p.Title]; other == nil {
				first[p.Title] = p
			} else if !l.same(p.At, p.Type, other.Type) {
				l.Errorf(p.At, "end-output-type-conflict", "use the same type", "output %s of %s is %s, but %s at another end of the flow, at %s",
					source.Quote(p.Title), n, p.Type, other.Type, l.where(other.At, p.At))
			}
		}
	}
	for _, p := range c.Outputs {
		have := first[p.Title]
		switch {
		case !c.outs || len(ends) == 0:
		case p.Default == nil && count[p.Title] < len(ends):
			l.Errorf(p.At, "flow-output-in-every-end-or-default", "give it a default, or add it to every EndNode",
				"output %s of %s has no default, and %d of %d EndNodes do not have it", source.Quote(p.Title), c, len(ends)-count[p.Title], len(ends))
		case have != nil && !l.castable(p.At, have.Type, p.Type):
			l.Errorf(p.At, "flow-output-in-every-end-or-default", "use the type of the EndNodes", "output %s of %s is %s, but its EndNodes produce %s",
				source.Quote(p.Title), c, p.Type, have.Type)
		}
	}
}
