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
		// serve responds to the n-th request, counted from 1.
		serve func(w http.ResponseWriter, r *http.Request, n int)
		calls int
		want  []string
	}{
		"stream not supported": {serve: func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusMethodNotAllowed) }, calls: 3, want: []string{"s1"}},
		"conflict with another worker": {serve: func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusConflict) }, calls: 2,
			want: []string{"s1", "s1"}},
		"resumed after its end": {serve: func(w http.ResponseWriter, r *http.Request, n int) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "retry: 1\nid: e%d\ndata: {}\n\n", n)
			w.(http.Flusher).Flush()
			if n == 2 {
				<-r.Context().Done()
			}
		}, calls: 1, want: []string{"s1", "s1 e1"}},
		"no response headers": {serve: func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }, calls: 1, want: []string{"s1"}},
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
				second := l.Listen(t.Context(), http.Header{"Mcp-Session-Id": {"s1"}}) // concurrent: shares the stream
				for i := 0; name == "resumed after its end" && len(requests()) < 2 && i < 500; i++ {
					time.Sleep(10 * time.Millisecond)
				}
				done()
				second()
			}
			if g := requests(); !slices.Equal(g, tc.want) {
				t.Errorf("requests are %q, want %q", g, tc.want)
			}
		})
	}
}
