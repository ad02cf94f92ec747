package trace

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/audit"
	"weft/starter/history"
	"weft/starter/runtree"
	"weft/workflows/plan"
)

var modelCalls = []string{contract.ActivityCallModel, contract.ActivityEvaluateCondition, contract.ActivityCondenseValue, contract.ActivitySummariseConversation}

// scheduled begins the span of a call of a node.
func (r *reader) scheduled(e *history.Event, c *history.Call) {
	exec, ok := c.Execution()
	if !ok {
		return
	}
	place := e.Run.Place
	node := r.node(place, exec, e.Time)
	switch in := c.Input.(type) {
	case *contract.ToolInput:
		s := r.call(c, "ToolExecutionSpan", "ToolExecution", place, node, e.Time)
		s.Tool = component("Tool", cmp.Or(in.Connection.ID, "worker")+"/"+in.Name, in.Name, "")
		arguments := Object{}
		if len(in.Arguments) > 0 && json.Unmarshal(in.Arguments, &arguments) != nil {
			arguments = Object{"arguments": string(in.Arguments)}
		}
		s.add("ToolExecutionRequest", e.Time, Object{"tool": s.Tool, "request_id": c.ID, "inputs": r.sensitive(arguments)})
	case *contract.ModelInput:
		thread := r.threads[place+in.Base.Thread]
		r.model(c, place, node, e.Time, thread[:min(in.Base.Len+len(in.Tail), len(thread))])
	case *contract.JudgeInput:
		r.model(c, place, node, e.Time, []*contract.Message{{Role: contract.RoleUser, Text: in.Question}})
	default:
		if slices.Contains(modelCalls, c.Kind) {
			r.model(c, place, node, e.Time, nil)
		} else if strings.Contains(c.ID, "/tool/") { // an activity of another worker
			s := r.call(c, "ToolExecutionSpan", "ToolExecution", place, node, e.Time)
			s.Tool = component("Tool", c.Kind, c.Kind, "")
			s.add("ToolExecutionRequest", e.Time, Object{"tool": s.Tool, "request_id": c.ID, "inputs": r.sensitive(Object{"input": c.Argument()})})
		}
	}
}

func (r *reader) call(c *history.Call, kind, name, place string, node *Span, at time.Time) *Span {
	s, _ := r.span(kind, place+c.ID, node.ID, name, at)
	r.calls[c], r.made[node.ID] = s, append(r.made[node.ID], s)
	return s
}

// model begins the span of a call of a model, which is known when it answers.
func (r *reader) model(c *history.Call, place string, node *Span, at time.Time, prompt []*contract.Message) {
	s := r.call(c, "LlmGenerationSpan", "LlmGeneration", place, node, at)
	s.LLMConfig = llmConfig(r.tree.Root().Model)
	messages := []Object{}
	for _, m := range prompt {
		if m != nil {
			messages = append(messages, messageOf(m))
		}
	}
	s.add("LlmGenerationRequest", at, Object{"llm_config": s.LLMConfig, "request_id": c.ID, "llm_generation_config": nil, "prompt": r.sensitive(messages), "tools": nil})
}

// llmConfig is the component of a model: provider/model.
func llmConfig(model string) Object {
	out := component("LlmConfig", model, model, "")
	provider, id, ok := strings.Cut(model, "/")
	out["model_id"] = model
	if ok {
		out["provider"], out["model_id"] = provider, id
	}
	return out
}

func messageOf(m *contract.Message) Object {
	out := Object{"id": nil, "role": m.Role, "content": m.AllText(), "sender": nil}
	if m.From != "" {
		out["sender"] = m.From
	}
	return out
}

