package koog

import (
	"fmt"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
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
	// from and to map each agent to the transitions out of it and into it, in order.
	from, to map[string][]*transition
	// partial reports whether agents or transitions could not be read, so that the graph cannot be checked.
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

// document parses the entire document and reports its errors.
func (a *adaptation) document(root *source.Value) *document {
	d := &document{root: a.Fields(root, "the flow", ""), byName: map[string]*agent{}, from: map[string][]*transition{}, to: map[string][]*transition{}}
	o := d.root
	o.Check(&documentShape)
	d.id = o.Required("id")
	d.revision = a.version(o)
	if a.mode == modeIntended {
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
			a.addAgent(d, ag)
		} else {
			d.partial = true
		}
	}
	if v := d.root.Get("agents"); len(agents) == 0 && (v == nil || v.Kind == source.Array) {
		text := "the flow has no agents"
		if a.mode != modeIntended {
			text = "Unable to build PromptExecutor from provided models: []"
		}
		a.Errorf(o.Pos("agents"), CodeNoAgents, "add at least one agent", "%s", text)
	}
	a.readTransitions(d, transitions)
	a.references(d)
	d.partial = d.partial || len(d.agents) == 0
	return d
}

func (a *adaptation) readTransitions(d *document, transitions []*source.Value) {
	for i, v := range transitions {
		if t := a.transition(d, i, v); t != nil {
			d.transitions = append(d.transitions, t)
			d.from[t.from], d.to[t.to] = append(d.from[t.from], t), append(d.to[t.to], t)
		} else {
			d.partial = true
		}
	}
}

// version returns the author's version. Examples in the protocol's text omit it.
func (a *adaptation) version(o *source.Fields) string {
	switch {
	case a.mode != modeIntended:
		return o.Required("version")
	case o.Get("version") == nil:
		a.Warnf(o.Value.Pos, CodeMissing, `add "version": "1.0"; the protocol's own code requires it`, "the flow has no version")
		return ""
	}
	return o.Text("version")
}

// addAgent adds an agent under its name, which must be unique.
func (a *adaptation) addAgent(d *document, ag *agent) {
	first, double := d.byName[ag.name]
	switch {
	case double && a.mode != modeIntended:
		a.Warnf(ag.nameAt, CodeDuplicate, "rename it", "duplicate agent name %s, first used at line %d; this agent never runs", source.Quote(ag.name), first.at.Line)
		return
	case double:
		a.Errorf(ag.nameAt, CodeDuplicate, "rename it", "duplicate agent name %s, first used at line %d", source.Quote(ag.name), first.at.Line)
		first.invalid = true
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

// references validates the names of agents and tools that agents refer to.
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
			case child.kind == kindParallel && a.mode == modeIntended:
				a.Errorf(at, CodeParallel, "list the inner agent's agents in the outer agent", "the parallel agent %s runs the parallel agent %s",
					source.Quote(ag.name), source.Quote(name))
			default:
				child.inParallel = true
			}
		}
	}
	if a.mode != modeIntended {
		a.checkNesting(d)
	}
	d.partial = d.partial || a.Errors > before
	if a.mode == modeIntended {
		a.toolNames(d)
	}
}

// segments splits input.x or output.x.y into the prefix and the path; the prefix is "" for any other text.
func segments(s string) (prefix string, path []string) {
	parts := strings.Split(s, ".")
	if len(parts) > 1 && (parts[0] == "input" || parts[0] == "output") {
		return parts[0], parts[1:]
	}
	return "", parts
}

type transition struct {
	at       source.Pos
	from, to string
	// compare is nil if the transition is unconditional.
	compare *plan.Compare
	// constant is the value that compare compares with; variableAt is the position of its variable.
	constant   value.Value
	variableAt source.Pos
	valueAt    source.Pos
	pass       *plan.Select
	// invalid reports whether the transition has errors; checks ignore it then.
	invalid bool
}

func (a *adaptation) transition(d *document, i int, v *source.Value) *transition {
	o := a.Fields(v, fmt.Sprintf("transition %d", i+1), "transitions[].").Check(&transitionShape)
	if !o.OK {
		return nil
	}
	before := a.Errors
	t := &transition{at: v.Pos, from: o.Required("from"), to: o.Required("to")}
	known := a.end(d, o, "from", t.from, t) && a.end(d, o, "to", t.to, t)
	if t.from != "" && t.to != "" {
		o.Name = fmt.Sprintf("transition %s -> %s", t.from, t.to)
	}
	if o.Expect("condition", source.Object) != nil {
		a.condition(o.Inner("condition", "condition of "+o.Name), t)
	}
	a.transformation(o, t)
	if !known {
		return nil
	}
	t.invalid = a.Errors > before
	return t
}

func (a *adaptation) end(d *document, o *source.Fields, key, name string, t *transition) bool {
	if name == "" {
		return false
	}
	if d.byName[name] != nil || key == "to" && name == finishName {
		return true
	}
	text := fmt.Sprintf("%s of %s is the unknown agent %s", key, o.Name, source.Quote(name))
	if a.mode != modeIntended {
		text = fmt.Sprintf("Unable to find '%s' node for transition '%s -> %s': %s", key, t.from, t.to, name)
	}
	a.Errorf(o.Pos(key), CodeUnknownAgent, a.DidYouMean(name, d.names, "agents are"), "%s", text)
	return false
}

