package agentspec

import (
	"cmp"
	"encoding/json"
	"strings"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// passOf configures a node of WayFlow's that makes no calls.
func (s *layer) passOf(c *model.Component, n *plan.Node, w *way) *plan.Pass {
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

// variables make a node write the flow's variables and read them. One that does both is two: what it writes is there when it
// reads.
func (s *layer) variables(c *model.Component, n *plan.Node, w *way) {
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

// writesOf writes what a node takes, each value to its variable.
func (s *layer) writesOf(c *model.Component, in []plan.In) []plan.Out {
	var out []plan.Out
	for i, w := range c.Writes {
		if i < len(in) {
			out = append(out, plan.Out{Name: in[i].Name, Keys: []string{s.variable(w.Variable)}, Write: w.How,
				Type: schemaOf(w.Variable.Type), Default: jsonOf(w.Variable.Default)})
		}
	}
	return out
}

// variable is the state key of one of the flow's variables.
func (s *layer) variable(p *model.Property) string { return "$" + s.path + "@state." + p.Title }

// exception configures a node that catches what fails in its subflow.
func (s *layer) exception(c *model.Component, n *plan.Node) *plan.Call {
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
		if m.Key != strings.ToLower(m.Key) { // a class in Python
			s.b.Warnf(m.KeyPos, CodeNoEffect, "use a failure class of FAILURES.md, or make catch_all_exceptions true", "no failure maps to the exception %s of %s",
				source.Quote(m.Key), c)
		}
		catch.On = append(catch.On, plan.Case{Text: m.Key, Branch: m.Value.Text})
	}
	return &plan.Call{AtOnce: 1, Flows: []string{s.b.called(c.Component("subflow"))}, Catch: catch}
}

// emptyOf is the empty value of an output's type: what WayFlow gives where nothing is.
func emptyOf(p *model.Property) json.RawMessage {
	if p == nil {
		return json.RawMessage("null")
	}
	return json.RawMessage(cmp.Or(empty[p.Type.Kind], "null"))
}

var empty = map[model.ShapeKind]string{model.StringShape: `""`, model.IntegerShape: "0", model.NumberShape: "0", model.BooleanShape: "false",
	model.ArrayShape: "[]", model.ObjectShape: "{}"}

// extendedMap configures a node that runs its subflow for each element of a list, with values made of the element.
func (s *layer) extendedMap(c *model.Component, n *plan.Node) *plan.Call {
	call := &plan.Call{Flows: []string{s.b.called(c.Component("subflow"))}, Map: true, AtOnce: 1, Over: []string{model.IteratedInput}}
	if c.Flag("parallel_execution") {
		call.AtOnce = atOnce
		if workers := int(c.Number("max_workers")); workers > 0 {
			call.AtOnce = min(workers, atOnce)
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
