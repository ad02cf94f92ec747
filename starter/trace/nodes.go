package trace

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/runtree"
	"weft/workflows/plan"
	"weft/workflows/plan/result"
)

// executions adds the nodes of each flow that made no calls, sets how the others ended, and describes all of them. A flow
// precedes the flows that its nodes run.
func (r *reader) executions(ctx context.Context) {
	for i := 0; i < len(r.tree.Workflows); i++ { // the loop adds elements to them
		w := r.tree.Workflows[i]
		flow := r.byID[flowID(w.Place)]
		if flow == nil || w.Branch || flow.described {
			continue
		}
		if flow.described = true; flow.inside { // an element of a map ends with its node at the latest
			flow.ended = r.spans[*flow.ParentID].ended
		}
		if w.Flow == nil {
			r.frame(flow, "Flow", component("Flow", flow.ID, flow.ID, ""))
			continue
		}
		if !r.ask(ctx, w) {
			r.inferExecutions(w, flow)
		}
		nodes := r.nodesIn(w.Place)
		r.schedule(w.Flow, flow, nodes)
		if w.Flow.Dialect == agentSpec && w.Input != nil {
			flow.inputs = inputsOf(w.Flow, values("", nil, w.Input.Params))
		}
		for _, s := range nodes {
			if s.isMember() {
				r.member(s)
				continue
			}
			n := w.Flow.Node(s.execution().Node)
			if n == nil {
				n = &plan.Node{ID: s.execution().Node, Name: s.execution().Node}
			}
			r.setInputs(w.Flow, s, n)
			r.elements(w, s, n)
			r.describe(s, w.Flow, n)
		}
		r.subflows(w, flow, nodes)
		r.describeFlow(flow, w, nodes)
	}
}

func (r *reader) nodesIn(place string) []*Span {
	out := slices.Clone(r.nodes[place])
	slices.SortStableFunc(out, func(a, b *Span) int {
		return cmp.Or(cmp.Compare(a.execution().Step, b.execution().Step), cmp.Compare(len(a.exec), len(b.exec)))
	})
	return out
}

// execution returns the node's execution of a span, which may be the span of an agent inside the node.
func (s *Span) execution() contract.Execution {
	x, _ := executionOf(s.exec)
	return x
}

// executionOf parses a label, which may have a member of the node's team as a suffix.
func executionOf(exec string) (x contract.Execution, member string) {
	node, rest, _ := history.CutLast(exec, "#")
	step, member, _ := strings.Cut(rest, ":")
	return history.ParseLabel(node + "#" + step), member
}

// isMember reports whether a span is of an agent that another agent of its node called.
func (s *Span) isMember() bool {
	_, member := executionOf(s.exec)
	return member != ""
}

// ask queries workers for the executions of a flow, and reports whether they answered.
func (r *reader) ask(ctx context.Context, w *runtree.Workflow) bool {
	if r.NodeRuns == nil || w.Input == nil || onlyAgent(w.Flow) != nil || r.out.FromHistory {
		return false
	}
	all, err := r.NodeRuns(ctx, r.tree, w)
	if err != nil {
		r.out.FromHistory = true
		return false
	}
	for i := range all {
		x := &all[i]
		s := r.node(w.Place, history.Label(x.Execution), time.Time{})
		if s.ended = x.Ended; x.Ended {
			done := x.Execution
			if s.done != nil { // as an exit, with its output
				done.Text, done.Data = s.done.Text, s.done.Data
			}
			s.done = &done
		}
		s.inputs, s.outputs = objectOf(x.Inputs), objectOf(x.Outputs)
	}
	return true
}

func objectOf(values map[string]json.RawMessage) Object {
	out := Object{}
	for name, v := range values {
		out[name] = v
	}
	return out
}

// inferExecutions adds executions from history: outcomes of branches, and executions inferred from the edges.
func (r *reader) inferExecutions(w *runtree.Workflow, flow *Span) {
	var fork []contract.ExecutionRecord
	if w.Input != nil && w.Input.Fork != nil {
		fork = w.Input.Fork.Executions
	}
	for i := range w.Executions {
		x := &w.Executions[i]
		if !slices.ContainsFunc(fork, func(p contract.ExecutionRecord) bool { return history.Label(p.Execution) == history.Label(*x) }) {
			s := r.node(w.Place, history.Label(*x), time.Time{})
			s.done, s.ended = x, true
		}
	}
	c := inference{r, w.Flow, w.Place, flow, r.nodesIn(w.Place), len(w.Flow.Nodes) + 1}
	if onlyAgent(w.Flow) == nil && fork == nil {
		c.run()
		return
	}
	for _, s := range c.queue {
		s.ended = s.ended || flow.ended
	}
}

