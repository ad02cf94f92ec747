package plan

// KindSay sends a message to the clients that follow the run; configured by [Say].
const KindSay Kind = "say"

// Say configures a node of [KindSay]. What is said is the node's output, and part of the flow's
// conversation.
//
// Sources: Agent Spec's OutputMessageNode.
type Say struct {
	// Text may hold placeholders, {{NAME}}, of the values that the node takes.
	Text string `json:"text"`
}
