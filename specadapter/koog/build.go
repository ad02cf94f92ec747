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

// builder compiles a document to a plan. If the document has errors, only the diagnostics are used.
type builder struct {
	*adaptation
	doc  *document
	flow plan.Flow
	// first is the agent at which a run starts.
	first *agent
	// out maps each agent to the id of its last node; the id of its first node is its name.
	out       map[string]string
	taken     map[string]bool
	positions []plan.Position
	// types caches the types of the agents' input values; see typeIn.
	types map[string]valueType
	// innerEdges are the edges between the nodes of an agent.
	innerEdges []plan.Edge
	// outerSteps maps nodes to the steps of nested parallel agents around them; see [parallelAgent].
	outerSteps map[string]int
}

func (b *builder) build() *plan.Flow {
	d := b.doc
	b.out, b.taken, b.outerSteps = map[string]string{}, map[string]bool{}, map[string]int{}
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
	if b.mode != modeIntended {
		b.applyKoog()
		b.failUnknownModel()
	} else if n := stepsPerAgent * len(d.agents); n > plan.DefaultLimits.MaxSteps {
		b.flow.Limits.MaxSteps = n
	}
	b.checkReach(b.checkAgents())
	return &b.flow
}

// steps returns the agents that are steps of the flow; in the published code, these include agents of parallel agents.
func (b *builder) steps() []*agent {
	out := slices.DeleteFunc(slices.Clone(b.doc.agents), func(ag *agent) bool {
		return ag.inParallel && b.doc.from[ag.name] == nil && b.doc.to[ag.name] == nil && b.mode == modeIntended
	})
	if len(out) == 0 {
		return b.doc.agents
	}
	return out
}

