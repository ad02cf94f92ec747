package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"go.temporal.io/api/serviceerror"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"
)

// by returns the name of the user who answers: the flag, or user@host.
func (a *app) by() string {
	if a.flags.by != "" {
		return a.flags.by
	}
	name := cmp.Or(userName(), "unknown")
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return textutil.Cut(name, 400)
}

// userName returns the name of the operating system's user, or "" if it has none.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// principal returns the principal of runs and schedules: the one in the settings, otherwise the operating system's user; nil if there is neither.
func (a *app) principal() *contract.Principal {
	p := &contract.Principal{Name: cmp.Or(a.cfg.Starter.Principal, textutil.Cut(userName(), 200)), Tenant: a.cfg.Starter.Tenant}
	if p.Name == "" {
		return nil
	}
	return p
}

func (a *app) confirm(ctx context.Context, args []string) error {
	if a.flags.yes == a.flags.no {
		return usage.Errorf("confirm needs exactly one of -yes and -no")
	}
	if a.flags.no && a.flags.arguments != "" {
		return usage.Errorf("-arguments cannot be combined with -no")
	}
	v, err := a.reader().JSON("-arguments", a.flags.arguments)
	if err != nil {
		return err
	}
	answer := contract.ConfirmAnswer{Approve: &a.flags.yes, Reason: a.flags.reason, Remember: a.flags.remember, Author: contract.Author{By: a.by()}}
	if v != nil {
		if answer.Arguments = v.JSON(); answer.Arguments[0] != '{' {
			return usage.Errorf("-arguments is %s, expected a JSON object such as {\"to\": \"ann\"}", plaintext.Line(string(answer.Arguments), 60))
		}
	}
	return a.reply(ctx, contract.RequestConfirm, args, func(id string) any { answer.ID = id; return answer })
}

func (a *app) toolResult(ctx context.Context, args []string) error {
	if a.flags.has("result") == (a.flags.toolError != "") {
		return usage.Errorf("tool-result needs exactly one of -result and -error")
	}
	v, err := a.reader().JSON("-result", a.flags.result)
	answer := contract.ToolResultAnswer{Error: a.flags.toolError, Author: contract.Author{By: a.by()}}
	switch {
	case err != nil:
		return err
	case v != nil:
		answer.Result = v.JSON()
	case a.flags.has("result"):
		return usage.Errorf("-result is empty, expected JSON; quote a string: '\"text\"'")
	}
	return a.reply(ctx, contract.RequestToolResult, args, func(id string) any { answer.ID = id; return answer })
}

func (a *app) retry(ctx context.Context, args []string) error {
	if a.flags.reason != "" && !a.flags.giveUp {
		return usage.Errorf("-reason requires -give-up")
	}
	body := func(id string) any {
		return contract.RetryAnswer{ID: id, GiveUp: a.flags.giveUp, Reason: a.flags.reason, Author: contract.Author{By: a.by()}}
	}
	if len(args) > 1 {
		return a.reply(ctx, contract.RequestRetry, args, body)
	}
	r, err := a.findOpen(ctx, args[0])
	if err != nil {
		return err
	}
	st, err := a.reported(ctx, r)
	if err != nil {
		return err
	}
	n := 0
	for _, q := range st.Requests {
		if q.Kind == contract.RequestRetry {
			n++
			if err := a.send(ctx, r, q.Kind, q.ID, body(q.ID)); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		_, err = r.Choose(contract.RequestRetry, "", st)
	}
	return err
}

func (a *app) message(ctx context.Context, args []string) error {
	if a.flags.key != "" && a.flags.request != "" {
		return usage.Errorf("-key and -request cannot be combined")
	}
	value := argument(args, 1, "-")
	text, err := a.reader().Text("the message", value)
	if err != nil {
		return err
	}
	if value == "-" || strings.HasPrefix(value, "@") {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	if text == "" {
		return usage.Errorf("missing text; usage: starter message ID [TEXT|@FILE|-]")
	}
	r, err := a.findOpen(ctx, args[0])
	if err != nil {
		return err
	}
	id, err := a.question(ctx, r)
	if err != nil {
		return err
	}
	return a.send(ctx, r, contract.RequestMessage, id, contract.MessageAnswer{ID: id, Text: text, Node: a.flags.node, Key: a.flags.key, Author: contract.Author{By: a.by()}})
}

func (a *app) question(ctx context.Context, r *runs.Run) (string, error) {
	if a.flags.key != "" {
		return "", nil // the run deduplicates by key
	}
	st, err := a.reported(ctx, r)
	if runs.Is[*runs.NoAnswerError](err) && a.flags.signal {
		return a.flags.request, nil
	}
	if err != nil {
		return "", err
	}
	if a.flags.request != "" {
		return r.Choose(contract.RequestMessage, a.flags.request, st)
	}
	var same []contract.Request
	for _, q := range st.Requests {
		if q.Kind == contract.RequestMessage && (a.flags.node == "" || a.flags.node == q.Node) {
			same = append(same, q)
		}
	}
	switch len(same) {
	case 0:
		return "", nil
	case 1:
		return same[0].ID, nil
	}
	return "", usage.Errorf("the run %q has %d open questions; specify one with -request%s", r.ID, len(same), r.Listing(same))
}

func (a *app) reply(ctx context.Context, kind string, args []string, body func(id string) any) error {
	r, err := a.findOpen(ctx, args[0])
	if err != nil {
		return err
	}
	word := argument(args, 1, "")
	st, err := a.reported(ctx, r)
	switch {
	case runs.Is[*runs.NoAnswerError](err) && a.flags.signal && word != "":
		a.say("no worker responds; sending to the request %s as given", plaintext.Lines(word))
	case err != nil:
		return err
	default:
		if word, err = r.Choose(kind, word, st); err != nil {
			return err
		}
	}
	return a.send(ctx, r, kind, word, body(word))
}

type receipt struct {
	Run string `json:"run"`
	// Request is the id of the request, or of a message that answers none.
	Request string `json:"request,omitempty"`
	Kind    string `json:"kind"`
	// Status is accepted, or sent for a signal.
	Status string `json:"status"`
}

func (a *app) send(ctx context.Context, r *runs.Run, kind, id string, answer any) error {
	a.setStage(fmt.Sprintf("check whether the answer was accepted with: %sstatus %s", a.self(), r.Quoted()))
	out := receipt{Run: r.ID, Request: id, Kind: kind, Status: "sent"}
	var err error
	if a.flags.signal {
		err = r.Signal(ctx, kind, answer)
	} else {
		var got *contract.Receipt
		done := a.warnIfSilent(ctx, r)
		got, err = r.Update(ctx, kind, answer)
		if done(); err == nil {
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

func (a *app) refused(ctx context.Context, r *runs.Run, kind string, err error) error {
	switch {
	case errors.Is(err, runs.ErrNoReceipt):
		return fmt.Errorf("no receipt within %v; start a worker for task queue %q and answer again, or send the answer without waiting with -signal", runs.ReceiptTimeout, r.Queue)
	case runs.Is[*serviceerror.NotFound](err):
		// The run closed after it was found.
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
