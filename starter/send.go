package main

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"
)

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
func (a *app) send(ctx context.Context, r *runs.Run, kind, id string, answer any) error {
	a.setStage(fmt.Sprintf("check whether the answer was accepted with: %sstatus %s", a.self(), r.Quoted()))
	out := receipt{Run: r.ID, Request: id, Kind: kind, Status: "sent"}
	var err error
	if a.flags.signal {
		err = r.Signal(ctx, kind, answer)
	} else {
		var got *contract.Receipt
		done := a.whileSilent(ctx, r)
		got, err = r.Update(ctx, kind, answer)
		done()
		if err == nil {
			out.Request, out.Status = got.ID, got.Status
		}
	}
	if err != nil {
		return a.refused(ctx, r, kind, err)
	}
	switch {
	case a.flags.asJSON():
		a.object(out)
	case a.flags.signal:
		a.say("sent; check whether it was accepted with: %sstatus %s", a.self(), r.Quoted())
	default:
		a.say("%s: %s %s", out.Status, kind, plaintext.Lines(out.Request))
	}
	return nil
}

// refused prints why an answer was not accepted.
func (a *app) refused(ctx context.Context, r *runs.Run, kind string, err error) error {
	switch {
	case errors.Is(err, runs.ErrNoReceipt):
		return fmt.Errorf("no receipt within %v; start a worker for task queue %q and answer again, or leave the answer for one with -signal", runs.ReceiptTimeout, r.Queue)
	case runs.Is[*serviceerror.NotFound](err):
		// It ended while this command was on its way.
		now, err := r.Find(ctx, r.ID)
		if err == nil && !now.Open() {
			return usage.Errorf("%s", now.Closed(ctx))
		}
		return err
	case runs.Is[*serviceerror.InvalidArgument](err):
		return usage.Errorf("%s was rejected: %v", runs.CommandOf(kind), err)
	}
	f := contract.FailureOf(err)
	a.say("starter: %s was rejected: %s: %s", runs.CommandOf(kind), plaintext.Line(f.Class, 100), plaintext.Line(f.Text, 2000))
	for _, e := range f.Errors {
		a.say("          %s: %s", plaintext.Line(e.Path, 200), plaintext.Line(e.Message, 500))
	}
	if f.Remedy != "" {
		a.say("  remedy: %s", plaintext.Line(f.Remedy, 1000))
	}
	if a.flags.asJSON() {
		a.object(runs.Ending{Status: "refused", Run: r.ID, Failure: *f})
	}
	switch f.Class {
	case contract.ClassBadRequest, contract.ClassSchema, contract.ClassUnknownRequest, contract.ClassTooLarge:
		return exitCode(exitBadInput)
	}
	return exitCode(exitFailed)
}
