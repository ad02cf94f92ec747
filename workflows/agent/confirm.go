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

// confirm asks a person where the flow or the worker's rules want it. It refuses the call, or sets the arguments with which it
// is made, and a note for the model where they are others.
func (c *toolCall) confirm(ctx workflow.Context) error {
	need, limit := c.tool.Confirm, plan.Seconds(0)
	for _, rule := range c.conn.Confirm {
		if rule.Name == c.tool.Name {
			need, limit = true, rule.Timeout
		}
	}
	if !need {
		return nil
	}
	req := contract.Request{Kind: contract.RequestConfirm, Text: fmt.Sprintf("%s wants to call %s%s", c.agent.who(), c.tool.As, inWords(c.args)),
		Catalogue: c.conn.Catalogue, Timeout: limit}
	if len(c.tool.ArgumentsSchema) > 0 && c.conn.Connection.Kind != plan.ConnectionClient {
		// The flow declares the tool, or else its connection does.
		req.Catalogue = c.declared(contract.ToolSpec{Name: c.tool.Name, Schema: c.tool.ArgumentsSchema})
	}
	reply, err := c.request(ctx, "confirm", req)
	if err != nil {
		return err
	}
	nobody := &contract.ConfirmAnswer{Approve: new(false), Reason: fmt.Sprintf("nobody answered within %d seconds", limit)}
	decision, reason := cmp.Or(reply.Confirm, nobody), ""
	if decision.Reason != "" {
		reason = ": " + decision.Reason
	}
	if !*decision.Approve {
		return &replies.Refused{Reply: contract.ToolReply{Text: "a person refused the call of " + c.tool.As + reason, Failed: true, Free: true}}
	}
	// Without the escapes that a payload adds: a run that has continued as new must not make another call.
	edited := plain(decision.Arguments)
	if len(decision.Arguments) == 0 || bytes.Equal(edited, plain(c.args)) {
		return nil
	}
	c.args = edited
	if c.byNode() {
		return nil // no model reads the result
	}
	c.note = "[a person changed the arguments to " + textutil.Cut(string(edited), 4<<10) + textutil.Cut(reason, len(": ")+1<<10) + "]\n"
	return nil
}

// plain is JSON as it is after a way through a payload, and readable.
func plain(raw json.RawMessage) json.RawMessage {
	out, _ := json.Marshal(raw) // JSON that was read before
	return textutil.Unescape(out)
}

// inWords is what a person reads of arguments.
func inWords(args json.RawMessage) string {
	if string(args) == "{}" {
		return ""
	}
	return " with " + textutil.Cut(string(args), 300)
}
