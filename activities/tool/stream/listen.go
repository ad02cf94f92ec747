package stream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"weft/activities/tool/serverrequest"
)

const (
	// openTimeout is how long a call waits for its session's stream. Some servers do not respond before the first event.
	openTimeout = time.Second
	// defaultPause is the delay before the stream is reopened; a server may request another, within these bounds.
	defaultPause, minPause, maxPause = time.Second, 100 * time.Millisecond, 30 * time.Second
)

// Listener keeps the stream of a session open, in which the server may send requests outside of response streams. It is open only
// while calls are in progress, because a server has one stream per session, and other workers may make calls in the same session.
// Client's transport handles the events.
type Listener struct {
	Client *http.Client
	URL    string

	mu     sync.Mutex
	calls  int
	end    context.CancelFunc
	opened chan struct{}
	// unsupported means that the server has no such stream; slow, that it does not respond until there is an event.
	unsupported, slow bool
}

// Listen keeps the stream of the session in header open until done is called, unless the server does not support it.
func (l *Listener) Listen(ctx context.Context, header http.Header) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unsupported {
		return func() {}
	}
	if l.calls++; l.calls == 1 {
		var lifetime context.Context
		lifetime, l.end = context.WithCancel(context.Background())
		opened := make(chan struct{})
		l.opened = opened
		go l.read(lifetime, header, sync.OnceFunc(func() { close(opened) }))
	}
	if opened := l.opened; !l.slow {
		l.mu.Unlock()
		slow := false
		select {
		case <-opened:
		case <-ctx.Done():
		case <-time.After(openTimeout):
			slow = true
		}
		l.mu.Lock()
		l.slow = l.slow || slow
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.calls--; l.calls == 0 {
			l.end()
		}
	}
}

// read reads the stream until ctx is done, and reopens it when it ends.
func (l *Listener) read(ctx context.Context, header http.Header, opened func()) {
	defer opened()
	last := ""
	for ctx.Err() == nil {
		pause := defaultPause
		resp, err := l.open(ctx, header, last)
		if err == nil {
			media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
			switch s := resp.StatusCode; {
			case s == http.StatusOK && media == "text/event-stream":
				opened()
				last, pause = drain(resp.Body, last)
			case s < http.StatusInternalServerError && s != http.StatusConflict && s != http.StatusTooManyRequests:
				resp.Body.Close()
				l.mu.Lock()
				defer l.mu.Unlock()
				l.unsupported = true
				return
			}
			resp.Body.Close()
		}
		opened()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (l *Listener) open(ctx context.Context, header http.Header, last string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.URL, nil)
	if err != nil {
		return nil, err
	}
	copyHeaders(req.Header, header)
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	return l.Client.Do(req)
}

// drain reads a stream to its end. It returns the id of the last event and the delay before the stream is reopened.
func drain(body io.Reader, last string) (string, time.Duration) {
	pause := defaultPause
	r := bufio.NewReader(body)
	for lineStart := true; ; {
		line, err := r.ReadSlice('\n')
		if id, ok := bytes.CutPrefix(line, []byte("id:")); ok && lineStart && err == nil {
			last = string(bytes.TrimSpace(id))
		}
		if ms, ok := bytes.CutPrefix(line, []byte("retry:")); ok && lineStart {
			if n, err := strconv.Atoi(string(bytes.TrimSpace(ms))); err == nil {
				pause = min(max(time.Duration(n)*time.Millisecond, minPause), maxPause)
			}
		}
		if lineStart = err == nil; !lineStart && !errors.Is(err, bufio.ErrBufferFull) {
			return last, pause
		}
	}
}

const (
	// answerTimeout limits the time to send an answer to a server.
	answerTimeout = 2 * time.Second
	// maxDiscarded limits how much of the response to an answer is read, so that the connection can be reused.
	maxDiscarded = 64 << 10
)

// sessionHeaders are the headers that assign a request to a session.
var sessionHeaders = []string{"Mcp-Session-Id", "Mcp-Protocol-Version"}

// Answer sends the answer to a request q that a server sent in a stream. ctx and header are those of the client's request that
// opened the stream; to is the URL for answers. Errors of sending are ignored.
func Answer(ctx context.Context, requests *serverrequest.Server, q serverrequest.Request, c *http.Client, to string, header http.Header) {
	text := requests.Answer(ctx, &q)
	if text == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	_ = Send(ctx, c, to, header, text)
}

// Send sends a message to a server's endpoint. It fails if the message was not delivered or the status is 500 or above; it
// ignores other statuses and the response body.
func Send(ctx context.Context, c *http.Client, to string, header http.Header, message []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(message))
	if err != nil {
		return err
	}
	copyHeaders(req.Header, header)
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxDiscarded))
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

func copyHeaders(to, from http.Header) {
	for _, name := range sessionHeaders {
		if v := from.Get(name); v != "" {
			to.Set(name, v)
		}
	}
}