func (a *adaptation) condition(c *source.Fields, t *transition) {
	c.Check(&conditionShape)
	variable, op := a.variableText(c), a.operation(c)
	written := op
	if field := c.Value.Get("operation"); field != nil && field.Kind == source.String {
		written = field.Text
	}
	if (op != "" || a.mode == modeFirst && blank(c.Value.Get("operation"))) && !value.Known(op) {
		if a.mode == modeFirst {
			a.Warnf(c.Pos("operation"), CodeOperation, a.DidYouMean(op, value.Operations, "operations are"),
				"unknown operation %s; Koog and this profile always take the transition", source.Quote(written))
			return
		}
		a.Errorf(c.Pos("operation"), CodeOperation, a.DidYouMean(op, value.Operations, "operations are"), "unknown operation %s of %s", source.Quote(written), c.Name)
	}
	t.valueAt, t.variableAt = c.Pos("value"), c.Pos("variable")
	constant, ok := a.constant(c, false)
	compare := &plan.Compare{Text: fmt.Sprintf("%s %s %s", variable, op, constant.Brief()), Op: op, Value: constant.JSON(), Rules: a.rules()}
	a.variable(c, variable, compare)
	if ok && op != "" {
		t.constant, t.compare = constant, compare
	}
}

// operation returns the operator of a condition. A blank operator is missing; in the first code it is unknown.
func (a *adaptation) operation(c *source.Fields) string {
	v := c.Value.Get("operation")
	if a.mode == modeFirst && blank(v) {
		return v.Text
	}
	op := c.Required("operation")
	if blank(v) {
		return ""
	}
	return strings.ToLower(op)
}

func blank(v *source.Value) bool {
	return v != nil && v.Kind == source.String && strings.TrimSpace(v.Text) == ""
}

// variableText returns the variable of a condition, which may be empty in the published code.
func (a *adaptation) variableText(c *source.Fields) string {
	if v := c.Value.Get("variable"); a.mode != modeIntended && v != nil && v.Kind == source.String && v.Text == "" {
		return ""
	}
	return c.Required("variable")
}

// constant returns the value that a condition or a merge compares with; tagged allows {"type": ..., "data": ...}.
func (a *adaptation) constant(c *source.Fields, tagged bool) (parsed value.Value, ok bool) {
	v := c.Value.Get("value")
	if v == nil {
		a.Errorf(c.Value.Pos, CodeMissing, `set "value"`, "%s has no value", c.Name)
		return value.Value{}, false
	}
	help := "use a string, a number, true or false"
	if tagged {
		help += `, or {"type": "int", "data": 5}`
	}
	parsed, err := value.Parse(v.JSON())
	if err == nil && tagged && v.Kind == source.Object {
		parsed, err = value.Reread(value.Tagged, parsed)
	} else if err == nil {
		parsed, err = value.Constant(a.mode.syntax(), parsed)
	}
	if err != nil {
		a.Errorf(v.Pos, CodeValue, help, "the value of %s: %v", c.Name, err)
		return value.Value{}, false
	}
	return parsed, true
}

func (a *adaptation) variable(c *source.Fields, text string, to *plan.Compare) {
	prefix, path := segments(text)
	to.Path = path
	switch a.mode {
	case modeFirst:
		to.Path = path[len(path)-1:]
	case modeLater:
		to.Path = path[len(path)-1:]
		if prefix == "" && len(strings.Split(text, ".")) != 2 || prefix != "" && len(path) != 1 {
			to.Fail = fmt.Sprintf("Expected format for condition variable: 'output.<variable>', got: %s", text)
		} else if prefix != "output" {
			to.Fail = fmt.Sprintf("Expected to get the 'output' keyword in the condition variable, got: %s", text)
		}
	default:
		if text == "input" || text == "output" {
			to.Path = []string{"data"}
		}
		if text != "" && prefix == "" {
			a.Warnf(c.Pos("variable"), CodeVariable, "use input.data, input.success or input.feedback; output. means the same",
				"the variable of %s is %s, expected a name that begins with input. or output.; it is read as input.%s", c.Name, source.Quote(text), strings.Join(to.Path, "."))
		}
	}
}

// transformation reads the part of the value that a transition selects. The first code ignores it.
func (a *adaptation) transformation(o *source.Fields, t *transition) {
	v := o.Expect("transformation", source.Object)
	if v == nil || a.mode == modeFirst {
		return
	}
	f := o.Inner("transformation", "transformation of "+o.Name).Check(&selectionShape)
	text := f.Required("value")
	prefix, path := segments(text)
	if text != "" && prefix == "" {
		a.Errorf(f.Pos("value"), CodeTransform, "use input.feedback, for example", "%s is %s, expected a name that begins with input. or output.", f.Name, source.Quote(text))
		return
	}
	t.pass = &plan.Select{Path: path, Rules: a.rules()}
}
