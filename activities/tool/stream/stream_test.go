package stream_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weft/activities/tool/serverrequest"
	"weft/activities/tool/stream"
)

// TestInterceptRequests checks that requests, and only they, are removed from a stream, and that Answer returns if the server does not respond.
func TestInterceptRequests(t *testing.T) {
	text := strings.Repeat("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n", 200) + ": a note\n\nevent: message\ndata: {\"id\":1,\"result\":{}}\n\n"
	var got []serverrequest.Request
	events := stream.New(io.NopCloser(strings.NewReader(text+"data: cut")), 1000)
	events.Intercept = func(event []byte) bool {
		q, ok := stream.ParseRequest(event)
		if ok {
			got = append(got, q)
		}
		return ok
	}
	out, err := io.ReadAll(events)
	if want := ": a note\n\nevent: message\ndata: {\"id\":1,\"result\":{}}\n\ndata: cut"; err != nil || string(out) != want {
		t.Errorf("rest of the stream is %q, %v; want %q", out, err, want)
	}
	if len(got) != 200 || got[0].Method != "ping" || string(got[0].ID) != "1" {
		t.Errorf("%d requests, %+v", len(got), got)
	}
	released := make(chan struct{})
	stalled := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-released:
		case <-r.Context().Done():
		}
	}))
	defer stalled.Close()
	defer close(released)
	stream.Answer(t.Context(), &serverrequest.Server{}, serverrequest.Request{ID: json.RawMessage("1"), Method: "ping"}, stalled.Client(), stalled.URL, nil) // must return
}
