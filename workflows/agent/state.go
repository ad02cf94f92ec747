package agent

import (
	"maps"
	"slices"

	"weft/activities/contract"
	"weft/workflows/schedule"
	"weft/workflows/transcript"
)

// takeMark notes how the agent stands.
func (a *agentRun) takeMark() {
	a.marked, a.markedLen = a.state, len(a.thread.Entries)
	m := &a.marked
	m.Called, m.Sent, m.Starts, m.Served = a.thread.Called.Len, a.thread.CarriedSent(), slices.Clone(a.state.Starts), maps.Clone(a.state.Served)
	if a.above == nil {
		a.markedView = schedule.Clone(a.execution.View) // the node has one
	}
	if a.team != nil {
		m.Conversations = a.team.grown(a.before)
	}
}

// snapshot gives the agent's state at its last boundary, and puts the view back to what it was there.
//
// It leaves out the journal, which has the steps of calls under way and travels beside it, and what is made of the plan again:
// configuration, profile, values of ports. Of a member it has the side conversations that have grown since it was asked.
func (a *agentRun) snapshot() *contract.AgentState {
	out := a.marked
	out.Messages = transcript.Carried(a.thread.Entries[:a.markedLen])
	if a.above == nil {
		*a.execution.View = a.markedView
	}
	return &out
}

// restore makes the agent what it was at its last boundary.
func (a *agentRun) restore(s *contract.AgentState) {
	a.run.Transcript.Restore(a.thread, s.Messages, s.Called, s.Sent)
	a.state = *s
	a.state.Messages, a.state.Called, a.state.Sent, a.state.Conversations = nil, 0, nil, nil
	if a.team != nil {
		a.team.catchUp(a.run, s.Conversations)
		a.speakAs(s.Active)
	}
	noteServed(a)
	a.takeMark()
	a.execution.Journal.Grow(a.bulk())
}
