package koog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// agent is an agent as it is written.
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
	stepsAt          source.Pos
	interval         int
	children         []string
	childPos         []source.Pos
	merge            *merge
	inParallel       bool
	// oldInput says that the agent has the field input, of drafts of the protocol.
	oldInput    bool
	paramsValue object
}

// step is one transformation of a transform agent.
type step struct {
	text string
	at   source.Pos
}

var agentKinds = []string{kindTask, kindVerify, kindTransform, kindParallel, kindReact}

// agent reads one agent; nil if it is no object.
func (a *adaptation) agent(i int, v *source.Value) *agent {
	o := a.object(v, fmt.Sprintf("agent %d", i+1))
	if !o.ok {
		return nil
	}
	known := []string{"name", "type", "model", "runtime", "config", "prompt", "params", "output"}
	if a.mode == meant {
		known = append(known, "input")
	}
	o.only("agents[].", known...)
	ag := &agent{at: v.Pos, nameAt: o.pos("name"), name: o.required("name"), interval: 1}
	if ag.name != "" {
		o.what = "agent " + source.Quote(ag.name)
	}
	ag.kind = a.kind(&o)
	ag.modelText, ag.modelAt = o.text("model"), o.pos("model")
	ag.model = a.resolve(ag.modelText, ag.modelAt)
	a.blankModel(&o, "model", ag.modelText)
	a.runtime(&o)
	a.config(&o, ag)
	a.prompt(&o, ag)
	a.output(&o, ag)
	ag.oldInput = o.get("input") != nil
	ag.paramsValue = o.inner("params", o.what)
	a.agentParams(ag)
	a.oldInput(&o, ag)
	return ag
}

// oldInput takes the field that drafts of the protocol had for what is a task now.
func (a *adaptation) oldInput(o *object, ag *agent) {
	v := o.get("input")
	switch {
	case v == nil || a.mode != meant:
	case v.Kind == source.String && ag.task == "" && ag.kind != kindTransform && ag.kind != kindParallel:
		a.warnf(v.Pos, CodeNoEffect, `write it as "task" in params; a run's input is given at its start`, "input of %s is taken as its task", o.what)
		ag.task = v.Text
	default:
		a.warnf(v.Pos, CodeNoEffect, "leave it out; a run's input is given at its start", "input of %s has no effect", o.what)
	}
}

// kind reads an agent's type: in the default profile in any letter case.
func (a *adaptation) kind(o *object) string {
	kind := o.required("type")
	if a.mode == meant {
		kind = strings.ToLower(kind)
	}
	if kind != "" && !slices.Contains(agentKinds, kind) {
		a.errorf(o.pos("type"), CodeType, a.didYouMean(kind, agentKinds, "types are"), "the type of %s is %s, which there is not", o.what, source.Quote(kind))
	}
	return kind
}

// runtime accepts koog alone: the others are names of runtimes that nobody has written.
func (a *adaptation) runtime(o *object) {
	v := o.want("runtime", source.String)
	if v == nil || v.Text == "koog" {
		return
	}
	a.errorf(v.Pos, CodeRuntime, `write "runtime": "koog", or leave it out`, "the runtime of %s is %s; only koog can be run", o.what, source.Quote(v.Text))
}

// config reads an agent's config.
func (a *adaptation) config(o *object, ag *agent) {
	c := o.inner("config", o.what)
	c.only("agents[].config.", "temperature", "maxIterations", "maxTokens", "topP", "toolChoice", "speculation")
	var p plan.Params
	p.Temperature = a.number(&c, "temperature", 0, 2)
	p.TopP = a.number(&c, "topP", 0, 1)
	p.MaxTokens = a.whole(&c, "maxTokens")
	ag.maxTurns = a.whole(&c, "maxIterations")
	ag.choice, ag.choiceAt = a.toolChoice(&c), c.pos("toolChoice")
	if a.mode == meant {
		if v := c.get("speculation"); v != nil {
			a.warnf(v.Pos, CodeNoEffect, "leave it out", "speculation of %s has no effect", o.what)
		}
	}
	if p.Temperature != nil || p.TopP != nil || p.MaxTokens > 0 {
		ag.params = &p
	}
}

