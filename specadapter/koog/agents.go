package koog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

type agent struct {
	at, nameAt source.Pos
	name, kind string
	// model is the resolved provider/model, modelText the text in the document.
	model, modelText string
	modelAt          source.Pos
	maxTurns         int
	params           *plan.Params
	choice           string
	choiceAt         source.Pos
	system           string
	user             string
	task             string
	schema           *source.Value
	toolNames        []string
	toolsAt          []source.Pos
	listsTools       bool
	steps            []step
	interval         int
	children         []string
	childPos         []source.Pos
	merge            *merge
	inParallel       bool
	// draftInput reports whether the agent has the field input of drafts of the protocol.
	draftInput  bool
	paramsValue *source.Fields
	// invalid reports whether the agent has errors, so that the type of its value is unknown.
	invalid bool
}

type step struct {
	text string
	at   source.Pos
}

var agentKinds = []string{kindTask, kindVerify, kindTransform, kindParallel, kindReact}

func (a *adaptation) agent(i int, v *source.Value) *agent {
	o := a.Fields(v, fmt.Sprintf("agent %d", i+1), "agents[].")
	if !o.OK {
		return nil
	}
	before, known := a.Errors, agentShape.Names()
	if a.mode != modeIntended {
		known = slices.DeleteFunc(known, func(name string) bool { return name == draftInputName })
	}
	o.WarnUnknown(known...)
	ag := &agent{at: v.Pos, nameAt: o.Pos("name"), name: o.Required("name"), interval: 1}
	if ag.name != "" {
		o.Name = "agent " + source.Quote(ag.name)
	}
	ag.kind = a.kind(o)
	ag.modelText, ag.modelAt = o.Text("model"), o.Pos("model")
	ag.model = a.resolve(ag.modelText, ag.modelAt)
	a.blankModel(o, "model", ag.modelText)
	if v := o.Expect("runtime", source.String); v != nil && v.Text != "koog" {
		a.Errorf(v.Pos, CodeRuntime, `set "runtime": "koog" or remove it`, "the runtime of %s is %s; only koog is supported", o.Name, source.Quote(v.Text))
	}
	a.config(o, ag)
	a.prompt(o, ag)
	a.output(o, ag)
	ag.draftInput = o.Get(draftInputName) != nil
	ag.paramsValue = o.Inner("params", o.Name)
	a.agentParams(ag)
	a.draftInput(o, ag)
	ag.invalid = a.Errors > before
	return ag
}

// draftInputName is the name of a field of drafts of the protocol.
const draftInputName = "input"

// draftInput handles the field that was named task after the drafts of the protocol.
func (a *adaptation) draftInput(o *source.Fields, ag *agent) {
	v := o.Get(draftInputName)
	switch {
	case v == nil || a.mode != modeIntended:
	case v.Kind == source.String && ag.task == "" && ag.kind != kindTransform && ag.kind != kindParallel:
		a.Warnf(v.Pos, CodeNoEffect, `move it to "task" in params; a run's input is passed when it starts`, "input of %s is used as its task", o.Name)
		ag.task = v.Text
	default:
		a.Warnf(v.Pos, CodeNoEffect, "remove it; a run's input is passed when it starts", "input of %s has no effect", o.Name)
	}
}

// kind returns an agent's type; the default profile ignores case.
func (a *adaptation) kind(o *source.Fields) string {
	kind := o.Required("type")
	if a.mode == modeIntended {
		kind = strings.ToLower(kind)
	}
	if kind != "" && !slices.Contains(agentKinds, kind) {
		a.Errorf(o.Pos("type"), CodeType, a.DidYouMean(kind, agentKinds, "types are"), "unknown type %s of %s", source.Quote(kind), o.Name)
	}
	return kind
}