func (r *reader) completed(at time.Time, c *history.CallCompleted) {
	s := r.calls[c.Call]
	if s == nil {
		return
	}
	s.end(at)
	if node := r.byID[*s.ParentID]; node != nil {
		node.end(at)
	}
	used := c.Usage()
	if used != nil && used.Model != "" {
		s.LLMConfig = llmConfig(used.Model)
	}
	if s.Type == "ToolExecutionSpan" {
		output := Object{"output": c.JSON()}
		if out, ok := c.Result.(*contract.ToolResult); ok {
			if m, err := contract.DecodeMessage(out.Message); err == nil {
				output = Object{"output": m.AllText()}
			}
		}
		s.add("ToolExecutionResponse", at, Object{"tool": s.Tool, "request_id": c.ID, "output": r.sensitive(output)})
		return
	}
	content, calls := "", []Object{}
	switch out := c.Result.(type) {
	case *contract.ModelResult:
		if m, err := contract.DecodeMessage(out.Message); err == nil {
			content = m.AllText()
			for _, call := range m.Calls {
				calls = append(calls, Object{"call_id": call.ID, "tool_name": call.Name, "arguments": call.Arguments})
			}
		}
	case *contract.JudgeResult:
		content = map[bool]string{true: "yes", false: "no"}[out.Yes]
		if out.Reason != "" {
			content += ": " + out.Reason
		}
	}
	e := Object{"llm_config": s.LLMConfig, "request_id": c.ID, "completion_id": nil, "content": r.sensitive(content), "tool_calls": r.sensitive(calls)}
	if used != nil {
		e["input_tokens"], e["output_tokens"] = used.Input, used.Output
	}
	s.add("LlmGenerationResponse", at, e)
}

// workflow describes the flow of a workflow and its executions, and adds those that made no calls: they took no time.
func (r *reader) workflow(w *runtree.Workflow) {
	flow := r.byID[flowID(w.Place)]
	if flow == nil {
		return
	}
	if w.Flow != nil && flow.Flow == nil && flow.Agent == nil && !w.Branch {
		r.names(flow, w.Flow)
	}
	for _, c := range w.Costs {
		if s := r.byID[w.Place+c.Execution]; s != nil {
			s.text = c.Text
		}
	}
	if w.Flow != nil {
		r.flows[w.Place] = w.Flow
	}
	last := w.StartedAt
	for i := range w.Executions {
		s := r.node(w.Place, history.Label(w.Executions[i]), last)
		if s.EndTime == nil {
			s.end(time.Unix(0, s.StartTime))
		}
		last = time.Unix(0, *s.EndTime)
		if s.Node == nil {
			r.describe(s, &w.Executions[i])
		}
	}
}

// describe says which node the span of an execution is of, and what it gave.
func (r *reader) describe(s *Span, x *contract.Execution) {
	id := history.ExecutionOf(s.exec).Node
	s.Node = component("Node", id, id, "")
	if f := r.flows[s.place]; f != nil && f.Node(id) != nil {
		n := f.Node(id)
		s.Node = component(componentType(n), n.ID, n.Name, "")
		if s.Node["component_type"] == "AgentNode" {
			r.agent(s, n)
		}
	}
	s.Events[0]["node"] = s.Node
	if s.EndTime == nil {
		return
	}
	gives, branch := values("output", nil, nil), nextBranch
	if s.text != "" {
		gives = values("output", &s.text, nil)
	}
	if x != nil {
		branch = cmp.Or(x.Branch, nextBranch)
		if x.Text != nil || len(x.Data) > 0 {
			gives = values("output", x.Text, x.Data)
		}
	}
	s.add("NodeExecutionEnd", time.Unix(0, *s.EndTime), Object{"node": s.Node, "outputs": r.sensitive(gives), "branch_selected": branch})
}

