package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/replies"
	"weft/workflows/runtime"
	"weft/workflows/serverrequest"
	"weft/workflows/transcript"
)

// callServer calls a tool of a server, by an activity.
func (c *toolCall) callServer(ctx workflow.Context) (contract.ToolReply, error) {
	t, n := c.tool, c.agent.execution.Node
	in := contract.ToolInput{Connection: c.conn.Connection, Name: t.Name, Arguments: c.args, CallID: c.call.ID, As: t.As, Note: c.note, Schema: t.ArgumentsSchema,
		ByNode: c.byNode(), AsTask: slices.Contains(c.conn.AsTasks, t.Name)}
	if len(c.args) > transcript.MaxInline && c.note == "" {
		// The history already has them in the message with the call; the activity adds the defaults.
		in.Arguments, in.Call = nil, &contract.ContentRef{SHA: c.answer.sha}
	}
	if in.ByNode && len(n.Ports.Out) > 1 {
		for _, o := range n.Ports.Out {
			in.Outputs = append(in.Outputs, o.Name)
		}
	}
	id := c.id("tool")
	reply, err := c.callTool(ctx, in, id)
	for n := 1; err == nil && reply.Input != nil && n <= maxRounds; n++ {
		if in.Input, err = c.answerAll(ctx, reply.Input, n); err == nil {
			reply, err = c.callTool(ctx, in, fmt.Sprintf("%s~%d", id, n+1))
		}
	}
	if err == nil && reply.Task != nil {
		return c.awaitTask(ctx, in, reply)
	}
	return reply, err
}

// callTool calls a tool once, as a step.
func (c *toolCall) callTool(ctx workflow.Context, in contract.ToolInput, id string) (contract.ToolReply, error) {
	a := c.agent
	in.Repeat = c.conn.Repeats(c.tool.Name)
	reply, err := c.step(ctx, id, contract.HashOf(c.tool.Name, string(c.args), in.Note), func(s *journal.Step) (contract.ToolReply, error) {
		reply, err := c.invoke(ctx, s, &in)
		if reply.Task != nil {
			reply.Started = new(workflow.Now(ctx))
		}
		return reply, err
	})
	setSession(a, c.conn, reply.Session)
	return reply, err
}

// invoke calls a tool by an activity in a step. An agent's first call of a server continues a session of its node or of the run.
func (c *toolCall) invoke(ctx workflow.Context, s *journal.Step, in *contract.ToolInput) (contract.ToolReply, error) {
	a, b := c.agent, c.conn
	var out contract.ToolResult
	session := sessionFor(a, b)
	in.Session = session.Sealed
	call := c.activity(contract.ActivityCallTool, s, in, &out)
	call.Options = runtime.Retrying(a.run.Options(a.run.Flow.Policy.ToolSeconds), b.Connection.Retry)
	call.Once, call.AskUnknown, call.Queue = !in.Repeat, b.AskUnknown, session.Queue
	call.Result = runtime.ResultSize{Together: len(c.answer.msg.Calls), Share: &in.MaxResultBytes}
	if b.IsPure(in.Name) {
		call.Local = runtime.LocalBytes
	}
	if hold := time.Duration(b.HoldSeconds) * time.Second; hold > 0 {
		// The activity itself limits its attempts: the time that its server waits for a user does not count.
		in.TimeoutMillis, call.ServerRequests = call.Options.StartToCloseTimeout.Milliseconds(), &serverrequest.Queue{}
		askCtx, end := workflow.WithCancel(ctx)
		defer end()
		call.ServerRequests.Serve(askCtx, c.answerServer)
		call.Options.StartToCloseTimeout += hold
		call.Options.ScheduleToCloseTimeout += hold
	}
	if err := a.run.Invoke(ctx, call); err != nil {
		return contract.ToolReply{}, asReply(call, err)
	}
	if out.Session != (contract.ServerSession{}) {
		a.run.Shared.Sessions()[b.Server()] = out.Session
	}
	setSession(a, b, out.Session)
	return contract.ToolReply{Message: out.Message, Failed: out.Error, Input: out.Input, Task: out.Task, Session: out.Session}, nil
}

