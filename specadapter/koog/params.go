package koog

import (
	"fmt"

	"weft/specadapter/source"
	"weft/workflows/plan/value"
)

// agentParams reads an agent's params, which differ by its type.
func (a *adaptation) agentParams(ag *agent) {
	o := &ag.paramsValue
	switch ag.kind {
	case kindTask, kindVerify:
		o.only("agents[].params.", "task", "toolNames")
		a.task(o, ag)
		a.readToolNames(o, ag)
	case kindReact:
		o.only("agents[].params.", "task", "toolNames", "reasoningInterval")
		a.task(o, ag)
		a.readToolNames(o, ag)
		a.reasoning(o, ag)
	case kindTransform:
		o.only("agents[].params.", "transformations")
		a.transformations(o, ag)
	case kindParallel:
		o.only("agents[].params.", "agents", "merge")
		a.parallel(o, ag)
	}
}

// task reads what an agent is to do. Only the later code wants it; without any the agent has
// its system prompt and what came before.
func (a *adaptation) task(o *object, ag *agent) {
	v := o.get("task")
	switch {
	case v == nil && a.mode == later:
		a.errorf(o.value.Pos, CodeMissing, `write "task" in params`, "Missing <task> parameter of agent %s", source.Quote(ag.name))
	case v == nil && a.mode == meant && ag.oldInput:
	case v == nil && a.mode == meant:
		a.warnf(ag.at, CodeMissing, `write what the agent is to do as "task" in params`, "agent %s has no task", source.Quote(ag.name))
	case v == nil:
	case a.mode != meant && (v.Kind == source.Number || v.Kind == source.Bool):
		ag.task = literal(v)
	default:
		ag.task = o.text("task")
	}
}

// readToolNames reads toolNames. Absent they mean all tools; the list [] means none, but all
// in the code beside the protocol's text.
func (a *adaptation) readToolNames(o *object, ag *agent) {
	v := o.value.Get("toolNames")
	if v == nil || v.Kind == source.Null {
		return
	}
	if v.Kind != source.Array {
		if a.mode != meant {
			return // as in the real code
		}
		a.warnf(v.Pos, CodeWrongType, howToWrite[source.Array], "toolNames of %s is %s, want an array; %s", o.what, v.Describe(), oneTool(v))
		if v.Kind != source.String {
			return
		}
		v = &source.Value{Kind: source.Array, Pos: v.Pos, Items: []*source.Value{v}}
	}
	ag.listsTools = len(v.Items) > 0 || a.mode != seed
	for _, item := range v.Items {
		if item.Kind == source.Null && a.mode != meant {
			continue
		}
		if item.Kind == source.Number || item.Kind == source.Bool {
			if a.mode == meant {
				a.warnf(item.Pos, CodeWrongType, howToWrite[source.String], "a tool name of agent %s is %s, %s; it is taken as that text",
					source.Quote(ag.name), item.Describe(), item.Kind)
			}
			item = &source.Value{Kind: source.String, Pos: item.Pos, Text: literal(item)}
		}
		if item.Kind != source.String {
			a.errorf(item.Pos, CodeWrongType, howToWrite[source.String], "a tool name of agent %s is %s, want a string", source.Quote(ag.name), item.Describe())
			continue
		}
		ag.toolNames, ag.toolsAt = append(ag.toolNames, item.Text), append(ag.toolsAt, item.Pos)
	}
}

// oneTool says what toolNames are that are no list.
func oneTool(v *source.Value) string {
	if v.Kind == source.String {
		return "it is taken as a list of that name"
	}
	return "it is taken as absent: the agent has all tools"
}

// reasoning reads after how many tool results a react agent thinks again. A text that is a
// number will do, as in the code.
func (a *adaptation) reasoning(o *object, ag *agent) {
	v := o.get("reasoningInterval")
	if v == nil {
		return
	}
	n, ok := v.Int()
	if v.Kind == source.String {
		c, err := value.Constant(value.Tagged, value.Of(v.Text))
		n, ok = int(c.Int), err == nil && c.Kind == value.Int && c.Int > 0
	}
	if !ok {
		a.errorf(v.Pos, CodeConfig, "write a whole number from 1 on", "reasoningInterval of agent %s is %s", source.Quote(ag.name), v.Describe())
		return
	}
	ag.interval = n
}

