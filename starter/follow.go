package main

import (
	"context"
	"time"

	"weft/activities/contract"
	"weft/starter/follow"
	"weft/starter/progress"
	"weft/worker/config"
)

// follower follows a run for a command.
type follower struct {
	*follow.Follower
	app      *app
	temporal *config.Temporal
	id       string
}

func (a *app) newFollower(t *config.Temporal, id, run, queue string) *follower {
	return a.followerWith(t, id, run, queue, a.newReport())
}

// followerWith is a follower that reports in a way of its own.
func (a *app) followerWith(t *config.Temporal, id, run, queue string, to progress.Report) *follower {
	return &follower{Follower: follow.New(host{a, t}, t, id, run, queue, to), app: a, temporal: t, id: id}
}

// host is what a follower asks of the command.
type host struct {
	app      *app
	temporal *config.Temporal
}

// Status implements [follow.Host].
func (h host) Status(ctx context.Context, id, queue string, patience time.Duration) (*contract.Status, error) {
	var st contract.Status
	err := ask(ctx, h.temporal, id, about{queue: queue, patience: patience}, contract.QueryStatus, &st)
	return &st, err
}

// Commands implements [follow.Host].
func (h host) Commands(id string, q *contract.Request) []string { return h.app.answers(id, q) }

// Caught implements [follow.Host].
func (h host) Caught() { h.app.caught() }

// toTheEnd follows until the run is closed and prints its outcome. An interrupt detaches:
// the run goes on.
func (f *follower) toTheEnd(ctx context.Context) error {
	ctx, stop := f.app.listening(ctx)
	defer stop()
	run, err := f.Follow(ctx, f.chat)
	f.Close()
	if err == nil {
		err = f.app.conclude(ctx, f.temporal, f.id, run)
	}
	if ctx.Err() != nil {
		f.app.say("%s", f.app.detachedText(f.id))
		return coded(exitDetached)
	}
	return err
}
