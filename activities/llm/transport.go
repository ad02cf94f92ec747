package llm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"time"
)

// newClient returns an HTTP client that follows no redirects, which would send the key to another host, and ignores the
// environment's proxies. Its only timeouts are for connecting.
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

var errBodyLimit = errors.New("answer is too long")

// stallError is the error for a provider that sent nothing for too long.
type stallError string

func (s stallError) Error() string { return string(s) }

// watch reads a response and cancels the call if the provider sends nothing for too long.
type watch struct {
	ctx       context.Context
	cancel    context.CancelCauseFunc
	timer     *time.Timer
	idle      time.Duration
	header    http.Header
	body      io.ReadCloser
	remaining int64 // bytes up to the size limit
	started   bool
}

// newWatch returns a watch and starts its timeout for the first byte.
func newWatch(ctx context.Context, first, idle time.Duration) *watch {
	w := &watch{idle: idle}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(first, func() { w.cancel(stallError(fmt.Sprintf("no answer: no byte within %s", first))) })
	return w
}

// Read reads the body. The timeouts run only while it waits for the provider.
func (w *watch) Read(p []byte) (int, error) {
	if w.started {
		idle := w.idle
		w.timer.Stop()
		w.timer = time.AfterFunc(idle, func() { w.cancel(stallError(fmt.Sprintf("the answer stopped: no byte for %s", idle))) })
	}
	// Read one byte more than allowed, to distinguish a response of exactly the limit from a longer one.
	if int64(len(p)) > w.remaining+1 {
		p = p[:w.remaining+1]
	}
	n, err := w.body.Read(p)
	if n > 0 {
		w.started = true
		w.timer.Stop()
	}
	w.remaining -= int64(n)
	if w.remaining < 0 {
		return max(0, n-1), errBodyLimit
	}
	return n, err
}

// cause returns the stallError that caused an error of the request or its body, or the error itself.
func (w *watch) cause(err error) error {
	if s, ok := errors.AsType[stallError](context.Cause(w.ctx)); ok {
		return s
	}
	return err
}

// close stops the watch and releases the connection.
func (w *watch) close() {
	w.timer.Stop()
	if w.body != nil {
		_ = w.body.Close()
	}
	w.cancel(nil)
}

// events returns the data of every server-sent event until the stream ends or fails. It accepts LF and CRLF, comments,
// events without a blank line between them, and JSON lines without a field name.
func events(r *bufio.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if mark, _ := r.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
			_, _ = r.Discard(len(byteOrderMark))
		}
		var event []byte
		for {
			line, err := r.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				yield(nil, err) // an event that a broken connection interrupted is dropped
				return
			}
			line = bytes.TrimRight(line, "\r\n")
			data, isData := parseData(line)
			// Two data lines are two events if the first is complete on its own.
			if len(event) > 0 && (len(line) == 0 || isData && (isDone(event) || json.Valid(event))) {
				if !yield(event, nil) {
					return
				}
				event = nil
			}
			if isData && len(event) > 0 {
				event = append(event, '\n')
			}
			event = append(event, data...)
			if err != nil {
				if len(event) > 0 {
					yield(event, nil)
				}
				return
			}
		}
	}
}

// byteOrderMark may precede a stream.
const byteOrderMark = "\xef\xbb\xbf"

// parseData returns the data in a line of an event stream.
func parseData(line []byte) ([]byte, bool) {
	if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		return bytes.TrimPrefix(rest, []byte(" ")), true
	}
	if len(line) > 0 && line[0] == '{' {
		return line, true
	}
	return nil, false
}

func isDone(data []byte) bool {
	return string(bytes.TrimSpace(data)) == "[DONE]"
}
