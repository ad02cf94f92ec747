package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"weft/activities/tool/questions"
	"weft/workflows/plan"
)

// An SSE server can send requests to its client, mostly pings. The library does not answer them, and takes one
// for the answer to its own request of the same number. So they are removed from the stream.

// maxServerRequests is how many may wait to be read; more are dropped.
const maxServerRequests = 64

// events is an event stream whose events are bounded, without those that are taken.
type events struct {
	io.ReadCloser
	r     *bufio.Reader
	limit int
	ex    *exchange
	rest  []byte // of the event that is being handed out
	err   error  // how the stream ended
	take  func(event []byte) bool
	// resumable: the stream is one of an answer. The library resumes those that end, and not those that break off.
	resumable bool
}

// newEvents bounds each event of a body. An event for which take, which may be nil, returns true is left out.
func newEvents(body io.ReadCloser, limit int, ex *exchange, take func(event []byte) bool) *events {
	return &events{ReadCloser: body, r: bufio.NewReader(body), limit: limit, ex: ex, take: take}
}

// Read hands out whole events.
func (a *events) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		if a.rest, a.err = a.event(); a.resumable && a.err != nil && !errors.Is(a.err, io.EOF) && !errors.Is(a.err, errTooLarge) {
			a.rest, a.err = nil, io.EOF
		}
		if a.take != nil && a.take(a.rest) {
			a.rest = withoutData(a.rest)
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// event reads up to the empty line behind an event, or to the end of the stream.
func (a *events) event() ([]byte, error) {
	var event []byte
	line := 0 // where the last one begins
	for {
		part, err := a.r.ReadSlice('\n')
		event = append(event, part...)
		switch {
		case len(event) > a.limit:
			a.ex.note(func() { a.ex.tooLarge = true })
			return nil, errTooLarge
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil || len(bytes.TrimRight(event[line:], "\r\n")) == 0:
			return event, err
		}
		line = len(event)
	}
}

// parseServerRequest reads an event that is a question.
func parseServerRequest(event []byte) (q questions.Request, ok bool) {
	if !bytes.Contains(event, []byte(`"method"`)) {
		return q, false
	}
	name, data := fieldsOf(event)
	if name != "" && name != "message" || json.Unmarshal(data, &q) != nil {
		return q, false
	}
	return q, q.Method != "" && len(q.ID) > 0 && string(q.ID) != "null"
}

// foreignEndpoint reads an endpoint event whose address is invalid or another server's. The library would wait for
// ever.
func foreignEndpoint(event []byte, own string) string {
	if !bytes.Contains(event, []byte("endpoint")) {
		return ""
	}
	name, data := fieldsOf(event)
	base, err := url.Parse(own)
	if name != "endpoint" || err != nil {
		return ""
	}
	to, err := base.Parse(string(bytes.TrimSpace(data)))
	switch {
	case err != nil:
		return "(not a URL)"
	case to.Host == base.Host && plan.Origin(to.String()) == plan.Origin(own): // the library compares the host as it is written
		return ""
	}
	return redactURL(to.String())
}

// fieldsOf are an event's name and data.
func fieldsOf(event []byte) (name string, data []byte) {
	for line := range bytes.Lines(event) {
		if part, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, part...)
		} else if part, ok := bytes.CutPrefix(line, []byte("event:")); ok {
			name = string(bytes.TrimSpace(part))
		}
	}
	return name, data
}

// answerRequest answers a request of a server in the stream of a request of the client, whose context and headers those are.
// A server that does not take an answer is ignored.
func answerRequest(ctx context.Context, by *questions.Server, q questions.Request, c *http.Client, to string, header http.Header) {
	text := by.Answer(ctx, &q)
	if text == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(text))
	if err != nil {
		return
	}
	for _, name := range []string{"Mcp-Session-Id", "Mcp-Protocol-Version"} {
		if v := header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, errorBody)) // so that the connection can be used again
	resp.Body.Close()
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
