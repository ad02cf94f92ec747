// Package health reports over HTTP whether a worker is alive and ready.
//
// A worker is alive while its process serves HTTP, and ready while Temporal responds and both kinds of
// tasks are polled. Polls are observed in the client's calls: a worker whose key was revoked, or whose
// namespace was deleted, is not ready although the server responds.
//
// Start at [Health].
package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weft/worker/build"
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
	// Version and Revision identify the build.
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
}

// Ping returns an error if Temporal does not respond.
type Ping func(context.Context) error

// Health tracks one worker's health. The zero value is not ready.
type Health struct {
	polls polls

	mu      sync.Mutex
	ping    Ping
	stopped string
	// pinged is the time of the last ping, pingErr its result.
	pinged  time.Time
	pingErr error
}

// pingTimeout bounds one ping; pingInterval is how long its result is cached, so that frequent
// requests to this worker do not cause frequent requests to Temporal.
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

// Stopping marks the worker as permanently not ready; why is the reported reason.
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

// temporal pings Temporal, or returns a recent result. Concurrent callers share one ping.
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

// Paths of the two endpoints.
const (
	PathLive  = "/livez"
	PathReady = "/readyz"
)

// Handle registers both endpoints. They respond with status 200 or 503 and a [Report] as the body.
func (h *Health) Handle(mux *http.ServeMux) {
	mux.HandleFunc("GET "+PathLive, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, report(Check{Name: "process", OK: true}))
	})
	mux.HandleFunc("GET "+PathReady, func(w http.ResponseWriter, r *http.Request) {
		answer(w, h.Ready(r.Context()))
	})
}

func report(checks ...Check) Report {
	r := Report{OK: true, Checks: checks}
	r.Version, r.Revision = build.Info()
	for _, c := range checks {
		r.OK = r.OK && c.OK
	}
	return r
}

func answer(w http.ResponseWriter, r Report) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !r.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// An error means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(r)
}

// queryTimeout bounds one query; it is longer than a ping of Temporal.
const queryTimeout = pingTimeout + time.Second

// Query fetches a report from a path of the worker that listens on an address, host:port or :port.
func Query(ctx context.Context, listen, path string) (*Report, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("the address %q is not host:port: %w", listen, err)
	}
	// A server that listens on all addresses also listens on loopback.
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return nil, err
	}
	// This transport uses no proxy.
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(raw, &r); err != nil || r.Version == "" {
		return nil, fmt.Errorf("%s returns %s, which is not a worker's report", req.URL, resp.Status)
	}
	return &r, nil
}

// polled lists the methods of the long polls for tasks, and the names of their checks.
var polled = []struct{ method, name string }{
	{"PollWorkflowTaskQueue", "workflow tasks"},
	{"PollActivityTaskQueue", "activity tasks"},
}

// accepted is how long a poll must be open to count as accepted: the server rejects polls sooner.
const accepted = time.Second

// polls tracks the long polls for tasks.
type polls struct {
	mu   sync.Mutex
	last int
	// waiting holds the start of each open poll, by method and number.
	waiting map[string]map[int]time.Time
	// ended is the result of the last completed poll of each method.
	ended map[string]error
}

// begin records the start of a poll; the returned function records its end.
func (p *polls) begin(method string) func(error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting, p.ended = map[string]map[int]time.Time{}, map[string]error{}
	}
	if p.waiting[method] == nil {
		p.waiting[method] = map[int]time.Time{}
	}
	p.last++
	n := p.last
	p.waiting[method][n] = time.Now()
	return func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting[method], n)
		// A poll that the worker itself cancelled has no significance.
		if status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
			p.ended[method] = err
		}
	}
}

// checks reports for each kind of task whether it is polled: a poll is open and was not rejected, or
// the last completed poll succeeded. While all slots are in use, no poll is open.
func (p *polls) checks(now time.Time) []Check {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Check
	for _, kind := range polled {
		c := Check{Name: kind.name}
		err, ended := p.ended[kind.method]
		c.OK = ended && err == nil
		for _, since := range p.waiting[kind.method] {
			c.OK = c.OK || now.Sub(since) >= accepted
		}
		switch {
		case c.OK:
		case err != nil:
			c.Text = fmt.Sprintf("polling failed: %v", err)
		default:
			c.Text = "not polled yet"
		}
		out = append(out, c)
	}
	return out
}

// Interceptor returns an interceptor that observes a client's polls; add it to the client's connection options.
func (h *Health) Interceptor() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		name := path.Base(method)
		for _, kind := range polled {
			if kind.method == name {
				end := h.polls.begin(name)
				err := invoke(ctx, method, req, reply, cc, opts...)
				end(err)
				return err
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}