func (a *adaptation) config(o *source.Fields, ag *agent) {
	c := o.Inner("config", o.Name).Check(&configShape)
	p := plan.Params{Temperature: a.number(c, "temperature", 0, 2), TopP: a.number(c, "topP", 0, 1), MaxTokens: a.positiveInt(c, "maxTokens")}
	ag.maxTurns = a.positiveInt(c, "maxIterations")
	ag.choice, ag.choiceAt = a.toolChoice(c), c.Pos("toolChoice")
	if v := c.Get("speculation"); v != nil && a.mode == modeIntended {
		a.Warnf(v.Pos, CodeNoEffect, "remove it", "speculation of %s has no effect", o.Name)
	}
	if p.Temperature != nil || p.TopP != nil || p.MaxTokens > 0 {
		ag.params = &p
	}
}

func (a *adaptation) number(o *source.Fields, key string, least, most float64) *float64 {
	v := a.numeric(o, key)
	if v == nil {
		return nil
	}
	if v.Kind != source.Number {
		o.Expect(key, source.Number)
		return nil
	}
	var f float64
	if err := json.Unmarshal([]byte(v.Text), &f); err != nil || (f < least || f > most) && a.mode == modeIntended {
		a.Errorf(v.Pos, CodeConfig, fmt.Sprintf("use a number from %v to %v", least, most), "%s of %s is %s", key, o.Name, v.Describe())
		return nil
	}
	return &f
}

// positiveInt returns an integer field of at least 1, or 0 if it is absent or invalid.
func (a *adaptation) positiveInt(o *source.Fields, key string) int {
	v := a.numeric(o, key)
	if v == nil {
		return 0
	}
	n, ok := v.Int()
	if v.Kind != source.Number || !ok {
		a.Errorf(v.Pos, CodeConfig, "use a whole number of at least 1 or remove it", "%s of %s is %s, expected a whole number from 1 to 2147483647", key, o.Name, v.Describe())
		return 0
	}
	return n
}

// toolChoices are the spellings of tool choices in the protocol's later text and in its code.
var toolChoices = map[string]string{
	"auto": plan.ChoiceAuto, "none": plan.ChoiceNone, "required": plan.ChoiceRequired,
	"ai.koog.protocol.agent.ToolChoiceKind.Auto": plan.ChoiceAuto, "ai.koog.protocol.agent.ToolChoiceKind.None": plan.ChoiceNone,
	"ai.koog.protocol.agent.ToolChoiceKind.Required": plan.ChoiceRequired,
}

// toolChoice returns which tools a model may or must call: auto, none, required or the name of a tool.
func (a *adaptation) toolChoice(o *source.Fields) string {
	const help = `use "auto", "none", "required" or {"toolName": "NAME"}`
	v := o.Get("toolChoice")
	switch {
	case v == nil:
		return ""
	case v.Kind == source.String && a.mode == modeIntended:
		if c := toolChoices[strings.ToLower(v.Text)]; c != "" {
			return c
		}
	case v.Kind == source.Object:
		if name := v.Get("toolName"); name != nil && name.Kind == source.String && name.Text != "" {
			return name.Text
		}
		if kind := v.Get("type"); kind != nil && toolChoices[kind.Text] != "" {
			return toolChoices[kind.Text]
		}
	}
	a.Errorf(v.Pos, CodeConfig, help, "toolChoice of %s is %s", o.Name, v.Describe())
	return ""
}

func (a *adaptation) prompt(o *source.Fields, ag *agent) {
	if o.Expect("prompt", source.Object) == nil {
		return
	}
	p := o.Inner("prompt", "the prompt of "+o.Name).Check(&promptShape)
	ag.system, ag.user = p.Text("system"), p.Text("user")
	if a.mode != modeIntended && p.Get("system") == nil {
		a.Errorf(p.Value.Pos, CodeMissing, `set "system"`, "%s has no system", p.Name)
	}
}