// setSession records the session for the agent's next call, whichever others use: its model is notified if that session has been lost.
func setSession(a *agentRun, b *contract.ResolvedConnection, s contract.ServerSession) {
	if s == (contract.ServerSession{}) {
		return
	}
	if a.state.Served == nil {
		a.state.Served = map[string]contract.ServerSession{}
	}
	a.state.Served[b.Server()] = s
	recordSessions(a)
}

// sessionFor returns the session for the agent's next call: its own, that of its node's last execution, or that of any agent.
func sessionFor(a *agentRun, b *contract.ResolvedConnection) contract.ServerSession {
	if s, ok := a.state.Served[b.Server()]; ok {
		return s
	}
	node, agent := agentKey(a)
	return cmp.Or(a.run.Shared.NodeSessions[node][agent+b.Server()], a.run.Shared.ServerSessions[b.Server()])
}

// recordSessions records the agent's sessions for the node's next execution.
func recordSessions(a *agentRun) {
	if len(a.state.Served) == 0 || a.execution.Node.Tool != nil {
		return // a tool node has no model to notify
	}
	node, agent := agentKey(a)
	a.run.Shared.Sessions()
	if a.run.Shared.NodeSessions[node] == nil {
		a.run.Shared.NodeSessions[node] = map[string]contract.ServerSession{}
	}
	for _, server := range workflow.DeterministicKeys(a.state.Served) {
		a.run.Shared.NodeSessions[node][agent+server] = a.state.Served[server]
	}
}

// agentKey identifies the agent: its node, and the agent within a team.
func agentKey(a *agentRun) (node, agent string) {
	if a.team != nil {
		return a.team.top.execution.Node.ID, a.execution.Node.ID + " "
	}
	return a.execution.Node.ID, ""
}

// resourceArguments is the schema of the arguments of [plan.BuiltinReadResource].
var resourceArguments = json.RawMessage(`{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}`)

// readResource reads a resource to which a tool result in the agent's conversation links, from the server of that tool.
func (c *toolCall) readResource(ctx workflow.Context) (contract.ToolReply, error) {
	var args struct {
		URI string `json:"uri"`
	}
	if json.Unmarshal(c.args, &args) != nil || args.URI == "" {
		return replies.Error(`read_resource expects {"uri": "the URI of a link"}`), nil
	}
	source := linkSource(c.agent, args.URI)
	if source == nil {
		return replies.Error("no result in this conversation links to the resource %s; use the exact URI of a link", args.URI), nil
	}
	const name = plan.BuiltinReadResource
	c.tool = &plan.Tool{Name: name, As: name, Connection: source.Connection, Confirm: source.Confirm, ArgumentsSchema: resourceArguments}
	c.conn = resolvedConnection(c.agent.run, source)
	if err := c.confirm(ctx); err != nil {
		return contract.ToolReply{}, err
	}
	if json.Unmarshal(c.args, &args) != nil || linkSource(c.agent, args.URI) != source {
		return replies.Error("%sthe URI is not a link of the tool %s", c.note, source.As), nil
	}
	// It is read under the name of the tool that returned the link, because the run is authorized to call that.
	in := contract.ToolInput{Connection: c.conn.Connection, Name: source.Name, Resource: args.URI, CallID: c.call.ID, As: c.tool.As, Note: c.note}
	return c.callTool(ctx, in, c.id("tool"))
}

// linkSource returns the agent's tool that last returned a link to a resource in its conversation, or nil.
func linkSource(a *agentRun, uri string) *plan.Tool {
	for _, e := range slices.Backward(a.thread.Entries) {
		m, err := contract.DecodeMessage(e.Raw)
		if err != nil || m.Role != contract.RoleTool || !slices.Contains(m.Links, uri) {
			continue
		}
		for t := range a.cfg.Tools {
			tool := &a.cfg.Tools[t]
			if b := resolvedConnection(a.run, tool); tool.As == m.Name && b.Resources {
				return tool
			}
		}
	}
	return nil
}