func edges(f *plan.Flow, want func(*plan.Edge) bool) []*plan.Edge {
	var out []*plan.Edge
	for i := range f.Edges {
		if want(&f.Edges[i]) {
			out = append(out, &f.Edges[i])
		}
	}
	return out
}

// alwaysTaken reports whether an edge is taken whenever its node ends.
func alwaysTaken(e *plan.Edge) bool { return e.Question == "" && e.Compare == nil && e.Branch == "" }

// inference infers executions from the edges of a flow: an edge without a condition is always taken, and the only predecessor
// of a node ran one step before it.
type inference struct {
	*reader
	flow     *plan.Flow
	place    string
	flowSpan *Span
	// queue are the executions to be examined, last is the last possible step.
	queue []*Span
	last  int
}

func (c *inference) run() {
	for _, s := range c.queue {
		c.last = max(c.last, s.execution().Step+len(c.flow.Nodes))
	}
	for _, e := range edges(c.flow, func(e *plan.Edge) bool { return e.From == plan.Start && alwaysTaken(e) }) {
		c.addExecution(e.To, 1, "")
	}
	for ; len(c.queue) > 0; c.queue = c.queue[1:] {
		if s := c.queue[0]; c.flow.Node(s.execution().Node) != nil && !s.isMember() {
			c.inferNeighbors(s)
		}
	}
}

// inferNeighbors infers the executions before and after an execution.
func (c *inference) inferNeighbors(s *Span) {
	x := s.execution()
	into := edges(c.flow, func(e *plan.Edge) bool { return e.To == x.Node })
	if len(into) == 1 && !c.flow.Node(x.Node).Deferred {
		c.addExecution(into[0].From, x.Step-1, into[0].Branch)
	}
	n := c.flow.Node(x.Node)
	// A node has also ended if it makes no calls, or if another node ran after it.
	s.ended = s.ended || c.flowSpan.ended || slices.Contains([]plan.Kind{plan.KindPass, plan.KindSay, plan.KindBranch}, n.Kind) ||
		slices.ContainsFunc(c.flow.Edges, func(e plan.Edge) bool {
			return e.From == x.Node && c.byID[c.place+history.Label(contract.Execution{Node: e.To, Step: x.Step + 1})] != nil
		})
	if !s.ended {
		return
	}
	if s.done == nil && n.Kind == plan.KindBranch {
		s.done = &contract.Execution{Branch: c.branchOf(c.flow, s, n)}
	}
	for _, e := range edges(c.flow, func(e *plan.Edge) bool {
		return e.From == x.Node && (alwaysTaken(e) || e.Branch != "" && s.done != nil && s.done.Branch == e.Branch)
	}) {
		c.addExecution(e.To, x.Step+1, "")
	}
}

// addExecution adds an execution, unless it exists or its step is uncertain.
func (c *inference) addExecution(node string, step int, branch string) {
	if n := c.flow.Node(node); n == nil || n.Deferred || step < 1 || step > c.last {
		return
	}
	label := history.Label(contract.Execution{Node: node, Step: step})
	s := c.byID[c.place+label]
	if s == nil {
		s = c.node(c.place, label, time.Time{})
		c.queue = append(c.queue, s)
	}
	if branch != "" && s.done == nil {
		s.done = &contract.Execution{Branch: branch}
	}
}

// schedule sets the times of nodes without times in history: they took no time, after the nodes that led to them. A node that
// has not ended ends with its flow.
func (r *reader) schedule(f *plan.Flow, flow *Span, nodes []*Span) {
	leads := map[string][]string{}
	for i := range f.Edges {
		leads[f.Edges[i].To] = append(leads[f.Edges[i].To], f.Edges[i].From)
	}
	// ends are the ends of nodes in earlier steps, done is the number of executions that they cover.
	ends, done := map[string]int64{}, 0
	for _, s := range nodes {
		x := s.execution()
		for ; nodes[done].execution().Step < x.Step; done++ {
			if end := nodes[done].EndTime; end != nil && !nodes[done].isMember() {
				ends[nodes[done].execution().Node] = *end
			}
		}
		if !s.timed {
			s.StartTime = flow.StartTime
			for _, before := range leads[x.Node] {
				s.StartTime = max(s.StartTime, ends[before])
			}
		}
		switch {
		case s.isMember():
			r.endMember(s, r.byID[s.place+history.Label(x)])
		case s.ended && s.EndTime == nil:
			s.end(time.Unix(0, s.StartTime))
		case !s.ended:
			s.EndTime = flow.EndTime
		}
	}
}

