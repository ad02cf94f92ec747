package agent

import (
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/plan"
	"weft/workflows/plan/result"
	"weft/workflows/plan/value"
	"weft/workflows/runtime"
	"weft/workflows/values"
)

// ToolKind runs nodes of kind tool.
type ToolKind struct{}

// Visit runs a node of kind tool: one call with the values of the node's inputs. It is executed like a call of a model, with the
// same rules, requests and limits, in a separate conversation.
func (ToolKind) Visit(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	t := *x.Node.Tool
	a := agentRun{run: r, execution: x, cfg: &plan.Agent{Tools: []plan.Tool{t}, MaxCalls: 1, MaxErrors: 2}, state: contract.AgentState{Left: 1, Turn: 1}}
	a.thread = r.Transcript.Open(x.ID)
	in, err := values.Inputs(r, x)
	if err != nil {
		return runtime.Outcome{}, err
	}
	if in, err = value.Cast(t.ArgumentsSchema, in); err != nil {
		return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "correct the source of the value, or its type", "the tool %q: %s", t.Name, err.Error())
	}
	// The call is recorded like a call of a model.
	msg := &contract.Message{Role: contract.RoleAssistant, Calls: []contract.ToolCall{{ID: "call_1", Name: t.As, Arguments: string(in.JSON())}}}
	if err = a.call(ctx, &answer{msg: msg, sha: r.Transcript.Write(a.thread, msg).SHA}); err != nil {
		return runtime.Outcome{}, err
	}
	last := a.thread.Entries[len(a.thread.Entries)-1]
	msg, err = contract.DecodeMessage(last.Raw)
	if err != nil {
		return runtime.Outcome{}, err
	}
	aside := contract.Message{Role: contract.RoleTool, Text: contract.Shown(msg.Text), Name: msg.Name, Error: msg.Error, Aside: true}
	r.Transcript.Write(r.Conversation.Open(), &aside)
	if err := r.Publish(ctx, x, a.thread, r.Conversation.Thread); err != nil {
		return runtime.Outcome{}, err
	}
	if msg.Error {
		return runtime.Outcome{}, r.Fail(x, contract.ClassToolErrors, "check the node's inputs; fix the tool or the flow",
			"the tool %q failed: %s", t.Name, textutil.Cut(msg.Text, 500))
	}
	v, err := result.Named(x.Node.Ports.Out, msg.Text)
	if err != nil {
		return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "make the tool return the declared outputs", "the tool %q: %s", t.Name, err.Error())
	}
	return runtime.Outcome{Ref: a.run.Transcript.Ref(last.Sha), Value: &v}, nil
}
