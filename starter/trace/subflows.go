package trace

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/runtree"
	"weft/workflows/plan"
)

// failed returns the execution that caused a failure of a flow: the last active one of its own or of elements in its run; nil
// if it is unknown.
func (r *reader) failed(place string, f *contract.Failure, at time.Time) (last *Span) {
	exec := history.Label(contract.Execution{Node: f.Node, Step: f.Step})
	for _, s := range r.out.Spans {
		if s.exec == exec && r.runOf(s.place) == place && (last == nil || s.endTime() > last.endTime()) {
			last = s
		}
	}
	if flow := r.plan(place); last == nil && f.Step > 0 && flow != nil && flow.Node(f.Node) != nil {
		last = r.node(place, exec, at)
	}
	return last
}

func (s *Span) endTime() int64 {
	if s.EndTime == nil {
		return 0
	}
	return *s.EndTime
}

// runOf returns the place of the flow in whose run the flow of a place runs.
func (r *reader) runOf(place string) string {
	for flow := r.byID[flowID(place)]; flow.inside; flow = r.byID[flowID(place)] {
		place = r.spans[*flow.ParentID].place
	}
	return place
}

// propagateExceptions adds the exception of a node, of a single agent, or of a flow with its own run to the unfinished spans around it:
// FlowNodes, flows of elements and the nodes that called them, which have no failure in history. It also adds the exception
// of a node or an agent to the active spans inside it.
func (r *reader) propagateExceptions() {
	for _, s := range slices.Clone(r.out.Spans) {
		e := s.exception()
		if e == nil || s.isMember() || !s.executes() {
			continue
		}
		if s.Flow == nil {
			r.failInside(s, e)
		}
		for around := s; around.ParentID != nil; {
			if around = r.spans[*around.ParentID]; around.runs || !around.raise(e) {
				break
			}
			if around.exec != "" {
				r.failInside(around, e)
			}
		}
	}
}

func (r *reader) failInside(s *Span, e Object) {
	for _, inside := range r.out.Spans {
		if inside.ParentID != nil && *inside.ParentID == s.ID && inside.executes() && inside.raise(e) {
			r.failInside(inside, e)
		}
	}
}

// endMember sets how an agent that another agent called ended, if their node has ended.
func (r *reader) endMember(s, node *Span) {
	failed := node != nil && node.exception() != nil
	s.ended = false
	if node == nil || !node.ended && !failed {
		return
	}
	if e := r.failedCall(s); e != nil {
		s.raise(e)
		return
	}
	s.ended = !failed || s.text != ""
}

// failedCall returns the exception of a failed call that no model call followed, or nil.
func (r *reader) failedCall(s *Span) Object {
	for _, call := range slices.Backward(r.nodeCalls[s.ID]) {
		if e := call.exception(); e != nil || call.Type == "LlmGenerationSpan" {
			return e
		}
	}
	return nil
}

// raise adds an exception to a span unless it has ended, and reports whether it did.
func (s *Span) raise(e Object) bool {
	if s.ended || s.exception() != nil {
		return false
	}
	at := e["timestamp"].(int64)
	if s.EndTime == nil || *s.EndTime < at {
		s.EndTime = &at
	}
	s.Events = append(s.Events, maps.Clone(e))
	return true
}

// exception returns the exception event with which a span ends, or nil.
func (s *Span) exception() Object {
	for _, e := range slices.Backward(s.Events) {
		if e["type"] == "ExceptionRaised" {
			return e
		}
	}
	return nil
}

func (s *Span) executes() bool {
	return strings.HasSuffix(s.Type, "ExecutionSpan") && s.Type != "ToolExecutionSpan"
}

// agentSpec is the dialect whose plans inline the nodes of a FlowNode's flow: the id of such a node is prefixed with the
// FlowNode's id and a slash.
const agentSpec = "agentspec"

// flowNodeOf returns the FlowNode that contains a node, "" for a node of the flow itself.
func flowNodeOf(id string) string {
	node, _, below := history.CutLast(id, "/")
	if !below {
		return ""
	}
	return node
}

// isStart and isEnd report whether a node is the StartNode or an EndNode of its flow: no edge comes from, or leads to, another
// node of the same flow.
func isStart(f *plan.Flow, id string) bool {
	in := flowNodeOf(id)
	return slices.ContainsFunc(f.Edges, func(e plan.Edge) bool {
		return e.To == id && (in == "" && e.From == plan.Start || in != "" && !strings.HasPrefix(e.From, in+"/"))
	})
}

func isEnd(f *plan.Flow, id string) bool {
	in := flowNodeOf(id)
	return !slices.ContainsFunc(f.Edges, func(e plan.Edge) bool {
		return e.From == id && e.To != plan.End && (in == "" || strings.HasPrefix(e.To, in+"/"))
	})
}