// output reads the JSON Schema of an agent's result: a string or, in the default profile, an object.
func (a *adaptation) output(o *source.Fields, ag *agent) {
	out := o.Inner("output", o.Name).Check(&outputShape)
	v := out.Get("schema")
	if v == nil {
		return
	}
	if a.mode != modeIntended {
		out.Text("schema")
		return
	}
	const help = "use a JSON Schema, as an object or as a string"
	if v.Kind == source.String {
		doc, diags := source.Parse("schema.json", []byte(v.Text))
		if doc == nil || doc.Root.Kind != source.Object {
			text := "expected an object"
			if len(diags) > 0 {
				text = diags[0].Text
			}
			a.Errorf(v.Pos, CodeConfig, help, "schema of %s is not a JSON Schema: %s", out.Name, text)
			return
		}
		v = &source.Value{Kind: source.Object, Pos: v.Pos, Members: doc.Root.Members}
	}
	if !a.Expect(v, source.Object, help, "schema of "+out.Name) {
		return
	}
	a.CheckSchemaAt(v, out.Pos("schema"), CodeConfig, "schema of "+out.Name)
	ag.schema = v
}

func (a *adaptation) agentParams(ag *agent) {
	o := ag.paramsValue
	switch ag.kind {
	case kindTask, kindVerify:
		o.Check(&taskShape)
		a.task(o, ag)
		a.readToolNames(o, ag)
	case kindReact:
		o.Check(&reactShape)
		a.task(o, ag)
		a.readToolNames(o, ag)
		a.reasoning(o, ag)
	case kindTransform:
		o.Check(&transformShape)
		a.transformations(o, ag)
	case kindParallel:
		o.Check(&parallelShape)
		a.parallel(o, ag)
	default: // the type is unknown, which has been reported
		o.WarnUnknown(slices.Concat(reactShape.Names(), transformShape.Names(), parallelShape.Names())...)
	}
}

// task reads the agent's task. Only the later code requires it.
func (a *adaptation) task(o *source.Fields, ag *agent) {
	v := o.Get("task")
	blank := v == nil || v.Kind == source.String && strings.TrimSpace(v.Text) == ""
	switch {
	case v == nil && a.mode == modeLater:
		a.Errorf(o.Value.Pos, CodeMissing, `set "task" in params`, "Missing <task> parameter of agent %s", source.Quote(ag.name))
	case v == nil && a.mode == modeIntended && ag.draftInput:
	case blank && a.mode == modeIntended:
		a.Warnf(ag.at, CodeMissing, `set "task" in params to what the agent should do`, "agent %s has no task", source.Quote(ag.name))
	case v == nil:
	case a.mode != modeIntended && (v.Kind == source.Number || v.Kind == source.Bool):
		ag.task = v.Literal()
	default:
		ag.task = o.Text("task")
	}
}

// readToolNames reads toolNames. Absent means all tools; [] means none, or all in the first code.
func (a *adaptation) readToolNames(o *source.Fields, ag *agent) {
	v := o.Value.Get("toolNames")
	if v == nil || v.Kind == source.Null {
		return
	}
	if v.Kind != source.Array {
		if a.mode != modeIntended {
			return // as in the published code
		}
		a.Warnf(v.Pos, CodeWrongType, source.TypeHelp[source.Array], "toolNames of %s is %s, expected an array; %s", o.Name, v.Describe(), toolNamesEffect(v))
		if v.Kind != source.String {
			return
		}
		v = &source.Value{Kind: source.Array, Pos: v.Pos, Items: []*source.Value{v}}
	}
	ag.listsTools = len(v.Items) > 0 || a.mode != modeFirst
	for _, item := range v.Items {
		if item.Kind == source.Null && a.mode != modeIntended {
			continue
		}
		name, ok := item.Literal(), a.mode == modeLater && (item.Kind == source.Number || item.Kind == source.Bool)
		if !ok {
			name, ok = a.Text(item, "a tool name of agent "+source.Quote(ag.name), false)
		}
		if ok {
			ag.toolNames, ag.toolsAt = append(ag.toolNames, name), append(ag.toolsAt, item.Pos)
		}
	}
}

// toolNamesEffect describes the effect of toolNames that are not an array.
func toolNamesEffect(v *source.Value) string {
	if v.Kind == source.String {
		return "it is read as a list of that name"
	}
	return "it is ignored: the agent has all tools"
}

