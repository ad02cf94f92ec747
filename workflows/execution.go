package workflows

import (
	"encoding/json"
	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// outcome is what a node gives.
type outcome struct {
	ref  contract.ContentRef
	text string
	data json.RawMessage
	// value is set by nodes that leave a typed value; text and data follow from it.
	value     *value.Value
	exhausted bool
	truncated bool
	leftOut   int
	// branch is the one by which the node leaves, if it has several.
	branch string
}

// execution is one execution of a node under way.
type execution struct {
	node *plan.Node
	// id is node#step; n is the step.
	id               string
	step, occurrence int
	// lineage is the last deferred join that the execution's branch has passed.
	lineage string
	// order is the node's place among the flow's declarations.
	order int
	// strand is the chain that the execution belongs to.
	strand string
	view   *contract.View
	// suspended is set where the execution goes on in its middle.
	suspended *contract.SuspendedExecution
	// journal holds the steps since the last boundary; state is what the execution was there, once it yields.
	journal *journal
	state   contract.SuspendedExecution
}

// suspend is what an execution that yielded goes on with.
func (x *execution) suspend() (*contract.SuspendedExecution, error) {
	var err error
	x.state.Steps, err = x.journal.snapshot()
	return &x.state, err
}
