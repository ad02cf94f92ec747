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

// subAgent runs a flow of the bundle as a child run of type Flow. Its result is the tool's. A tool with a schema of its own
// gives the flow its arguments, others a question.
func (c *toolCall) subAgent(ctx workflow.Context) (contract.ToolReply, error) {
	var args builtinArgs
	params := c.args
	if len(c.tool.ArgumentsSchema) == 0 {
		params = nil
		if err := json.Unmarshal(c.args, &args); err != nil || strings.TrimSpace(args.Question) == "" {
			return replies.Error(`%s wants {"user_question": "…"}`, c.call.Name), nil
		}
	}
	flow, err := bundled(c.agent, "agent", c.conn.Connection.Agent)
	if err != nil {
		return contract.ToolReply{}, err
	}
	return c.child(ctx, args.Question, params, flow)
}

// bundled is a flow of the bundle.
func bundled(a *agentRun, what, id string) (contract.FlowRef, error) {
	r := a.run
	flow, src := r.Flow.Closure(id), r.Source.Sub(id)
	if flow == nil {
		return contract.FlowRef{}, r.Fail(a.execution, contract.ClassConnection, "", "the flow has no %s %q", what, id)
	}
	return contract.FlowRef{Plan: flow, Source: &src}, nil
}

// inlineAgent runs a flow that the model itself wrote. It is compiled like any document; its errors go back to the model.
func (c *toolCall) inlineAgent(ctx workflow.Context, args *builtinArgs) (contract.ToolReply, error) {
	if strings.TrimSpace(args.Question) == "" || len(args.Agent) == 0 {
		return replies.Error(`%s wants {"user_question": "…", "agent_def": a whole agent definition}`, c.call.Name), nil
	}
	var text string
	if json.Unmarshal(args.Agent, &text) != nil {
		text = string(args.Agent)
	}
	return c.child(ctx, args.Question, nil, contract.FlowRef{Text: text, Name: "agent_def.json", Dialect: c.agent.run.Flow.Dialect})
}

// child runs a flow below this one, as a step, or goes on with what it came back with: its result is the tool's.
func (c *toolCall) child(ctx workflow.Context, question string, params json.RawMessage, flow contract.FlowRef) (contract.ToolReply, error) {
	r, x, n := c.agent.run, c.agent.execution, len(c.answer.msg.Calls)
	if limit := r.Flow.Limits.MaxDepth; r.Shared.Depth >= limit {
		return replies.Error("sub-agents nest at most %d deep; answer without one", limit), nil
	}
	if !r.Budget.MayStart() {
		return replies.Error("the run cannot start more agents: its budget of %d is spent; answer without one", max(0, r.Shared.Budget.Runs)), nil
	}
	return c.step(ctx, c.runID, contract.HashOf(question, string(params), flow.Text), func(s *journal.Step) (contract.ToolReply, error) {
		ended, err := r.Budget.Begin(ctx, s.Run == nil)
		if err != nil {
			return failedBelow("the sub-agent", err)
		}
		defer ended()
		// Others that were asked for together have their parts, and the agent itself goes on.
		part, release := r.Budget.Share(s.Run, 1+n)
		defer release()
		in := r.Below()
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
			return failedBelow("the sub-agent", err)
		}
		return childReply(&out, len(params) > 0), nil
	})
}

// confine gives a flow that a model wrote, which is its text, what the node has, and nothing else.
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

// childReply is a sub-agent's result as a tool's: where it has no value of its own, what was said last.
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

// nameRun gives the run that the call starts its id, which tells it from those of other calls with the call's id: a model may give
// that to several.
func (c *toolCall) nameRun() {
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

// failedBelow gives the failure of a sub-agent, or of a member, to the model, unless an operator must fix it.
func failedBelow(who string, err error) (contract.ToolReply, error) {
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
