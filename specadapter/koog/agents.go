package koog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

type agent struct {
	at, nameAt source.Pos
	name, kind string
	// model is as the worker's providers know it, modelText as it is written.
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
	// oldInput reports whether the agent has the field input, of drafts of the protocol.
	oldInput    bool
	paramsValue *source.Fields
	// wrong reports whether the agent has errors, so that nothing is known of its value.
	wrong bool
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
	if a.mode != meant {
		known = slices.DeleteFunc(known, func(name string) bool { return name == oldInputName })
	}
	o.Only(known...)
	ag := &agent{at: v.Pos, nameAt: o.Pos("name"), name: o.Required("name"), interval: 1}
	if ag.name != "" {
		o.Name = "agent " + source.Quote(ag.name)
	}
	ag.kind = a.kind(o)
	ag.modelText, ag.modelAt = o.Text("model"), o.Pos("model")
	ag.model = a.resolve(ag.modelText, ag.modelAt)
	a.blankModel(o, "model", ag.modelText)
	a.runtime(o)
	a.config(o, ag)
	a.prompt(o, ag)
	a.output(o, ag)
	ag.oldInput = o.Get(oldInputName) != nil
	ag.paramsValue = o.Inner("params", o.Name)
	a.agentParams(ag)
	a.oldInput(o, ag)
	ag.wrong = a.Errors > before
	return ag
}

// oldInputName is the name of a field of drafts of the protocol.
const oldInputName = "input"

// oldInput takes the field that drafts of the protocol had for what is a task now.
func (a *adaptation) oldInput(o *source.Fields, ag *agent) {
	v := o.Get(oldInputName)
	switch {
	case v == nil || a.mode != meant:
	case v.Kind == source.String && ag.task == "" && ag.kind != kindTransform && ag.kind != kindParallel:
		a.Warnf(v.Pos, CodeNoEffect, `move it to "task" in params; a run's input is passed when it starts`, "input of %s is used as its task", o.Name)
		ag.task = v.Text
	default:
		a.Warnf(v.Pos, CodeNoEffect, "remove it; a run's input is passed when it starts", "input of %s has no effect", o.Name)
	}
}

// kind reads an agent's type: in the default profile in any letter case.
func (a *adaptation) kind(o *source.Fields) string {
	kind := o.Required("type")
	if a.mode == meant {
		kind = strings.ToLower(kind)
	}
	if kind != "" && !slices.Contains(agentKinds, kind) {
		a.Errorf(o.Pos("type"), CodeType, a.DidYouMean(kind, agentKinds, "types are"), "unknown type %s of %s", source.Quote(kind), o.Name)
	}
	return kind
}

// runtime accepts koog alone: the others are names of runtimes that no one has written.
func (a *adaptation) runtime(o *source.Fields) {
	v := o.Want("runtime", source.String)
	if v == nil || v.Text == "koog" {
		return
	}
	a.Errorf(v.Pos, CodeRuntime, `set "runtime": "koog" or remove it`, "the runtime of %s is %s; only koog is supported", o.Name, source.Quote(v.Text))
}

func (a *adaptation) config(o *source.Fields, ag *agent) {
	c := o.Inner("config", o.Name).Of(&configShape)
	p := plan.Params{Temperature: a.number(c, "temperature", 0, 2), TopP: a.number(c, "topP", 0, 1), MaxTokens: a.whole(c, "maxTokens")}
	ag.maxTurns = a.whole(c, "maxIterations")
	ag.choice, ag.choiceAt = a.toolChoice(c), c.Pos("toolChoice")
	if v := c.Get("speculation"); v != nil && a.mode == meant {
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
		o.Want(key, source.Number)
		return nil
	}
	var f float64
	if err := json.Unmarshal([]byte(v.Text), &f); err != nil || (f < least || f > most) && a.mode == meant {
		a.Errorf(v.Pos, CodeConfig, fmt.Sprintf("use a number from %v to %v", least, most), "%s of %s is %s", key, o.Name, v.Describe())
		return nil
	}
	return &f
}

// whole is a whole number from 1 on, 0 where it is absent.
func (a *adaptation) whole(o *source.Fields, key string) int {
	v := a.numeric(o, key)
	if v == nil {
		return 0
	}
	n, ok := v.Int()
	if v.Kind != source.Number || !ok {
		a.Errorf(v.Pos, CodeConfig, "use a whole number of at least 1 or remove it", "%s of %s is %s, want a whole number from 1 to 2147483647", key, o.Name, v.Describe())
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

// toolChoice reads which tools a model may or must call: auto, none, required or a tool.
func (a *adaptation) toolChoice(o *source.Fields) string {
	const help = `use "auto", "none", "required" or {"toolName": "NAME"}`
	v := o.Get("toolChoice")
	switch {
	case v == nil:
		return ""
	case v.Kind == source.String && a.mode == meant:
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
	if o.Want("prompt", source.Object) == nil {
		return
	}
	p := o.Inner("prompt", "the prompt of "+o.Name).Of(&promptShape)
	ag.system, ag.user = p.Text("system"), p.Text("user")
	if a.mode != meant && p.Get("system") == nil {
		a.Errorf(p.Value.Pos, CodeMissing, `set "system"`, "%s has no system", p.Name)
	}
}

// output reads the JSON Schema of an agent's result: a text or, in the default profile, an object.
func (a *adaptation) output(o *source.Fields, ag *agent) {
	out := o.Inner("output", o.Name).Of(&outputShape)
	v := out.Get("schema")
	if v == nil {
		return
	}
	if a.mode != meant {
		out.Text("schema")
		return
	}
	const help = "use a JSON Schema, as an object or as a string"
	if v.Kind == source.String {
		doc, diags := source.Parse("schema.json", []byte(v.Text))
		if doc == nil || doc.Root.Kind != source.Object {
			text := "want an object"
			if len(diags) > 0 {
				text = diags[0].Text
			}
			a.Errorf(v.Pos, CodeConfig, help, "schema of %s is not a JSON Schema: %s", out.Name, text)
			return
		}
		v = &source.Value{Kind: source.Object, Pos: v.Pos, Members: doc.Root.Members}
	}
	if v.Kind != source.Object {
		a.Errorf(v.Pos, CodeWrongType, help, "schema of %s is %s, want an object", out.Name, v.Describe())
		return
	}
	a.CheckSchemaAt(v, out.Pos("schema"), CodeConfig, "schema of "+out.Name)
	ag.schema = v
}
