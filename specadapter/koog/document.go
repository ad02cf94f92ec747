package koog

import (
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

type document struct {
	root                             *source.Fields
	id, revision, description, model string
	modelText                        string
	agents                           []*agent
	byName                           map[string]*agent
	names                            []string
	tools                            []*toolDecl
	transitions                      []*transition
	// from and to are the transitions out of each agent and into it, in order.
	from, to map[string][]*transition
	// partial reports whether agents, or transitions between agents, could not be read: nothing can be said of the graph.
	partial bool
}

// The agent types.
const (
	kindTask      = "task"
	kindVerify    = "verify"
	kindTransform = "transform"
	kindParallel  = "parallel"
	kindReact     = "react"
)

// finishName is the target of a transition that ends the flow.
const finishName = "__finish__"

// document reads everything; what is wrong is reported.
func (a *adaptation) document(root *source.Value) *document {
	d := &document{root: a.Fields(root, "the flow", ""), byName: map[string]*agent{}, from: map[string][]*transition{}, to: map[string][]*transition{}}
	o := d.root
	o.Of(&documentShape)
	d.id = o.Required("id")
	d.revision = a.version(o)
	if a.mode == meant {
		d.description = o.Text("description")
	} else if v := root.Get("description"); v != nil {
		d.description = v.Text
	}
	d.modelText = o.Text("defaultModel")
	d.model = a.resolve(d.modelText, o.Pos("defaultModel"))
	a.blankModel(o, "defaultModel", d.modelText)
	agents, transitions := o.List("agents"), o.List("transitions")
	if len(agents) > plan.MaxNodes/4 || len(transitions) > plan.MaxEdges/4 {
		a.Errorf(o.Pos("agents"), CodeTooMany, "split the flow", "the flow has %d agents and %d transitions; the limits are %d and %d",
			len(agents), len(transitions), plan.MaxNodes/4, plan.MaxEdges/4)
		d.partial = true
		return d
	}
	for i, v := range o.List("tools") {
		if t := a.tool(i, v); t != nil {
			d.tools = append(d.tools, t)
		}
	}
	a.duplicateTools(d)
	for i, v := range agents {
		if ag := a.agent(i, v); ag != nil && ag.name != "" {
			a.register(d, ag)
		} else {
			d.partial = true
		}
	}
	if v := d.root.Get("agents"); len(agents) == 0 && (v == nil || v.Kind == source.Array) {
		text := "the flow has no agents"
		if a.mode != meant {
			text = "Unable to build PromptExecutor from provided models: []"
		}
		a.Errorf(o.Pos("agents"), CodeNoAgents, "add at least one agent", "%s", text)
	}
	for i, v := range transitions {
		if t := a.transition(d, i, v); t != nil {
			d.transitions = append(d.transitions, t)
			d.from[t.from], d.to[t.to] = append(d.from[t.from], t), append(d.to[t.to], t)
		} else {
			d.partial = true
		}
	}
	a.references(d)
	d.partial = d.partial || len(d.agents) == 0
	return d
}

// version reads the author's version. The protocol's text has examples without any.
func (a *adaptation) version(o *source.Fields) string {
	switch {
	case a.mode != meant:
		return o.Required("version")
	case o.Get("version") == nil:
		a.Warnf(o.Value.Pos, CodeMissing, `add "version": "1.0"; the protocol's own code requires it`, "the flow has no version")
		return ""
	}
	return o.Text("version")
}

// register notes an agent by its name, which must be its own.
func (a *adaptation) register(d *document, ag *agent) {
	first, double := d.byName[ag.name]
	switch {
	case double && a.mode != meant:
		a.Warnf(ag.nameAt, CodeDuplicate, "rename it", "duplicate agent name %s, first used at line %d; this agent never runs", source.Quote(ag.name), first.at.Line)
		return
	case double:
		a.Errorf(ag.nameAt, CodeDuplicate, "rename it", "duplicate agent name %s, first used at line %d", source.Quote(ag.name), first.at.Line)
		first.wrong = true
		return
	}
	switch ag.name {
	case plan.Start, plan.End, finishName:
		a.Errorf(ag.nameAt, CodeName, "rename it", "the agent name %s is reserved for a flow's entry or exit", ag.name)
	}
	d.byName[ag.name] = ag
	d.names = append(d.names, ag.name)
	d.agents = append(d.agents, ag)
}

// references judges the names that agents use of each other and of tools.
func (a *adaptation) references(d *document) {
	before := a.Errors
	for _, ag := range d.agents {
		d.partial = d.partial || ag.kind == kindParallel && len(ag.children) == 0
		for i, name := range ag.children {
			child := d.byName[name]
			at := ag.childPos[i]
			switch {
			case child == nil:
				a.Errorf(at, CodeUnknownAgent, a.DidYouMean(name, d.names, "agents are"), "the parallel agent %s lists the unknown agent %s",
					source.Quote(ag.name), source.Quote(name))
			case child.kind == kindParallel && a.mode == meant:
				a.Errorf(at, CodeParallel, "list the inner agent's agents in the outer agent", "the parallel agent %s runs the parallel agent %s",
					source.Quote(ag.name), source.Quote(name))
			default:
				child.inParallel = true
			}
		}
	}
	if a.mode != meant {
		a.nesting(d)
	}
	d.partial = d.partial || a.Errors > before
	if a.mode == meant {
		a.toolNames(d)
	}
}

// segments splits input.x or output.x.y into the prefix, if it is one of the two, and the path.
func segments(s string) (prefix string, path []string) {
	parts := strings.Split(s, ".")
	if len(parts) > 1 && (parts[0] == "input" || parts[0] == "output") {
		return parts[0], parts[1:]
	}
	return "", parts
}
