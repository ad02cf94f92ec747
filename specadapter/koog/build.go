package koog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// builder makes the plan of a document. That of a document with errors is for its diagnostics alone.
type builder struct {
	*adaptation
	doc  *document
	flow plan.Flow
	// first is the agent at which a run begins.
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
	b.first = b.steps()[0]
	if len(d.transitions) > 0 {
		b.first = d.byName[d.transitions[0].from]
	}
	for _, ag := range d.agents {
		b.taken[ag.name] = true
	}
	for _, ag := range b.steps() {
		if ag.kind == kindParallel {
			b.parallelNodes(ag)
			continue
		}
		b.out[ag.name] = ag.name
		b.add(b.node(ag, ag.name, ag.name), ag.at)
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

// steps are the agents that are steps of the flow; in the published code also those inside parallel ones.
func (b *builder) steps() []*agent {
	out := slices.DeleteFunc(slices.Clone(b.doc.agents), func(ag *agent) bool {
		return ag.inParallel && b.doc.from[ag.name] == nil && b.doc.to[ag.name] == nil && b.mode == meant
	})
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

// Budgets of the default profile, and what stands for none.
const (
	defaultTurns  = 50
	defaultErrors = 10
	defaultNudges = 3
	// stepsPerAgent is how often a run of many agents may come to each of them, on average. A
	// flow without loops always has steps enough.
	stepsPerAgent = 2
	unbounded     = 1_000_000
)

func (b *builder) node(ag *agent, id, name string) plan.Node {
	n := plan.Node{ID: id, Name: name, Kind: plan.KindAgent}
	if ag.kind == kindTransform {
		n.Kind, n.Transform = plan.KindTransform, b.transform(ag)
		return n
	}
	n.Agent = &plan.Agent{
		Prompt: ag.task, System: ag.system, MaxCalls: unbounded, MaxErrors: defaultErrors, MaxTurns: defaultTurns,
		Params: b.params(ag), Model: ag.model, Opening: b.opening(ag),
	}
	if ag.maxTurns > 0 {
		n.Agent.MaxTurns = ag.maxTurns
	}
	switch ag.kind {
	case kindVerify:
		n.Agent.Finish = b.verdict(ag)
	case kindReact:
		n.Agent.React = &plan.React{Interval: ag.interval, Prompt: "Please give your thoughts about the task and plan the next steps."}
		if b.mode == meant {
			n.Agent.React.Act = "Now act: call a tool, or answer if nothing is left to do."
		}
	default:
		n.Agent.Finish = b.finish(ag)
	}
	b.tools(ag, n.Agent)
	if ag.choice == plan.ChoiceNone && b.mode == meant && n.Agent.Finish != nil {
		// None of the flow's tools. A task's answer in words is its value; a verdict, or a value
		// that a schema describes, still comes by the tool that ends the agent.
		n.Agent.Toolboxes, n.Agent.Tools, n.Agent.Params.ToolChoice = nil, nil, ""
		if ag.kind == kindTask && ag.schema == nil {
			n.Agent.Finish = nil
		}
	}
	return n
}

func (b *builder) transform(ag *agent) *plan.Transform {
	switch {
	case len(ag.steps) == 0:
		return &plan.Transform{}
	case len(ag.steps) > 1:
		return &plan.Transform{Fail: "Unsupported transformation configuration"}
	}
	text := strings.TrimSpace(ag.steps[0].text)
	if b.mode == meant && (text == "" || text == "input" || text == "output") {
		return &plan.Transform{}
	}
	_, path := segments(ag.steps[0].text)
	return &plan.Transform{Select: &plan.Select{Path: path, Rules: b.rules()}}
}

// params are the parameters of the model's calls. The real code drops them.
func (b *builder) params(ag *agent) *plan.Params {
	if b.mode != meant {
		return nil
	}
	chooses := ag.choice != "" && ag.choice != plan.ChoiceRequired
	if ag.params == nil && !chooses {
		return nil
	}
	p := *cmp.Or(ag.params, &plan.Params{})
	if chooses {
		p.ToolChoice = ag.choice
	}
	return &p
}

// opening is the message with which an agent begins. The real code sends the task alone.
func (b *builder) opening(ag *agent) []plan.Piece {
	if b.mode != meant {
		return []plan.Piece{{Text: ag.task}}
	}
	text := slices.DeleteFunc([]string{ag.user, ag.task}, func(s string) bool { return strings.TrimSpace(s) == "" })
	return []plan.Piece{
		{Text: strings.Join(text, "\n\n")},
		{From: plan.FromInput, Before: "\n\n<input>\n", After: "\n</input>"},
		{From: plan.FromOutputs},
		{From: plan.FromValue, Before: "\n\n<previous-result>\n", After: "\n</previous-result>"},
	}
}

// finishTool is the tool by which agents end.
const finishTool = "finalize_task_result"

const finishDescription = "Call this tool when finish and provide final result"

func (b *builder) finish(ag *agent) *plan.Finish {
	f := b.ending(ag)
	f.Keys = []string{"__wrapped_value__"}
	switch b.mode {
	case seed:
		f.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
	case later:
		f.Schema = json.RawMessage(`{"type":"object","properties":{"__wrapped_value__":{"type":"string"}},"required":["__wrapped_value__"]}`)
	default:
		f.Keys, f.Only = []string{"value", "__wrapped_value__"}, true
		inner := `{"description":"the result: a text, a number, true or false, or a list of these"}`
		if ag.schema != nil {
			inner, f.Checked = string(rebased(ag.schema).JSON()), true
		}
		f.Schema = json.RawMessage(`{"type":"object","properties":{"value":` + inner + `},"required":["value"]}`)
	}
	return f
}

func (b *builder) verdict(ag *agent) *plan.Finish {
	f := b.ending(ag)
	f.Critique = true
	required := `["isCorrect","feedback"]`
	if b.mode == meant {
		required, f.Checked = `["isCorrect"]`, true
	}
	f.Schema = json.RawMessage(`{"type":"object","properties":{` +
		`"isCorrect":{"type":"boolean","description":"Was the task solved correctly?"},` +
		"\"feedback\":{\"type\":\"string\",\"description\":\"Optional feedback about the provided solution. Only needed if `isCorrect == false` and if solution needs adjustments.\"}}," +
		`"required":` + required + `}`)
	return f
}

// ending is what both ways to end have in common.
func (b *builder) ending(ag *agent) *plan.Finish {
	f := &plan.Finish{
		Name: finishTool, Description: finishDescription, Read: b.mode.way(),
		InvalidReply: "Failed to execute '" + finishTool + "' with error: {error}'",
	}
	if b.mode == meant {
		f.InvalidReply = "Failed to execute '" + finishTool + "' with error: {error}"
		f.Reminders, f.Reminder = defaultNudges, "Call a tool. When you are done, call "+finishTool+" with your result; nobody sees a plain answer."
		f.Failure = fmt.Sprintf("the model answered without calling %s, even after %d reminders", finishTool, defaultNudges)
		return f
	}
	model := cmp.Or(ag.model, b.doc.model)
	f.PerRun, f.Failure = true, "Subgraph with task must always call tools, but no Call was generated, got instead: Assistant"
	if strings.HasPrefix(model, "ollama/") { // Koog knows it as one that obeys no tool choice
		_, id, _ := strings.Cut(model, "/")
		f.Reminders = 3
		f.Reminder = "# DO NOT CHAT WITH ME DIRECTLY! CALL TOOLS, INSTEAD.\n## IF YOU HAVE FINISHED, CALL `" + finishTool + "` TOOL!"
		f.Failure = fmt.Sprintf("Unable to finish subgraph with task. Reason: the model '%s' does not support tool choice, and was not able to call `%s` tool after <3> attempts.", id, finishTool)
	}
	return f
}

// rebased adapts references to a schema's root to the schema's place inside another.
func rebased(v *source.Value) *source.Value {
	out := *v
	out.Items, out.Members = nil, nil
	for _, i := range v.Items {
		out.Items = append(out.Items, rebased(i))
	}
	for _, m := range v.Members {
		inner := rebased(m.Value)
		if m.Key == "$ref" && strings.HasPrefix(inner.Text, "#") {
			inner.Text = "#/properties/value" + strings.TrimPrefix(inner.Text, "#")
		}
		out.Members = append(out.Members, source.Member{Key: m.Key, KeyPos: m.KeyPos, Value: inner})
	}
	return &out
}

// maxToolName is the longest name of a tool that all providers take.
const maxToolName = 64

// tools gives an agent the tools of the flow: all, or those that it names.
func (b *builder) tools(ag *agent, to *plan.Agent) {
	servers, locals := b.doc.offered()
	var own, named []string
	for _, name := range ag.toolNames {
		if slices.Contains(locals, name) || b.mode == meant && len(servers) == 0 {
			own = append(own, name)
		} else {
			named = append(named, name)
		}
	}
	if !ag.listsTools {
		own = append(own, locals...)
	}
	for i, name := range own {
		safe := source.SafeName(name)
		to.Tools = append(to.Tools, plan.Tool{Name: name, As: safe[:min(len(safe), maxToolName)]})
		b.place(plan.ToolPath(ag.name, i), ag.at)
	}
	if len(servers) > 0 && (!ag.listsTools || len(named) > 0) {
		to.Toolboxes = &plan.Toolboxes{Connections: servers, All: !ag.listsTools, Names: named, Lenient: b.mode != meant}
	}
}

// asKoog makes the plan follow the published code: one conversation, steps of the whole run, its texts.
func (b *builder) asKoog() {
	limit := max(50, 10*len(b.doc.agents))
	if b.first.maxTurns > 0 {
		limit = b.first.maxTurns
	}
	b.flow.NoRoute.Text = "When executing agent graph, stuck in node {node} because output {value} doesn't match any condition on available edges."
	b.flow.Meter = &plan.Meter{Limit: limit, Base: 2, Text: fmt.Sprintf(
		"Agent couldn't finish in given number of steps (%d). Please, consider increasing `maxAgentIterations` value in agent's configuration", limit)}
	b.flow.Limits.MaxSteps = limit
	for i := range b.flow.Nodes {
		n := &b.flow.Nodes[i]
		n.Cost = b.cost(n)
		if n.Cost != nil {
			n.Cost.Visit += b.around[n.ID]
		}
		if n.Agent == nil {
			continue
		}
		n.Agent.System, n.Agent.MaxErrors, n.Agent.MaxTurns = b.first.system, unbounded, 0
		n.Agent.Sequential, n.Agent.CallsAsText = true, true
		n.Agent.NoTool = "Tool with name '{tool}' not found in the tool registry. Use one of the available tools."
		if n.Agent.Conversation == "" {
			n.Agent.Conversation = plan.ConversationFlow
		}
	}
}

// cost is how many steps of its graphs the published code takes for a node. The graph of an agent is
// a step of the one around it, but inside a parallel agent, whose forks count each for itself.
func (b *builder) cost(n *plan.Node) *plan.Cost {
	c := &plan.Cost{Forked: strings.HasPrefix(n.StateKey, resultPrefix)}
	switch {
	case n.Kind == plan.KindMerge:
		c.Visit = 1 // the end of the parallel agent's graph
	case n.Kind == plan.KindTransform && n.StateKey != "" && !c.Forked:
		c.Visit = 3 // the graph, its start and the step that forks
	case n.Kind == plan.KindTransform:
		c.Visit = 4
	case n.Agent == nil:
		return nil
	default:
		c.Visit, c.Round, c.Remind = 8, 3, 2
		if n.Agent.Finish != nil && n.Agent.Finish.Critique {
			c.Visit = 17
		}
		if n.Agent.React != nil {
			c.Visit = 11
		}
	}
	if c.Forked {
		c.Visit--
	}
	return c
}
