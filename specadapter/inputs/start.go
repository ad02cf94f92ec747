package inputs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/specadapter/structured"
	"weft/workflows/plan"
	"weft/workflows/plan/pytext"
	"weft/workflows/plan/value"
)

// Start prepares a flow with declared inputs for a run with these values. It returns a copy of
// the flow with its placeholders replaced, and the text of the run.
//
// It validates everything; the error is an [*Invalid], an error with a remedy, or the error
// of ctx.
func Start(ctx context.Context, f *plan.Flow, v Values) (*plan.Flow, string, error) {
	if !v.Unchecked {
		if err := Check(ctx, f.Name, f.Inputs, castNamed(f, v.Params)); err != nil {
			return nil, "", err
		}
	}
	text, err := v.text(f.Inputs)
	if err != nil {
		return nil, "", err
	}
	if len(text) > MaxBytes {
		return nil, "", fmt.Errorf("the text of the parameters has %d bytes, over the limit of %d; shorten the largest", len(text), MaxBytes)
	}
	f = withArguments(f, v.Params)
	if !f.Inputs.Placeholders || v.Replaced {
		return f, text, nil
	}
	out, err := v.flow(f)
	return out, text, err
}

// castNamed converts named inputs to their declared types, if possible.
func castNamed(f *plan.Flow, p *Params) *Params {
	if f.Inputs.Mode != plan.InputsNamed {
		return p
	}
	given, err := value.Parse(p.JSON())
	if err != nil {
		return p // reported by Check
	}
	for i := range given.Members {
		m := &given.Members[i]
		for _, n := range f.Nodes {
			m.Value = castToPort(n.Ports, plan.InKey(m.Key), m.Value)
		}
	}
	object, err := pytext.Parse(given.JSON())
	if err != nil {
		return p
	}
	return &Params{object: object, text: p.text}
}

// castToPort converts a value to the type of the port with the key, if there is one and the value can be converted.
func castToPort(ports *plan.Ports, key string, v value.Value) value.Value {
	if ports == nil {
		return v
	}
	for i := range ports.In {
		if in := &ports.In[i]; in.Key == key {
			if out, err := value.Cast(in.Type, v); err == nil {
				v = out
			}
		}
	}
	return v
}

func (v *Values) flow(f *plan.Flow) (*plan.Flow, error) {
	out := *f
	out.Nodes = append([]plan.Node{}, f.Nodes...)
	size := 0
	for i := range out.Nodes {
		if out.Nodes[i].Agent == nil {
			continue
		}
		agent := *out.Nodes[i].Agent
		var schema json.RawMessage
		if agent.Output != nil {
			output := *agent.Output
			replaced, err := v.schema(output.Schema)
			if err != nil {
				return nil, err
			}
			output.Schema, schema = replaced, replaced
			agent.Output = &output
		}
		if err := v.checkSize(agent.Prompt); err != nil {
			return nil, err
		}
		agent.Prompt = v.Text(agent.Prompt)
		agent.System = structured.Enrich(agent.Prompt, schema)
		size += len(agent.System)
		out.Nodes[i].Agent = &agent
	}
	if size > MaxBytes {
		return nil, tooLong(size)
	}
	return &out, v.connections(&out)
}

// checkSize rejects a text that would be too long after replacement of its placeholders.
func (v *Values) checkSize(text string) error {
	size := len(text)
	for _, m := range Placeholder.FindAllString(text, -1) {
		size += len(v.Text(m)) - len(m)
		if size > MaxBytes {
			return tooLong(size)
		}
	}
	return nil
}

func tooLong(size int) error {
	return fmt.Errorf("the system prompt has at least %d bytes after its placeholders are replaced, over the limit of %d; shorten the parameters", size, MaxBytes)
}

func (v *Values) schema(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	if err := v.checkSize(string(raw)); err != nil {
		return nil, err
	}
	rules, err := pytext.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("read the output schema: %w", err)
	}
	doc, _ := source.Parse("schema.json", []byte(v.Value(rules).JSON()))
	if doc == nil {
		return nil, fmt.Errorf("the output schema is not JSON after its placeholders are replaced")
	}
	if problems := source.CheckSchema(doc.Root); len(problems) > 0 {
		return nil, fmt.Errorf("the output schema is invalid after its placeholders are replaced: %s; %s", problems[0].Text, problems[0].Help)
	}
	return doc.Root.JSON(), nil
}

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

// Arguments formats parameters as a program's flags, like the framework of the blueprint dialect:
// true is a flag without a value, false is omitted, a list is joined by commas, anything else is
// formatted like in Python.
func Arguments(p *Params) []string {
	var out []string
	for _, m := range p.object.Members {
		switch v := m.Value; {
		case v.Kind == pytext.Bool && v.True:
			out = append(out, "--"+m.Key)
		case v.Kind == pytext.Bool:
		case v.Kind == pytext.Array:
			out = append(out, "--"+m.Key, strings.Join(source.Map(v.Items, (*pytext.Value).Str), ","))
		default:
			out = append(out, "--"+m.Key, v.Str())
		}
	}
	return out
}

// text returns the run's text. Unchecked parameters may lack a prompt.
func (v *Values) text(in *plan.Inputs) (string, error) {
	if v.Unchecked && in.Mode != plan.InputsNamed && in.Mode != plan.InputsProcedural && v.Params.object.Get(prompt) == nil {
		return block(in, v.Params.object.Members), nil
	}
	return Text(in, v.Params)
}

// Text formats parameters as the text that the flow receives. If a required prompt is missing, it
// fails with the framework's message.
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

// block formats parameters between <inputs> and </inputs>, unescaped like in the framework. In the documented style,
// null is None.
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
