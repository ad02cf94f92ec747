package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/progress"
	"weft/worker/config"
	"weft/workflows/plan"
)

// Patience of a follower.
const (
	// givesUp is how long Temporal may be away before the follower ends.
	givesUp = time.Minute
	// childLag is how long the end of a child waits for the child's own last events.
	childLag = 2 * time.Second
)

// lostContact is the error of a follower whose Temporal has gone.
type lostContact struct {
	id, address string
	cause       error
}

// Error says what happened and how to go on.
func (l *lostContact) Error() string {
	return fmt.Sprintf("no contact with Temporal at %s for %v: %v; the run goes on when it is back; follow it with: starter follow %s",
		l.address, givesUp, l.cause, quoted(l.id))
}

// follower reads the histories of a run and of all its children as they grow, and prints
// a line per event.
type follower struct {
	app      *app
	temporal *config.Temporal
	id, run  string
	queue    string
	report   progress.Report

	// mu guards what follows and keeps lines whole.
	mu     sync.Mutex
	begin  time.Time
	tracks map[string]*track
	// shown are the things that are said once.
	shown map[string]bool
	// name is the model that was named last.
	name string
	// events counts those of the run itself, through all that it continued as.
	events int64
	desk   desk
	// marks, if set, say what somebody has been told already.
	marks *marks
	// asks is closed when the run asks a person for the first time.
	asks  chan struct{}
	asked sync.Once
}

func (a *app) newFollower(t *config.Temporal, id, run string) *follower {
	return a.followerWith(t, id, run, a.newReport())
}

// followerWith is a follower that reports in a way of its own.
func (a *app) followerWith(t *config.Temporal, id, run string, to progress.Report) *follower {
	return &follower{app: a, temporal: t, id: id, run: run, report: to, tracks: map[string]*track{}, shown: map[string]bool{}, asks: make(chan struct{}),
		desk: desk{open: map[string]contract.Request{}, answered: map[string]bool{}}}
}

// toTheEnd follows until the run is closed and prints its outcome. An interrupt detaches:
// the run goes on.
func (f *follower) toTheEnd(ctx context.Context) error {
	ctx, stop := f.app.listening(ctx)
	defer stop()
	root := newTrack(f.id, f.run, "")
	err := f.all(ctx, root, f.watch, f.watchRequests, f.chat)
	f.mu.Lock()
	f.report.Close()
	f.mu.Unlock()
	if err == nil {
		err = f.app.conclude(ctx, f.temporal, f.id, root.run)
	}
	if ctx.Err() != nil {
		f.app.say("%s", f.app.detachedText(f.id))
		return coded(exitDetached)
	}
	return err
}

// all reads histories from the root's on until the run is closed, with some helpers beside.
func (f *follower) all(ctx context.Context, root *track, helpers ...func(context.Context)) error {
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	var watchers sync.WaitGroup
	for _, help := range helpers {
		watchers.Go(func() { defer f.app.caught(); help(watching) })
	}
	err := f.read(ctx, root)
	unwatch()
	watchers.Wait()
	if err == nil {
		f.lastRequests(ctx)
	}
	return err
}

// read prints a run's history to its end, through continue-as-new and lost connections.
func (f *follower) read(ctx context.Context, t *track) error {
	f.open(t)
	defer f.close(t)
	var away time.Time
	for {
		if t.tail == nil {
			t.tail = history.NewTail(f.temporal.Client, history.Run{Workflow: &history.Workflow{ID: t.id}, RunID: t.run})
		}
		before := t.tail.Seen
		err := f.drain(ctx, t)
		var missing *serviceerror.NotFound
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && t.tail.ContinuedAs != "":
			t.run, t.tail = t.tail.ContinuedAs, nil
			continue
		case err == nil:
			return nil
		case errors.As(err, &missing):
			return bad("there is no history of the run %q: %v", t.id, err)
		}
		if t.tail.Seen != before || away.IsZero() {
			away = time.Now()
			f.once("away", "no contact with Temporal at %s; trying again", f.temporal.Address)
		}
		if time.Since(away) > givesUp {
			return &lostContact{f.id, f.temporal.Address, err}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// drain reads the track's next events until the run is closed or something fails.
func (f *follower) drain(ctx context.Context, t *track) error {
	for event, err := range t.tail.Events(ctx) {
		if err != nil {
			return err
		}
		f.children(ctx, t, &event)
		f.mu.Lock()
		delete(f.shown, "away")
		delete(f.shown, "no worker")
		delete(f.shown, "stuck "+t.id)
		t.changed = time.Now()
		if t.id == f.id {
			f.events++
			f.desk.note(&event)
		}
		f.marks.enter(t, event.ID)
		f.event(t, &event)
		f.marks.leave()
		f.mu.Unlock()
	}
	return ctx.Err()
}

// children begins to follow a child that has started, and lets the end of a child wait for
// the child's own last events, so that lines come in their causal order.
func (f *follower) children(ctx context.Context, t *track, e *history.Event) {
	switch d := e.Data.(type) {
	case *history.ChildStarted:
		child := newTrack(d.ID, d.RunID, childLabel(t.label, d.Child))
		f.mu.Lock()
		t.children[d.Requested] = child
		over := f.marks.over(t, e.ID, child)
		f.mu.Unlock()
		if over {
			close(child.done)
			return
		}
		go func() {
			defer f.app.caught()
			defer close(child.done)
			if err := f.read(ctx, child); err != nil && ctx.Err() == nil {
				f.once("lost "+child.id, "%s cannot be followed: %v", clean(child.id, 200), err)
			}
		}()
	case *history.ChildEnded:
		child := t.children[d.Requested]
		if child == nil {
			return
		}
		select {
		case <-child.done:
		case <-ctx.Done():
		case <-time.After(childLag):
		}
	}
}

func (f *follower) open(t *track) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tracks[t.id] = t
}

func (f *follower) close(t *track) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.tracks, t.id)
	f.marks.close(t)
}

// once says a thing that has not been said.
func (f *follower) once(key, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.shown[key] {
		f.shown[key] = true
		f.tell(progress.Notice{Event: progress.EventNote}, format, args...)
	}
}

// model names the model that a run uses, when it becomes known or changes.
func (f *follower) model(name string) {
	if name != f.name {
		f.name = name
		f.tell(progress.Notice{Event: progress.EventRunModel, Model: name}, "model: %s", modelLabel(name))
	}
}

// plan notes what the run runs. The caller holds f.mu.
func (f *follower) plan(p *plan.Flow) {
	c, shows := f.report.(progress.Counter)
	if p == nil || !shows {
		return
	}
	if t, ok := progress.TotalOf(p); ok {
		c.Count(t)
	}
}
