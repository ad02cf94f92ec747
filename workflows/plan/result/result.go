// Package result reads what a tool returns as the values that its outputs declare.
package result

import (
	"errors"
	"slices"

	"weft/activities/textutil"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// Named makes the values of outputs of what a tool returned. One output is the text itself, or the
// JSON that it is; of an object with a member that is called like the output, that. Several
// outputs are the members of an object.
func Named(outs []plan.Out, text string) (value.Value, error) {
	empty := value.Value{Kind: value.Object}
	if len(outs) == 0 {
		return empty, nil
	}
	v, err := value.Parse([]byte(text))
	if len(outs) > 1 {
		if err != nil || v.Kind != value.Object {
			return empty, errors.New("it has several outputs, but what it returned is no JSON object: " + textutil.Cut(text, 200))
		}
		for i := range outs {
			k := slices.IndexFunc(v.Members, func(m value.Member) bool { return m.Key == outs[i].Name })
			if k >= 0 && v.Members[k].Value.Kind == value.String {
				v.Members[k].Value = outputOf(&outs[i], v.Members[k].Value.Text)
			}
		}
		return v, nil
	}
	o := &outs[0]
	if _, ok := v.Get(o.Name); ok && err == nil {
		return v, nil
	}
	return value.Value{Kind: value.Object, Members: []value.Member{{Key: o.Name, Value: outputOf(o, text)}}}, nil
}

// outputOf is a text as an output: the JSON that it is where the output takes that, else the text itself.
func outputOf(o *plan.Out, text string) value.Value {
	v, err := value.Parse([]byte(text))
	if err != nil {
		return value.Of(text)
	}
	if _, wrong := value.Cast(o.Type, v); wrong != nil || v.Kind != value.String && takesText(o) {
		return value.Of(text)
	}
	return v
}

// takesText reports whether an output takes a text as it is.
func takesText(o *plan.Out) bool {
	probe, err := value.Cast(o.Type, value.Of("x"))
	return len(o.Type) > 0 && string(o.Type) != "{}" && err == nil && probe.Kind == value.String
}
