package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// subAgent runs a flow of the bundle as a child run of type Flow. Its result is the tool's.
func (c *toolCall) subAgent(ctx workflow.Context, agent string, raw json.RawMessage) (toolReply, error) {
	var args builtinArgs
	if err := json.Unmarshal(raw, &args); err != nil || strings.TrimSpace(args.Question) == "" {
		return toolError(`%s wants {"user_question": "…"}`, c.call.Name), nil
	}
	flow := closure(c.flow, agent)
	if flow == nil {
		return toolReply{}, c.fail(c.execution, contract.ClassConnection, "", "the flow has no agent %q", agent)
	}
	src := c.source.Sub(agent)
	return c.child(ctx, args.Question, nil, contract.FlowRef{Plan: flow, Source: &src})
}

// inlineAgent runs a flow that the model itself wrote. It is compiled like any document; what
// is wrong with it goes back to the model.
func (c *toolCall) inlineAgent(ctx workflow.Context, args *builtinArgs) (toolReply, error) {
	if strings.TrimSpace(args.Question) == "" || len(args.Agent) == 0 {
		return toolError(`%s wants {"user_question": "…", "agent_def": a whole agent definition}`, c.call.Name), nil
	}
	text := string(args.Agent)
	var quoted string
	if json.Unmarshal(args.Agent, &quoted) == nil {
		text = quoted
	}
	return c.child(ctx, args.Question, nil, contract.FlowRef{Text: text, Name: "agent_def.json", Dialect: c.flow.Dialect})
}

