package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"weft/activities/textutil"
	"weft/starter/runs"
)

const lastID = "end"

const eventStream = "text/event-stream"

// Pauses of a stream of events.
const (
	// keepAliveInterval is the interval of keep-alive comments in a stream without events.
	keepAliveInterval = 15 * time.Second
	// retryMillis is how long a client should wait before it reconnects.
	retryMillis = 2000
)

// maxStreams limits the number of open streams, each of which reads histories.
const maxStreams = 500

type stream struct {
	mu sync.Mutex
	w  http.ResponseWriter
	// patience is the write timeout.
	patience time.Duration
}

func (s *stream) send(kind, id string, v any) error {
	// Neither encoded JSON nor kinds and ids contain line breaks.
	data, err := textutil.JSON(v)
	if err != nil {
		return err
	}
	data = textutil.Unescape(data)
	head := "event: " + kind + "\n"
	if id != "" {
		head += "id: " + id + "\n"
	}
	return s.write(fmt.Appendf(nil, "%sdata: %s\n\n", head, data))
}

// write sends bytes immediately, with the write timeout.
func (s *stream) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	extend(s.w, s.patience)
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// getEvents sends the events of a run, and finally its result or error. A client that reconnects after that gets 204.
func (srv *Server) getEvents(w http.ResponseWriter, r *http.Request) (any, error) {
	after := r.Header.Get("Last-Event-ID")
	if strings.ContainsAny(after, " \t") {
		return nil, NewProblem(BadRequest, "send the id of an event, or omit it", "invalid Last-Event-ID %.100q", after)
	}
	run, err := srv.Runs.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if after == lastID {
		w.WriteHeader(http.StatusNoContent)
		return nil, nil
	}
	if err := srv.Runs.CheckEvent(after); err != nil {
		return nil, err
	}
	return srv.openStream(w, r, func(ctx context.Context, out *stream) {
		err := srv.Runs.Follow(ctx, run, after, func(e *Event) error {
			e.Session, e.Timestamp = sessionOf(run), e.Timestamp.UTC()
			return out.send(e.Type, e.ID, e)
		})
		if err == nil && ctx.Err() == nil {
			err = srv.lastEvent(ctx, out, run.ID)
		}
		if err != nil && ctx.Err() == nil {
			// The client reconnects automatically after the last event that it has.
			srv.Log("events of %s: %v", run.ID, err)
		}
	})
}

// getSaves sends the results of saves in the author's folder.
func (srv *Server) getSaves(w http.ResponseWriter, r *http.Request) (any, error) {
	saves, end := srv.Saves()
	defer end()
	return srv.openStream(w, r, func(ctx context.Context, out *stream) {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-saves:
				if out.send("saved", "", s) != nil {
					return // the client has disconnected
				}
			}
		}
	})
}

// openStream responds with server-sent events. ctx is done when the client disconnects, the server closes, or the token expires.
func (srv *Server) openStream(w http.ResponseWriter, r *http.Request, send func(ctx context.Context, out *stream)) (any, error) {
	ended, err := srv.hold(r.Context())
	if err != nil {
		return nil, err
	}
	defer ended()
	// The context has no deadline, as in [Server.await].
	ctx, cancel := context.WithCancel(r.Context())
	if caller := callerIn(ctx); caller != nil && !caller.Expires.IsZero() {
		defer time.AfterFunc(time.Until(caller.Expires), cancel).Stop()
	}
	out := &stream{w: w, patience: srv.times.send}
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	helpers.Go(func() { srv.cancelOnClose(ctx, cancel) })
	w.Header().Set("Content-Type", eventStream)
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil, nil
	}
	if err := out.write(fmt.Appendf(nil, "retry: %d\n\n", retryMillis)); err != nil {
		return nil, nil //nolint:nilerr // the client has disconnected
	}
	helpers.Go(func() {
		for range runs.Every(ctx, keepAliveInterval) {
			if out.write([]byte(":\n\n")) != nil {
				cancel()
			}
		}
	})
	send(ctx, out)
	return nil, nil
}

// hold counts an event stream, or a request that waits for the end of a run, until it calls ended.
func (srv *Server) hold(ctx context.Context) (ended func(), err error) {
	own, err := srv.limits.stream(callerIn(ctx))
	if err != nil {
		return nil, err
	}
	select {
	case srv.streams <- struct{}{}:
		return func() { <-srv.streams; own() }, nil
	default:
		own()
		return nil, NewProblem(Busy, "close another stream, or retry later", "%d event streams are open, which is the limit", maxStreams)
	}
}

func (srv *Server) cancelOnClose(ctx context.Context, cancel func()) {
	select {
	case <-srv.closing:
		cancel()
	case <-ctx.Done():
	}
}

type errorEvent struct {
	EventType string    `json:"event_type"`
	SessionID string    `json:"session_id"`
	Timestamp time.Time `json:"timestamp"`
	Status    string    `json:"status"`
	Error     any       `json:"error"`
}

func (srv *Server) lastEvent(ctx context.Context, out *stream, id string) error {
	run, err := srv.Runs.Find(ctx, id)
	if err != nil {
		return err
	}
	res, failure, err := srv.Runs.Outcome(ctx, run)
	switch {
	case err != nil:
		return err
	case failure != nil:
		if e := printed(run, failure); e != nil {
			if err := out.send("result", "", e); err != nil {
				return err
			}
		}
		return out.send("run_failed", lastID, errorEvent{"error", sessionOf(run), ended(run), run.Status, errorOf(failure)})
	}
	return out.send("result", lastID, resultOf(run, res))
}
