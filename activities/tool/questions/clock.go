package questions

import (
	"context"
	"sync"
	"time"
)

// Clock bounds a call: by its own time, which stands still while somebody is asked, and by the time for that.
type Clock struct {
	mu        sync.Mutex
	own, hold time.Duration // what is left; own is 0 where nothing bounds it
	asked     int
	since     time.Time
	timer     *time.Timer
	end       context.CancelCauseFunc
}

type clockKey struct{}

// WithClock returns a context that ends after own, the time not counted in which somebody is asked, hold at most; own is 0
// where nothing bounds the call. Its cause is [context.DeadlineExceeded] then.
func WithClock(ctx context.Context, own, hold time.Duration) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	c := &Clock{own: own, hold: hold, end: end}
	c.start()
	return context.WithValue(ctx, clockKey{}, c), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.timer != nil {
			c.timer.Stop()
		}
		end(nil)
	}
}

// clockOf is the clock of a context; one that bounds nothing, and has no time for questions, where it has none.
func clockOf(ctx context.Context) *Clock {
	if c, ok := ctx.Value(clockKey{}).(*Clock); ok {
		return c
	}
	return &Clock{}
}

// start lets the call's own time go on. The lock is held, or nobody else knows the clock yet.
func (c *Clock) start() {
	if c.since = time.Now(); c.own > 0 {
		c.timer = time.AfterFunc(c.own, func() { c.end(context.DeadlineExceeded) })
	}
}

// pause stops the call's own time, and returns how long somebody may be asked.
func (c *Clock) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.asked++; c.asked > 1 {
		return c.hold - now.Sub(c.since)
	}
	if c.timer != nil && c.timer.Stop() {
		c.own = max(c.own-now.Sub(c.since), 1)
	}
	c.since = now
	return c.hold
}

func (c *Clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked--; c.asked == 0 {
		c.hold -= time.Since(c.since)
		c.start()
	}
}
