package agent

import (
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
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
func (c *toolCall) readResource(ctx workflow.Context) (contract.ToolReply, error) {
	var asked struct {
		URI string `json:"uri"`
	}
	if json.Unmarshal(c.args, &asked) != nil || asked.URI == "" {
		return runtime.ToolError(`read_resource wants {"uri": "the URI of a link"}`), nil
	}
	from := linking(c.agent, asked.URI)
	if from == nil {
		return runtime.ToolError("no result in this conversation links to the resource %s; read links as results have them", asked.URI), nil
	}
	const name = plan.BuiltinReadResource
	c.tool = &plan.Tool{Name: name, As: name, Connection: from.Connection, Confirm: from.Confirm, ArgumentsSchema: resourceArguments}
	c.conn = resolvedConnection(c.agent.run, from)
	if err := c.confirm(ctx); err != nil {
		return contract.ToolReply{}, err
	}
	if json.Unmarshal(c.args, &asked) != nil || linking(c.agent, asked.URI) != from {
		return runtime.ToolError("%sthis is no link of the tool %s", c.note, from.As), nil
	}
	// It is read under the name of the tool that gave the link, which the run may call.
	in := contract.ToolInput{Connection: c.conn.Connection, Name: from.Name, Resource: asked.URI, CallID: c.call.ID, As: c.tool.As, Note: c.note}
	return c.callTool(ctx, in, c.id("tool"))
}

// linking is the agent's tool whose last result with a link to a resource is in its conversation, or nil.
func linking(a *agentRun, uri string) *plan.Tool {
	for _, e := range slices.Backward(a.thread.Entries) {
		m, err := contract.DecodeMessage(e.Raw)
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