// agent puts a span of the agent between that of a node and those of the agent's calls.
func (r *reader) agent(s *Span, n *plan.Node) {
	inner, _ := r.span("AgentExecutionSpan", s.ID+"/agent", s.ID, "AgentExecution", time.Unix(0, s.StartTime))
	inner.Agent, inner.EndTime = component("Agent", n.ID, n.Name, ""), s.EndTime
	inner.add("AgentExecutionStart", time.Unix(0, s.StartTime), Object{"agent": inner.Agent, "inputs": r.sensitive(Object{})})
	if s.EndTime != nil {
		inner.add("AgentExecutionEnd", time.Unix(0, *s.EndTime), Object{"agent": inner.Agent, "outputs": r.sensitive(values("output", &s.text, nil))})
	}
	for _, call := range r.made[s.ID] {
		if !strings.Contains(call.ID, "/judge/") {
			call.ParentID = &inner.ID
		}
	}
}

// names says which flow a span is of. A flow of one agent alone is that agent.
func (r *reader) names(s *Span, f *plan.Flow) {
	kind, key := "Flow", "flow"
	if f.LoneAgent() != nil {
		kind, key = "Agent", "agent"
		s.Type, s.Name = "AgentExecutionSpan", "AgentExecution"
	}
	c := component(kind, cmp.Or(f.ID, f.Name), f.Name, f.Description)
	if key == "flow" {
		s.Flow = c
	} else {
		s.Agent = c
	}
	for _, e := range s.Events {
		switch e["type"] {
		case "FlowExecutionStart", "FlowExecutionEnd":
			e["type"] = kind + strings.TrimPrefix(e["type"].(string), "Flow")
			e["name"], e[key] = e["type"], c
			if kind == "Agent" {
				delete(e, "branch_selected")
			}
		}
	}
}

// componentType is the type of component that a node of a plan is most like.
func componentType(n *plan.Node) string {
	switch n.Kind {
	case plan.KindAgent:
		if a := n.Agent; a != nil && len(a.Tools) == 0 && a.Toolboxes == nil && len(a.Builtins) == 0 {
			return "LlmNode"
		}
		return "AgentNode"
	case plan.KindAsk:
		return "InputMessageNode"
	case plan.KindSay:
		return "OutputMessageNode"
	case plan.KindTool:
		return "ToolNode"
	case plan.KindBranch:
		return "BranchingNode"
	case plan.KindCall:
		if n.Call != nil && n.Call.Map {
			return "MapNode"
		}
		return "FlowNode"
	}
	return "Node"
}

// request adds what a run asked of people, and what they answered, to the span of the node that asked.
func (r *reader) request(q *audit.Request) {
	s := r.byID[""]
	if s == nil || q.AskedAt == nil {
		return
	}
	if q.Execution != "" {
		place, exec, below := history.CutLast(q.Execution, "/")
		if !below {
			place, exec = "", q.Execution
		} else {
			place = strings.ReplaceAll(place, "/", " › ") + " › "
		}
		s = r.node(place, exec, *q.AskedAt)
	}
	tool := component("Tool", q.Connection+"/"+q.Tool, q.Tool, "")
	of := func(kind string, at time.Time, name string, content Object) {
		e := Object{"request_id": q.ID}
		switch q.Kind {
		case contract.RequestConfirm:
			kind = "ToolConfirmation" + kind
			e["tool"], e["tool_execution_request_id"] = tool, q.ID
			if kind == "ToolConfirmationResponse" {
				e["execution_confirmed"] = content["approve"] == true
			}
		case contract.RequestToolResult: // of a tool that a client executes
			kind = "ToolExecution" + kind
			e["tool"], e[name] = tool, r.sensitive(content)
		default:
			kind = "HumanInTheLoop" + kind
			e["content"] = r.sensitive(content)
		}
		s.add(kind, at, e)
	}
	asked := Object{"kind": q.Kind, "text": q.Asked}
	if q.Kind == contract.RequestToolResult {
		asked = values("arguments", nil, q.Arguments)
	}
	of("Request", *q.AskedAt, "inputs", asked)
	for i := range q.Answers {
		if a := &q.Answers[i]; a.Status == audit.Accepted || a.Status == audit.Unconfirmed {
			of("Response", a.Time, "output", values("answer", nil, a.Answer))
			s.end(a.Time)
		}
	}
}
