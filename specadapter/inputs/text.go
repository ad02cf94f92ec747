package inputs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/workflows/plan"
	"weft/workflows/plan/pytext"
)

// text makes the run's text. Unchecked parameters may lack a prompt.
func (v *Values) text(in *plan.Inputs) (string, error) {
	if v.Unchecked && in.Mode != plan.InputsNamed && in.Mode != plan.InputsProcedural && v.Params.object.Get(prompt) == nil {
		return block(in, v.Params.object.Members), nil
	}
	return Text(in, v.Params)
}

// Text makes the text of parameters that the flow is given. It fails where a prompt is
// needed and missing, in the framework's words.
func Text(in *plan.Inputs, p *Params) (string, error) {
	if in.Mode == plan.InputsNamed {
		return p.text, nil
	}
	if in.Mode == plan.InputsProcedural {
		return p.object.JSON(), nil
	}
	custom := len(in.Schema) > 0 && string(in.Schema) != "null"
	given := p.object.Get(prompt)
	if in.Mode == plan.InputsAuthoritative {
		if custom {
			return block(in, p.object.Members), nil
		}
		if given == nil {
			return "", errors.New("Missing required 'prompt' in parameters for autonomous agent without custom schema")
		}
		return given.Str(), nil
	}
	if given == nil {
		return "", errors.New("Missing required 'prompt' in parameters for autonomous agent")
	}
	others := slices.DeleteFunc(slices.Clone(p.object.Members), func(m pytext.Member) bool { return m.Key == prompt })
	if len(others) == 0 {
		return given.Str(), nil
	}
	return block(in, others) + "\n\n" + given.Str(), nil
}

// block writes parameters between <inputs> and </inputs>, unescaped, as the framework does; null as None where the
// documentation counts.
func block(in *plan.Inputs, members []pytext.Member) string {
	var b strings.Builder
	b.WriteString("<inputs>\n")
	for _, m := range members {
		switch v := m.Value; {
		case v.Kind == pytext.String && strings.Contains(v.Text, "\n"):
			fmt.Fprintf(&b, "%s:\n  %s\n", m.Key, strings.ReplaceAll(v.Text, "\n", "\n  "))
		case v.Kind == pytext.Array, v.Kind == pytext.Object, v.Kind == pytext.Null && in.Style != plan.StyleDocumented:
			fmt.Fprintf(&b, "%s: %s\n", m.Key, v.JSON())
		default:
			fmt.Fprintf(&b, "%s: %s\n", m.Key, v.Str())
		}
	}
	b.WriteString("</inputs>")
	return b.String()
}
