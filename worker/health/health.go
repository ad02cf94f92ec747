// Package health knows whether a worker can do its work, and tells it over HTTP.
//
// A worker is alive while its process serves, and ready while Temporal answers it and both
// its kinds of tasks are polled for. Polling is watched where it happens, in the client's
// calls: a worker whose key was revoked, or whose namespace is gone, is not ready although
// the server answers.
//
// Start at [Health].
package health

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Check is one thing that was looked at.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Text says what is wrong.
	Text string `json:"text,omitempty"`
}

// Report is what a worker says of itself.
type Report struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
	// Version and Revision are the build's.
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
}

// Ask asks Temporal whether it is there; its error says why not.
type Ask func(context.Context) error

// Health is one worker's health. Its zero value is not ready.
type Health struct {
	polls polls

	mu      sync.Mutex
	ask     Ask
	stopped string
	// asked is when Temporal was asked last, and answer what came of it.
	asked  time.Time
	answer error
}

// askTimeout bounds one question to Temporal; askAgain is for how long its answer counts,
// so that whoever asks this worker often does not ask Temporal often.
const (
	askTimeout = 2 * time.Second
	askAgain   = time.Second
)

// Connected says how to ask Temporal, once there is a client.
func (h *Health) Connected(ask Ask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ask = ask
}

// Stopping makes the worker not ready for good, for a reason.
func (h *Health) Stopping(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = why
}

// Ready looks at everything that work needs.
func (h *Health) Ready(ctx context.Context) Report {
	checks := []Check{h.running(), h.temporal(ctx)}
	return report(append(checks, h.polls.checks(time.Now())...)...)
}

// running reports whether the worker takes tasks at all.
func (h *Health) running() Check {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Check{Name: "running", OK: h.stopped == "", Text: h.stopped}
}

// temporal asks Temporal, or remembers what it said a moment ago. Callers wait for each
// other and so share an answer.
func (h *Health) temporal(ctx context.Context) Check {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := Check{Name: "temporal"}
	if h.ask == nil {
		c.Text = "not connected yet"
		return c
	}
	if time.Since(h.asked) >= askAgain {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		h.answer = h.ask(ctx)
		cancel()
		h.asked = time.Now()
	}
	if c.OK = h.answer == nil; !c.OK {
		c.Text = fmt.Sprintf("no answer: %v", h.answer)
	}
	return c
}