// onlyAgent returns the only node of a flow if that is an agent, of any input, or nil.
func onlyAgent(f *plan.Flow) *plan.Node {
	if len(f.Nodes) != 1 || f.Nodes[0].Agent == nil {
		return nil
	}
	return &f.Nodes[0]
}

func (r *reader) describe(s *Span, f *plan.Flow, n *plan.Node) {
	kind := componentType(f, n)
	r.complete(s, n, kind)
	in, out := s.inputs, s.outputs
	if n.Call != nil && n.Call.Map && len(n.Call.Unpack) == 0 {
		s.inputs, s.outputs = prefixed("iterated_", in), prefixed("collected_", out)
	}
	r.frame(s, "Node", component(kind, n.ID, n.Name, ""))
	s.inputs, s.outputs = in, out
	if kind == "AgentNode" && n.Agent != nil {
		r.agent(s, n)
	}
}

func (r *reader) member(s *Span) {
	_, name, _ := history.CutLast(s.exec, ">")
	name, _, _ = strings.Cut(name, "~")
	s.Type, s.Name = "AgentExecutionSpan", "AgentExecution"
	switch {
	case s.submitted != "":
		s.outputs = values("output", nil, json.RawMessage(s.submitted))
	case s.outputs == nil && s.text != "":
		s.outputs = values("output", &s.text, nil)
	}
	r.frame(s, "Agent", component("Agent", name, name, ""))
	if team := r.byID[s.place+history.Label(s.execution())+"/agent"]; team != nil {
		s.ParentID = &team.ID
	}
}

// complete sets the outputs of a node by name, if no worker has returned them.
func (r *reader) complete(s *Span, n *plan.Node, kind string) {
	if s.outputs == nil {
		s.outputs = Object{}
	}
	for name, v := range nodeOutputs(s, n) {
		if _, ok := s.outputs[name]; !ok {
			s.outputs[name] = v
		}
	}
	switch {
	case kind == "StartNode" && len(s.outputs) == 0:
		s.outputs = s.inputs
	case kind == "EndNode":
		s.outputs = r.endOutputs(s, n)
		if n.Pass.Branch != "" {
			s.done = &contract.Execution{Branch: n.Pass.Branch}
		}
	}
}

// endOutputs returns the outputs of a node that ends a flow: its inputs, as it left them.
func (r *reader) endOutputs(s *Span, n *plan.Node) Object {
	known := []Object{s.inputs, s.outputs}
	if flowNodeOf(n.ID) == "" {
		known = append(known, r.byID[flowID(s.place)].outputs)
	}
	out := Object{}
	for _, values := range known {
		for _, in := range n.Ports.In {
			if v, ok := values[in.Name]; ok {
				out[in.Name] = v
			}
		}
	}
	return out
}

// nodeOutputs returns the outputs of a node by name, as far as history has them.
func nodeOutputs(s *Span, n *plan.Node) Object {
	text, data := cmp.Or(s.submitted, s.text), json.RawMessage(nil)
	if s.done != nil {
		if s.done.Text != nil {
			text = cmp.Or(*s.done.Text, text)
		}
		if data = s.done.Data; len(data) > 0 {
			text = string(data)
		}
	}
	switch {
	case text == "" || n.Ports != nil && len(n.Ports.Out) == 0:
		return nil
	case n.Ports == nil:
		return values("output", &text, data)
	}
	v, err := result.Named(n.Ports.Out, text)
	if err != nil {
		return nil
	}
	return declared(n.Ports.Out, v)
}

