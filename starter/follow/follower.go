// Package follow reads the histories of a run and of all its children as they grow, and reports what happens.
package follow

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"weft/starter/runs"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/starter/transcript"
	"weft/workflows/plan"
)

// Timeouts of a follower.
const (
	// givesUp is how long Temporal may be unavailable before the follower fails.
	givesUp = time.Minute
	// childLag is the maximum time that the end event of a child waits for the child's last events.
	childLag = 2 * time.Second
)

// LostContactError is the error of a follower that has lost its connection to Temporal.
type LostContactError struct {
	ID, Address string
	Cause       error
}

// Error describes the problem and how to continue.
func (l *LostContactError) Error() string {
	return fmt.Sprintf("no connection to Temporal at %s for %v: %v; the run continues once it is back; follow it with: starter follow %s",
		l.Address, givesUp, l.Cause, plaintext.ShellQuote(l.ID))
}

// Follower follows a run. Use [New] to create one.
type Follower struct {
	// Report receives the notices. It is called while the follower is locked.
	Report progress.Report

	target *runs.Run
	caught func()

	// mu guards the fields below and serializes notices.
	mu     sync.Mutex
	begin  time.Time
	tracks map[string]*track
	// shown are the keys of notes that have been reported; see [Follower.Once].
	shown map[string]bool
	// name is the model that was reported last.
	name string
	// events counts the events of the run itself, across continue-as-new.
	events   int64
	requests openRequests
	// conversation reads the messages.
	conversation *transcript.Reader
	// order, if set, orders the events of a closed run by time.
	order *order
	// marks, if set, track the position of a reader that resumes.
	marks *marks
	// asks is closed at the run's first question.
	asks  chan struct{}
	asked sync.Once
	// readers are the goroutines that read the histories of descendants.
	readers sync.WaitGroup
}

// New returns a follower of a run that begins with the first event of target.RunID.
func New(target *runs.Run, report progress.Report) *Follower {
	f := &Follower{Report: report, target: target, caught: target.HandlePanic, tracks: map[string]*track{}, shown: map[string]bool{},
		asks: make(chan struct{}), conversation: transcript.NewReader(), requests: openRequests{open: map[string]contract.Request{}, seen: map[string]contract.Request{}, answered: map[string]bool{}}}
	if f.caught == nil {
		f.caught = func() {}
	}
	return f
}

// Resume makes the follower continue after a position.
func (f *Follower) Resume(from Position) { f.marks = newMarks(f.target.ID, from) }

// Position returns the position of the current event, for [ParsePosition]; "" if it would be too long.
func (f *Follower) Position() string { return f.marks.id() }

// Lock blocks notices until Unlock.
func (f *Follower) Lock() { f.mu.Lock() }

// Unlock releases the lock.
func (f *Follower) Unlock() { f.mu.Unlock() }

// Notify reports a notice with a formatted text.
func (f *Follower) Notify(n progress.Notice, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notify(n, format, args...)
}

// Close closes the report if it has a Close method, so that the outcome can be printed.
func (f *Follower) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r, ok := f.Report.(interface{ Close() }); ok {
		r.Close()
	}
}

// Follow reports events until the run is closed, and returns the id of the last run. The helpers run concurrently until then.
func (f *Follower) Follow(ctx context.Context, helpers ...func(context.Context)) (string, error) {
	root := newTrack(f.target.ID, f.target.RunID, "")
	if f.target.Status != enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED && !f.target.Open() {
		f.order = &order{}
	}
	f.order.enter(root)
	err := f.all(ctx, root, append([]func(context.Context){f.watch, f.watchRequests}, helpers...)...)
	return root.run, err
}

func (f *Follower) all(ctx context.Context, root *track, helpers ...func(context.Context)) error {
	reading, stop := context.WithCancel(ctx)
	defer f.readers.Wait() // so that nothing is reported after Follow returns
	defer stop()
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	var watchers sync.WaitGroup
	for _, help := range helpers {
		watchers.Go(func() { defer f.caught(); help(watching) })
	}
	err := f.read(reading, root)
	unwatch()
	watchers.Wait()
	if err == nil && (len(f.requests.open) > 0 || f.requests.changed) && !f.askRequests(ctx, lastAsk) {
		f.readAnswers(ctx, true)
	}
	return err
}

