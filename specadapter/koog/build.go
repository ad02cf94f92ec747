package koog

import (
	"encoding/json"
	"fmt"
	"slices"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// builder makes the plan of a document. That of a document with errors is for its diagnostics alone.
type builder struct {
	*adaptation
	doc   *document
	flow  plan.Flow
	first *agent
	// out are the ids of the nodes at which agents end; they begin at that of their name.
	out       map[string]string
	taken     map[string]bool
	positions []plan.Position
	// types are those of the values that come to agents, as far as somebody asked.
	types map[string]given
	// always are the edges between the nodes of one agent.
	always []plan.Edge
	// around is what the graphs of parallel agents inside each other cost the nodes in them.
	around map[string]int
}

func (b *builder) build() *plan.Flow {
	d := b.doc
	b.out, b.taken, b.around = map[string]string{}, map[string]bool{}, map[string]int{}
	b.flow = plan.Flow{Version: plan.Version, ID: d.id, Name: d.id, Dialect: Name, Description: d.description, Revision: d.revision,
		Choice: plan.ChooseFirst, NoRoute: &plan.NoRoute{}, Nodes: []plan.Node{}, Edges: []plan.Edge{}}
	for _, t := range d.tools {
		if !t.local && !t.skipped {
			b.flow.Connections = append(b.flow.Connections, t.connection)
		}
	}
	b.first = b.firstAgent()
	for _, ag := range d.agents {
		b.taken[ag.name] = true
	}
	for _, ag := range b.steps() {
		b.agentNodes(ag)
	}
	b.flow.Model = b.defaultModel()
	b.edges()
	b.values()
	if b.mode != meant {
		b.asKoog()
		b.refuse()
	} else if n := stepsPerAgent * len(d.agents); n > plan.DefaultLimits.MaxSteps {
		b.flow.Limits.MaxSteps = n
	}
	b.checkReach(b.checkAgents())
	return &b.flow
}

// firstAgent is the agent at which a run begins: that of the first transition, or the first in the list.
func (b *builder) firstAgent() *agent {
	if len(b.doc.transitions) > 0 {
		return b.doc.byName[b.doc.transitions[0].from]
	}
	return b.steps()[0]
}

// steps are the agents that are steps of the flow; in the published code also those inside parallel ones.
func (b *builder) steps() []*agent {
	var out []*agent
	for _, ag := range b.doc.agents {
		if !ag.inParallel || b.doc.from[ag.name] != nil || b.doc.to[ag.name] != nil || b.mode != meant {
			out = append(out, ag)
		}
	}
	if len(out) == 0 {
		return b.doc.agents
	}
	return out
}

// implied visits the agents without transitions. A flow that has none at all goes on with the next step, others end.
func (b *builder) implied(visit func(from *agent, to string)) {
	steps := b.steps()
	for i, ag := range steps {
		switch {
		case b.doc.from[ag.name] != nil:
		case len(b.doc.transitions) == 0 && i+1 < len(steps):
			visit(ag, steps[i+1].name)
		default:
			visit(ag, finishName)
		}
	}
}

func (b *builder) agentNodes(ag *agent) {
	if ag.kind == kindParallel {
		b.parallelNodes(ag)
		return
	}
	b.out[ag.name] = ag.name
	b.add(b.node(ag, ag.name, ag.name), ag.at)
}

func (b *builder) add(n plan.Node, at source.Pos) {
	b.flow.Nodes = append(b.flow.Nodes, n)
	b.place(plan.NodePath(n.ID), at)
}

func (b *builder) place(path string, at source.Pos) {
	b.positions = append(b.positions, plan.Position{Path: path, Line: at.Line, Col: at.Col})
}

func (b *builder) unique(id string) string {
	for b.taken[id] {
		id += "~"
	}
	b.taken[id] = true
	return id
}

// edges adds the edges of the transitions, then those that the document implies.
func (b *builder) edges() {
	b.edge(plan.Edge{From: plan.Start, To: b.first.name}, b.first.at)
	for _, t := range b.doc.transitions {
		b.edge(plan.Edge{From: b.out[t.from], To: t.to, Compare: t.compare, Pass: t.pass}, t.at)
	}
	for _, e := range b.always {
		b.edge(e, source.Pos{})
	}
	b.implied(func(ag *agent, to string) { b.edge(plan.Edge{From: b.out[ag.name], To: to}, ag.at) })
}

func (b *builder) edge(e plan.Edge, at source.Pos) {
	e.ID = fmt.Sprint(len(b.flow.Edges) + 1)
	if e.To == finishName {
		e.To = plan.End
		b.flow.Node(e.From).Exit = true
	}
	if at != (source.Pos{}) {
		b.place(plan.EdgePath(len(b.flow.Edges)), at)
	}
	b.flow.Edges = append(b.flow.Edges, e)
}

// defaultModel is the flow's model, which counts where an agent names none.
func (b *builder) defaultModel() string {
	if b.doc.model != "" {
		return b.doc.model
	}
	without := slices.IndexFunc(b.doc.agents, func(ag *agent) bool {
		return ag.model == "" && (b.mode != meant || ag.kind != kindTransform && ag.kind != kindParallel)
	})
	if without >= 0 {
		ag := b.doc.agents[without]
		switch b.mode {
		case seed:
			b.Errorf(ag.at, CodeModel, `set "defaultModel"`, "Model must be specified either on agent '%s' or as flow's defaultModel", ag.name)
		case later:
			b.Errorf(ag.at, CodeModel, `set "defaultModel"`, "Model for an agent is node defined. Please specify whether an agent model or a default model for a flow.")
		}
		return "" // the run's model, or the worker's
	}
	for _, n := range b.flow.Nodes {
		if n.Agent != nil && n.Agent.Model != "" {
			return n.Agent.Model
		}
	}
	return ""
}

// values makes typed values flow, and sets the value of a run without input.
func (b *builder) values() {
	b.flow.Values = &plan.Values{Read: b.mode.way()}
	if b.mode == meant {
		return
	}
	names := printedSeed
	if b.mode == later {
		names = printedLater
	}
	b.flow.Values.Printed = names
	b.flow.Values.Missing = "No agents found"
	if k := b.first.kind; k == kindTask || k == kindVerify {
		b.flow.Values.Missing = ""
		b.flow.Values.Default = json.RawMessage(value.Of(b.first.task).JSON())
	}
}

// How the published code prints values, by type.
var (
	printedSeed = []plan.Printed{
		{Type: "int", Template: "InputInt(data={data})"}, {Type: "double", Template: "InputDouble(data={data})"},
		{Type: "string", Template: "InputString(data={data})"}, {Type: "boolean", Template: "InputBoolean(data={data})"},
		{Type: "critique", Template: "InputCritiqueResult(success={success}, feedback={feedback}, input={input})"},
		{Type: "array_int", Template: "InputArrayInt(data={data})"}, {Type: "array_double", Template: "InputArrayDouble(data={data})"},
		{Type: "array_string", Template: "InputArrayStrings(data={data})"}, {Type: "array_boolean", Template: "InputArrayBooleans(data={data})"},
	}
	printedLater = []plan.Printed{
		{Type: "int", Template: "FlowInteger(data={data})"}, {Type: "double", Template: "FlowDouble(data={data})"},
		{Type: "string", Template: "FlowString(data={data})"}, {Type: "boolean", Template: "FlowBoolean(data={data})"},
		{Type: "critique", Template: "FlowCritiqueResult(success={success}, feedback={feedback}, input={input})"},
	}
)
