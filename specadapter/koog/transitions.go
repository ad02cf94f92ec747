package koog

import (
	"fmt"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

type transition struct {
	at       source.Pos
	from, to string
	// compare is nil where the transition is always taken.
	compare *plan.Compare
	// want is the value that compare compares with; variableAt where its variable stands.
	want       value.Value
	variableAt source.Pos
	valueAt    source.Pos
	pass       *plan.Select
	// wrong reports whether the transition has errors: it counts as taken by no value.
	wrong bool
}

func (a *adaptation) transition(d *document, i int, v *source.Value) *transition {
	o := a.Fields(v, fmt.Sprintf("transition %d", i+1), "transitions[].").Of(&transitionShape)
	if !o.OK {
		return nil
	}
	before := a.Errors
	t := &transition{at: v.Pos, from: o.Required("from"), to: o.Required("to")}
	known := a.end(d, o, "from", t.from, t) && a.end(d, o, "to", t.to, t)
	if t.from != "" && t.to != "" {
		o.Name = fmt.Sprintf("transition %s -> %s", t.from, t.to)
	}
	if o.Want("condition", source.Object) != nil {
		a.condition(o.Inner("condition", "condition of "+o.Name), t)
	}
	a.transformation(o, t)
	if !known {
		return nil
	}
	t.wrong = a.Errors > before
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
	if a.mode != meant {
		text = fmt.Sprintf("Unable to find '%s' node for transition '%s -> %s': %s", key, t.from, t.to, name)
	}
	a.Errorf(o.Pos(key), CodeUnknownAgent, a.DidYouMean(name, d.names, "agents are"), "%s", text)
	return false
}

func (a *adaptation) condition(c *source.Fields, t *transition) {
	c.Of(&conditionShape)
	variable, op := a.variableText(c), a.operation(c)
	written := op
	if given := c.Value.Get("operation"); given != nil && given.Kind == source.String {
		written = given.Text
	}
	if (op != "" || a.mode == seed && blank(c.Value.Get("operation"))) && !value.Known(op) {
		if a.mode == seed {
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
		t.want, t.compare = constant, compare
	}
}

// operation reads how a condition compares. A blank operation is missing, but unknown in the first code.
func (a *adaptation) operation(c *source.Fields) string {
	v := c.Value.Get("operation")
	if a.mode == seed && blank(v) {
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

// variableText reads the variable of a condition, which may be empty in the published code.
func (a *adaptation) variableText(c *source.Fields) string {
	if v := c.Value.Get("variable"); a.mode != meant && v != nil && v.Kind == source.String && v.Text == "" {
		return ""
	}
	return c.Required("variable")
}

// constant reads the value that a condition or a merge compares with; that of a merge may have its type beside it.
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
		parsed, err = value.Constant(a.mode.way(), parsed)
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
	case seed:
		to.Path = path[len(path)-1:]
	case later:
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
				"the variable of %s is %s, want a name that begins with input. or output.; it is read as input.%s", c.Name, source.Quote(text), strings.Join(to.Path, "."))
		}
	}
}

// transformation reads what a transition selects of its value. The first code knows none.
func (a *adaptation) transformation(o *source.Fields, t *transition) {
	v := o.Want("transformation", source.Object)
	if v == nil || a.mode == seed {
		return
	}
	f := o.Inner("transformation", "transformation of "+o.Name).Of(&selectionShape)
	text := f.Required("value")
	prefix, path := segments(text)
	if text != "" && prefix == "" {
		a.Errorf(f.Pos("value"), CodeTransform, "use input.feedback, for example", "%s is %s, want a name that begins with input. or output.", f.Name, source.Quote(text))
		return
	}
	t.pass = &plan.Select{Path: path, Rules: a.rules()}
}
