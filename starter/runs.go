package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/log"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/starter/report"
	"weft/starter/runs"
	"weft/starter/usage"
	"weft/worker/config"
)

// connect returns a connection whose client logs nothing.
func (a *app) connect(ctx context.Context, cfg *config.Config) (*runs.Connection, error) {
	t, err := cfg.Client(ctx, log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	note := func(err error) { a.say("warning: part of the history cannot be read: %v", err) }
	t.Client = t.Codec.Reader(t.Client, t.Store.Fetch, note)
	c := &runs.Connection{Temporal: t, Starter: a.self(), HandlePanic: a.handlePanic, Reword: a.localRequest}
	a.connections = append(a.connections, c)
	return c, nil
}

func (a *app) remote(ctx context.Context) (*runs.Connection, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	return a.connect(ctx, cfg)
}

func (a *app) find(ctx context.Context, id string) (*runs.Run, error) {
	c, err := a.remote(ctx)
	if err != nil {
		return nil, err
	}
	return c.Find(ctx, id)
}

func (a *app) findOpen(ctx context.Context, id string) (*runs.Run, error) {
	r, err := a.find(ctx, id)
	if err == nil && !r.Open() {
		err = usage.Errorf("%s", r.Closed(ctx))
	}
	return r, err
}

// silence is how long a query may go without an answer before the command checks for workers.
const silence = 3 * time.Second

// warnIfSilent prints when the task queue was last polled if answered is not called within [silence].
func (a *app) warnIfSilent(ctx context.Context, r *runs.Run) (answered func()) {
	if !r.Open() {
		return func() {} // its history is read instead
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer a.handlePanic()
		defer close(done)
		if runs.Sleep(ctx, silence) != nil {
			return
		}
		last, err := r.LastPoll(ctx, r.Queue)
		switch {
		case err != nil:
		case last.IsZero():
			a.say("no worker polls task queue %q, namespace %s at %s; start one with: bin/worker or make dev; waiting", r.Queue, r.Namespace, r.Address)
		default:
			a.say("no answer yet; on task queue %q, namespace %s at %s, a worker was last seen %.0f s ago; waiting", r.Queue, r.Namespace, r.Address, time.Since(last).Seconds())
		}
	}()
	return func() { cancel(); <-done }
}

func (a *app) reported(ctx context.Context, r *runs.Run) (*contract.Status, error) {
	defer a.warnIfSilent(ctx, r)()
	return r.QueryStatus(ctx)
}

func (a *app) follow(ctx context.Context, r *runs.Run, _ []string) error {
	if a.dev != nil && r.Open() {
		if err := a.dev.EnsureWorker(ctx, r.Connection, r.Queue); err != nil {
			return err
		}
	}
	return a.newFollower(r.FromFirst(ctx)).toTheEnd(ctx)
}

func (a *app) result(ctx context.Context, r *runs.Run, _ []string) error {
	if !r.Open() {
		return a.conclude(ctx, r)
	}
	turns, _ := r.Turns(ctx)
	for i := len(turns) - 1; i >= 0; i-- {
		if turns[i].Done() {
			return a.concludeTurn(r.ID, &turns[i])
		}
	}
	return fmt.Errorf("the run %q has no result yet; wait for it with: %sfollow %s", r.ID, a.self(), r.Quoted())
}

func (a *app) cancel(ctx context.Context, r *runs.Run, _ []string) error {
	if err := r.Client.CancelWorkflow(ctx, r.ID, r.RunID); err != nil {
		return fmt.Errorf("cancel the run %q: %w", r.ID, err)
	}
	a.say("requested cancellation of %s; follow it with: %sfollow %s", r.ID, a.self(), r.Quoted())
	return nil
}

// terminate terminates a run at once, without cleanup.
func (a *app) terminate(ctx context.Context, r *runs.Run, _ []string) error {
	if err := r.Client.TerminateWorkflow(ctx, r.ID, r.RunID, cmp.Or(a.flags.reason, "starter terminate")); err != nil {
		return fmt.Errorf("terminate the run %q: %w", r.ID, err)
	}
	a.say("terminated %s; see what it did with: %stranscript %s", r.ID, a.self(), r.Quoted())
	return nil
}

func (a *app) requests(ctx context.Context, r *runs.Run, _ []string) error {
	list := []runs.Request{}
	if r.Open() {
		st, err := a.reported(ctx, r)
		if err != nil {
			return err
		}
		for i := range st.Requests {
			list = append(list, r.Request("", &st.Requests[i], time.Now()))
		}
	} else {
		a.say("%s", r.Closed(ctx))
	}
	emit(a, list, list, func() {
		for i := range list {
			if i > 0 {
				fmt.Fprintln(a.stdout)
			}
			report.Request(a.stdout, &list[i])
		}
		if len(list) == 0 && r.Open() {
			a.say("the run %q has no open requests", r.ID)
		}
	})
	return nil
}

func (a *app) list(ctx context.Context, _ []string) error {
	if a.flags.waiting && a.flags.all {
		return usage.Errorf("-waiting and -all cannot be combined: closed runs have no open requests")
	}
	c, err := a.remote(ctx)
	if err != nil {
		return err
	}
	filter := runs.Filter{Flow: a.flags.name, Status: a.flags.status, Closed: a.flags.all, Limit: a.flags.limit}
	if filter.Waiting = a.flags.waiting; filter.Waiting {
		return a.waiting(ctx, c, filter)
	}
	all, more, err := c.List(ctx, filter)
	if err != nil {
		return err
	}
	emit(a, all, all, func() { a.table(all) })
	if more {
		a.sayMore()
	}
	return nil
}

func (a *app) sayMore() {
	a.say("there are more; list them with: -limit %d, or -limit 0 for all", a.flags.limit*4)
}

func (a *app) table(all []runs.Summary) {
	if len(all) > 0 {
		report.Runs(a.stdout, all)
		return
	}
	a.say("there are no %s%s", plaintext.If(a.flags.name != "" || a.flags.status != "", "such "),
		cmp.Or(plaintext.If(a.flags.all || a.flags.status != "", "runs"), "open runs; -all also lists closed runs"))
}

// waiting prints the requests of open runs, the oldest first in each run.
func (a *app) waiting(ctx context.Context, c *runs.Connection, filter runs.Filter) error {
	if !a.flags.has("limit") {
		filter.Limit = 0
	}
	all, more, err := c.List(ctx, filter)
	if err != nil {
		return err
	}
	box := c.Requests(ctx, all)
	entries := make([]any, 0, len(box.Requests)+len(box.Silent))
	for _, q := range box.Requests {
		entries = append(entries, q)
	}
	for _, s := range box.Silent {
		entries = append(entries, s)
	}
	emit(a, box, entries, func() {
		if len(box.Requests) == 0 {
			a.say("no open run waits for an answer")
			return
		}
		report.Requests(a.stdout, box.Requests)
	})
	for _, s := range box.Silent {
		a.say("no answer: %s", plaintext.Line(s.Error, 1000))
	}
	if more {
		a.say("only the %d latest runs were queried; remove -limit to query all", filter.Limit)
	}
	if len(box.Silent) > 0 {
		a.say("starter: of %d open runs %d did not respond; their requests are not in the list", len(all), len(box.Silent))
		return exitCode(exitFailed)
	}
	return nil
}
