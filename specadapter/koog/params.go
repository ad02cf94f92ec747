package koog

import (
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan/value"
)

// agentParams reads an agent's params, which differ by its type.
func (a *adaptation) agentParams(ag *agent) {
	o := ag.paramsValue
	switch ag.kind {
	case kindTask, kindVerify:
		o.Of(&taskShape)
		a.task(o, ag)
		a.readToolNames(o, ag)
	case kindReact:
		o.Of(&reactShape)
		a.task(o, ag)
		a.readToolNames(o, ag)
		a.reasoning(o, ag)
	case kindTransform:
		o.Of(&transformShape)
		a.transformations(o, ag)
	case kindParallel:
		o.Of(&parallelShape)
		a.parallel(o, ag)
	default: // the type is unknown, and reported
		o.Only(slices.Concat(reactShape.Names(), transformShape.Names(), parallelShape.Names())...)
	}
}

// task reads what an agent is to do. Only the later code requires it.
func (a *adaptation) task(o *source.Fields, ag *agent) {
	v := o.Get("task")
	blank := v == nil || v.Kind == source.String && strings.TrimSpace(v.Text) == ""
	switch {
	case v == nil && a.mode == later:
		a.Errorf(o.Value.Pos, CodeMissing, `set "task" in params`, "Missing <task> parameter of agent %s", source.Quote(ag.name))
	case v == nil && a.mode == meant && ag.oldInput:
	case blank && a.mode == meant:
		a.Warnf(ag.at, CodeMissing, `set "task" in params to what the agent should do`, "agent %s has no task", source.Quote(ag.name))
	case v == nil:
	case a.mode != meant && (v.Kind == source.Number || v.Kind == source.Bool):
		ag.task = v.Literal()
	default:
		ag.task = o.Text("task")
	}
}

// readToolNames reads toolNames. Absent means all tools; [] means none, but all in the first code.
func (a *adaptation) readToolNames(o *source.Fields, ag *agent) {
	v := o.Value.Get("toolNames")
	if v == nil || v.Kind == source.Null {
		return
	}
	if v.Kind != source.Array {
		if a.mode != meant {
			return // as in the published code
		}
		a.Warnf(v.Pos, CodeWrongType, source.HowToWrite[source.Array], "toolNames of %s is %s, want an array; %s", o.Name, v.Describe(), oneTool(v))
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
		name, ok := item.Literal(), a.mode == later && (item.Kind == source.Number || item.Kind == source.Bool)
		if !ok {
			name, ok = a.Text(item, "a tool name of agent "+source.Quote(ag.name), false)
		}
		if ok {
			ag.toolNames, ag.toolsAt = append(ag.toolNames, name), append(ag.toolsAt, item.Pos)
		}
	}
}

// oneTool says what toolNames are that are not an array.
func oneTool(v *source.Value) string {
	if v.Kind == source.String {
		return "it is read as a list of that name"
	}
	return "it is ignored: the agent has all tools"
}

// reasoning reads after how many tool results a react agent thinks again, as a number or its text.
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

// transformations reads what a transform agent does: {"value": "input.feedback"} each.
func (a *adaptation) transformations(o *source.Fields, ag *agent) {
	for i, v := range o.List("transformations") {
		if v.Kind != source.Object && a.mode != meant {
			continue
		}
		t := a.Fields(v, fmt.Sprintf("transformation %d of agent %s", i+1, source.Quote(ag.name)), o.Path+"transformations[].")
		if !t.OK {
			continue
		}
		key, known := "value", selectionShape.Names()
		if older := t.Get("input"); a.mode == meant && older != nil && t.Get(key) == nil {
			key, known = "input", append(known, "input")
			a.Warnf(older.Pos, CodeTransform, `rename it to "value"`, "input of %s is used as its value", t.Name)
		}
		t.Only(known...)
		if t.Get(key) == nil && a.mode != meant {
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
		if prefix, path := segments(s.text); a.mode == meant && prefix == "" && len(path) > 1 {
			a.Warnf(s.at, CodeTransform, "use input.feedback, for example; output. means the same",
				"the transformation of agent %s is %s, want a name that begins with input. or output.; it is read as input.%s",
				source.Quote(ag.name), source.Quote(s.text), s.text)
		}
	}
	if len(ag.steps) > 1 && a.mode == meant {
		a.Errorf(ag.steps[1].at, CodeTransform, "use one transform agent per transformation, in sequence",
			"agent %s has %d transformations, want at most one", source.Quote(ag.name), len(ag.steps))
	}
}

type merge struct {
	at       source.Pos
	variable string
	op       string
	value    value.Value
}

// parallel reads the agents that run in parallel, and how their results become one.
func (a *adaptation) parallel(o *source.Fields, ag *agent) {
	list := o.Want("agents", source.Array)
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
	if v := o.Want("merge", source.Object); v != nil {
		m := o.Inner("merge", "merge of agent "+source.Quote(ag.name)).Of(&mergeShape)
		ag.merge = &merge{at: v.Pos, variable: m.Required("variable"), op: m.Required("operation")}
		ag.merge.value, _ = a.constant(m, true)
	}
}
