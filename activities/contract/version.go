package contract

import (
	"encoding/json"
	"fmt"

	"weft/workflows/plan"
)

// versioned is what all builds read of a plan.
type versioned struct {
	Version int `json:"version"`
}

// LaterPlan is the failure of a plan whose version is higher than this build's, nil of any
// other.
func LaterPlan(version int) *Failure {
	if version <= plan.Version {
		return nil
	}
	return &Failure{Class: ClassPlanVersion, Text: fmt.Sprintf("the plan's version is %d, this build reads up to %d", version, plan.Version),
		Remedy: "run workers of the build that made the plan, or make the plan with a starter of the workers' build"}
}

// laterInput refuses a run's input that a later build made, by what all builds read of it:
// the rest may be of any shape, which would be a less useful error.
func laterInput(raw json.RawMessage) error {
	var head struct {
		V    *int `json:"v"`
		Flow struct {
			Plan versioned `json:"plan"`
		} `json:"flow"`
		Snapshot struct {
			Plan versioned `json:"plan"`
		} `json:"snapshot"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return nil // ReadInput says what is wrong with it
	}
	if head.V != nil && *head.V != Version {
		return WrongVersion(*head.V)
	}
	if f := LaterPlan(max(head.Flow.Plan.Version, head.Snapshot.Plan.Version)); f != nil {
		return f
	}
	return nil
}

// WrongVersion is the failure of an input of another version of the contract.
func WrongVersion(v int) *Failure {
	return &Failure{Class: ClassBadRequest, Text: fmt.Sprintf("the input's v is %d", v),
		Remedy: fmt.Sprintf("this build understands v %d", Version)}
}

// ReadBranchInput decodes the input of a run of type Branch. A later plan is a [ClassPlanVersion].
func ReadBranchInput(raw json.RawMessage) (*BranchInput, error) {
	return readOther[BranchInput](raw, "the branch's input", "start a run of type "+WorkflowFlow)
}

// ReadPrepared decodes what the activity that compiles gave. A later plan is a [ClassPlanVersion].
func ReadPrepared(raw json.RawMessage) (*CompileFlowResult, error) {
	return readOther[CompileFlowResult](raw, "the compiled flow", "run workers of one build on a task queue")
}

// readOther decodes leniently what has a plan and may come from a worker of a later build.
func readOther[T any](raw json.RawMessage, what, remedy string) (*T, error) {
	var head struct {
		Plan versioned `json:"plan"`
	}
	if json.Unmarshal(raw, &head) == nil {
		if f := LaterPlan(head.Plan.Version); f != nil {
			return nil, f
		}
	}
	out := new(T)
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, &Failure{Class: ClassBadRequest, Text: what + ": " + err.Error(), Remedy: remedy}
	}
	return out, nil
}
