package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/runtime"
)

// subAgent runs a flow of the bundle as a child run of type Flow. Its result is the tool's. A tool with a schema of its own
// gives the flow its arguments, others a question.
func (c *toolCall) subAgent(ctx workflow.Context, tool *plan.Tool, agent string, raw json.RawMessage) (contract.ToolReply, error) {
	var args builtinArgs
	named := len(tool.ArgumentsSchema) > 0
	if err := json.Unmarshal(raw, &args); !named && (err != nil || strings.TrimSpace(args.Question) == "") {
		return runtime.ToolError(`%s wants {"user_question": "…"}`, c.call.Name), nil
	}
	flow := c.agentRun.run.Flow.Closure(agent)
	if flow == nil {
		return contract.ToolReply{}, c.agentRun.run.Fail(c.agentRun.execution, contract.ClassConnection, "", "the flow has no agent %q", agent)
	}
	src := c.agentRun.run.Source.Sub(agent)
	if named {
		return c.child(ctx, "", raw, contract.FlowRef{Plan: flow, Source: &src})
	}
	return c.child(ctx, args.Question, nil, contract.FlowRef{Plan: flow, Source: &src})
}

// inlineAgent runs a flow that the model itself wrote. It is compiled like any document; what
// is wrong with it goes back to the model.
func (c *toolCall) inlineAgent(ctx workflow.Context, args *builtinArgs) (contract.ToolReply, error) {
	if strings.TrimSpace(args.Question) == "" || len(args.Agent) == 0 {
		return runtime.ToolError(`%s wants {"user_question": "…", "agent_def": a whole agent definition}`, c.call.Name), nil
	}
	text := string(args.Agent)
	var quoted string
	if json.Unmarshal(args.Agent, &quoted) == nil {
		text = quoted
	}
	return c.child(ctx, args.Question, nil, contract.FlowRef{Text: text, Name: "agent_def.json", Dialect: c.agentRun.run.Flow.Dialect})
}

// child runs a flow below this one, as a step: its result is the tool's.
func (c *toolCall) child(ctx workflow.Context, question string, params json.RawMessage, flow contract.FlowRef) (contract.ToolReply, error) {
	if limit := c.agentRun.run.Flow.Limits.MaxDepth; c.agentRun.run.Shared.Depth >= limit {
		return runtime.ToolError("sub-agents nest at most %d deep; answer without one", limit), nil
	}
	if !c.agentRun.run.Budget.MayStart() {
		return runtime.ToolError("the run may start no more agents: its budget of %d is spent; answer without one", max(0, c.agentRun.run.Shared.Budget.Runs)), nil
	}
	var reply contract.ToolReply
	id := c.startID()
	err := c.agentRun.run.RunStep(ctx, c.agentRun.execution.Journal, id, runtime.HashOf(question, string(params), flow.Text), &reply, func(s *journal.Step) error {
		var out contract.RunResult
		err := c.runChild(ctx, id, c.childInput(question, params, flow), s, &out)
		if err != nil {
			reply, err = subAgentFailed(err)
			return err
		}
		reply = childReply(&out, len(params) > 0)
		return nil
	})
	return reply, err
}

// childInput is what a sub-agent is started with.
func (c *toolCall) childInput(question string, params json.RawMessage, flow contract.FlowRef) contract.RunInput {
	r := c.agentRun.run
	in := r.Below()
	in.Flow, in.Input, in.Params = flow, question, params
	if flow.Text == "" {
		return in
	}
	// A model wrote it: it has what the node has, and nothing else.
	bound := r.Flow.Reaches([]plan.Node{*c.agentRun.execution.Node}, nil)
	for _, d := range r.Flow.Connections {
		if slices.ContainsFunc(bound, func(b plan.Reach) bool { return b.ID == d.ID }) {
			in.DataConnections = append(in.DataConnections, contract.DataConnection{
				ID: d.ID, Name: d.Name, Description: d.Description, Kind: d.Kind, URL: d.URL, Agent: d.Agent, Tools: d.Tools})
		}
	}
	in.Grant = r.Shared.Grant.Narrow(bound)
	return in
}

