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

var errBodyLimit = errors.New("answer is too long")

// stalled says how long a provider sent nothing.
type stalled string

func (s stalled) Error() string { return string(s) }

// watch cancels a call whose provider sends nothing for too long, streaming or not.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
	header http.Header
	body   io.ReadCloser
	left   int64 // bytes that the body may still have
	read   bool
}

// newWatch starts to wait for the first byte.
func newWatch(ctx context.Context, first, idle time.Duration) *watch {
	w := &watch{idle: idle}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(first, func() { w.cancel(stalled(fmt.Sprintf("no answer: no byte within %s", first))) })
	return w
}

// Read reads the body. Time counts only while it waits for the provider.
func (w *watch) Read(p []byte) (int, error) {
	if w.read {
		idle := w.idle
		w.timer.Stop()
		w.timer = time.AfterFunc(idle, func() { w.cancel(stalled(fmt.Sprintf("the answer stopped: no byte for %s", idle))) })
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
	if s, ok := errors.AsType[stalled](context.Cause(w.ctx)); ok {
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

// events are the data of every server-sent event, until the stream ends or breaks. It accepts LF and CRLF, comments, events
// without a blank line between them, and JSON lines without a field name.
func events(r *bufio.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if mark, _ := r.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
			_, _ = r.Discard(len(byteOrderMark))
		}
		var event []byte
		for {
			line, err := r.ReadBytes('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				yield(nil, err) // what came before a broken connection is no event, whole or not
				return
			}
			line = bytes.TrimRight(line, "\r\n")
			data, isData := dataOf(line)
			// Two data lines are two events where the first is complete by itself.
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

// byteOrderMark may stand before a stream.
const byteOrderMark = "\xef\xbb\xbf"

// dataOf is the data in a line of an event stream.
func dataOf(line []byte) ([]byte, bool) {
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