// subflows moves the nodes of FlowNodes' flows into spans of the FlowNodes and their flows.
func (r *reader) subflows(w *runtree.Workflow, flow *Span, nodes []*Span) {
	if w.Flow.Dialect != agentSpec {
		return
	}
	// current are the flows of FlowNodes to which the next nodes belong.
	current, open := map[string]*Span{}, []*Span{}
	for _, s := range nodes {
		if s.isMember() {
			continue
		}
		id, around := s.execution().Node, flow
		var path []string
		for in := flowNodeOf(id); in != ""; in = flowNodeOf(in) {
			path = append(path, in)
		}
		for _, in := range slices.Backward(path) {
			if current[in] == nil || flowNodeOf(id) == in && isStart(w.Flow, id) {
				current[in] = r.flowNode(w.Place+history.Label(contract.Execution{Node: in, Step: s.execution().Step}), s, around, w.Flow.Node(id))
				open = append(open, current[in])
			}
			if around = current[in]; s.EndTime != nil {
				around.end(time.Unix(0, *s.EndTime))
			}
		}
		if s.ParentID = &around.ID; around != flow && s.ended && isEnd(w.Flow, id) {
			around.ended, around.outputs, around.done = true, s.outputs, s.done
		}
	}
	for _, s := range open {
		node := r.spans[*s.ParentID]
		node.EndTime, node.ended, node.inputs, node.outputs, node.done = s.EndTime, s.ended, s.inputs, s.outputs, s.done
		x := history.ParseLabel(strings.TrimPrefix(node.ID, w.Place))
		id := x.Node
		node.step, s.step = x.Step, x.Step
		_, name, _ := history.CutLast("/"+id, "/")
		r.frame(node, "Node", component("FlowNode", id, name, ""))
		r.frame(s, "Flow", identified("Flow", s.component, id, name))
	}
}

// flowNode begins the span of a FlowNode, and inside it the span of its flow, which begins with the node n and which it returns.
func (r *reader) flowNode(id string, first, around *Span, n *plan.Node) *Span {
	node, _ := r.span("NodeExecutionSpan", id, "", "NodeExecution", time.Unix(0, first.StartTime))
	node.ParentID = &around.ID
	s, _ := r.span("FlowExecutionSpan", id+"/flow", id, "FlowExecution", time.Unix(0, first.StartTime))
	s.inputs = first.inputs
	if n != nil {
		s.component = n.Component
	}
	return s
}

var componentTypes = map[plan.Kind]string{plan.KindAsk: "InputMessageNode", plan.KindSay: "OutputMessageNode", plan.KindBranch: "BranchingNode"}

// componentType returns the component type that corresponds most closely to a node of a plan.
func componentType(f *plan.Flow, n *plan.Node) string {
	switch {
	case n.Kind == plan.KindAgent && f.Dialect == agentSpec && n.Agent.Conversation == "",
		n.Kind == plan.KindAgent && f.Dialect != agentSpec && len(n.Agent.Tools) == 0 && n.Agent.Toolboxes == nil && len(n.Agent.Builtins) == 0:
		return "LlmNode"
	case n.Kind == plan.KindAgent:
		return "AgentNode"
	case n.Kind == plan.KindCall:
		return callType(n.Call)
	case n.Kind == plan.KindPass:
		return passType(f, n)
	case n.Kind == plan.KindTool:
		return requestType(f, n.Tool)
	}
	return cmp.Or(componentTypes[n.Kind], "Node")
}

// requestType returns the type of a node that calls a tool, or makes a request itself.
func requestType(f *plan.Flow, t *plan.Tool) string {
	if len(t.ArgumentsSchema) == 0 && toolType(f, t.BoundTo()) == "RemoteTool" {
		return "ApiNode"
	}
	if c := connectionOf(f, t.Connection); len(c.Operations) > 0 {
		return storeType(c, t.Name)
	}
	return "ToolNode"
}

func storeType(c *plan.Connection, operation string) string {
	for _, o := range c.Operations {
		if o.Name == operation && o.Do != "" {
			return "PluginDatastore" + strings.ToUpper(o.Do[:1]) + o.Do[1:] + "Node"
		}
	}
	return "Node"
}

func passType(f *plan.Flow, n *plan.Node) string {
	switch {
	case n.Pass.Text != nil:
		return "PluginTemplateNode"
	case n.Pass.Match != nil:
		return "PluginRegexNode"
	case n.Pass.Store != nil:
		return storeType(n.Pass.Store, n.Pass.Store.Operations[0].Name)
	case isStart(f, n.ID):
		return "StartNode"
	case isEnd(f, n.ID):
		return "EndNode"
	}
	return "Node"
}

func callType(c *plan.Call) string {
	switch {
	case c.Map && c.AtOnce > 1:
		return "ParallelMapNode"
	case c.Map:
		return "MapNode"
	case c.Catch != nil:
		return "CatchExceptionNode"
	case c.Apart:
		return "AgentNode"
	}
	return "ParallelFlowNode"
}
