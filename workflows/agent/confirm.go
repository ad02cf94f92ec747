package agent

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/plan"
	"weft/workflows/runtime"
)

// confirm asks a person where the flow or the worker's rules want it. It gives the arguments
// with which the call is made, or the reply of one that is refused.
func (c *toolCall) confirm(ctx workflow.Context, tool *plan.Tool, b *contract.ResolvedConnection, args json.RawMessage) (json.RawMessage, string, *contract.ToolReply, error) {
	need, limit := tool.Confirm, plan.Seconds(0)
	for _, rule := range b.Confirm {
		if rule.Name == tool.Name {
			need, limit = true, rule.Timeout
		}
	}
	if !need {
		return args, "", nil, nil
	}
	declared, err := c.declared(tool, b)
	if err != nil {
		return nil, "", nil, err
	}
	req := contract.Request{
		ID: c.id("confirm"), Kind: contract.RequestConfirm, Hash: contract.SHA(append([]byte(tool.Name+"\n"), args...)),
		Text:      fmt.Sprintf("%s wants to call %s%s", c.agentRun.who(), tool.As, inWords(args)),
		Catalogue: declared, Timeout: limit,
	}
	describeCall(c, &req, tool, args)
	reply, err := c.agentRun.run.Requests.Ask(ctx, c.agentRun.execution, req)
	if err != nil {
		return nil, "", nil, err
	}
	decision := reply.Confirm
	if decision == nil {
		no := false
		decision = &contract.ConfirmAnswer{Approve: &no, Reason: fmt.Sprintf("nobody answered within %d seconds", limit)}
	}
	if !*decision.Approve {
		text := "a person refused the call of " + tool.As
		if decision.Reason != "" {
			text += ": " + decision.Reason
		}
		return nil, "", &contract.ToolReply{Text: text, Failed: true, Free: true}, nil
	}
	if len(decision.Arguments) == 0 {
		return args, "", nil, nil
	}
	// Without the escapes that a way through a payload adds: whether the run has continued
	// since must not make it another call.
	edited := plain(decision.Arguments)
	if bytes.Equal(edited, plain(args)) {
		return args, "", nil, nil
	}
	if byNode(c) {
		return edited, "", nil, nil // no model reads the result
	}
	reason := ""
	if decision.Reason != "" {
		reason = ": " + textutil.Cut(decision.Reason, 1<<10)
	}
	return edited, "[a person changed the arguments to " + textutil.Cut(string(edited), 4<<10) + reason + "]\n", nil, nil
}

// plain is JSON as it is after a way through a payload, and readable.
func plain(raw json.RawMessage) json.RawMessage {
	out, err := json.Marshal(raw)
	if err != nil {
		return raw
	}
	return textutil.Unescape(out)
}

// describeCall says in a request which call it is about.
func describeCall(c *toolCall, req *contract.Request, tool *plan.Tool, args json.RawMessage) {
	req.Tool, req.Name, req.Connection = tool.As, tool.Name, tool.BoundTo()
	if len(args) <= runtime.MaxShown {
		req.Arguments = args
		return
	}
	ref := c.agentRun.run.Ref(c.sha)
	req.Call = &ref
}

// inWords is what a person reads of arguments.
func inWords(args json.RawMessage) string {
	if string(args) == "{}" {
		return ""
	}
	return " with " + textutil.Cut(string(args), 300)
}
