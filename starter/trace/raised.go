package trace

import (
	"maps"
	"slices"
	"strings"
)

// raisedAround adds the exception of a node, or of an agent alone, to the agents in it that were at work and to the FlowNodes
// around it, which have no failure of their own in history.
func (r *reader) raisedAround() {
	for _, s := range slices.Clone(r.out.Spans) {
		e := s.exception()
		if e == nil || s.isMember() || s.Node == nil && !s.isAgent() {
			continue
		}
		r.raisedInside(s, e)
		for around := s; around.ParentID != nil; {
			around = r.spans[*around.ParentID]
			if around.exec != "" || around.runs || around.inside {
				break
			}
			around.raise(e)
		}
	}
}

func (r *reader) raisedInside(s *Span, e Object) {
	for _, inside := range r.out.Spans {
		if inside.ParentID != nil && *inside.ParentID == s.ID && inside.isAgent() && !inside.runs && inside.raise(e) {
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

func (s *Span) isAgent() bool {
	switch strings.TrimSuffix(s.Type, "ExecutionSpan") {
	case "Agent", "Swarm", "ManagerWorkers":
		return true
	}
	return false
}
