package inputs

import (
	"strings"

	"weft/workflows/plan"
	"weft/workflows/plan/pytext"
)

// withArguments gives a flow's programs their arguments.
func withArguments(f *plan.Flow, p *Params) *plan.Flow {
	out := *f
	out.Nodes = append([]plan.Node{}, f.Nodes...)
	programs := false
	for i := range out.Nodes {
		if out.Nodes[i].Program == nil {
			continue
		}
		program := *out.Nodes[i].Program
		program.Args = Arguments(p)
		out.Nodes[i].Program, programs = &program, true
	}
	if !programs {
		return f
	}
	return &out
}

// Arguments are parameters as a program's flags, in the way of the blueprint dialect's framework:
// true is a flag alone, false none, a list its items between commas, all else Python's text of it.
func Arguments(p *Params) []string {
	var out []string
	for _, m := range p.object.Members {
		switch v := m.Value; {
		case v.Kind == pytext.Bool && v.True:
			out = append(out, "--"+m.Key)
		case v.Kind == pytext.Bool:
		case v.Kind == pytext.Array:
			var items []string
			for _, item := range v.Items {
				items = append(items, item.Str())
			}
			out = append(out, "--"+m.Key, strings.Join(items, ","))
		default:
			out = append(out, "--"+m.Key, v.Str())
		}
	}
	return out
}
