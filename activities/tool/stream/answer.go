package stream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"weft/activities/tool/questions"
)

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
