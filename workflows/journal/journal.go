// Package journal holds what an execution that stops in its middle has done since its last boundary.
//
// Such an execution goes on in another run from its last boundary: an agent's turn, a node's outcome, an element of a map. It does
// again what it did since then, and the steps by which it reached outside itself are answered from its journal.
package journal

import (
	"fmt"
	"slices"

	"weft/activities/contract"
)

// Journal holds the steps of an execution since its last boundary.
type Journal struct {
	// above is the journal of the agent that asked this one; nil for the execution of a node.
	above *Journal
	steps []*Step
	byID  map[string]*Step
	// bytes is about what the state at the boundary and the results of the steps hold, those of agents below included.
	bytes int
}

// Step is a step. out is the result of one that was done in this run, and weight how many bytes it holds.
type Step struct {
	contract.JournalStep
	out    any
	weight int
}

// New is a journal with the steps that were made before. above is that of the agent that asked, or nil.
func New(above *Journal, steps []contract.JournalStep) *Journal {
	j := &Journal{above: above}
	for i := range steps {
		j.add(&Step{JournalStep: steps[i]})
		j.Grow(len(steps[i].Result))
	}
	return j
}

// Of is the journal with which an execution goes on.
func Of(above *Journal, x *contract.SuspendedExecution) *Journal {
	if x == nil {
		return New(above, nil)
	}
	return New(above, x.Steps)
}

// Open finds a step, or begins it. A step with another hash than the one recorded is a defect of the interpreter.
func (j *Journal) Open(id, hash string) (*Step, error) {
	if s := j.byID[id]; s != nil {
		if s.Hash != hash {
			return nil, contract.Failf(contract.ClassInternal, "report the flow: this is a defect of the interpreter",
				"step %q differs from the one that was recorded", id)
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

// Boundary drops all steps: a state of so many bytes has taken them in.
func (j *Journal) Boundary(state int) {
	j.Grow(state - j.bytes)
	j.steps, j.byID = nil, nil
}

// Drop forgets a step whose outcome the execution's state has taken in.
func (j *Journal) Drop(id string) {
	s := j.byID[id]
	delete(j.byID, id)
	j.steps = slices.DeleteFunc(j.steps, func(o *Step) bool { return o == s })
	j.Grow(-s.weight)
}

// End records how the step ended. What it would have gone on with is dropped.
func (s *Step) End(status string, f *contract.Failure) {
	s.JournalStep = contract.JournalStep{ID: s.ID, Hash: s.Hash, Status: status, Failure: f, Attempts: s.Attempts}
}

// Done notes that a step is done, with a result of about so many bytes.
func (j *Journal) Done(s *Step, out any, weight int) {
	s.End(contract.StepDone, nil)
	s.out, s.weight = out, weight
	j.Grow(weight)
}

// Grow counts bytes, for the agents above, too.
func (j *Journal) Grow(n int) {
	for ; j != nil; j = j.above {
		j.bytes += n
	}
}

// Weight is about how many bytes travel if the node's execution stops now.
func (j *Journal) Weight() int {
	for j.above != nil {
		j = j.above
	}
	return j.bytes
}

// Snapshot returns the steps that are done, failed, waiting or suspended.
func (j *Journal) Snapshot() ([]contract.JournalStep, error) {
	var out []contract.JournalStep
	for _, s := range j.steps {
		if s.Status == "" {
			continue // it never began, or was cancelled
		}
		if s.Status == contract.StepDone && s.Result == nil {
			raw, err := contract.Encode(s.out)
			if err != nil {
				return nil, fmt.Errorf("encode the result of step %q: %w", s.ID, err)
			}
			s.Result = raw
		}
		out = append(out, s.JournalStep)
	}
	return out, nil
}
