package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/plan"
	"weft/workflows/replies"
)

// confirm asks a user for approval if the flow or the worker's rules require it. It refuses a rejected call. If the user edited
// the arguments, it replaces them and sets a note for the model.
func (c *toolCall) confirm(ctx workflow.Context) error {
	required, timeout := c.tool.Confirm, plan.Seconds(0)
	for _, rule := range c.conn.Confirm {
		if rule.Name == c.tool.Name {
			required, timeout = true, rule.Timeout
		}
	}
	if !required {
		return nil
	}
	req := contract.Request{Kind: contract.RequestConfirm, Text: fmt.Sprintf("%s wants to call %s%s", c.agent.who(), c.tool.As, describeArgs(c.args)),
		Catalogue: c.conn.Catalogue, Timeout: timeout}
	if len(c.tool.ArgumentsSchema) > 0 && c.conn.Connection.Kind != plan.ConnectionClient {
		// The flow's own declaration of the tool has precedence over the connection's.
		req.Catalogue = c.storeSpec(contract.ToolSpec{Name: c.tool.Name, Schema: c.tool.ArgumentsSchema})
	}
	reply, err := c.request(ctx, "confirm", req)
	if err != nil {
		return err
	}
	expired := &contract.ConfirmAnswer{Approve: new(false), Reason: fmt.Sprintf("no answer within %d seconds", timeout)}
	decision, reason := cmp.Or(reply.Confirm, expired), ""
	if decision.Reason != "" {
		reason = ": " + decision.Reason
	}
	if !*decision.Approve {
		return &replies.Refused{Reply: contract.ToolReply{Text: "a user rejected the call of " + c.tool.As + reason, Failed: true, Free: true}}
	}
	// Without the escapes that a payload adds: after continue-as-new the call must still be the same one.
	edited := normalized(decision.Arguments)
	if len(decision.Arguments) == 0 || bytes.Equal(edited, normalized(c.args)) {
		return nil
	}
	c.args = edited
	if c.byNode() {
		return nil // no model reads the result
	}
	c.note = "[a user changed the arguments to " + textutil.Cut(string(edited), 4<<10) + textutil.Cut(reason, len(": ")+1<<10) + "]\n"
	return nil
}

// normalized returns JSON as it is after a round trip through a payload, without escapes.
func normalized(raw json.RawMessage) json.RawMessage {
	out, _ := json.Marshal(raw) // raw is valid JSON
	return textutil.Unescape(out)
}

// describeArgs formats arguments for a request to a user.
func describeArgs(args json.RawMessage) string {
	if string(args) == "{}" {
		return ""
	}
	return " with " + textutil.Cut(string(args), 300)
}
