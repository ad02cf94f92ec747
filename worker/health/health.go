// Package health reports over HTTP whether a worker is alive and ready.
//
// A worker is alive while its process serves, and ready while Temporal responds and both kinds of tasks
// are polled. Polls are observed in the client's calls: a worker whose key was revoked, or whose
// namespace was deleted, is not ready although the server responds.
//
// Start at [Health].
package health

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Check is the result of one check.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Text string `json:"text,omitempty"`
}

// Report is the result of all checks of a worker.
type Report struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
	// Version and Revision are the build's.
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
}

// Ping checks whether Temporal responds.
type Ping func(context.Context) error

// Health is one worker's health. Its zero value is not ready.
type Health struct {
	polls polls

	mu      sync.Mutex
	ping    Ping
	stopped string
	// pinged is the time of the last ping, pingErr its result.
	pinged  time.Time
	pingErr error
}

// pingTimeout bounds one ping; pingInterval is how long its result is used, so that frequent
// requests to this worker do not become frequent requests to Temporal.
const (
	pingTimeout  = 2 * time.Second
	pingInterval = time.Second
)

// Connected sets how to ping Temporal, once there is a client.
func (h *Health) Connected(ping Ping) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ping = ping
}

// Stopping marks the worker as permanently not ready, with a reason.
func (h *Health) Stopping(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = why
}

// Ready runs all checks.
func (h *Health) Ready(ctx context.Context) Report {
	checks := []Check{h.running(), h.temporal(ctx)}
	return report(append(checks, h.polls.checks(time.Now())...)...)
}

func (h *Health) running() Check {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Check{Name: "running", OK: h.stopped == "", Text: h.stopped}
}

// temporal pings Temporal, or uses a recent result. Concurrent callers share one ping.
func (h *Health) temporal(ctx context.Context) Check {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := Check{Name: "temporal"}
	if h.ping == nil {
		c.Text = "not connected yet"
		return c
	}
	if time.Since(h.pinged) >= pingInterval {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingTimeout)
		h.pingErr = h.ping(ctx)
		cancel()
		h.pinged = time.Now()
	}
	if c.OK = h.pingErr == nil; !c.OK {
		c.Text = fmt.Sprintf("no response: %v", h.pingErr)
	}
	return c
}
