package workflows

import (
	"encoding/json"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// subAgent runs a flow of the bundle as a child run of type Flow. Its result is the tool's.
func (a *agentRun) subAgent(ctx workflow.Context, c *contract.ToolCall, agent string, raw json.RawMessage) (func() (toolReply, error), error) {
	var args builtinArgs
	if err := json.Unmarshal(raw, &args); err != nil || strings.TrimSpace(args.Question) == "" {
		return toolError(`%s wants {"user_question": "…"}`, c.Name), nil
	}
	flow := closure(a.flow, agent)
	if flow == nil {
		return nil, a.fail(a.step, contract.ClassConnection, "", "the flow has no agent %q", agent)
	}
	src := a.source.Sub(agent)
	return a.child(ctx, c, args.Question, contract.FlowRef{Plan: flow, Source: &src})
}

// inlineAgent runs a flow that the model itself wrote. It is compiled like any document; what
// is wrong with it goes back to the model.
func (a *agentRun) inlineAgent(ctx workflow.Context, c *contract.ToolCall, args *builtinArgs, raw json.RawMessage) (func() (toolReply, error), error) {
	if strings.TrimSpace(args.Question) == "" || len(args.Agent) == 0 {
		return toolError(`%s wants {"user_question": "…", "agent_def": a whole agent definition}`, c.Name), nil
	}
	text := string(args.Agent)
	var quoted string
	if json.Unmarshal(args.Agent, &quoted) == nil {
		text = quoted
	}
	return a.child(ctx, c, args.Question, contract.FlowRef{Text: text, Name: "agent_def.json", Dialect: a.flow.Dialect})
}

// child starts a run of type Flow below this one.
func (a *agentRun) child(ctx workflow.Context, c *contract.ToolCall, question string, flow contract.FlowRef) (func() (toolReply, error), error) {
	if limit := a.flow.Limits.MaxDepth; a.shared.Depth >= limit {
		return toolError("sub-agents nest at most %d deep; answer without one", limit), nil
	}
	in := contract.RunInput{
		V: contract.Version, Flow: flow, Input: question, Model: a.shared.Model,
		Depth: a.shared.Depth + 1, ScriptRef: a.shared.Script, MaxPayload: a.shared.MaxPayload,
	}
	if flow.Text != "" {
		for _, c := range a.flow.Connections {
			in.DataConnections = append(in.DataConnections, contract.DataConnection{
				ID: c.ID, Name: c.Name, Description: c.Description, Kind: c.Kind, URL: c.URL, Agent: c.Agent})
		}
	}
	if err := a.guard.admit(ctx, "the sub-agent's input", in); err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%s/%s:%s", a.root, a.id, escapeID(c.ID))
	if a.calls[id]++; a.calls[id] > 1 {
		id = fmt.Sprintf("%s~%d", id, a.calls[id])
	}
	future := workflow.ExecuteChildWorkflow(a.childOptions(ctx, id, fmt.Sprintf("%s · sub-agent", a.node.ID)), contract.WorkflowFlow, in)
	return func() (toolReply, error) {
		var out contract.RunResult
		if err := future.Get(ctx, &out); err != nil {
			return subAgentFailed(err)
		}
		a.usage.Add(out.Usage)
		if out.ResultText != nil {
			return toolReply{text: *out.ResultText}, nil
		}
		return toolReply{text: string(out.ResultData)}, nil
	}, nil
}

// subAgentFailed gives a sub-agent's failure to the model, unless an operator must mend it.
func subAgentFailed(err error) (toolReply, error) {
	if contract.Cancelled(err) {
		return toolReply{}, err
	}
	f := contract.FailureOf(err)
	switch f.Class {
	case contract.ClassDenied, contract.ClassQuota, contract.ClassUnavailable, contract.ClassTimeout, contract.ClassRateLimited, contract.ClassPayloadLost:
		return toolReply{}, err
	}
	text := "the sub-agent failed: " + f.Error()
	for _, d := range f.Diagnostics {
		text += "\n" + d
	}
	return toolReply{text: text, failed: true}, nil
}

// childOptions are those of every child: it hears of a cancellation, and is waited for.
func (r *run) childOptions(ctx workflow.Context, id, summary string) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          boundID(id),
		StaticSummary:       boundSummary(summary),
		ParentClosePolicy:   enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WaitForCancellation: true,
	})
}

// closure is the flow with an id among those that f can call, with all that it can call
// itself and no more; nil if there is none.
func closure(f *plan.Flow, id string) *plan.Flow {
	found := f.SubFlow(id)
	if found == nil {
		return nil
	}
	out := *found
	out.Connections, out.Agents = f.Connections, nil
	reached := map[string]bool{id: true}
	todo := []*plan.Flow{found}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		for _, a := range called(f, next.Nodes) {
			if sub := f.SubFlow(a); sub != nil && !reached[a] {
				reached[a] = true
				lone := *sub
				lone.Connections, lone.Agents = nil, nil
				out.Agents = append(out.Agents, lone)
				todo = append(todo, sub)
			}
		}
	}
	return &out
}

// called lists the agents that nodes can call, in order.
func called(f *plan.Flow, nodes []plan.Node) []string {
	agents := map[string]string{}
	for _, c := range f.Connections {
		if c.Kind == plan.ConnectionAgent {
			agents[c.ID] = c.Agent
		}
	}
	var out []string
	for i := range nodes {
		if nodes[i].Agent == nil {
			continue
		}
		for _, t := range nodes[i].Agent.Tools {
			if a := agents[t.Connection]; a != "" {
				out = append(out, a)
			}
		}
	}
	return out
}
