package agent

import (
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// resourceArguments is the schema of the arguments of [plan.BuiltinReadResource].
var resourceArguments = json.RawMessage(`{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}`)

// builtins are the tools of the interpreter's own that the agent's model has: those of the flow, and the one that reads
// resources where the settings of a connection allow it.
func (a *agentRun) builtins() []string {
	reads := false
	for i := range a.cfg.Tools {
		t := &a.cfg.Tools[i]
		if t.As == plan.BuiltinReadResource {
			return a.cfg.Builtins // the flow's own
		}
		b := resolvedConnection(a.run, t)
		reads = reads || b != nil && b.Resources
	}
	if !reads {
		return a.cfg.Builtins
	}
	return append(slices.Clip(a.cfg.Builtins), plan.BuiltinReadResource)
}

// readResource reads a resource that a result in the agent's conversation links to, from the server that gave the link.
func (c *toolCall) readResource(ctx workflow.Context, args json.RawMessage) (contract.ToolReply, error) {
	var asked struct {
		URI string `json:"uri"`
	}
	if json.Unmarshal(args, &asked) != nil || asked.URI == "" {
		return contract.ToolReply{Text: `read_resource wants {"uri": "the URI of a link"}`, Failed: true}, nil
	}
	from := linking(c.agentRun, asked.URI)
	if from == nil {
		return contract.ToolReply{Text: "no result in this conversation links to the resource " + asked.URI + "; read links as results have them", Failed: true}, nil
	}
	t, b := plan.Tool{Name: plan.BuiltinReadResource, As: plan.BuiltinReadResource, Connection: from.Connection, Confirm: from.Confirm, ArgumentsSchema: resourceArguments}, resolvedConnection(c.agentRun.run, from)
	args, note, refused, err := c.confirm(ctx, &t, b, args)
	if err != nil || refused != nil {
		return orEmpty(refused), err
	}
	if json.Unmarshal(args, &asked) != nil || linking(c.agentRun, asked.URI) != from {
		return contract.ToolReply{Text: note + "this is no link of the tool " + from.As, Failed: true}, nil
	}
	// It is read under the name of the tool that gave the link, which the run may call.
	in := contract.ToolInput{Connection: b.Connection, Name: from.Name, Resource: asked.URI, CallID: c.call.ID, As: t.As, Note: note}
	c.server = c.questions(&t, args)
	return c.callTool(ctx, &t, b, in, args, c.id("tool"))
}

// linking is the agent's tool whose last result with a link to a resource is in its conversation, or nil.
func linking(a *agentRun, uri string) *plan.Tool {
	entries := a.thread.Entries
	for i := len(entries) - 1; i >= 0; i-- {
		m, err := contract.DecodeMessage(entries[i].Raw)
		if err != nil || m.Role != contract.RoleTool || !slices.Contains(m.Links, uri) {
			continue
		}
		for t := range a.cfg.Tools {
			tool := &a.cfg.Tools[t]
			if b := resolvedConnection(a.run, tool); tool.As == m.Name && b != nil && b.Resources {
				return tool
			}
		}
	}
	return nil
}