// transformations reads what a transform agent does: {"value": "input.feedback"} each.
func (a *adaptation) transformations(o *object, ag *agent) {
	ag.stepsAt = o.pos("transformations")
	for i, v := range o.list("transformations") {
		if v.Kind != source.Object && a.mode != meant {
			continue
		}
		t := a.object(v, fmt.Sprintf("transformation %d of agent %s", i+1, source.Quote(ag.name)))
		if !t.ok {
			continue
		}
		t.only("agents[].params.transformations[].", "value")
		if t.get("value") == nil && a.mode != meant {
			continue
		}
		if text := t.text("value"); t.get("value") == nil {
			a.errorf(v.Pos, CodeMissing, `write {"value": "input.feedback"}, for example`, "%s has no value", t.what)
		} else {
			ag.steps = append(ag.steps, step{text, t.pos("value")})
		}
	}
	for _, s := range ag.steps {
		if prefix, path := segments(s.text); a.mode == meant && prefix == "" && len(path) > 1 {
			a.warnf(s.at, CodeTransform, "write input.feedback, for example; output. is the same",
				"the transformation of agent %s is %s, which begins with neither input. nor output.; it is taken as input.%s",
				source.Quote(ag.name), source.Quote(s.text), s.text)
		}
	}
	if len(ag.steps) > 1 && a.mode == meant {
		a.errorf(ag.steps[1].at, CodeTransform, "make one transform agent of each, one behind the other",
			"agent %s has %d transformations, at most one can be done", source.Quote(ag.name), len(ag.steps))
	}
}

// merge says which of a parallel agent's results goes on.
type merge struct {
	at       source.Pos
	variable string
	op       string
	value    value.Value
}

// parallel reads the agents that run beside each other, and how their results become one.
func (a *adaptation) parallel(o *object, ag *agent) {
	list := o.want("agents", source.Array)
	if list == nil || len(list.Items) == 0 {
		if v := o.get("agents"); v == nil || v.Kind == source.Array {
			a.errorf(o.pos("agents"), CodeMissing, `write the names of agents as "agents" in params`, "the parallel agent %s lists no agents", source.Quote(ag.name))
		}
		return
	}
	seen := map[string]bool{}
	for _, item := range list.Items {
		name, ok := a.element(item, "an agent of the parallel agent "+source.Quote(ag.name), false)
		if !ok {
			continue
		}
		if seen[name] {
			a.warnf(item.Pos, CodeDuplicate, "remove one of the two", "the parallel agent %s lists %s twice; it runs once", source.Quote(ag.name), source.Quote(name))
			continue
		}
		seen[name] = true
		ag.children, ag.childPos = append(ag.children, name), append(ag.childPos, item.Pos)
	}
	if v := o.want("merge", source.Object); v != nil {
		m := object{a: a, value: v, what: "merge of agent " + source.Quote(ag.name), ok: true}
		m.only("agents[].params.merge.", "variable", "operation", "value")
		ag.merge = &merge{at: v.Pos, variable: m.required("variable"), op: m.required("operation")}
		ag.merge.value = a.mergeValue(&m)
	}
}

// mergeValue reads the value of a merge: a primitive, or one with its type beside it.
func (a *adaptation) mergeValue(m *object) value.Value {
	v := m.value.Get("value")
	if v == nil {
		a.errorf(m.value.Pos, CodeMissing, `write "value"`, "%s has no value", m.what)
		return value.Value{}
	}
	parsed, err := value.Parse(v.JSON())
	if err == nil && v.Kind == source.Object {
		parsed, err = value.Reread(value.Tagged, parsed)
	} else if err == nil {
		parsed, err = value.Constant(a.mode.way(), parsed)
	}
	if err != nil {
		a.errorf(v.Pos, CodeValue, `write a string, a number, true or false, or {"type": "int", "data": 5}`, "the value of %s: %v", m.what, err)
	}
	return parsed
}
