package agentspec

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// maxParallel is the maximum number of concurrent runs of a parallel node.
const maxParallel = 10

func (s *flowBuilder) node(c *model.Component) *compiledNode {
	if c.Type.Acts() == "FlowNode" {
		return s.inline(c)
	}
	n := plan.Node{ID: s.ids[c], Name: cmp.Or(c.Name, s.ids[c]), Ports: &plan.Ports{In: s.inPorts(c), Out: s.outPorts(c)}}
	w := &compiledNode{entry: n.ID, exits: []exit{{id: n.ID, branch: catalog.NextBranch, at: c.At}}}
	switch c.Type.Acts() {
	case "StartNode":
		n.Kind, n.Pass = plan.KindPass, &plan.Pass{}
		s.startPorts(c, &n)
	case "EndNode":
		n.Kind, n.Pass = plan.KindPass, &plan.Pass{Branch: c.Text("branch_name")}
		n.Ports.Out = s.endPorts(c)
		w.exits[0].branch = c.Text("branch_name")
	case "LlmNode":
		n.Kind, n.Agent = plan.KindAgent, s.b.prompt(c)
	case "AgentNode":
		s.b.agentNode(c, &n)
	case "ToolNode":
		n.Kind, n.Tool = plan.KindTool, s.b.tool(c.Component("tool"), map[string]bool{})
	case "ApiNode":
		n.Kind, n.Tool = plan.KindTool, &plan.Tool{Name: n.Name, As: toolName(n.Name), Description: c.Description, Connection: s.b.connect(c, s.b.request)}
	case "InputMessageNode":
		n.Kind, n.Ask = plan.KindAsk, &plan.Ask{Text: c.Text("message")}
		if n.Ask.Text == "" {
			n.Ask.Text, n.Ask.Silent = cmp.Or(c.Name, n.ID)+" waits for a message", true
		}
	case "OutputMessageNode":
		n.Kind, n.Say = plan.KindSay, &plan.Say{Text: c.Text("message")}
	case "BranchingNode":
		n.Kind, n.Branch = plan.KindBranch, &plan.Branch{Default: model.DefaultBranch}
		for _, m := range c.JSON("mapping").Members {
			n.Branch.Cases = append(n.Branch.Cases, plan.Case{Text: m.Key, Branch: m.Value.Text})
		}
		w.exits = s.branches(c, n.ID)
	case "PluginRegexNode", "PluginTemplateNode", "PluginReadVariableNode", "PluginWriteVariableNode", "PluginVariableNode":
		n.Kind, n.Pass = plan.KindPass, s.pass(c, &n, w)
	default:
		s.callNode(c, &n, w)
	}
	if n.Call != nil {
		s.b.passRunInputs(&n)
	}
	s.b.add(n, c.At)
	return w
}

// callNode configures a node that runs separate flows or uses a datastore.
func (s *flowBuilder) callNode(c *model.Component, n *plan.Node, w *compiledNode) {
	switch c.Type.Acts() {
	case "PluginDatastoreListNode", "PluginDatastoreCreateNode", "PluginDatastoreUpdateNode", "PluginDatastoreDeleteNode", "PluginDatastoreQueryNode":
		s.b.storeNode(c, n)
	case "MapNode", "ParallelMapNode":
		n.Kind, n.Call = plan.KindCall, s.mapCall(c, n)
	case "ExtendedMapNode":
		n.Kind, n.Call = plan.KindCall, s.extendedMap(c, n)
	case "PluginCatchExceptionNode":
		n.Kind, n.Call = plan.KindCall, s.exception(c, n)
		w.exits = s.branches(c, n.ID)
	case "ParallelFlowNode":
		n.Kind, n.Call = plan.KindCall, &plan.Call{AtOnce: maxParallel}
		for _, sub := range c.Components("subflows") {
			n.Call.Flows = append(n.Call.Flows, s.b.subflowID(sub))
		}
		if len(n.Call.Flows) == 0 {
			n.Kind, n.Call, n.Pass = plan.KindPass, nil, &plan.Pass{}
		}
	case "CatchExceptionNode":
		n.Kind, n.Call = plan.KindCall, &plan.Call{AtOnce: 1, Flows: []string{s.b.subflowID(c.Component("subflow"))},
			Catch: &plan.Catch{Branch: model.CaughtBranch, Info: model.CaughtInfo}}
		w.exits = s.branches(c, n.ID)
	}
}

