package koog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
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
	if !forcesTools(model) {
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
	servers, locals := b.doc.servers(), b.doc.locals()
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
