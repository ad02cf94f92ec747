// Package journal records what an execution has done since its last boundary, so that it can be suspended anywhere.
//
// A suspended execution resumes in another run from its last boundary: an agent's turn, a node's outcome or an element of a map. It
// repeats what it did since then, but takes the results of its steps, which have effects outside the execution, from the journal.
package journal

import (
	"fmt"
	"slices"

	"weft/activities/contract"
)

// Journal holds the steps of an execution since its last boundary.
type Journal struct {
	// parent is the journal of the agent that called this one; nil for the execution of a node.
	parent *Journal
	steps  []*Step
	byID   map[string]*Step
	// size is the approximate number of bytes of the state at the boundary and of the steps' results, those of called agents included.
	size int
}

// Step is a step. out is its result if it was done in this run, and weight the result's approximate size in bytes.
type Step struct {
	contract.JournalStep
	out    any
	weight int
}

// New returns a journal with the recorded steps. parent is the journal of the calling agent, or nil.
func New(parent *Journal, steps []contract.JournalStep) *Journal {
	j := &Journal{parent: parent}
	for i := range steps {
		j.add(&Step{JournalStep: steps[i]})
		j.Grow(len(steps[i].Result))
	}
	return j
}

// Resume returns the journal with which an execution starts (x is nil) or resumes.
func Resume(parent *Journal, x *contract.SuspendedExecution) *Journal {
	if x == nil {
		return New(parent, nil)
	}
	return New(parent, x.Steps)
}

// Open finds or adds a step. A hash that differs from the recorded one is a defect of the interpreter.
func (j *Journal) Open(id, hash string) (*Step, error) {
	if s := j.byID[id]; s != nil {
		if s.Hash != hash {
			return nil, contract.Failf(contract.ClassInternal, "report this defect of the interpreter, with the flow",
				"step %q differs from the recorded one", id)
		}
		return s, nil
	}
	return j.add(&Step{JournalStep: contract.JournalStep{ID: id, Hash: hash}}), nil
}

func (j *Journal) add(s *Step) *Step {
	if j.byID == nil {
		j.byID = map[string]*Step{}
	}
	j.steps, j.byID[s.ID] = append(j.steps, s), s
	return s
}

// Boundary drops all steps, because a state of the given size in bytes now contains their effects.
func (j *Journal) Boundary(state int) {
	j.Grow(state - j.size)
	j.steps, j.byID = nil, nil
}

// Drop removes a step whose outcome the execution's state now contains.
func (j *Journal) Drop(id string) {
	s := j.byID[id]
	delete(j.byID, id)
	j.steps = slices.DeleteFunc(j.steps, func(o *Step) bool { return o == s })
	j.Grow(-s.weight)
}

// End records how the step ended, and drops the state with which it would have resumed.
func (s *Step) End(status string, f *contract.Failure) {
	s.JournalStep = contract.JournalStep{ID: s.ID, Hash: s.Hash, Status: status, Failure: f, Attempts: s.Attempts}
}

// Done records that a step is done, with a result of about weight bytes.
func (j *Journal) Done(s *Step, out any, weight int) {
	s.End(contract.StepDone, nil)
	s.out, s.weight = out, weight
	j.Grow(weight)
}

// Grow adds n bytes to the size of the journal and of all its parents.
func (j *Journal) Grow(n int) {
	for ; j != nil; j = j.parent {
		j.size += n
	}
}

// Weight returns the approximate number of bytes to carry over if the node's execution is suspended now.
func (j *Journal) Weight() int {
	for j.parent != nil {
		j = j.parent
	}
	return j.size
}

// Snapshot returns the steps that are done, failed, waiting or suspended, with their results encoded.
func (j *Journal) Snapshot() ([]contract.JournalStep, error) {
	var out []contract.JournalStep
	for _, s := range j.steps {
		if s.Status == "" {
			continue // it never began, or was cancelled
		}
		if s.Status == contract.StepDone && s.Result == nil {
			raw, err := contract.Encode(s.out)
			if err != nil {
				return nil, fmt.Errorf("encode result of step %q: %w", s.ID, err)
			}
			s.Result = raw
		}
		out = append(out, s.JournalStep)
	}
	return out, nil
}