func (s *flowBuilder) branches(c *model.Component, id string) []exit {
	return source.Map(c.Branches, func(b string) exit { return exit{id: id, branch: b, label: true, at: c.At} })
}

func (s *flowBuilder) startPorts(c *model.Component, n *plan.Node) {
	n.Ports.In = nil
	for _, p := range c.Inputs {
		in := input(p, s.start(p.Title))
		for _, of := range []*model.Property{s.flow.Input(p.Title), s.defaults(p.Title)} {
			if of != nil && of.Default != nil {
				in.Default = jsonOf(of.Default)
			}
		}
		n.Ports.In = append(n.Ports.In, in)
	}
	if s.path != "" {
		n.Ports.Clear, n.Component = "$"+s.path, componentOf(s.flow)
	}
}

// endPorts returns the outputs of an end node: those of the flow, with the node's defaults where the flow has none.
func (s *flowBuilder) endPorts(c *model.Component) []plan.Out {
	outs := slices.Clone(s.outs)
	for i := range outs {
		if p := c.Output(outs[i].Name); p != nil && p.Default != nil && outs[i].Default == nil {
			outs[i].Default = jsonOf(p.Default)
		}
	}
	return outs
}

// inline compiles the nodes of a FlowNode's subflow into the flow; their state is cleared at each start.
func (s *flowBuilder) inline(c *model.Component) *compiledNode {
	sub := c.Component("subflow")
	inner := &flowBuilder{b: s.b, flow: sub, path: s.ids[c] + "/", outs: s.outPorts(c),
		start: func(title string) string { return s.reads[port{c, title}] }, defaults: c.Input}
	for i := range inner.outs {
		if of := sub.Output(inner.outs[i].Name); inner.outs[i].Default == nil && of != nil {
			inner.outs[i].Default = jsonOf(of.Default)
		}
	}
	entry, exits := inner.build()
	return &compiledNode{entry, exits}
}

func (s *flowBuilder) mapCall(c *model.Component, n *plan.Node) *plan.Call {
	sub := c.Component("subflow")
	call := &plan.Call{Flows: []string{s.b.subflowID(sub)}, Map: true, AtOnce: 1}
	if c.Type.Acts() == "ParallelMapNode" {
		call.AtOnce = maxParallel
	}
	over := s.flow.Flow.Iterates(c)
	for i := range n.Ports.In {
		in := &n.Ports.In[i]
		title := model.Inside(in.Name)
		of := sub.Input(title)
		if of == nil {
			continue
		}
		in.Type = schemaOf(of.Type)
		if slices.Contains(over, in.Name) {
			in.Type = schemaOf(model.ArrayOf(cmp.Or(of.Type, model.AnyType)))
			call.Over = append(call.Over, title)
		}
		in.Name = title
	}
	reducers := c.JSON("reducers")
	for i := range n.Ports.Out {
		o := &n.Ports.Out[i]
		title := strings.TrimPrefix(o.Name, model.Collected)
		call.Reduce = append(call.Reduce, plan.Reduce{Name: title, How: cmp.Or(model.TextOf(reducers.Get(title)), "append")})
		o.Name = title
	}
	return call
}

func (s *flowBuilder) pass(c *model.Component, n *plan.Node, w *compiledNode) *plan.Pass {
	switch c.Type.Name {
	case "PluginRegexNode":
		pattern, want := c.Expression()
		if !c.Flag("return_first_match_only") {
			want = "all"
		}
		return &plan.Pass{Match: &plan.Match{Pattern: pattern, Want: want}}
	case "PluginTemplateNode":
		text := c.Text("template")
		return &plan.Pass{Text: &text}
	}
	s.variables(c, n, w)
	return &plan.Pass{}
}

