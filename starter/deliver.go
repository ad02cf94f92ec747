package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/worker/config"
)

// receiptTimeout is how long an answer waits for its receipt.
const receiptTimeout = time.Minute

// findOpen connects and looks for a run that has not ended. The caller closes the client.
func (a *app) findOpen(ctx context.Context, id string) (*config.Temporal, about, error) {
	temporal, found, err := a.find(ctx, id)
	if err == nil && found.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		err = bad("%s", a.ended(ctx, temporal, id, found))
		temporal.Client.Close()
	}
	return temporal, found, err
}

// receipt is what -output json prints of an answer.
type receipt struct {
	Run string `json:"run"`
	// Request is the request's id, or the message's own.
	Request string `json:"request,omitempty"`
	Kind    string `json:"kind"`
	// Status is accepted, or sent for a signal.
	Status string `json:"status"`
}

// send gives an answer to a run: by Update, which has a receipt, or by signal.
func (a *app) send(ctx context.Context, t *config.Temporal, about about, run, kind, id string, answer any) error {
	a.reached(fmt.Sprintf("whether the answer was taken says: %sstatus %s", a.self(), plaintext.ShellQuote(run)))
	out := receipt{Run: run, Request: id, Kind: kind, Status: "sent"}
	var err error
	if a.flags.signal {
		err = signalRun(ctx, t, run, kind, answer)
	} else {
		var r *contract.Receipt
		done := a.whileSilent(ctx, t, about)
		r, err = updateRun(ctx, t, run, kind, answer)
		done()
		if err == nil {
			out.Request, out.Status = r.ID, r.Status
		}
	}
	if err != nil {
		return a.refused(ctx, t, about, run, kind, err)
	}
	switch {
	case a.flags.asJSON():
		a.object(out)
	case a.flags.signal:
		a.say("sent; whether it was taken is in: %sstatus %s", a.self(), plaintext.ShellQuote(run))
	default:
		a.say("%s: %s %s", out.Status, kind, plaintext.Lines(out.Request))
	}
	return nil
}

func signalRun(ctx context.Context, t *config.Temporal, run, kind string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return t.Client.SignalWorkflow(ctx, run, "", kind, answer)
}

func updateRun(ctx context.Context, t *config.Temporal, run, kind string, answer any) (*contract.Receipt, error) {
	limited, cancel := within(ctx, receiptTimeout)
	defer cancel()
	h, err := t.Client.UpdateWorkflow(limited, client.UpdateWorkflowOptions{
		WorkflowID: run, UpdateName: kind, Args: []any{answer}, WaitForStage: client.WorkflowUpdateStageCompleted})
	var r contract.Receipt
	if err == nil {
		err = h.Get(limited, &r)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = errNoReceipt
	}
	return &r, err
}

// within ends a context after a time, and tells nobody beforehand: a server that is told of a
// deadline may answer first, with an error that looks like a fault of its own.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// errNoReceipt is the error of an answer that no worker looked at in time.
var errNoReceipt = errors.New("no receipt")

// refused says why an answer was not taken.
func (a *app) refused(ctx context.Context, t *config.Temporal, about about, run, kind string, err error) error {
	var missing *serviceerror.NotFound
	var invalid *serviceerror.InvalidArgument
	switch {
	case errors.Is(err, errNoReceipt):
		return fmt.Errorf("no receipt within %v; start a worker for task queue %q and answer again, or leave the answer for one with -signal", receiptTimeout, about.queue)
	case errors.As(err, &missing):
		// It ended while this command was on its way.
		now, err := a.describe(ctx, t, run)
		if err == nil && now.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			return bad("%s", a.ended(ctx, t, run, now))
		}
		return err
	case errors.As(err, &invalid):
		return bad("%s was not taken: %v", commandOf(kind), err)
	}
	f := contract.FailureOf(err)
	a.say("starter: %s was not taken: %s: %s", commandOf(kind), plaintext.Line(f.Class, 100), plaintext.Line(f.Text, 2000))
	for _, e := range f.Errors {
		a.say("          %s: %s", plaintext.Line(e.Path, 200), plaintext.Line(e.Message, 500))
	}
	if f.Remedy != "" {
		a.say("  remedy: %s", plaintext.Line(f.Remedy, 1000))
	}
	if a.flags.asJSON() {
		a.object(ending{Status: "refused", Run: run, Failure: *f})
	}
	switch f.Class {
	case contract.ClassBadRequest, contract.ClassSchema, contract.ClassUnknownRequest, contract.ClassTooLarge:
		return coded(exitBadInput)
	}
	return coded(exitFailed)
}
