package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// newClient makes an HTTP client that follows no redirect, which would carry the key to another host, and uses
// no proxy of the environment. Its only timeouts are for connecting.
func newClient(proxy *url.URL) *http.Client {
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        60 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy)
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// errBodyLimit means that an answer is longer than its bound.
var errBodyLimit = errors.New("answer is too long")

// stalled says how long a provider sent nothing.
type stalled struct {
	idle    time.Duration
	started bool
}

func (e *stalled) Error() string {
	if e.started {
		return fmt.Sprintf("the answer stopped: no byte for %s", e.idle)
	}
	return fmt.Sprintf("no answer: no byte within %s", e.idle)
}

// watch cancels a call whose provider sends nothing for too long, streaming or not.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
	body   io.ReadCloser
	left   int64
	read   bool
}

// newWatch starts to wait for the first byte.
func newWatch(ctx context.Context, first, idle time.Duration) *watch {
	w := &watch{idle: idle}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(first, func() { w.cancel(&stalled{idle: first}) })
	return w
}

// attach watches a body of at most limit bytes.
func (w *watch) attach(body io.ReadCloser, limit int64) {
	w.body, w.left = body, limit
}

// shorten shortens the wait for bytes that the answer could do without.
func (w *watch) shorten(d time.Duration) {
	w.idle = min(w.idle, d)
}

// Read reads the body. Time counts only while it waits for the provider.
func (w *watch) Read(p []byte) (int, error) {
	if w.read {
		idle := w.idle
		w.timer.Stop()
		w.timer = time.AfterFunc(idle, func() { w.cancel(&stalled{idle: idle, started: true}) })
	}
	// One byte more than allowed tells an answer of exactly the limit from a longer one.
	if int64(len(p)) > w.left+1 {
		p = p[:w.left+1]
	}
	n, err := w.body.Read(p)
	if n > 0 {
		w.read = true
		w.timer.Stop()
	}
	w.left -= int64(n)
	if w.left < 0 {
		return max(0, n-1), errBodyLimit
	}
	return n, err
}

// cause is the reason behind an error of the request or its body.
func (w *watch) cause(err error) error {
	var s *stalled
	if errors.As(context.Cause(w.ctx), &s) {
		return s
	}
	return err
}

// close ends the watch and frees the connection.
func (w *watch) close() {
	w.timer.Stop()
	if w.body != nil {
		_ = w.body.Close()
	}
	w.cancel(nil)
}
