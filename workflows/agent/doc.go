// Package agent runs agents: nodes whose model is called until it answers without calling a tool.
//
// An agent's boundaries are its turns. Its state between turns is a [contract.AgentState]; the calls made since the last
// boundary are steps of the journal. The agents of a node that call each other form a team (team.go).
package agent
