package tool

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestServerAsksInACall has a server ask its client in the stream of an answer. It is refused at once, so that the call goes on.
func TestServerAsksInACall(t *testing.T) {
	for _, method := range []string{"elicitation/create", "sampling/createMessage", "roots/list"} {
		t.Run(method, func(t *testing.T) {
			answers := make(chan string, 1)
			l := &legacy{onCall: func(w http.ResponseWriter, id json.RawMessage, _ int) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":77,\"method\":%q,\"params\":{\"message\":\"?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{}},\"messages\":[],\"maxTokens\":1}}\n\n", method)
				w.(http.Flusher).Flush()
				text := "nobody answers"
				select {
				case text = <-answers:
				case <-time.After(10 * time.Second):
				}
				text, _ = strings.CutPrefix(text, " ")
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":%q}]}}\n\n", id, text)
			}}
			web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), `"id":77`) {
					answers <- string(body)
					w.WriteHeader(http.StatusAccepted)
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
				l.ServeHTTP(w, r)
			}))
			if text := must(t, open(t, Connection{URL: web.URL}), "x", `{}`); !strings.Contains(text, `"error"`) {
				t.Errorf("the server was answered %q", text)
			}
		})
	}
}
