package trace

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/audit"
	"weft/starter/history"
	"weft/starter/plaintext"
)

var modelCalls = []string{contract.ActivityCallModel, contract.ActivityEvaluateCondition, contract.ActivityCondenseValue, contract.ActivitySummariseConversation}

func (r *reader) scheduled(e *history.Event, c *history.Call) {
	exec, ok := c.Execution()
	if !ok {
		return
	}
	place, exec := e.Run.Place, history.Unescape(exec)
	node := r.node(place, exec, e.Time)
	switch in := c.Input.(type) {
	case *contract.ToolInput:
		if f, n := r.nodeOf(place, exec); n != nil && n.Tool != nil && componentType(f, n) != "ToolNode" {
			r.calls[c] = node // the node itself makes the call, without a tool
			return
		}
		s := r.call(c, "ToolExecutionSpan", "ToolExecution", place, node, e.Time)
		s.Tool, s.returns = r.tool(place, exec, cmp.Or(in.Connection.ID, "worker"), in.Name, in.As)
		s.add("ToolExecutionRequest", e.Time, Object{"tool": s.Tool, "request_id": c.ID, "inputs": r.sensitive(values("arguments", nil, in.Arguments))})
	case *contract.ModelInput:
		r.generation(c, in, place, node, e.Time)
	case *contract.JudgeInput:
		r.model(c, place, node, e.Time, []*contract.Message{{Role: contract.RoleUser, Text: in.Question}}, nil)
	default:
		if slices.Contains(modelCalls, c.Kind) {
			r.model(c, place, node, e.Time, nil, nil)
		} else if strings.Contains(c.ID, "/tool/") { // an activity of another worker
			s := r.call(c, "ToolExecutionSpan", "ToolExecution", place, node, e.Time)
			s.Tool = component("ServerTool", c.Kind, c.Kind, "")
			s.add("ToolExecutionRequest", e.Time, Object{"tool": s.Tool, "request_id": c.ID, "inputs": r.sensitive(Object{"input": c.Argument()})})
		}
	}
}

func (r *reader) call(c *history.Call, kind, name, place string, node *Span, at time.Time) *Span {
	s, _ := r.span(kind, place+c.ID, node.ID, name, at)
	r.calls[c], r.nodeCalls[node.ID] = s, append(r.nodeCalls[node.ID], s)
	return s
}

func (r *reader) generation(c *history.Call, in *contract.ModelInput, place string, node *Span, at time.Time) {
	if in.Profile.Body != nil {
		p := &contract.Profile{}
		if json.Unmarshal(in.Profile.Body, p) == nil {
			r.profiles[in.Profile.SHA] = p
		}
	}
	p := r.profiles[in.Profile.SHA]
	thread := r.threads[place+history.Unescape(in.Base.Thread)]
	thread = slices.Clone(thread[:min(in.Base.Len+len(in.Tail), len(thread))])
	if sent := in.Sent; sent != nil {
		for _, t := range sent.Texts {
			if t.Index < len(thread) && thread[t.Index] != nil {
				m := *thread[t.Index]
				m.Text, m.Parts = t.Text, nil
				thread[t.Index] = &m
			}
		}
		if thread = thread[min(sent.Skip, len(thread)):]; sent.Note != "" {
			thread = slices.Insert(thread, 0, &contract.Message{Role: contract.RoleUser, Text: sent.Note})
		}
	}
	if p != nil && p.System != "" {
		thread = slices.Insert(thread, 0, &contract.Message{Role: "system", Text: p.System})
	}
	s := r.model(c, place, node, at, thread, p)
	if p != nil && !in.NoTools {
		s.Events[0]["tools"] = r.toolsOf(place, node.exec, p)
	}
}

// model begins the span of a model call, whose model is known when it answers.
func (r *reader) model(c *history.Call, place string, node *Span, at time.Time, prompt []*contract.Message, p *contract.Profile) *Span {
	s := r.call(c, "LlmGenerationSpan", "LlmGeneration", place, node, at)
	s.LLMConfig = llmConfig(r.tree.Root().Model)
	messages := []Object{}
	for _, m := range prompt {
		if m != nil {
			messages = append(messages, messageOf(m))
		}
	}
	e := Object{"llm_config": s.LLMConfig, "request_id": c.ID, "llm_generation_config": nil, "prompt": r.sensitive(messages), "tools": []Object{}}
	if p != nil {
		s.LLMConfig = llmConfig(cmp.Or(p.Model, r.tree.Root().Model))
		e["llm_config"] = s.LLMConfig
		if p.Params != nil {
			e["llm_generation_config"] = p.Params
		}
	}
	s.add("LlmGenerationRequest", at, e)
	return s
}

