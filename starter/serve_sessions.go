package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"

	"weft/activities/contract"
	"weft/starter/follow"
	"weft/starter/history"
	"weft/starter/serve"
)

// errTurnOver ends the events of a session's turn.
var errTurnOver = errors.New("the turn has ended")

// workflowOf is the workflow id of a run, which may be a turn of a session.
func workflowOf(run *serve.Run) string {
	workflow, _ := serve.SplitTurn(run.ID)
	return workflow
}

// asTurn makes of a session's run the turn that is asked for, as far as it can be known.
func (s *runs) asTurn(ctx context.Context, run *serve.Run, turn string, kept bool) error {
	unknown := serve.NewProblem(serve.UnknownRun, "check the id; the runs there are stand at /runs", "there is no run %.300q", run.ID)
	if !kept {
		if turn != "" {
			return unknown
		}
		return nil
	}
	began := time.Now()
	turns, _, err := s.Turns(ctx, run)
	var none *noSession
	switch {
	case errors.As(err, &none) && turn == "":
		return nil // a run below another that is no session
	case err != nil && turn == "" && run.Closed == nil:
		run.Kept = true // no worker says how its turn stands
		if !s.busy(ctx, run.Queue, began) {
			run.Silent = err
		}
		return nil
	case err != nil:
		return err
	}
	run.Kept = true
	t := turnNamed(turns, turn)
	switch {
	case t == nil && turn != "":
		return unknown
	case t == nil:
		return nil // it is no longer kept
	case t.Begun != nil:
		run.Started = *t.Begun
	}
	run.Closed, run.Status = t.Ended, turnStatus(t)
	return nil
}

// busy says that a worker has asked a queue for work since a question was asked: it is there, and
// has not come to it.
func (s *runs) busy(ctx context.Context, queue string, asked time.Time) bool {
	limited, cancel := within(ctx, closedTimeout)
	defer cancel()
	last, err := follow.LastPoll(limited, s.t, queue)
	return err == nil && last.After(asked)
}

// turnNamed is the turn with an id, or the first for "".
func turnNamed(turns []contract.Turn, id string) *contract.Turn {
	for i := range turns {
		if t := &turns[i]; t.ID == id && (id != "" || t.N == 1) {
			return t
		}
	}
	return nil
}

// turnStatus is a turn's state as that of a run.
func turnStatus(t *contract.Turn) string {
	switch t.Status {
	case contract.TurnCompleted:
		return contract.StatusCompleted
	case contract.TurnFailed:
		return contract.StatusFailed
	case contract.TurnStopped:
		return contract.StatusCancelled
	}
	return contract.StatusRunning
}

// noSession is the error of a run that takes no turns.
type noSession struct{ id string }

// Error says which.
func (n *noSession) Error() string { return fmt.Sprintf("the run %q is no session", n.id) }

// Turns asks an open session, or reads the result of one that has ended.
func (s *runs) Turns(ctx context.Context, run *serve.Run) ([]contract.Turn, bool, error) {
	if run.Silent != nil {
		return nil, false, run.Silent
	}
	limited, cancel := within(ctx, callTimeout)
	defer cancel()
	id, patience := workflowOf(run), callTimeout
	d, err := s.t.Client.DescribeWorkflowExecution(limited, id, "")
	if err != nil {
		return nil, false, problemOf(fmt.Errorf("describe the run %q: %w", id, err))
	}
	status := history.StatusName(d.GetWorkflowExecutionInfo().GetStatus())
	open := status == contract.StatusRunning
	if !open {
		var res contract.RunResult
		if err := s.t.Client.GetWorkflow(limited, id, "").Get(limited, &res); err == nil && len(res.Turns) > 0 {
			return res.Turns, false, nil
		}
		patience = closedTimeout
	}
	turns, err := turnsOf(ctx, s.t, id, patience)
	var refused *serviceerror.QueryFailed
	switch {
	case errors.As(err, &refused):
		return nil, false, &noSession{id}
	case errors.Is(err, errSilent) && !open:
		return nil, false, nil // it ended without a turn's result
	case errors.Is(err, errSilent):
		err = &noAnswer{id, status, d.GetWorkflowExecutionInfo().GetTaskQueue(), s.t.Namespace, s.t.Address, errors.New("the question got no answer")}
	}
	return turns, open, problemOf(err)
}

// turn is the turn that a run is, where it has ended.
func (s *runs) turn(ctx context.Context, run *serve.Run) *contract.Turn {
	_, id := serve.SplitTurn(run.ID)
	turns, _, err := s.Turns(ctx, run)
	if t := turnNamed(turns, id); err == nil && t != nil && t.Done() {
		return t
	}
	return nil
}

// outcomeOf is a turn's result as that of a run.
func outcomeOf(t *contract.Turn) (*contract.RunResult, *contract.Failure) {
	if t.Status != contract.TurnCompleted {
		f := t.Failure
		if f == nil {
			f = &contract.Failure{Class: contract.ClassCancelled, Text: "the session was stopped"}
		}
		return nil, f
	}
	out := &contract.RunResult{Status: contract.StatusCompleted, ResultText: t.ResultText, ResultData: t.ResultData}
	if t.Usage != nil {
		out.Usage = *t.Usage
	}
	return out, nil
}

// awaitTurn waits until a session's turn has ended.
func (s *runs) awaitTurn(ctx context.Context, run *serve.Run) error {
	for {
		now, err := s.Find(ctx, run.ID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !away(err):
			return err
		case err == nil && now.Closed != nil:
			return nil
		}
		pause(ctx, 250*time.Millisecond)
	}
}

// Resume gives a session its next prompt.
func (s *runs) Resume(ctx context.Context, run *serve.Run, in contract.PromptInput) error {
	if run.Silent != nil {
		return run.Silent
	}
	_, err := resumeRun(ctx, s.t, workflowOf(run), in, true)
	return s.refusal(run, err)
}

// Stop ends a session.
func (s *runs) Stop(ctx context.Context, run *serve.Run, by string) error {
	if run.Silent != nil {
		return run.Silent
	}
	_, err := updateRun(ctx, s.t, workflowOf(run), contract.UpdateCloseSession, contract.CloseSessionInput{By: by})
	return s.refusal(run, err)
}
