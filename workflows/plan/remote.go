package plan

// ConnectionA2A is an agent that runs elsewhere and speaks the Agent2Agent protocol. It has no
// tools: see [Remote].
const ConnectionA2A = "a2a"

// Remote is an agent that runs elsewhere. It is told what was said to the node since it spoke
// last, in place of a model, and keeps the conversation itself.
//
// Sources: Agent Spec's A2AAgent.
type Remote struct {
	// Connection is one of the flow's, of kind a2a.
	Connection string `json:"connection"`
	// PollMillis is the pause between two looks at what the agent does; 0 is the protocol's.
	PollMillis int `json:"poll_millis,omitempty"`
}