// runChild runs a sub-agent, or goes on with what it came back with.
func (c *toolCall) runChild(ctx workflow.Context, id string, in contract.RunInput, s *journal.Step, out *contract.RunResult) error {
	ended, err := c.agentRun.run.Budget.Begin(ctx, s.Run == nil)
	if err != nil {
		return err
	}
	defer ended()
	// Others that were asked for together have their parts, and the agent itself goes on.
	part, release := c.agentRun.run.Budget.Allocated(s.Run, 1+len(c.agentRun.under))
	defer release()
	if s.Run != nil && s.Run.Plan != nil {
		in = c.agentRun.run.Below()
		in.Snapshot = s.Run
	}
	in.Budget = part
	k := &runtime.Child{Workflow: contract.WorkflowFlow, ID: id, Summary: c.agentRun.execution.Node.ID + " · sub-agent"}
	return c.agentRun.run.AwaitFlow(ctx, k, in, "the sub-agent", len(c.agentRun.under), out, s, c.agentRun.execution.Journal)
}

// childReply is a sub-agent's result as a tool's: where it has no value of its own, what was said last.
func childReply(out *contract.RunResult, named bool) contract.ToolReply {
	if out.ResultText != nil {
		return contract.ToolReply{Text: *out.ResultText}
	}
	if text := lastSaid(out.Conversation); text != "" && named && string(out.ResultData) == "{}" {
		return contract.ToolReply{Text: text}
	}
	return contract.ToolReply{Text: string(out.ResultData)}
}

// countStart counts a run that the call starts among those of calls with its id. A model, or the
// provider, may give several calls of an agent one id.
func (c *toolCall) countStart() {
	for i := range c.agentRun.state.Starts {
		if c.agentRun.state.Starts[i].ID == c.call.ID {
			c.agentRun.state.Starts[i].N++
			c.startNumber = c.agentRun.state.Starts[i].N
			return
		}
	}
	c.agentRun.state.Starts = append(c.agentRun.state.Starts, contract.StartCount{ID: c.call.ID, N: 1})
	c.startNumber = 1
}

// startID is the id of the run that the call starts.
func (c *toolCall) startID() string {
	id := fmt.Sprintf("%s/%s:%s", c.agentRun.run.Root, c.agentRun.execution.ID, contract.EscapeID(c.call.ID))
	if c.startNumber > 1 {
		id = fmt.Sprintf("%s~%d", id, c.startNumber)
	}
	return id
}

// lastSaid is what an agent said last in a flow's conversation.
func lastSaid(t *contract.Conversation) string {
	if t == nil {
		return ""
	}
	for _, c := range slices.Backward(t.Messages) {
		if m, err := contract.DecodeMessage(c.Raw); err == nil && m.Role == contract.RoleAssistant && m.Text != "" {
			return m.Text
		}
	}
	return ""
}

// subAgentFailed gives a sub-agent's failure to the model, unless an operator must fix it.
func subAgentFailed(err error) (contract.ToolReply, error) {
	if contract.Cancelled(err) || errors.Is(err, runtime.ErrYield) {
		return contract.ToolReply{}, err
	}
	f := contract.FailureOf(err)
	switch f.Class {
	case contract.ClassDenied, contract.ClassQuotaExceeded, contract.ClassUnavailable, contract.ClassTimeout, contract.ClassRateLimited,
		contract.ClassPayloadLost, contract.ClassPayloadKey:
		return contract.ToolReply{}, err
	}
	text := "the sub-agent failed: " + f.Error()
	for _, d := range f.Diagnostics {
		text += "\n" + d
	}
	return contract.ToolReply{Text: text, Failed: true}, nil
}