// reasoning reads the number of tool results between a react agent's thoughts, as a number or a string.
func (a *adaptation) reasoning(o *source.Fields, ag *agent) {
	v := o.Get("reasoningInterval")
	if v == nil {
		return
	}
	n, ok := v.Int()
	if v.Kind == source.String {
		c, err := value.Constant(value.Tagged, value.Of(v.Text))
		n, ok = int(c.Int), err == nil && c.Kind == value.Int && c.Int > 0
	}
	if !ok {
		a.Errorf(v.Pos, CodeConfig, "use a whole number of at least 1", "reasoningInterval of agent %s is %s", source.Quote(ag.name), v.Describe())
		return
	}
	ag.interval = n
}

// transformations reads a transform agent's selections, such as {"value": "input.feedback"}.
func (a *adaptation) transformations(o *source.Fields, ag *agent) {
	for i, v := range o.List("transformations") {
		if v.Kind != source.Object && a.mode != modeIntended {
			continue
		}
		t := a.Fields(v, fmt.Sprintf("transformation %d of agent %s", i+1, source.Quote(ag.name)), o.Path+"transformations[].")
		if !t.OK {
			continue
		}
		key, known := "value", selectionShape.Names()
		if older := t.Get("input"); a.mode == modeIntended && older != nil && t.Get(key) == nil {
			key, known = "input", append(known, "input")
			a.Warnf(older.Pos, CodeTransform, `rename it to "value"`, "input of %s is used as its value", t.Name)
		}
		t.WarnUnknown(known...)
		if t.Get(key) == nil && a.mode != modeIntended {
			continue
		}
		if text := t.Text(key); t.Get(key) == nil {
			a.Errorf(v.Pos, CodeMissing, `use {"value": "input.feedback"}, for example`, "%s has no value", t.Name)
		} else {
			ag.steps = append(ag.steps, step{text, t.Pos(key)})
		}
	}
	a.steps(ag)
}

func (a *adaptation) steps(ag *agent) {
	for _, s := range ag.steps {
		if prefix, path := segments(s.text); a.mode == modeIntended && prefix == "" && len(path) > 1 {
			a.Warnf(s.at, CodeTransform, "use input.feedback, for example; output. means the same",
				"the transformation of agent %s is %s, expected a name that begins with input. or output.; it is read as input.%s",
				source.Quote(ag.name), source.Quote(s.text), s.text)
		}
	}
	if len(ag.steps) > 1 && a.mode == modeIntended {
		a.Errorf(ag.steps[1].at, CodeTransform, "use one transform agent per transformation, in sequence",
			"agent %s has %d transformations, expected at most one", source.Quote(ag.name), len(ag.steps))
	}
}

type merge struct {
	at       source.Pos
	variable string
	op       string
	value    value.Value
}

// parallel reads the agents that run in parallel, and how their results are merged.
func (a *adaptation) parallel(o *source.Fields, ag *agent) {
	list := o.Expect("agents", source.Array)
	if list == nil || len(list.Items) == 0 {
		if v := o.Get("agents"); v == nil || v.Kind == source.Array {
			a.Errorf(o.Pos("agents"), CodeMissing, `list agent names in "agents" in params`, "the parallel agent %s lists no agents", source.Quote(ag.name))
		}
		return
	}
	seen := map[string]bool{}
	for _, item := range list.Items {
		name, ok := a.Text(item, "an agent of the parallel agent "+source.Quote(ag.name), false)
		if !ok {
			continue
		}
		if seen[name] {
			a.Warnf(item.Pos, CodeDuplicate, "remove one of the two", "the parallel agent %s lists %s twice; it runs once", source.Quote(ag.name), source.Quote(name))
			continue
		}
		seen[name] = true
		ag.children, ag.childPos = append(ag.children, name), append(ag.childPos, item.Pos)
	}
	if v := o.Expect("merge", source.Object); v != nil {
		m := o.Inner("merge", "merge of agent "+source.Quote(ag.name)).Check(&mergeShape)
		ag.merge = &merge{at: v.Pos, variable: m.Required("variable"), op: m.Required("operation")}
		ag.merge.value, _ = a.constant(m, true)
	}
}
