package main

import (
	"context"

	"weft/activities/contract"
	"weft/starter/follow"
	"weft/starter/progress"
	"weft/starter/runs"
)

type follower struct {
	*follow.Follower
	app *app
	run *runs.Run
}

func (a *app) newFollower(r *runs.Run) *follower { return a.followerWith(r, a.newReport()) }

func (a *app) followerWith(r *runs.Run, to progress.Report) *follower {
	return &follower{Follower: follow.New(r, to), app: a, run: r}
}

func (f *follower) toTheEnd(ctx context.Context) error {
	ctx, stop := f.app.interruptible(ctx)
	defer stop()
	last, err := f.Follow(ctx, f.chat)
	f.Close()
	if err == nil {
		err = f.concludeLast(ctx, last)
	}
	if ctx.Err() != nil {
		return f.detached()
	}
	return err
}

func (f *follower) concludeLast(ctx context.Context, runID string) error {
	last := *f.run
	last.RunID = runID
	return f.app.conclude(ctx, &last)
}

func (f *follower) detached() error {
	f.app.say("%s", f.app.detachedText(f.run.ID))
	return exitCode(exitDetached)
}

func (f *follower) toTurn(ctx context.Context, n int) error {
	ctx, stop := f.app.interruptible(ctx)
	defer stop()
	following, leave := context.WithCancel(ctx)
	defer leave()
	var turn *contract.Turn
	last, err := f.Follow(following, f.chat, func(ctx context.Context) {
		if turn = f.run.AwaitTurn(ctx, func(t *contract.Turn) bool { return t.N == n }); turn != nil {
			leave()
		}
	})
	f.Close()
	switch {
	case turn != nil:
		self, id := f.app.self(), f.run.Quoted()
		f.app.say("the session is open; go on with: %sresume %s -prompt TEXT, or without -prompt on a terminal; end it with: %sstop %s", self, id, self, id)
		return f.app.concludeTurn(f.run.ID, turn)
	case ctx.Err() != nil:
		return f.detached()
	case err != nil:
		return err
	}
	return f.concludeLast(ctx, last)
}
