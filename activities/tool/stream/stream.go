// Package stream reads the event streams of MCP servers: those of answers, and the one of a session.
//
// A server can send requests to its client in any of them, mostly pings. The library does not answer them, and takes one for the
// answer to its own request of the same number. So they are removed from the stream.
package stream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"weft/activities/tool/questions"
)

// ErrTooLarge means that an event was longer than is read.
var ErrTooLarge = errors.New("a message of the server is too large")

// Events is an event stream whose events are bounded, without those that are taken.
type Events struct {
	io.ReadCloser
	// Resumable: the stream is one of an answer. The library resumes those that end, and not those that break off.
	Resumable bool
	// TooLarge, if set, is called where an event is too large.
	TooLarge func()
	// Take, if set, is given each event. One for which it returns true is left out.
	Take func(event []byte) bool

	r     *bufio.Reader
	limit int
	rest  []byte // of the event that is being handed out
	err   error  // how the stream ended
}

// New bounds each event of a body.
func New(body io.ReadCloser, limit int) *Events {
	return &Events{ReadCloser: body, r: bufio.NewReader(body), limit: limit}
}

// Read hands out whole events.
func (a *Events) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		if a.rest, a.err = a.event(); a.Resumable && a.err != nil && !errors.Is(a.err, io.EOF) && !errors.Is(a.err, ErrTooLarge) {
			a.rest, a.err = nil, io.EOF
		}
		if a.Take != nil && a.Take(a.rest) {
			a.rest = withoutData(a.rest)
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// event reads up to the empty line behind an event, or to the end of the stream.
func (a *Events) event() ([]byte, error) {
	var event []byte
	line := 0 // where the last one begins
	for {
		part, err := a.r.ReadSlice('\n')
		event = append(event, part...)
		switch {
		case len(event) > a.limit:
			if a.TooLarge != nil {
				a.TooLarge()
			}
			return nil, ErrTooLarge
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil || len(bytes.TrimRight(event[line:], "\r\n")) == 0:
			return event, err
		}
		line = len(event)
	}
}

// Message reads an event that is a request of the server's, or without an id a notification.
func Message(event []byte) (q questions.Request, ok bool) {
	if !bytes.Contains(event, []byte(`"method"`)) {
		return q, false
	}
	name, data := Fields(event)
	if name != "" && name != "message" || json.Unmarshal(data, &q) != nil {
		return q, false
	}
	if string(q.ID) == "null" {
		q.ID = nil
	}
	return q, q.Method != ""
}

// Fields are an event's name and data.
func Fields(event []byte) (name string, data []byte) {
	for line := range bytes.Lines(event) {
		if part, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, part...)
		} else if part, ok := bytes.CutPrefix(line, []byte("event:")); ok {
			name = string(bytes.TrimSpace(part))
		}
	}
	return name, data
}

// withoutData is what stays of an event that was taken: where the stream is to be resumed.
func withoutData(event []byte) (rest []byte) {
	for line := range bytes.Lines(event) {
		if bytes.HasPrefix(line, []byte("id:")) || bytes.HasPrefix(line, []byte("retry:")) {
			rest = append(rest, line...)
		}
	}
	if rest != nil {
		rest = append(rest, '\n')
	}
	return rest
}
