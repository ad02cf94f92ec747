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

	"weft/activities/tool/questions"
)

const (
	// patience is how long a call waits for its session's stream. Some servers answer with the first event alone.
	patience = time.Second
	// defaultPause is between the end of the stream and the next one; a server may want another, within these bounds.
	defaultPause, minPause, maxPause = time.Second, 100 * time.Millisecond, 30 * time.Second
)

// Listener reads the stream of a session, in which its server may ask outside of the streams of answers. The stream is open while
// calls are in progress: a server has one for a session, and the session may have calls on other workers, too. What reads the
// events is the client's.
type Listener struct {
	Client *http.Client
	URL    string

	mu     sync.Mutex
	calls  int
	end    context.CancelFunc
	opened chan struct{}
	// absent: the server has no such stream. late: it does not answer until there is an event.
	absent, late bool
}

// Listen has the stream of the session of a header open until done, unless the server has none.
func (l *Listener) Listen(ctx context.Context, header http.Header) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.absent {
		return func() {}
	}
	if l.calls++; l.calls == 1 {
		var life context.Context
		life, l.end = context.WithCancel(context.Background())
		opened := make(chan struct{})
		l.opened = opened
		go l.read(life, header, sync.OnceFunc(func() { close(opened) }))
	}
	if opened := l.opened; !l.late {
		l.mu.Unlock()
		late := false
		select {
		case <-opened:
		case <-ctx.Done():
		case <-time.After(patience):
			late = true
		}
		l.mu.Lock()
		l.late = l.late || late
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.calls--; l.calls == 0 {
			l.end()
		}
	}
}

// read reads the stream, and the one after it, until ctx is done.
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
				l.absent = true
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

// drain reads a stream to its end. It returns where the next one goes on, and when.
func drain(body io.Reader, last string) (string, time.Duration) {
	pause := defaultPause
	r := bufio.NewReader(body)
	for whole := true; ; {
		line, err := r.ReadSlice('\n')
		if id, ok := bytes.CutPrefix(line, []byte("id:")); ok && whole && err == nil {
			last = string(bytes.TrimSpace(id))
		}
		if ms, ok := bytes.CutPrefix(line, []byte("retry:")); ok && whole {
			if n, err := strconv.Atoi(string(bytes.TrimSpace(ms))); err == nil {
				pause = min(max(time.Duration(n)*time.Millisecond, minPause), maxPause)
			}
		}
		if whole = err == nil; !whole && !errors.Is(err, bufio.ErrBufferFull) {
			return last, pause
		}
	}
}

const (
	// answerTimeout bounds how long a server has to take an answer.
	answerTimeout = 2 * time.Second
	// maxIgnored bounds what is read of what a server says to an answer, so that the connection can be used again.
	maxIgnored = 64 << 10
)

// session are the headers that say to which session a request belongs.
var session = []string{"Mcp-Session-Id", "Mcp-Protocol-Version"}

// Answer answers a request of a server that came in the stream of a request of the client, whose context and headers those are.
// A server that does not take an answer is ignored.
func Answer(ctx context.Context, by *questions.Server, q questions.Request, c *http.Client, to string, header http.Header) {
	text := by.Answer(ctx, &q)
	if text == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	_ = Send(ctx, c, to, header, text)
}

// Send sends a message to a server's endpoint. Its error says that the server did not get it; what the server says to it is no error.
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
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxIgnored))
	if resp.StatusCode >= http.StatusInternalServerError {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

func copyHeaders(to, from http.Header) {
	for _, name := range session {
		if v := from.Get(name); v != "" {
			to.Set(name, v)
		}
	}
}