// impliedTransitions visits the implied transitions of agents without any: to the next step if the flow has none, else to its end.
func (b *builder) impliedTransitions(visit func(from *agent, to string)) {
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

// edges adds the edges of the transitions, then the implied edges.
func (b *builder) edges() {
	b.edge(plan.Edge{From: plan.Start, To: b.first.name}, b.first.at)
	for _, t := range b.doc.transitions {
		b.edge(plan.Edge{From: b.out[t.from], To: t.to, Compare: t.compare, Pass: t.pass}, t.at)
	}
	for _, e := range b.innerEdges {
		b.edge(e, source.Pos{})
	}
	b.impliedTransitions(func(ag *agent, to string) { b.edge(plan.Edge{From: b.out[ag.name], To: to}, ag.at) })
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

// defaultModel returns the model of agents that do not name one.
func (b *builder) defaultModel() string {
	if b.doc.model != "" {
		return b.doc.model
	}
	without := slices.IndexFunc(b.doc.agents, func(ag *agent) bool {
		return ag.model == "" && (b.mode != modeIntended || ag.kind != kindTransform && ag.kind != kindParallel)
	})
	if without >= 0 {
		ag := b.doc.agents[without]
		switch b.mode {
		case modeFirst:
			b.Errorf(ag.at, CodeModel, `set "defaultModel"`, "Model must be specified either on agent '%s' or as flow's defaultModel", ag.name)
		case modeLater:
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

// values configures typed values and the value of a run without input.
func (b *builder) values() {
	b.flow.Values = &plan.Values{Read: b.mode.syntax()}
	if b.mode == modeIntended {
		return
	}
	names := printedFirst
	if b.mode == modeLater {
		names = printedLater
	}
	b.flow.Values.Printed = names
	b.flow.Values.Missing = "No agents found"
	if k := b.first.kind; k == kindTask || k == kindVerify {
		b.flow.Values.Missing = ""
		b.flow.Values.Default = json.RawMessage(value.Of(b.first.task).JSON())
	}
}

// printedFirst and printedLater are the formats of values in the published code, by type.
var (
	printedFirst = []plan.Printed{
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

// Limits of the default profile; unbounded stands for no limit.
const (
	defaultTurns  = 50
	defaultErrors = 10
	defaultNudges = 3
	// stepsPerAgent is the default maximum number of steps per agent of a large flow. It is enough
	// for any flow without loops.
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
		if b.mode == modeIntended {
			n.Agent.React.Act = "Now act: call a tool, or answer if nothing is left to do."
		}
	default:
		n.Agent.Finish = b.finish(ag)
	}
	b.tools(ag, n.Agent)
	if ag.choice == plan.ChoiceNone && b.mode == modeIntended && n.Agent.Finish != nil {
		// The agent has none of the flow's tools. A plain answer is the value of a task; a verdict
		// or a value with a schema is still returned by the finishing tool.
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
	if b.mode == modeIntended && (text == "" || text == "input" || text == "output") {
		return &plan.Transform{}
	}
	_, path := segments(ag.steps[0].text)
	return &plan.Transform{Select: &plan.Select{Path: path, Rules: b.rules()}}
}

// params returns the parameters of the model calls. The published code drops them.
func (b *builder) params(ag *agent) *plan.Params {
	if b.mode != modeIntended {
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

// opening returns the first message of an agent. In the published code, it is only the task.
func (b *builder) opening(ag *agent) []plan.Piece {
	if b.mode != modeIntended {
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

// finishTool is the tool that an agent calls to return its result.
const finishTool = "finalize_task_result"

const finishDescription = "Call this tool when finish and provide final result"

func (b *builder) finish(ag *agent) *plan.Finish {
	f := b.ending(ag)
	f.Keys = []string{"__wrapped_value__"}
	switch b.mode {
	case modeFirst:
		f.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
	case modeLater:
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
	if b.mode == modeIntended {
		required, f.Checked = `["isCorrect"]`, true
	}
	f.Schema = json.RawMessage(`{"type":"object","properties":{` +
		`"isCorrect":{"type":"boolean","description":"Was the task solved correctly?"},` +
		"\"feedback\":{\"type\":\"string\",\"description\":\"Optional feedback about the provided solution. Only needed if `isCorrect == false` and if solution needs adjustments.\"}}," +
		`"required":` + required + `}`)
	return f
}

// ending returns the common part of finish and verdict.
func (b *builder) ending(ag *agent) *plan.Finish {
	f := &plan.Finish{
		Name: finishTool, Description: finishDescription, Read: b.mode.syntax(),
		InvalidReply: "Failed to execute '" + finishTool + "' with error: {error}'",
	}
	if b.mode == modeIntended {
		f.InvalidReply = "Failed to execute '" + finishTool + "' with error: {error}"
		f.Reminders, f.Reminder = defaultNudges, "Call a tool. When you are done, call "+finishTool+" with your result; nobody sees a plain answer."
		f.Failure = fmt.Sprintf("the model answered without calling %s, even after %d reminders", finishTool, defaultNudges)
		return f
	}
	model := cmp.Or(ag.model, b.doc.model)
	f.PerRun, f.Failure = true, "Subgraph with task must always call tools, but no Call was generated, got instead: Assistant"
	if strings.HasPrefix(model, "ollama/") { // these models do not support tool choice in Koog
		_, id, _ := strings.Cut(model, "/")
		f.Reminders = 3
		f.Reminder = "# DO NOT CHAT WITH ME DIRECTLY! CALL TOOLS, INSTEAD.\n## IF YOU HAVE FINISHED, CALL `" + finishTool + "` TOOL!"
		f.Failure = fmt.Sprintf("Unable to finish subgraph with task. Reason: the model '%s' does not support tool choice, and was not able to call `%s` tool after <3> attempts.", id, finishTool)
	}
	return f
}

// rebased returns a schema with its references adapted to its position in the schema of the finishing tool.
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

// maxToolName is the maximum length of a tool name that all providers accept.
const maxToolName = 64

// tools sets the tools of an agent: all tools of the flow, or those that it names.
func (b *builder) tools(ag *agent, to *plan.Agent) {
	servers, locals := b.doc.availableTools()
	var own, named []string
	for _, name := range ag.toolNames {
		if slices.Contains(locals, name) || b.mode == modeIntended && len(servers) == 0 {
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
		to.Toolboxes = &plan.Toolboxes{Connections: servers, All: !ag.listsTools, Names: named, Lenient: b.mode != modeIntended}
	}
}

// applyKoog makes the plan behave like the published code: one conversation, one step limit for the run, and its texts.
func (b *builder) applyKoog() {
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
			n.Cost.Visit += b.outerSteps[n.ID]
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

// cost returns the number of steps that the published code counts for a node. The graph of an agent also
// counts as one step of the enclosing graph, except inside a parallel agent, whose branches count separately.
func (b *builder) cost(n *plan.Node) *plan.Cost {
	c := &plan.Cost{Forked: strings.HasPrefix(n.StateKey, resultPrefix)}
	switch {
	case n.Kind == plan.KindMerge:
		c.Visit = 1 // the end of the graph
	case n.Kind == plan.KindTransform && n.StateKey != "" && !c.Forked:
		c.Visit = 3 // the graph, its start and the fork
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
