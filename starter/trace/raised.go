package trace

import (
	"maps"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/starter/history"
)

// failed is the execution that a failure of a flow is of, nil if that is not known: one of its own, or of elements in its run,
// the last that was at work.
func (r *reader) failed(place string, f *contract.Failure, at time.Time) (last *Span) {
	exec := history.Label(contract.Execution{Node: f.Node, Step: f.Step})
	for _, s := range r.out.Spans {
		if s.exec == exec && r.runOf(s.place) == place && (last == nil || s.until() > last.until()) {
			last = s
		}
	}
	if flow := r.plan(place); last == nil && f.Step > 0 && flow != nil && flow.Node(f.Node) != nil {
		last = r.node(place, exec, at)
	}
	return last
}

// until is when a span ends as far as is known, 0 if that is not.
func (s *Span) until() int64 {
	if s.EndTime == nil {
		return 0
	}
	return *s.EndTime
}

// runOf is the place of the flow in whose run that of a place runs.
func (r *reader) runOf(place string) string {
	for flow := r.byID[flowID(place)]; flow.inside; flow = r.byID[flowID(place)] {
		place = r.spans[*flow.ParentID].place
	}
	return place
}

// raisedAround adds the exception of a node, of an agent alone, or of a flow with a run of its own to what is around it and was
// not over: FlowNodes, flows of elements and the nodes that called them, which have no failure of their own in history. A node
// and an agent share it with what was at work in them.
func (r *reader) raisedAround() {
	for _, s := range slices.Clone(r.out.Spans) {
		e := s.exception()
		if e == nil || s.isMember() || !s.executes() {
			continue
		}
		if s.Flow == nil {
			r.raisedInside(s, e)
		}
		for around := s; around.ParentID != nil; {
			if around = r.spans[*around.ParentID]; around.runs || !around.raise(e) {
				break
			}
			if around.exec != "" {
				r.raisedInside(around, e)
			}
		}
	}
}

func (r *reader) raisedInside(s *Span, e Object) {
	for _, inside := range r.out.Spans {
		if inside.ParentID != nil && *inside.ParentID == s.ID && inside.executes() && inside.raise(e) {
			r.raisedInside(inside, e)
		}
	}
}

// endMember says how an agent that another one has asked ended, where the node of both is over.
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

// failedCall is the exception of a call that failed and that no call of a model came after, or nil.
func (r *reader) failedCall(s *Span) Object {
	for _, call := range slices.Backward(r.made[s.ID]) {
		if e := call.exception(); e != nil || call.Type == "LlmGenerationSpan" {
			return e
		}
	}
	return nil
}

// raise adds an exception to a span that has not ended, and reports whether it has not.
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

// exception is the event of an exception with which a span ends, or nil.
func (s *Span) exception() Object {
	for _, e := range slices.Backward(s.Events) {
		if e["type"] == "ExceptionRaised" {
			return e
		}
	}
	return nil
}

// executes reports whether the span is of a flow, a node or an agent.
func (s *Span) executes() bool {
	return strings.HasSuffix(s.Type, "ExecutionSpan") && s.Type != "ToolExecutionSpan"
}
