package tool

import (
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// longestWait bounds what a server may ask us to wait.
const longestWait = time.Hour

// limitedBody bounds a body: all of it, or each event of a stream that lives long.
type limitedBody struct {
	io.ReadCloser
	left, limit int
	events      bool
	blank       bool // at the beginning of a line
	ex          *exchange
}

// Read fails with errTooLarge once the limit is passed.
func (l *limitedBody) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	for _, b := range p[:n] {
		l.left--
		if l.events {
			l.event(b)
		}
		if l.left < 0 {
			l.ex.mu.Lock()
			l.ex.tooLarge = true
			l.ex.mu.Unlock()
			return 0, errTooLarge
		}
	}
	return n, err
}

// event gives an event that begins, after an empty line, the whole limit again.
func (l *limitedBody) event(b byte) {
	switch b {
	case '\n':
		if l.blank {
			l.left = l.limit
		}
		l.blank = true
	case '\r':
	default:
		l.blank = false
	}
}

func isEventStream(contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType)
	return media == "text/event-stream"
}

// retryAfter reads the header, seconds or a date; 0 if it is absent, past or invalid.
func retryAfter(value string, now time.Time) time.Duration {
	var d time.Duration
	if s, err := strconv.Atoi(value); err == nil {
		d = time.Duration(min(max(s, 0), int(longestWait/time.Second))) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), longestWait)
}
