package plan

// KindBranch chooses one of its edges by a value; configured by [Branch].
const KindBranch Kind = "branch"

// Branch configures a node of [KindBranch]: the one value that it takes is written as text, and
// the edges are taken that have the branch of the first case with that text.
//
// Sources: Agent Spec's BranchingNode.
type Branch struct {
	Cases []Case `json:"cases,omitempty"`
	// Default is the branch where no case has the text.
	Default string `json:"default"`
}

// Case is a text and the branch that it leads to.
type Case struct {
	Text   string `json:"text"`
	Branch string `json:"branch"`
}