// read reports a run's history to its end, across continue-as-new and lost connections.
func (f *Follower) read(ctx context.Context, t *track) error {
	f.mu.Lock()
	f.tracks[t.id] = t
	f.mu.Unlock()
	defer f.close(t)
	var away time.Time
	for {
		if t.tail == nil {
			t.tail = history.NewTail(f.target.Client, history.Run{Workflow: t.workflow, RunID: t.run})
		}
		before := t.tail.Seen
		err := f.drain(ctx, t)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && t.tail.ContinuedAs != "":
			t.run, t.tail = t.tail.ContinuedAs, nil
			continue
		case err == nil:
			return nil
		case runs.Is[*serviceerror.NotFound](err):
			return fmt.Errorf("no history of the run %q: %w", t.id, err)
		}
		if t.tail.Seen != before || away.IsZero() {
			away = time.Now()
			f.Once("away", "no connection to Temporal at %s; retrying", f.target.Address)
		}
		if time.Since(away) > givesUp {
			return &LostContactError{f.target.ID, f.target.Address, err}
		}
		if err := runs.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (f *Follower) drain(ctx context.Context, t *track) error {
	for event, err := range t.tail.Events(ctx) {
		if err != nil {
			return err
		}
		f.order.await(ctx, t, event.Time)
		f.children(ctx, t, &event)
		if t.id == f.target.ID && isAsked(&event) {
			f.readAnswers(ctx, false)
		}
		f.mu.Lock()
		delete(f.shown, "away")
		delete(f.shown, "no worker")
		delete(f.shown, "stuck "+t.id)
		t.changed = time.Now()
		if t.id == f.target.ID {
			f.events++
			f.requests.read = event.Time
			for ; len(f.requests.past) > 0 && !f.requests.past[0].At.After(event.Time); f.requests.past = f.requests.past[1:] {
				f.updateRequests(&contract.Status{Answered: f.requests.past[:1]}, nil)
			}
			if _, sent := event.Data.(*history.Message); sent {
				f.requests.changed = true
			}
		}
		f.marks.enter(t, event.ID)
		f.event(t, &event)
		f.marks.leave()
		f.mu.Unlock()
	}
	return ctx.Err()
}

// children follows a child that has started, and delays the end event of a child until its last events have been reported.
func (f *Follower) children(ctx context.Context, t *track, e *history.Event) {
	switch d := e.Data.(type) {
	case *history.ChildStarted:
		label, below := t.label, t.workflow.Place
		if node, _, _ := strings.Cut(d.Call, ":"); node != "" {
			label += node + " › "
			below += d.Call + " › "
		}
		child := newTrack(d.ID, d.RunID, label)
		child.workflow.Place = below
		f.mu.Lock()
		t.children[d.Requested] = child
		over := f.marks.addChild(t, e.ID, child)
		f.mu.Unlock()
		if over {
			close(child.done)
			return
		}
		f.order.enter(child)
		f.readers.Go(func() {
			defer f.caught()
			defer close(child.done)
			if err := f.read(ctx, child); err != nil && ctx.Err() == nil {
				f.Once("lost "+child.id, "%s cannot be followed: %v", plaintext.Line(child.id, 200), err)
			}
		})
	case *history.ChildEnded:
		child := t.children[d.Requested]
		if child == nil || f.order != nil {
			return
		}
		select {
		case <-child.done:
		case <-ctx.Done():
		case <-time.After(childLag):
		}
	}
}

func (f *Follower) close(t *track) {
	f.order.leave(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.tracks, t.id)
	f.marks.close(t)
}

// Once reports a note unless one with the same key has been reported.
func (f *Follower) Once(key, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.shown[key] {
		f.shown[key] = true
		f.notify(progress.Notice{Event: progress.EventNote}, format, args...)
	}
}

// Model reports the default model of a run, unless it was reported before.
func (f *Follower) Model(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.model(name)
}

func (f *Follower) model(name string) {
	if name != f.name {
		f.name = name
		f.notify(progress.Notice{Event: progress.EventRunModel, Model: name}, "model: %s", progress.ModelLabel(name))
	}
}

// plan passes the number of nodes to the report. The caller holds f.mu.
func (f *Follower) plan(p *plan.Flow) {
	c, shows := f.Report.(progress.Counter)
	if p == nil || !shows {
		return
	}
	if t, ok := progress.TotalOf(p); ok {
		c.Count(t)
	}
}
