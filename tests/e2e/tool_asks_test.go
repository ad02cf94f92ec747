package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/tests/harness"
	"weft/workflows/plan"
)

// holding is a server of 2025-11-25 whose tool asks a person in the stream of its answer, and holds the call until it has one.
func holding(t *testing.T) string {
	t.Helper()
	answers := make(chan string, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
			Error  json.RawMessage
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case m.Method == "initialize" && strings.Contains(string(body), `"elicitation":{"form":{},"url":{}}`):
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, m.ID)
		case m.Method == "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"book","inputSchema":{"type":"object"}}]}}`, m.ID)
		case m.Method == "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":77,"method":"elicitation/create","params":{"message":"For how many?","requestedSchema":{"type":"object",`+
				`"properties":{"n":{"type":"integer"},"when":{"type":"string","default":"noon"}},"required":["n"]}}}`+"\n\n")
			w.(http.Flusher).Flush()
			select {
			case text := <-answers:
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":%q}]}}\n\n", m.ID, text)
			case <-r.Context().Done():
			}
		case m.Method == "" && string(m.ID) == "77":
			answers <- string(m.Result) + string(m.Error)
			w.WriteHeader(http.StatusAccepted)
		case len(m.ID) > 0:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(web.Close)
	return web.URL + "/mcp"
}

// TestEndToEndToolAsksInACall has a server ask a person while it holds the call.
func TestEndToEndToolAsksInACall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer map[string]any
		hold   int
		died   bool
		want   string
	}{
		"accepted":        {answer: map[string]any{"result": map[string]any{"n": 4}}, want: `{"action":"accept","content":{"n":4,"when":"noon"}}`},
		"declined":        {answer: map[string]any{"error": "we stay at home"}, want: `{"action":"decline"}`},
		"nobody":          {hold: 1, want: "nobody answered in time"},
		"the worker dies": {died: true, want: "outcome unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := holding(t)
			h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("test-%d", time.Now().UnixNano())}
			work := func() (stop func()) {
				tools, err := tool.Open(tool.Settings{Connections: map[string]tool.Connection{"web": {URL: url, TimeoutSeconds: 30, ElicitationSeconds: tc.hold}}})
				if err != nil {
					t.Fatal(err)
				}
				w := harness.RunWorker(t, h.Client, h.Queue, 0, tools)
				return func() { w.Stop(); tools.Close() }
			}
			stop := work()
			f := oneAgent()
			f.Connections = []plan.Connection{{ID: "web"}}
			f.Nodes[0].Agent.Tools = []plan.Tool{{Name: "book", As: "book", Connection: "web"}}
			raw, _ := json.Marshal(tc.want)
			run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: f}, Script: harness.Script(t, `rules:
- {turn: 1, call: [{tool: book}]}
- {contains: `+string(raw)+`, say: done}
- {say: something else}`)})
			if tc.hold == 0 {
				q := h.OpenRequests(t, run.GetID(), 1)[0]
				if q.Kind != contract.RequestToolResult || q.Text != "book asks: For how many?" || q.Tool != "book" {
					t.Errorf("the request is %+v", q)
				}
				if tc.died {
					stop()
					stop = work()
				} else {
					if _, err := h.Update(t, run.GetID(), q.Kind, map[string]any{"id": q.ID, "result": map[string]any{"n": "four"}}); err == nil || !strings.Contains(err.Error(), "integer") {
						t.Errorf("a wrong answer gives %v", err)
					}
					tc.answer["id"] = q.ID
					if _, err := h.Update(t, run.GetID(), q.Kind, tc.answer); err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Cleanup(stop)
			out, err := harness.Result(t, run)
			if err != nil {
				t.Fatal(err)
			}
			if *out.ResultText != "done" {
				t.Errorf("the model said %q", *out.ResultText)
			}
		})
	}
}