// variables makes a node write and read the flow's variables. A node that does both becomes two nodes, so that it reads what it
// has written.
func (s *flowBuilder) variables(c *model.Component, n *plan.Node, w *compiledNode) {
	if len(c.Writes) > 0 && len(c.Reads) > 0 {
		write := plan.Node{ID: unique(s.b.taken, n.ID+"~write"), Name: n.Name, Kind: plan.KindPass, Pass: &plan.Pass{},
			Ports: &plan.Ports{In: n.Ports.In, Out: s.writesOf(c, n.Ports.In)}}
		s.b.add(write, c.At)
		s.b.edge(plan.Edge{From: write.ID, To: n.ID}, c.At)
		n.Ports.In, w.entry = nil, write.ID
	} else if len(c.Writes) > 0 {
		n.Ports.Out = s.writesOf(c, n.Ports.In)
	}
	for i, p := range c.Reads {
		in := input(p, s.variable(p))
		if i < len(n.Ports.Out) {
			in.Name = n.Ports.Out[i].Name
		}
		n.Ports.In = append(n.Ports.In, in)
	}
}

// writesOf returns outputs that write a node's inputs to its variables.
func (s *flowBuilder) writesOf(c *model.Component, in []plan.In) []plan.Out {
	var out []plan.Out
	for i, w := range c.Writes {
		if i < len(in) {
			out = append(out, plan.Out{Name: in[i].Name, Keys: []string{s.variable(w.Variable)}, Write: w.How,
				Type: schemaOf(w.Variable.Type), Default: jsonOf(w.Variable.Default)})
		}
	}
	return out
}

// variable returns the state key of one of the flow's variables.
func (s *flowBuilder) variable(p *model.Property) string { return "$" + s.path + "@state." + p.Title }

func (s *flowBuilder) exception(c *model.Component, n *plan.Node) *plan.Call {
	for i := range n.Ports.Out {
		if o := &n.Ports.Out[i]; o.Default == nil {
			o.Default = emptyOf(c.Output(n.Ports.Out[i].Name))
		}
	}
	catch := &plan.Catch{Info: model.ExceptionPayload, Class: model.ExceptionName}
	if c.Flag("catch_all_exceptions") {
		catch.Branch = model.ExceptionBranch
	}
	for _, m := range c.JSON("except_on").Members {
		if m.Key != strings.ToLower(m.Key) { // the name of a Python class
			s.b.Warnf(m.KeyPos, CodeNoEffect, "use a failure class of FAILURES.md, or make catch_all_exceptions true", "no failure maps to the exception %s of %s",
				source.Quote(m.Key), c)
		}
		catch.On = append(catch.On, plan.Case{Text: m.Key, Branch: m.Value.Text})
	}
	return &plan.Call{AtOnce: 1, Flows: []string{s.b.subflowID(c.Component("subflow"))}, Catch: catch}
}

// emptyOf returns the empty value of an output's type, WayFlow's result if there is no value.
func emptyOf(p *model.Property) json.RawMessage {
	if p == nil {
		return json.RawMessage("null")
	}
	return json.RawMessage(cmp.Or(emptyValues[p.Type.Kind], "null"))
}

var emptyValues = map[model.ShapeKind]string{model.StringShape: `""`, model.IntegerShape: "0", model.NumberShape: "0", model.BooleanShape: "false",
	model.ArrayShape: "[]", model.ObjectShape: "{}"}

// extendedMap configures a node that runs its subflow for each element of a list, with inputs extracted from the element.
func (s *flowBuilder) extendedMap(c *model.Component, n *plan.Node) *plan.Call {
	call := &plan.Call{Flows: []string{s.b.subflowID(c.Component("subflow"))}, Map: true, AtOnce: 1, Over: []string{model.IteratedInput}}
	if c.Flag("parallel_execution") {
		call.AtOnce = maxParallel
		if workers := int(c.Number("max_workers")); workers > 0 {
			call.AtOnce = min(workers, maxParallel)
		}
	}
	for _, m := range c.JSON("unpack_input").Members {
		path, _ := model.Path(m.Value.Text)
		call.Unpack = append(call.Unpack, plan.Unpack{Name: m.Key, Path: path})
	}
	for _, o := range n.Ports.Out {
		call.Reduce = append(call.Reduce, plan.Reduce{Name: o.Name, How: "append"})
	}
	return call
}
