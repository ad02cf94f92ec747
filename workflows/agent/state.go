package agent

import (
	"maps"
	"slices"

	"weft/activities/contract"
	"weft/workflows/schedule"
	"weft/workflows/transcript"
)

// save saves the agent's state at a boundary.
func (a *agentRun) save() {
	a.saved, a.savedLen = a.state, len(a.thread.Entries)
	m := &a.saved
	m.Called, m.Sent, m.Starts, m.Served = a.thread.Called.Len, a.thread.CarriedSent(), slices.Clone(a.state.Starts), maps.Clone(a.state.Served)
	if a.asker == nil {
		a.savedView = schedule.Clone(a.execution.View) // all agents of a node share one view
	}
	if a.team != nil {
		m.Conversations = a.team.grown(a.questionsBefore)
	}
}

// snapshot returns the agent's state at its last boundary, and resets the view to that point.
//
// It omits the journal, which is saved separately, and data that is derived from the plan: configuration, profile and values of
// ports. The snapshot of a member has only the side conversations that have grown since it was asked.
func (a *agentRun) snapshot() *contract.AgentState {
	out := a.saved
	out.Messages = transcript.ThreadMessages(a.thread.Entries[:a.savedLen])
	if a.asker == nil {
		*a.execution.View = a.savedView
	}
	return &out
}

// restore restores the agent's state at its last boundary.
func (a *agentRun) restore(s *contract.AgentState) {
	a.run.Transcript.Restore(a.thread, s.Messages, s.Called, s.Sent)
	a.state = *s
	a.state.Messages, a.state.Called, a.state.Sent, a.state.Conversations = nil, 0, nil, nil
	if a.team != nil {
		a.team.catchUp(a.run, s.Conversations)
		a.speakAs(s.Active)
	}
	recordSessions(a)
	a.save()
	a.execution.Journal.Grow(a.threadBytes())
}
