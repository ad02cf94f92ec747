package runtime

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

// ErrYield is the error of a step that did not start, or stopped waiting, because the run is about to
// continue as new. It never leaves a workflow.
var ErrYield = errors.New("the run continues as new")

// Journal holds the steps of an execution since its last boundary.
type Journal struct {
	// above is the journal of the agent that asked this one; nil for the execution of a node.
	above *Journal
	steps []*JournalStep
	byID  map[string]*JournalStep
	// bytes is about how many bytes the state at the boundary and the results of the steps hold, those of
	// agents below included.
	bytes int
}

// JournalStep is a step. out is the result of one that was done in this run.
type JournalStep struct {
	contract.JournalStep
	out any
}

// NewJournal is a journal with the steps that were made before. above is that of the agent that asked, or nil.
func NewJournal(above *Journal, steps []contract.JournalStep) *Journal {
	j := &Journal{above: above}
	for i := range steps {
		j.add(&JournalStep{JournalStep: steps[i]})
		j.Grow(len(steps[i].Result))
	}
	return j
}

// JournalOf is the journal with which an execution goes on.
func JournalOf(above *Journal, x *contract.SuspendedExecution) *Journal {
	if x == nil {
		return NewJournal(above, nil)
	}
	return NewJournal(above, x.Steps)
}

// open finds a step, or begins it. A step with another hash than the one recorded is a defect of the
// interpreter.
func (j *Journal) open(id, hash string) (*JournalStep, error) {
	if s := j.byID[id]; s != nil {
		if s.Hash != hash {
			return nil, &contract.Failure{Class: contract.ClassInternal, Text: fmt.Sprintf("step %q differs from the one that was recorded", id),
				Remedy: "report the flow: this is a defect of the interpreter"}
		}
		return s, nil
	}
	return j.add(&JournalStep{JournalStep: contract.JournalStep{ID: id, Hash: hash}}), nil
}

func (j *Journal) add(s *JournalStep) *JournalStep {
	if j.byID == nil {
		j.byID = map[string]*JournalStep{}
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
	j.steps = slices.DeleteFunc(j.steps, func(o *JournalStep) bool { return o == s })
	if s.out != nil {
		j.Grow(-weightOf(s.out))
	}
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

// RunStep does a step of an execution, unless the journal has its outcome. out points to what receives the
// result. do may set what the step goes on with where it yields: a failure that waits for an operator, or
// what an agent or a run below came back with. No step begins where the run should yield.
func (r *Run) RunStep(ctx workflow.Context, j *Journal, id, hash string, out any, do func(s *JournalStep) error) error {
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
	if r.Policy.ShouldYield(ctx, j.Weight()) {
		return ErrYield
	}
	err = do(s)
	switch {
	case err == nil:
		s.Status, s.Failure, s.Execution, s.Run, s.Held, s.Task, s.out = contract.StepDone, nil, nil, nil, nil, nil, out
		j.Grow(weightOf(out))
		r.Policy.Moved = true
	case errors.Is(err, ErrYield):
		switch {
		case s.Failure != nil:
			s.Status = contract.StepWaiting
		case s.Execution != nil || s.Run != nil || s.Held != nil || s.Task != nil:
			s.Status = contract.StepSuspended
		}
	case !contract.Cancelled(err):
		s.Status, s.Failure, s.Execution, s.Run, s.Held, s.Task = contract.StepFailed, contract.FailureOf(err), nil, nil, nil, nil
		return s.Failure
	}
	return err
}

// CallStep makes an activity call as a step. hash is the hash of the request.
func (r *Run) CallStep(ctx workflow.Context, j *Journal, hash string, c *Call) error {
	return r.RunStep(ctx, j, c.ID, hash, c.Out, func(s *JournalStep) error {
		if s.Held != nil {
			return r.Fetch(ctx, s.Held, c.ID, c.Out)
		}
		c.Waiting, c.Journal = &s.JournalStep, j
		return r.Invoke(ctx, c)
	})
}

// weightOf is about how many bytes a result holds.
func weightOf(out any) int {
	if w, ok := out.(interface{ Weight() int }); ok {
		return w.Weight()
	}
	n, err := Size(out)
	if err != nil {
		return 0
	}
	return n
}

// HashOf returns a hash that distinguishes a request from any other request in its place.
func HashOf(parts ...string) string {
	sum := ""
	for _, p := range parts {
		sum = contract.Chain(sum, contract.SHA([]byte(p)))
	}
	return sum[:16]
}
