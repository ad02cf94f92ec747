package workflows

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// An execution that stops in its middle goes on in another run from its last boundary: an agent's turn, a
// node's outcome, an element of a map. What it did since then it does again, and the steps by which it
// reached outside itself are answered from its journal: each is done once, and nobody is asked twice.

// errYield is the error of a step that did not start, or stopped waiting, because the run is about to
// continue as new. It never leaves a workflow.
var errYield = errors.New("the run continues as new")

// journal holds the steps of an execution since its last boundary.
type journal struct {
	// above is the journal of the agent that asked this one; nil for the execution of a node.
	above *journal
	steps []*journalStep
	byID  map[string]*journalStep
	// bytes is about how many bytes the state at the boundary and the results of the steps hold, those of
	// agents below included.
	bytes int
}

// journalStep is a step. out is the result of one that was done in this run.
type journalStep struct {
	contract.JournalStep
	out any
}

func newJournal(above *journal, steps []contract.JournalStep) *journal {
	j := &journal{above: above, byID: map[string]*journalStep{}}
	for i := range steps {
		s := &journalStep{JournalStep: steps[i]}
		j.steps = append(j.steps, s)
		j.byID[s.ID] = s
		j.grow(len(s.Result))
	}
	return j
}

// journalOf is the journal with which an execution goes on.
func journalOf(above *journal, x *contract.SuspendedExecution) *journal {
	if x == nil {
		return newJournal(above, nil)
	}
	return newJournal(above, x.Steps)
}

// open finds a step, or begins it. A step with another hash than the one recorded is a defect of the
// interpreter.
func (j *journal) open(id, hash string) (*journalStep, error) {
	if s := j.byID[id]; s != nil {
		if s.Hash != hash {
			return nil, &contract.Failure{Class: contract.ClassInternal, Text: fmt.Sprintf("step %q differs from the one that was recorded", id),
				Remedy: "report the flow: this is a defect of the interpreter"}
		}
		return s, nil
	}
	s := &journalStep{JournalStep: contract.JournalStep{ID: id, Hash: hash}}
	j.steps = append(j.steps, s)
	j.byID[id] = s
	return s, nil
}

// boundary drops all steps: a state of so many bytes has taken them in.
func (j *journal) boundary(state int) {
	j.grow(state - j.bytes)
	j.steps, j.byID = nil, map[string]*journalStep{}
}

// drop forgets a step whose outcome the execution's state has taken in.
func (j *journal) drop(id string) {
	s := j.byID[id]
	delete(j.byID, id)
	j.steps = slices.DeleteFunc(j.steps, func(o *journalStep) bool { return o == s })
	if s.out != nil {
		j.grow(-weightOf(s.out))
	}
}

// grow counts bytes, for the agents above, too.
func (j *journal) grow(n int) {
	for ; j != nil; j = j.above {
		j.bytes += n
	}
}

// weight is about how many bytes travel if the node's execution stops now.
func (j *journal) weight() int {
	for j.above != nil {
		j = j.above
	}
	return j.bytes
}

// snapshot gives the steps that are done, failed, waiting or suspended.
func (j *journal) snapshot() ([]contract.JournalStep, error) {
	var out []contract.JournalStep
	for _, s := range j.steps {
		if s.Status == "" {
			continue // it never began, or was cancelled
		}
		if s.Status == contract.StepDone && s.Result == nil {
			raw, err := json.Marshal(s.out)
			if err != nil {
				return nil, fmt.Errorf("encode the result of step %q: %w", s.ID, err)
			}
			s.Result = raw
		}
		out = append(out, s.JournalStep)
	}
	return out, nil
}

// runStep does a step of an execution, unless the journal has its outcome. out points to what receives the
// result. do may set what the step goes on with where it yields: a failure that waits for an operator, or
// what an agent or a run below came back with. No step begins where the run should yield.
func (r *run) runStep(ctx workflow.Context, j *journal, id, hash string, out any, do func(s *journalStep) error) error {
	s, err := j.open(id, hash)
	if err != nil {
		return err
	}
	switch s.Status {
	case contract.StepDone:
		if s.Result == nil {
			return nil
		}
		return json.Unmarshal(s.Result, out)
	case contract.StepFailed:
		return s.Failure
	}
	if r.policy.shouldYield(ctx, j.weight()) {
		return errYield
	}
	err = do(s)
	switch {
	case err == nil:
		s.Status, s.Failure, s.Execution, s.Run, s.out = contract.StepDone, nil, nil, nil, out
		j.grow(weightOf(out))
		r.policy.moved = true
	case errors.Is(err, errYield):
		switch {
		case s.Failure != nil:
			s.Status = contract.StepWaiting
		case s.Execution != nil || s.Run != nil:
			s.Status = contract.StepSuspended
		}
	case !contract.Cancelled(err):
		s.Status, s.Failure, s.Execution, s.Run = contract.StepFailed, contract.FailureOf(err), nil, nil
		return s.Failure
	}
	return err
}

// callStep makes an activity call as a step. hash is that of what is asked.
func (r *run) callStep(ctx workflow.Context, j *journal, hash string, c *call) error {
	return r.runStep(ctx, j, c.id, hash, c.out, func(s *journalStep) error {
		c.waiting, c.journal = &s.JournalStep, j
		return r.invoke(ctx, c)
	})
}

// weightOf is about how many bytes a result holds.
func weightOf(out any) int {
	if w, ok := out.(interface{ Weight() int }); ok {
		return w.Weight()
	}
	n, err := size(out)
	if err != nil {
		return 0
	}
	return n
}

// hashOf tells what was asked from anything else that could be asked in its place.
func hashOf(parts ...string) string {
	sum := ""
	for _, p := range parts {
		sum = contract.Chain(sum, contract.SHA([]byte(p)))
	}
	return sum[:16]
}
