package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/replies"
	"weft/workflows/runtime"
)

// subAgent runs a flow of the bundle as a child run of type Flow, and returns its result. The flow's input is the arguments if the
// tool has an argument schema, else a question.
func (c *toolCall) subAgent(ctx workflow.Context) (contract.ToolReply, error) {
	var args builtinArgs
	params := c.args
	if len(c.tool.ArgumentsSchema) == 0 {
		params = nil
		if err := json.Unmarshal(c.args, &args); err != nil || strings.TrimSpace(args.Question) == "" {
			return replies.Error(`%s expects {"user_question": "…"}`, c.call.Name), nil
		}
	}
	flow, err := bundledFlow(c.agent, "agent", c.conn.Connection.Agent)
	if err != nil {
		return contract.ToolReply{}, err
	}
	return c.runChild(ctx, args.Question, params, flow)
}

// bundledFlow returns a flow of the bundle.
func bundledFlow(a *agentRun, what, id string) (contract.FlowRef, error) {
	r := a.run
	flow, src := r.Flow.Closure(id), r.Source.Sub(id)
	if flow == nil {
		return contract.FlowRef{}, r.Fail(a.execution, contract.ClassConnection, "", "the flow has no %s %q", what, id)
	}
	return contract.FlowRef{Plan: flow, Source: &src}, nil
}

// inlineAgent runs a flow that the model itself wrote. It is compiled like any document; errors are returned to the model.
func (c *toolCall) inlineAgent(ctx workflow.Context, args *builtinArgs) (contract.ToolReply, error) {
	if strings.TrimSpace(args.Question) == "" || len(args.Agent) == 0 {
		return replies.Error(`%s expects {"user_question": "…", "agent_def": a complete agent definition}`, c.call.Name), nil
	}
	var text string
	if json.Unmarshal(args.Agent, &text) != nil {
		text = string(args.Agent)
	}
	return c.runChild(ctx, args.Question, nil, contract.FlowRef{Text: text, Name: "agent_def.json", Dialect: c.agent.run.Flow.Dialect})
}

// runChild runs a child flow as a step, or continues it from its snapshot, and returns its result.
func (c *toolCall) runChild(ctx workflow.Context, question string, params json.RawMessage, flow contract.FlowRef) (contract.ToolReply, error) {
	r, x, n := c.agent.run, c.agent.execution, len(c.answer.msg.Calls)
	if limit := r.Flow.Limits.MaxDepth; r.Shared.Depth >= limit {
		return replies.Error("sub-agents can be nested at most %d levels deep; answer without one", limit), nil
	}
	if !r.Budget.MayStart() {
		return replies.Error("the run's budget of %d runs is used up; answer without a sub-agent", max(0, r.Shared.Budget.Runs)), nil
	}
	return c.step(ctx, c.runID, contract.HashOf(question, string(params), flow.Text), func(s *journal.Step) (contract.ToolReply, error) {
		ended, err := r.Budget.Begin(ctx, s.Run == nil)
		if err != nil {
			return childFailure("the sub-agent", err)
		}
		defer ended()
		// The budget is shared with the other calls of the message, and with the agent itself.
		part, release := r.Budget.Share(s.Run, 1+n)
		defer release()
		in := r.ChildInput()
		in.Budget = part
		if s.Run != nil && s.Run.Plan != nil {
			in.Snapshot = s.Run
		} else {
			in.Flow, in.Input, in.Params = flow, question, params
			confine(c.agent, &in)
		}
		var out contract.RunResult
		k := &runtime.Child{Workflow: contract.WorkflowFlow, ID: s.ID, Summary: x.Node.ID + " · sub-agent"}
		if err := r.AwaitFlow(ctx, k, in, "the sub-agent", n, &out, s, x.Journal); err != nil {
			return childFailure("the sub-agent", err)
		}
		return childReply(&out, len(params) > 0), nil
	})
}

// confine limits a flow that a model wrote, which has a text, to the connections and grants of the node.
func confine(a *agentRun, in *contract.RunInput) {
	if in.Flow.Text == "" {
		return
	}
	r := a.run
	bound := r.Flow.Reaches([]plan.Node{*a.execution.Node}, nil)
	for _, d := range r.Flow.Connections {
		if slices.ContainsFunc(bound, func(b plan.Reach) bool { return b.ID == d.ID }) {
			in.DataConnections = append(in.DataConnections, contract.DataConnection{
				ID: d.ID, Name: d.Name, Description: d.Description, Kind: d.Kind, URL: d.URL, Agent: d.Agent, Tools: d.Tools})
		}
	}
	in.Grant = r.Shared.Grant.Narrow(bound)
}

// childReply returns a sub-agent's result as a tool reply: its value or, if it has none, its last message.
func childReply(out *contract.RunResult, named bool) contract.ToolReply {
	if out.ResultText != nil {
		return contract.ToolReply{Text: *out.ResultText}
	}
	if named && out.Conversation != nil && string(out.ResultData) == "{}" {
		for _, c := range slices.Backward(out.Conversation.Messages) {
			if m, err := contract.DecodeMessage(c.Raw); err == nil && m.Role == contract.RoleAssistant && m.Text != "" {
				return contract.ToolReply{Text: m.Text}
			}
		}
	}
	return contract.ToolReply{Text: string(out.ResultData)}
}

// setRunID sets the workflow id of the run that the call starts. The id is unique even if the model used the call's id several times.
func (c *toolCall) setRunID() {
	starts := &c.agent.state.Starts
	i := slices.IndexFunc(*starts, func(s contract.StartCount) bool { return s.ID == c.call.ID })
	if i < 0 {
		i = len(*starts)
		*starts = append(*starts, contract.StartCount{ID: c.call.ID})
	}
	(*starts)[i].N++
	c.runID = fmt.Sprintf("%s/%s:%s", c.agent.run.Root, c.agent.execution.ID, contract.EscapeID(c.call.ID))
	if n := (*starts)[i].N; n > 1 {
		c.runID = fmt.Sprintf("%s~%d", c.runID, n)
	}
}

// childFailure returns the failure of a sub-agent or a member as a reply to the model, unless an operator must fix it.
func childFailure(who string, err error) (contract.ToolReply, error) {
	if runtime.Interrupted(err) {
		return contract.ToolReply{}, err
	}
	f := contract.FailureOf(err)
	switch f.Class {
	case contract.ClassDenied, contract.ClassQuotaExceeded, contract.ClassUnavailable, contract.ClassTimeout, contract.ClassRateLimited,
		contract.ClassPayloadLost, contract.ClassPayloadKey:
		return contract.ToolReply{}, err
	}
	text := who + " failed: " + f.Error()
	for _, d := range f.Diagnostics {
		text += "\n" + d
	}
	return contract.ToolReply{Text: text, Failed: true}, nil
}
