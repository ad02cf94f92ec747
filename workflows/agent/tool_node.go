package agent

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/runtime"
	"weft/workflows/values"
)

// ToolKind runs nodes of kind tool.
type ToolKind struct{}

// Visit runs a node of kind tool: one call with the values that the node takes. It is a call like
// a model's, with the same rules, requests and limits; the conversation that holds it is the
// node's own.
func (ToolKind) Visit(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	t := *x.Node.Tool
	a := agentRun{run: r, execution: x, cfg: &plan.Agent{Tools: []plan.Tool{t}, MaxCalls: 1, MaxErrors: 2}, state: contract.AgentState{Left: 1, Turn: 1}}
	a.thread = r.Transcript.Open(x.ID)
	if err := a.callOnce(ctx, &t); err != nil {
		return runtime.Outcome{}, err
	}
	last := a.thread.Entries[len(a.thread.Entries)-1]
	msg, err := contract.DecodeMessage(last.Raw)
	if err != nil {
		return runtime.Outcome{}, err
	}
	aside := contract.Message{Role: contract.RoleTool, Text: contract.Shown(msg.Text), Name: msg.Name, Error: msg.Error, Aside: true}
	if _, err := r.Transcript.Write(r.Conversation.Open(), &aside); err != nil {
		return runtime.Outcome{}, err
	}
	if err := r.Publish(ctx, a.thread, x, r.Conversation.Thread); err != nil {
		return runtime.Outcome{}, err
	}
	if msg.Error {
		return runtime.Outcome{}, r.Fail(x, contract.ClassToolErrors, "look at what the node was given; fix the tool or the flow", "the tool %q failed: %s", t.Name, textutil.Cut(msg.Text, 500))
	}
	v, err := toolValue(x.Node.Ports.Out, msg.Text)
	if err != nil {
		return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "let the tool return what the node declares", "the tool %q: %s", t.Name, err.Error())
	}
	return runtime.Outcome{Ref: a.run.Ref(last.Sha), Value: &v}, nil
}

// callOnce writes the call down as a model would, and makes it.
func (a *agentRun) callOnce(ctx workflow.Context, t *plan.Tool) error {
	in, err := values.Given(a.run, a.execution)
	if err != nil {
		return err
	}
	if in, err = value.Cast(t.ArgumentsSchema, in); err != nil {
		return a.run.Fail(a.execution, contract.ClassInvalidValue, "correct what gives the value, or its type", "the tool %q: %s", t.Name, err.Error())
	}
	msg := &contract.Message{Role: contract.RoleAssistant, Calls: []contract.ToolCall{{ID: "call_1", Name: t.As, Arguments: string(in.JSON())}}}
	ref, err := a.run.Transcript.Write(a.thread, msg)
	if err != nil {
		return err
	}
	return a.call(ctx, msg, ref.SHA)
}

// outputNames are the names of a tool node's outputs, where it has several.
func outputNames(n *plan.Node) (out []string) {
	if n.Tool != nil && len(n.Ports.Out) > 1 {
		for _, o := range n.Ports.Out {
			out = append(out, o.Name)
		}
	}
	return out
}

// toolValue makes named values of what a tool returned. One output is the text itself, or the
// JSON that it is; of an object with a member that is called like the output, that. Several
// outputs are the members of an object.
func toolValue(outs []plan.Out, text string) (value.Value, error) {
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
	return values.Object(o.Name, outputOf(o, text)), nil
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
