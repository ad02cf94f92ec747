// Package result converts a tool's result to the values of its declared outputs.
package result

import (
	"errors"
	"slices"

	"weft/activities/textutil"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// Named converts a tool's result to the values of its outputs. A single output is the text itself, or the JSON in it; if
// that is an object with a member named like the output, it is that member. Several outputs are the members of an object.
func Named(outs []plan.Out, text string) (value.Value, error) {
	empty := value.Value{Kind: value.Object}
	if len(outs) == 0 {
		return empty, nil
	}
	v, err := value.Parse([]byte(text))
	if len(outs) > 1 {
		if err != nil || v.Kind != value.Object {
			return empty, errors.New("several outputs are declared, but the result is not a JSON object: " + textutil.Cut(text, 200))
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

// outputOf converts a text to an output: to the JSON in it if the output's type accepts that, otherwise to the text
// itself.
func outputOf(o *plan.Out, text string) value.Value {
	v, err := value.Parse([]byte(text))
	if err != nil {
		return value.Of(text)
	}
	if _, castErr := value.Cast(o.Type, v); castErr != nil || v.Kind != value.String && takesText(o) {
		return value.Of(text)
	}
	return v
}

// takesText reports whether an output's type accepts any text unchanged.
func takesText(o *plan.Out) bool {
	probe, err := value.Cast(o.Type, value.Of("x"))
	return len(o.Type) > 0 && string(o.Type) != "{}" && err == nil && probe.Kind == value.String
}
