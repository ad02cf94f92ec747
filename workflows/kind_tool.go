package workflows

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// toolNode runs a node of kind tool: one call with the values that the node takes. It is a call like
// a model's, with the same rules, requests and limits; the conversation that holds it is the
// node's own.
func (r *run) toolNode(ctx workflow.Context, x *execution) (outcome, error) {
	t := *x.node.Tool
	a := agentRun{run: r, execution: x, cfg: &plan.Agent{Tools: []plan.Tool{t}, MaxCalls: 1, MaxErrors: 2}, left: 1, turn: 1}
	a.thread = r.store.open(x.id)
	if err := a.callOnce(ctx, &t); err != nil {
		return outcome{}, err
	}
	last := a.thread.entries[len(a.thread.entries)-1]
	msg, err := contract.DecodeMessage(last.raw)
	if err != nil {
		return outcome{}, err
	}
	if msg.Error {
		return outcome{}, r.fail(x, contract.ClassToolErrors, "look at what the node was given; fix the tool or the flow", "the tool %q failed: %s", t.Name, cut(msg.Text, 500))
	}
	v, err := toolValue(x.node.Ports.Out, msg.Text)
	if err != nil {
		return outcome{}, r.fail(x, contract.ClassInvalidValue, "let the tool return what the node declares", "the tool %q: %s", t.Name, err.Error())
	}
	return outcome{ref: a.ref(last.sha), value: &v}, nil
}

// callOnce writes the call down as a model would, and makes it.
func (a *agentRun) callOnce(ctx workflow.Context, t *plan.Tool) error {
	in, err := a.given(a.execution)
	if err != nil {
		return err
	}
	msg := &contract.Message{Role: contract.RoleAssistant, Calls: []contract.ToolCall{{ID: "call_1", Name: t.As, Arguments: string(in.JSON())}}}
	ref, err := a.store.write(a.thread, msg)
	if err != nil {
		return err
	}
	return a.call(ctx, msg, ref.SHA)
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
			return empty, errors.New("it has several outputs, but what it returned is no JSON object: " + cut(text, 200))
		}
		return v, nil
	}
	o := &outs[0]
	if _, ok := v.Get(o.Name); ok && err == nil {
		return v, nil
	}
	whole := value.Of(text)
	if err != nil {
		return object(o.Name, whole), nil
	}
	if _, wrong := value.Cast(o.Type, v); wrong != nil || v.Kind != value.String && takesText(o) {
		v = whole
	}
	return object(o.Name, v), nil
}

// takesText reports whether an output takes a text as it is.
func takesText(o *plan.Out) bool {
	probe, err := value.Cast(o.Type, value.Of("x"))
	return len(o.Type) > 0 && string(o.Type) != "{}" && err == nil && probe.Kind == value.String
}