// number is a number field in a range.
func (a *adaptation) number(o *object, key string, least, most float64) *float64 {
	v := o.number(key)
	if v == nil {
		return nil
	}
	if v.Kind != source.Number {
		o.want(key, source.Number)
		return nil
	}
	var f float64
	if err := json.Unmarshal([]byte(v.Text), &f); err != nil || (f < least || f > most) && a.mode == meant {
		a.errorf(v.Pos, CodeConfig, fmt.Sprintf("write a number from %v to %v", least, most), "%s of %s is %s", key, o.what, v.Describe())
		return nil
	}
	return &f
}

// whole is a whole number from 1 on, 0 where it is absent.
func (a *adaptation) whole(o *object, key string) int {
	v := o.number(key)
	if v == nil {
		return 0
	}
	n, ok := v.Int()
	if v.Kind != source.Number || !ok {
		a.errorf(v.Pos, CodeConfig, "write a whole number from 1 on, or leave it out", "%s of %s is %s, want a whole number from 1 to 2147483647", key, o.what, v.Describe())
		return 0
	}
	return n
}

// toolChoices are the spellings of tool choices: as the protocol's later text writes them, and
// as its code does.
var toolChoices = map[string]string{
	"auto": plan.ChoiceAuto, "none": plan.ChoiceNone, "required": plan.ChoiceRequired,
	"ai.koog.protocol.agent.ToolChoiceKind.Auto": plan.ChoiceAuto, "ai.koog.protocol.agent.ToolChoiceKind.None": plan.ChoiceNone,
	"ai.koog.protocol.agent.ToolChoiceKind.Required": plan.ChoiceRequired,
}

// toolChoice reads which tools a model may or must call: auto, none, required or a tool.
func (a *adaptation) toolChoice(o *object) string {
	const help = `write "auto", "none", "required" or {"toolName": "NAME"}`
	v := o.get("toolChoice")
	switch {
	case v == nil:
		return ""
	case v.Kind == source.String && a.mode == meant:
		if c, ok := toolChoices[strings.ToLower(v.Text)]; ok {
			return c
		}
	case v.Kind == source.Object:
		if name := v.Get("toolName"); name != nil && name.Kind == source.String && name.Text != "" {
			return name.Text
		}
		if kind := v.Get("type"); kind != nil {
			if c, ok := toolChoices[kind.Text]; ok {
				return c
			}
		}
	}
	a.errorf(v.Pos, CodeConfig, help, "toolChoice of %s is %s", o.what, v.Describe())
	return ""
}

// prompt reads an agent's prompt.
func (a *adaptation) prompt(o *object, ag *agent) {
	v := o.want("prompt", source.Object)
	if v == nil {
		return
	}
	p := object{a: a, value: v, what: "the prompt of " + o.what, ok: true}
	p.only("agents[].prompt.", "system", "user")
	ag.system, ag.user = p.text("system"), p.text("user")
	if a.mode != meant && p.get("system") == nil {
		a.errorf(v.Pos, CodeMissing, `write "system"`, "%s has no system", p.what)
	}
}

// output reads the JSON Schema that an agent's result must match: a text that is one, or, in
// the default profile, the schema itself.
func (a *adaptation) output(o *object, ag *agent) {
	out := o.inner("output", o.what)
	out.only("agents[].output.", "schema")
	v := out.get("schema")
	if v == nil {
		return
	}
	if a.mode != meant {
		out.text("schema")
		return
	}
	const help = "write a JSON Schema, as an object or as a text that is one"
	if v.Kind == source.String {
		doc, diags := source.Parse("schema.json", []byte(v.Text))
		if doc == nil || doc.Root.Kind != source.Object {
			text := "want an object"
			if len(diags) > 0 {
				text = diags[0].Text
			}
			a.errorf(v.Pos, CodeConfig, help, "schema of %s is no JSON Schema: %s", out.what, text)
			return
		}
		v = &source.Value{Kind: source.Object, Pos: v.Pos, Members: doc.Root.Members}
	}
	if v.Kind != source.Object {
		a.errorf(v.Pos, CodeWrongType, help, "schema of %s is %s, want an object", out.what, v.Describe())
		return
	}
	for _, p := range source.CheckSchema(v) {
		a.errorf(out.pos("schema"), CodeConfig, p.Help, "schema of %s: %s", out.what, p.Text)
	}
	ag.schema = v
}
