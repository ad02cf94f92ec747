package stream_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"weft/activities/tool/stream"
)

// TestListener checks that the stream of a session is open while calls are in progress, is resumed when it ends, and is not
// requested again from servers without one.
func TestListener(t *testing.T) {
	for name, tc := range map[string]struct {
		// serve answers the n-th request, from 1 on.
		serve func(w http.ResponseWriter, r *http.Request, n int)
		calls int
		want  []string
	}{
		"none": {serve: func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusMethodNotAllowed) }, calls: 3, want: []string{"s1"}},
		"another worker has it": {serve: func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusConflict) }, calls: 2,
			want: []string{"s1", "s1"}},
		"it ends and goes on": {serve: func(w http.ResponseWriter, r *http.Request, n int) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "retry: 1\nid: e%d\ndata: {}\n\n", n)
			w.(http.Flusher).Flush()
			if n == 2 {
				<-r.Context().Done()
			}
		}, calls: 1, want: []string{"s1", "s1 e1"}},
		"it is late": {serve: func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }, calls: 1, want: []string{"s1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var got []string
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				id := r.Header.Get("Mcp-Session-Id")
				if last := r.Header.Get("Last-Event-ID"); last != "" {
					id += " " + last
				}
				got = append(got, id)
				n := len(got)
				mu.Unlock()
				tc.serve(w, r, n)
			}))
			defer web.Close()
			requests := func() []string {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(got)
			}
			l := &stream.Listener{Client: web.Client(), URL: web.URL}
			for range tc.calls {
				done := l.Listen(t.Context(), http.Header{"Mcp-Session-Id": {"s1"}})
				again := l.Listen(t.Context(), http.Header{"Mcp-Session-Id": {"s1"}}) // beside it: there is one stream
				for i := 0; name == "it ends and goes on" && len(requests()) < 2 && i < 500; i++ {
					time.Sleep(10 * time.Millisecond)
				}
				done()
				again()
			}
			if g := requests(); !slices.Equal(g, tc.want) {
				t.Errorf("the server was asked %q, want %q", g, tc.want)
			}
		})
	}
}
