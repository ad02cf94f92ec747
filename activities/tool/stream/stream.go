// Package stream reads the event streams of MCP servers: response streams and the stream of a session.
//
// A server can send requests to its client in any of them, mostly pings. The library does not answer them, and mistakes them for
// the response to its own request with the same id. Therefore they are removed from the stream.
package stream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"weft/activities/tool/serverrequest"
)

// ErrTooLarge means that a message exceeds the size limit.
var ErrTooLarge = errors.New("a message of the server is too large")

// Events is an event stream that limits the size of events and can omit some of them.
type Events struct {
	io.ReadCloser
	// Resumable means that a broken stream ends with io.EOF. The library resumes it then, but not after other errors.
	Resumable bool
	// TooLarge, if set, is called when an event is too large.
	TooLarge func()
	// Intercept, if set, is called with each event. Events for which it returns true are omitted.
	Intercept func(event []byte) bool

	r      *bufio.Reader
	limit  int
	unread []byte // rest of the current event
	err    error  // how the stream ended
}

// New returns the event stream in a body. Each event has at most limit bytes.
func New(body io.ReadCloser, limit int) *Events {
	return &Events{ReadCloser: body, r: bufio.NewReader(body), limit: limit}
}

// Read returns only complete events.
func (a *Events) Read(p []byte) (int, error) {
	for len(a.unread) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		if a.unread, a.err = a.event(); a.Resumable && a.err != nil && !errors.Is(a.err, io.EOF) && !errors.Is(a.err, ErrTooLarge) {
			a.unread, a.err = nil, io.EOF
		}
		if a.Intercept != nil && a.Intercept(a.unread) {
			a.unread = withoutData(a.unread)
		}
	}
	n := copy(p, a.unread)
	a.unread = a.unread[n:]
	return n, nil
}

// event reads up to and including the empty line after an event, or to the end of the stream.
func (a *Events) event() ([]byte, error) {
	var event []byte
	line := 0 // start of the last line
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

// ParseRequest parses an event with a request of the server or, if it has no id, a notification.
func ParseRequest(event []byte) (q serverrequest.Request, ok bool) {
	if !bytes.Contains(event, []byte(`"method"`)) {
		return q, false
	}
	name, data := ParseEvent(event)
	if name != "" && name != "message" || json.Unmarshal(data, &q) != nil {
		return q, false
	}
	if string(q.ID) == "null" {
		q.ID = nil
	}
	return q, q.Method != ""
}

// ParseEvent returns an event's name and data.
func ParseEvent(event []byte) (name string, data []byte) {
	for line := range bytes.Lines(event) {
		if part, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, part...)
		} else if part, ok := bytes.CutPrefix(line, []byte("event:")); ok {
			name = string(bytes.TrimSpace(part))
		}
	}
	return name, data
}

// withoutData returns the fields of an omitted event that are required to resume the stream.
func withoutData(event []byte) (fields []byte) {
	for line := range bytes.Lines(event) {
		if bytes.HasPrefix(line, []byte("id:")) || bytes.HasPrefix(line, []byte("retry:")) {
			fields = append(fields, line...)
		}
	}
	if fields != nil {
		fields = append(fields, '\n')
	}
	return fields
}