func (r *reader) toolsOf(place, exec string, p *contract.Profile) []Object {
	out := []Object{}
	add := func(name, description string) { out = append(out, component("ServerTool", name, name, description)) }
	for _, name := range p.Builtins {
		add(name, "")
	}
	for i := range p.Tools {
		out = append(out, r.offered(place, exec, &p.Tools[i]))
	}
	for i := range p.Contacts {
		add(p.Contacts[i].Name, p.Contacts[i].Description)
	}
	if p.Finish != nil {
		add(p.Finish.Name, p.Finish.Description)
	}
	return out
}

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
	r.endSpan(s, at)
	if out, ok := c.Result.(*contract.ToolResult); ok || s.Type == "ToolExecutionSpan" {
		r.toolCompleted(s, at, c, out)
		return
	}
	content, calls, model := "", []Object{}, ""
	switch out := c.Result.(type) {
	case *contract.ModelResult:
		model = out.Model
		if m, err := contract.DecodeMessage(out.Message); err == nil {
			content = m.AllText()
			node := r.spans[*s.ParentID]
			if content != "" && len(m.Calls) == 0 {
				node.text = content
			}
			for _, call := range m.Calls {
				if r.finishes(c.Call, call.Name) {
					node.submitted = call.Arguments
				}
				calls = append(calls, Object{"call_id": call.ID, "tool_name": call.Name, "arguments": call.Arguments})
			}
		}
	case *contract.JudgeResult:
		content, model = plaintext.YesNo(out.Yes)+plaintext.If(out.Reason != "", ": %s", out.Reason), out.Model
	}
	if model != "" {
		s.LLMConfig = llmConfig(model)
	}
	e := Object{"llm_config": s.LLMConfig, "request_id": c.ID, "completion_id": nil, "content": r.sensitive(content), "tool_calls": r.sensitive(calls)}
	if used, ok := c.Spent(); ok {
		e["input_tokens"], e["output_tokens"] = used.Input, used.Output
	}
	s.add("LlmGenerationResponse", at, e)
}

// finishes reports whether a tool is the one with which the agent of a model call submits its output.
func (r *reader) finishes(c *history.Call, tool string) bool {
	in, ok := c.Input.(*contract.ModelInput)
	if !ok {
		return false
	}
	p := r.profiles[in.Profile.SHA]
	return p != nil && p.Finish != nil && p.Finish.Name == tool
}

// toolCompleted ends the span of a tool call, or records the result of a node's own request.
func (r *reader) toolCompleted(s *Span, at time.Time, c *history.CallCompleted, out *contract.ToolResult) {
	text, whole, failed := string(c.JSON()), any(c.JSON()), false
	if out != nil {
		failed = out.Error
		if m, err := contract.DecodeMessage(out.Message); err == nil {
			text, whole = m.AllText(), m.AllText()
		}
	}
	if n := r.spans[*s.ParentID]; s.Tool == nil {
		s.text = text
		return
	} else if _, of := r.nodeOf(n.place, n.exec); of != nil && of.Tool != nil {
		n.text = text
	}
	if failed {
		s.add("ExceptionRaised", at, Object{"exception_type": contract.ClassToolErrors, "exception_message": r.sensitive(text), "exception_stacktrace": nil})
		return
	}
	s.add("ToolExecutionResponse", at, Object{"tool": s.Tool, "request_id": c.ID, "output": r.sensitive(returned(s.returns, text, whole))})
}

// executes matches the parts of a request's id that identify its tool call.
var executes = regexp.MustCompile(`/(confirm|client)/(\d+\.\d+)-[0-9a-f]{8}$`)

// request adds a request of a run and its answer to the span of the node that opened it.
func (r *reader) request(q *audit.Request) {
	s := r.byID[""]
	if s == nil || q.AskedAt == nil {
		return
	}
	if q.Execution != "" {
		place, parts := "", strings.Split(q.Execution, "/")
		for _, call := range parts[:len(parts)-1] {
			place += plaintext.Line(history.Unescape(call), 100) + " › "
		}
		s = r.node(place, history.Unescape(parts[len(parts)-1]), *q.AskedAt)
	}
	tool, outs := r.tool(s.place, s.exec, q.Connection, q.Name, q.Tool)
	of := func(kind string, at time.Time, name string, content Object) {
		e, execution := Object{"request_id": q.ID}, executes.ReplaceAllString(q.ID, "/tool/$2")
		switch q.Kind {
		case contract.RequestConfirm:
			kind = "ToolConfirmation" + kind
			e["tool"], e["tool_execution_request_id"] = tool, execution
			if kind == "ToolConfirmationResponse" {
				approve, _ := content["approve"].(json.RawMessage)
				e["execution_confirmed"] = string(approve) == "true"
			}
		case contract.RequestToolResult: // of a tool that a client executes
			kind = "ToolExecution" + kind
			e["tool"], e["request_id"], e[name] = tool, execution, r.sensitive(content)
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
	if a := q.Taken(); a != nil {
		given := values("answer", nil, a.Answer)
		if delete(given, "id"); q.Kind == contract.RequestToolResult {
			delete(given, "by")
			if result, ok := given["result"].(json.RawMessage); ok {
				text := ""
				if json.Unmarshal(result, &text) != nil {
					text = string(result)
				}
				given = returned(outs, text, result)
			}
		}
		of("Response", a.Time, "output", given)
		r.endSpan(s, a.Time)
	}
}