func (r *reader) frame(s *Span, kind string, c Object) {
	key := strings.ToLower(kind)
	*map[string]*Object{"Flow": &s.Flow, "Agent": &s.Agent, "Swarm": &s.Swarm, "ManagerWorkers": &s.ManagerWorkers, "Node": &s.Node}[kind] = c
	given := func(o Object) any {
		if o == nil {
			o = Object{}
		}
		return r.sensitive(o)
	}
	s.add(kind+"ExecutionStart", time.Unix(0, s.StartTime), Object{key: c, "inputs": given(s.inputs)})
	if !s.ended || s.EndTime == nil {
		return
	}
	end := Object{key: c, "outputs": given(s.outputs)}
	if kind == "Flow" || kind == "Node" {
		end["branch_selected"] = nextBranch
		if s.done != nil && s.done.Branch != "" {
			end["branch_selected"] = s.done.Branch
		}
	}
	s.add(kind+"ExecutionEnd", time.Unix(0, *s.EndTime), end)
}

func agentKind(a *plan.Agent) string {
	switch {
	case a.Handoff != nil || slices.ContainsFunc(a.Members, func(m plan.Member) bool { return strings.Contains(m.ID, "/asked") }):
		return "Swarm"
	case a.Ask != nil:
		return "ManagerWorkers"
	}
	return "Agent"
}

// agent inserts a span of the agent between the span of a node and the spans of the agent's calls, with the agent's inputs and outputs.
func (r *reader) agent(s *Span, n *plan.Node) {
	kind := agentKind(n.Agent)
	inner, _ := r.span(kind+"ExecutionSpan", s.ID+"/agent", s.ID, kind+"Execution", time.Unix(0, s.StartTime))
	inner.EndTime, inner.ended, inner.inputs, inner.outputs = s.EndTime, s.ended, s.inputs, s.outputs
	r.frame(inner, kind, identified(kind, n.Component, n.ID, n.Name))
	r.moveContents(inner, s)
}

// moveContents moves the events and calls of a node's span to another one, except for the node's start, end and exception, and the model
// calls that evaluate conditions of edges.
func (r *reader) moveContents(to, s *Span) {
	s.Events = slices.DeleteFunc(s.Events, func(e Object) bool {
		kind := e["type"].(string)
		if strings.HasPrefix(kind, "NodeExecution") || kind == "ExceptionRaised" {
			return false
		}
		to.Events = append(to.Events, e)
		return true
	})
	for _, call := range r.nodeCalls[s.ID] {
		if !strings.Contains(call.ID, "/judge/") {
			call.ParentID = &to.ID
		}
	}
}

// describeFlow sets the flow of a span. A flow of a single agent is described as that agent: it has no nodes.
func (r *reader) describeFlow(s *Span, w *runtree.Workflow, nodes []*Span) {
	if s.inside {
		for _, n := range nodes {
			if n.EndTime != nil {
				s.end(time.Unix(0, *n.EndTime))
			}
			if exit := w.Flow.Node(n.execution().Node); exit != nil && exit.Exit && n.ended && !n.isMember() {
				s.done, s.outputs = &contract.Execution{Node: exit.ID}, n.outputs
			}
		}
	}
	n := onlyAgent(w.Flow)
	if n == nil {
		if s.done != nil {
			if exit := w.Flow.Node(s.done.Node); exit != nil && exit.Pass != nil {
				s.done = &contract.Execution{Branch: exit.Pass.Branch}
			}
		}
		r.frame(s, "Flow", component("Flow", cmp.Or(w.Flow.ID, w.Flow.Name), w.Flow.Name, w.Flow.Description))
		return
	}
	kind := agentKind(n.Agent)
	s.Type, s.Name = kind+"ExecutionSpan", kind+"Execution"
	r.frame(s, kind, component(kind, cmp.Or(w.Flow.ID, w.Flow.Name), w.Flow.Name, w.Flow.Description))
	for _, node := range nodes {
		if node.isMember() {
			node.ParentID = &s.ID
			continue
		}
		r.moveContents(s, node)
		if inner := r.spans[node.ID+"/agent"]; inner != nil {
			r.mergeInto(inner, s)
		}
		r.mergeInto(node, s)
	}
}

// mergeInto removes a span and moves its children and events to another one.
func (r *reader) mergeInto(s, to *Span) {
	for _, e := range s.Events {
		if kind := e["type"].(string); !strings.HasSuffix(kind, "ExecutionStart") && !strings.HasSuffix(kind, "ExecutionEnd") && kind != "ExceptionRaised" {
			to.Events = append(to.Events, e)
		}
	}
	for _, inside := range r.out.Spans {
		if inside.ParentID != nil && *inside.ParentID == s.ID {
			inside.ParentID = &to.ID
		}
	}
	r.out.Spans = slices.DeleteFunc(r.out.Spans, func(o *Span) bool { return o == s })
}
