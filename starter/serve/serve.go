// Package serve is the HTTP door to runs of flows, for clients that speak HTTP and JSON and
// know nothing of Temporal: it starts runs, shows them, hands in answers, and keeps the
// agents of a folder.
//
// It holds no state. What it says it has asked of [Runs] or read from the folder just now, so
// that any number of doors may stand side by side. It knows no Temporal and reads no
// environment. What clients may rely on is in openapi.json, which it serves.
//
// Start at [New], then [routes].
package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"time"

	"weft/activities/mask"
	"weft/specadapter"
	"weft/worker/config"
)

// Options say what is behind the door and who may come in.
type Options struct {
	Runs Runs
	// Flows is the folder of flows and agents, and whether clients may bring others.
	Flows config.Flows
	// Reading gives the options with which documents are read.
	Reading func(dialect, profile string) specadapter.Options
	// NewID makes an id for a run of the flow of a name.
	NewID func(flow string) string
	// Settings are the operator's, Tokens who may come in: without any, everybody on this
	// machine.
	Settings config.Serve
	Tokens   []config.Token
	// Mask knows the secrets of the settings, which no client is sent; nil: there are none.
	Mask *mask.Mask
	// Log takes a line about what went wrong on this side.
	Log func(format string, args ...any)
}

// Door answers HTTP requests. Make one with [New].
type Door struct {
	Options
	handler http.Handler
	times   times
	// streams has an entry for each stream of events that is open.
	streams chan struct{}
	// closing is closed when the door begins to close: what waits for something ends then.
	closing chan struct{}
}

// New makes a door.
func New(o Options) *Door {
	d := &Door{Options: o, times: defaultTimes, streams: make(chan struct{}, maxStreams), closing: make(chan struct{})}
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.HandleFunc(r.method+" "+r.path, d.handle(r))
	}
	d.handler = d.guard(mux)
	return d
}

// times are those that a door gives its clients.
type times struct {
	// head is how long a client may take to send the head of a request, body the whole, idle
	// the next one on the same connection.
	head, body, idle time.Duration
	// send is how long a client may take to read a response, or an event.
	send time.Duration
	// close is how long requests under way may go on when the door closes.
	close time.Duration
}

var defaultTimes = times{head: 10 * time.Second, body: 30 * time.Second, idle: 2 * time.Minute, send: 30 * time.Second, close: 10 * time.Second}

// maxHeader bounds the head of a request. The longest that is sent on purpose is
// Last-Event-ID.
const maxHeader = 64 << 10

// server is what reads requests. What it says goes where all else is said, and nowhere else.
func (d *Door) server() *http.Server {
	return &http.Server{Handler: d, ReadHeaderTimeout: d.times.head, ReadTimeout: d.times.body, IdleTimeout: d.times.idle, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(lines(d.Log), "", 0)}
}

// lines writes to a log of lines.
type lines func(format string, args ...any)

// Write writes a line.
func (l lines) Write(p []byte) (int, error) {
	l("%s", bytes.TrimSpace(p))
	return len(p), nil
}

// Serve answers until ctx is done; then it takes no new requests and gives those under way a
// moment to end. It closes the listener and may be called once.
func (d *Door) Serve(ctx context.Context, l net.Listener) error {
	server := d.server()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP at %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	close(d.closing)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.times.close)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return errors.Join(server.Close(), fmt.Errorf("requests were cut off after %v", d.times.close))
	}
	return nil
}

// ServeHTTP answers one request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// handle makes a handler of a route: it turns errors into problems.
func (d *Door) handle(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		extend(w, d.times.send)
		err := rt.run(d, w, r)
		var p *Problem
		var wrong *parameters
		var known *wellKnown
		switch {
		case err == nil:
		case errors.As(err, &wrong):
			wrong.write(w)
		case errors.As(err, &known):
			known.write(w)
		case errors.As(err, &p):
			p.write(w)
		case r.Context().Err() != nil:
			// Nobody is there to read an answer.
		default:
			d.Log("%s %s: %v", r.Method, rt.path, err)
			NewProblem(Defect, "look into the log of this server", "the request could not be answered").write(w)
		}
	}
}

// extend gives a client time to read what is sent.
func extend(w http.ResponseWriter, more time.Duration) {
	// Only a writer that is no connection, as in a test, does not know deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(more))
}

func pathEscape(s string) string { return url.PathEscape(s) }
