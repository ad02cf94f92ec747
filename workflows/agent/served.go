package agent

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// serve has the agent's next call go on with a session, so that its model is told where that is gone, whatever others use.
func serve(a *agentRun, b *contract.ResolvedConnection, s contract.ServerSession) {
	if s == (contract.ServerSession{}) {
		return
	}
	if a.state.Served == nil {
		a.state.Served = map[string]contract.ServerSession{}
	}
	a.state.Served[b.Server()] = s
	noteServed(a)
}

// servedBy is the session with which the agent's next call goes on: its own, that of its node's last execution, or the one
// that served anybody's call.
func servedBy(a *agentRun, b *contract.ResolvedConnection) contract.ServerSession {
	if s, ok := a.state.Served[b.Server()]; ok {
		return s
	}
	node, agent := reader(a)
	return cmp.Or(a.run.Shared.NodeSessions[node][agent+b.Server()], a.run.Shared.ServerSessions[b.Server()])
}

// noteServed has the node's next execution go on with the agent's sessions.
func noteServed(a *agentRun) {
	if len(a.state.Served) == 0 || a.execution.Node.Tool != nil {
		return // a tool's node has no model to tell
	}
	node, agent := reader(a)
	a.run.Shared.Sessions()
	if a.run.Shared.NodeSessions[node] == nil {
		a.run.Shared.NodeSessions[node] = map[string]contract.ServerSession{}
	}
	for _, server := range workflow.DeterministicKeys(a.state.Served) {
		a.run.Shared.NodeSessions[node][agent+server] = a.state.Served[server]
	}
}

// reader names the agent: its node, and which of the node's agents it is.
func reader(a *agentRun) (node, agent string) {
	if a.team != nil {
		return a.team.top.execution.Node.ID, a.execution.Node.ID + " "
	}
	return a.execution.Node.ID, ""
}
