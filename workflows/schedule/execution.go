package schedule

import (
	"weft/activities/contract"
)

// Execution is one execution of a node, and the first of a chain where a branch runs several. The
// scheduler alone changes it.
type Execution struct {
	Node, Step int
	// Occurrence is 2 for the second execution with the same node and step, and so on; 0 for one that
	// is not ready yet.
	Occurrence int
	// Lineage is the last deferred join that the execution's branch has passed.
	Lineage  string
	Arrivals []contract.ArrivalState
	// Suspended, if set, is the state in which an execution that was suspended goes on.
	Suspended *contract.SuspendedExecution
	// Continues is set where a chain that came back goes on with the execution from its beginning.
	Continues bool

	// alive is set until the execution ends. blocker, if set, kept it from running when it was last
	// looked at, and does so while it is alive.
	alive   bool
	blocker *Execution
	// id is the execution's, once it has been asked for.
	id string
	// recorded is the log's entry of an execution that is replayed.
	recorded *contract.ExecutionRecord
}

// StepLimitError says that a node would run beyond the flow's limit of steps.
type StepLimitError struct {
	// Node is the index of the first such node.
	Node int
}

func (*StepLimitError) Error() string { return "step limit exceeded" }