// child runs a flow below this one, as a step: its result is the tool's.
func (c *toolCall) child(ctx workflow.Context, question string, params json.RawMessage, flow contract.FlowRef) (contract.ToolReply, error) {
	if limit := c.flow.Limits.MaxDepth; c.shared.Depth >= limit {
		return toolError("sub-agents nest at most %d deep; answer without one", limit), nil
	}
	var reply contract.ToolReply
	id := c.startID()
	err := c.run.runStep(ctx, c.journal, id, hashOf(question, string(params), flow.Text), &reply, func(s *journalStep) error {
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
	in := contract.RunInput{
		V: contract.Version, Flow: flow, Input: question, Params: params, Model: c.shared.Model, OnError: c.shared.OnError,
		Depth: c.shared.Depth + 1, ScriptRef: c.shared.Script, Owner: c.shared.Owner, MaxEvents: c.shared.MaxEvents,
		MaxPayload: c.shared.MaxPayload,
	}
	if flow.Text != "" {
		for _, d := range c.flow.Connections {
			in.DataConnections = append(in.DataConnections, contract.DataConnection{
				ID: d.ID, Name: d.Name, Description: d.Description, Kind: d.Kind, URL: d.URL, Agent: d.Agent, Tools: d.Tools})
		}
	}
	return in
}

// runChild runs a sub-agent, or goes on with what it came back with.
func (c *toolCall) runChild(ctx workflow.Context, id string, in contract.RunInput, s *journalStep, out *contract.RunResult) error {
	// Others that were asked for together have their parts, and the agent itself goes on.
	part, release := c.allocated(s.Run, 1+len(c.under))
	defer release()
	if s.Run != nil && s.Run.Plan != nil {
		in = contract.RunInput{V: contract.Version, Model: c.shared.Model, Depth: in.Depth, MaxEvents: in.MaxEvents, Carry: s.Run}
	}
	in.Budget = part
	if err := c.guard.admit(ctx, "the sub-agent's input", in); err != nil {
		return err
	}
	k := &child{workflow: contract.WorkflowFlow, id: id, summary: c.node.ID + " · sub-agent"}
	return c.awaitFlow(ctx, k, in, len(c.under), out, s, c.journal)
}

// childReply is a sub-agent's result as a tool's: where it has no value of its own, what was said last.
func childReply(out *contract.RunResult, named bool) contract.ToolReply {
	if out.ResultText != nil {
		return contract.ToolReply{Text: *out.ResultText}
	}
	if text := lastSaid(out.Talk); text != "" && named && string(out.ResultData) == "{}" {
		return contract.ToolReply{Text: text}
	}
	return contract.ToolReply{Text: string(out.ResultData)}
}

// countStart counts a run that the call starts among those of calls with its id. A model, or the
// provider, may give several calls of an agent one id.
func (c *toolCall) countStart() {
	for i := range c.starts {
		if c.starts[i].ID == c.call.ID {
			c.starts[i].N++
			c.startNumber = c.starts[i].N
			return
		}
	}
	c.starts = append(c.starts, contract.StartCount{ID: c.call.ID, N: 1})
	c.startNumber = 1
}

// startID is the id of the run that the call starts.
func (c *toolCall) startID() string {
	id := fmt.Sprintf("%s/%s:%s", c.root, c.execution.id, contract.EscapeID(c.call.ID))
	if c.startNumber > 1 {
		id = fmt.Sprintf("%s~%d", id, c.startNumber)
	}
	return id
}

// lastSaid is what an agent said last in a flow's conversation.
func lastSaid(t *contract.Talk) string {
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

// awaitFlow runs a flow below this one, one of n that run together, and waits for it. Where this run should
// stop, the other is asked to come back with what it goes on with; that is kept in the step s.
func (r *run) awaitFlow(ctx workflow.Context, c *child, in contract.RunInput, n int, out *contract.RunResult, s *journalStep, j *journal) error {
	for tries := 1; ; tries++ {
		in.Room = r.guard.part(ctx, n, 25)
		c.in = in
		leave := r.keep(ctx, contract.BoundID(c.id), in.Room)
		err := r.runFlow(ctx, c, in.Carry, out, j)
		leave()
		again, err := idTaken(ctx, err, tries, c.id)
		switch {
		case again:
			continue
		case err == nil && out.Yielded != nil:
			s.Run = out.Yielded
			return errYield
		}
		return below(err)
	}
}

// below is the error of a run below this one.
func below(err error) error {
	if err == nil || contract.Cancelled(err) {
		return err
	}
	f := contract.FailureOf(err)
	f.Usage = nil // it is counted
	return f
}

// runFlow is [run.awaitFlow], once.
func (r *run) runFlow(ctx workflow.Context, c *child, from *contract.Carry, out *contract.RunResult, j *journal) error {
	k := r.start(ctx, c)
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	for !k.IsReady() {
		if err := workflow.Await(quiet, func() bool {
			return k.IsReady() || !k.asked && ctx.Err() == nil && r.wants(ctx, j.weight())
		}); err != nil {
			return err
		}
		if !k.IsReady() {
			r.askToYield(ctx, k)
		}
	}
	err := k.Get(quiet, out)
	r.disown(ctx, k.id, err)
	r.charge(from, out, err)
	return err
}

func toolError(format string, args ...any) toolReply {
	return toolReply{Text: fmt.Sprintf(format, args...), Failed: true}
}

// subAgentFailed gives a sub-agent's failure to the model, unless an operator must fix it.
func subAgentFailed(err error) (toolReply, error) {
	if contract.Cancelled(err) || errors.Is(err, errYield) {
		return toolReply{}, err
	}
	f := contract.FailureOf(err)
	switch f.Class {
	case contract.ClassDenied, contract.ClassQuotaExceeded, contract.ClassUnavailable, contract.ClassTimeout, contract.ClassRateLimited,
		contract.ClassPayloadLost, contract.ClassPayloadKey:
		return toolReply{}, err
	}
	text := "the sub-agent failed: " + f.Error()
	for _, d := range f.Diagnostics {
		text += "\n" + d
	}
	return toolReply{Text: text, Failed: true}, nil
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
		if nodes[i].Call != nil {
			out = append(out, nodes[i].Call.Flows...)
		}
		for _, s := range nodes[i].Speakers() {
			if s.Agent.Ask != nil {
				for _, k := range s.Agent.Ask.To {
					if k.Flow != "" {
						out = append(out, k.Flow)
					}
				}
			}
		}
		for _, t := range toolsOf(&nodes[i]) {
			if a := agents[t.tool.Connection]; a != "" {
				out = append(out, a)
			}
		}
	}
	return out
}
