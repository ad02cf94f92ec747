package tool

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

func TestHTTPStatuses(t *testing.T) {
	tests := map[string]struct {
		status int
		class  string
		text   string
	}{
		"unauthorized":         {401, contract.ClassDenied, "connections.c.headers"},
		"forbidden":            {403, contract.ClassDenied, "403"},
		"payment required":     {402, contract.ClassQuotaExceeded, "402"},
		"rate limited":         {429, contract.ClassRateLimited, "429"},
		"server error":         {500, contract.ClassUnavailable, "500 Internal Server Error: sorry"},
		"unavailable":          {503, contract.ClassUnavailable, "503"},
		"gateway timeout":      {504, contract.ClassTimeout, "504"},
		"request too large":    {413, contract.ClassTooLarge, "413"},
		"unknown client error": {418, contract.ClassBadRequest, "418"},
		"JSON-RPC body":        {500, contract.ClassUnavailable, "500"},
		"empty JSON body":      {503, contract.ClassUnavailable, "503"},
	}
	bodies := map[string]string{"JSON-RPC body": `{"jsonrpc":"2.0","id":1,"error":"boom"}`, "empty JSON body": `{}`}
	for name, tc := range tests {
		for _, when := range []string{"during a call", "during initialization"} {
			t.Run(name+" "+when, func(t *testing.T) {
				deny := func(w http.ResponseWriter) {
					w.Header().Set("Retry-After", "7")
					w.WriteHeader(tc.status)
					body := bodies[name]
					if body == "" {
						body = "sorry"
					}
					fmt.Fprint(w, body)
				}
				l := &legacy{onCall: func(w http.ResponseWriter, _ json.RawMessage, _ int) { deny(w) }}
				if when == "during initialization" {
					l.onInit = func(w http.ResponseWriter) bool { deny(w); return true }
				}
				_, _, err := resultText(open(t, Connection{URL: start(t, l).URL}).Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
				f := wantFailure(t, err, tc.class, tc.text)
				wait := time.Duration(0)
				if tc.class == contract.ClassRateLimited || tc.class == contract.ClassUnavailable {
					wait = 7 * time.Second
				}
				if f.After != wait {
					t.Errorf("After is %s, want %s", f.After, wait)
				}
				if _, calls := l.counts(); calls > 1 {
					t.Errorf("%d calls, want at most 1", calls)
				}
			})
		}
	}
}

// TestHostCheck covers servers that reject the host name of a request, to prevent DNS rebinding. Other refusals
// that mention a host are about credentials.
func TestHostCheck(t *testing.T) {
	json := func(text string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":-32000,"message":%q},"id":null}`, text)
	}
	for body, tc := range map[string]struct {
		status int
		host   string
	}{
		"Access is only allowed at localhost:8931": {403, "localhost:8931"}, "Access is only allowed at a.example:80, b.example:80": {403, "a.example:80"},
		json("Invalid Host header: x"): {status: 403}, json("Invalid Host: 127.0.0.1:3000"): {status: 403}, "Invalid Origin header": {status: 403}, json("Missing Host header"): {status: 403},
		"Invalid Host header": {status: 421}, "Forbidden: Host header is not allowed": {status: 403}, "Origin not allowed": {status: 403},
		`Blocked request. This host ("x.example") is not allowed.`: {status: 403},
	} {
		for _, supplied := range []bool{false, true} {
			web := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, tc.status) }))
			own, host := Connection{URL: web.URL + "/mcp"}, strings.TrimPrefix(web.URL, "http://")
			c, url := plan.Connection{ID: connection}, "connections."+connection+".url in weft.yaml"
			if supplied {
				c, url = plan.Connection{ID: "theirs", URL: own.URL}, `url of the connection "theirs" in the flow`
			}
			_, err := open(t, own).List(withTimeout(t, time.Minute), c)
			f := wantFailure(t, err, contract.ClassConnection, "allow the host "+host)
			if strings.Contains(f.Remedy, "credentials") {
				t.Errorf("remedy is %q", f.Remedy)
			}
			if want := fmt.Sprintf("set %s to http://%s/mcp", url, tc.host); tc.host != "" && !strings.Contains(f.Remedy, want) {
				t.Errorf("remedy is %q, want %q", f.Remedy, want)
			}
		}
	}
	for _, body := range []string{"", "host your own server", "<!doctype html><title>403</title><p>Ask the host of this site for access", "API key is missing for host web.example"} {
		web := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, http.StatusForbidden) }))
		_, err := open(t, Connection{URL: web.URL}).List(withTimeout(t, time.Minute), plan.Connection{ID: connection})
		wantFailure(t, err, contract.ClassDenied, "set the credentials")
	}
}

func TestEventStreamStatus(t *testing.T) {
	tests := map[string]struct {
		status int
		class  string
	}{
		"401": {401, contract.ClassDenied}, "429": {429, contract.ClassRateLimited},
		"500": {500, contract.ClassUnavailable}, "405": {405, contract.ClassConnection},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tc.status) }))
			_, err := open(t, Connection{URL: s.URL, Transport: TransportSSE}).List(withTimeout(t, time.Minute), plan.Connection{ID: connection})
			wantFailure(t, err, tc.class, name)
		})
	}
}

func TestLostSession(t *testing.T) {
	tests := map[string]func(http.ResponseWriter){
		"404": nil,
		"400 with text": func(w http.ResponseWriter) {
			http.Error(w, "Bad Request: No valid session ID provided", http.StatusBadRequest)
		},
		"400 with a JSON-RPC error": func(w http.ResponseWriter) { reply400(w, []byte("1"), -32000, "Bad Request: Session not found") },
	}
	for name, respond := range tests {
		t.Run(name, func(t *testing.T) {
			l := &legacy{lost: respond}
			tools := open(t, Connection{URL: start(t, l).URL})
			mustCall(t, tools, "x", `{}`)
			l.remove()
			if text := mustCall(t, tools, "x", `{}`); text != "ok" {
				t.Errorf("got %q", text)
			}
			if sessions, calls := l.counts(); sessions != 2 || calls != 2 {
				t.Errorf("%d sessions and %d calls, want 2 and 2", sessions, calls)
			}
		})
	}
}

func TestSessionLostRepeatedly(t *testing.T) {
	l := &legacy{onCall: func(w http.ResponseWriter, _ json.RawMessage, _ int) { w.WriteHeader(404) }}
	_, _, err := resultText(open(t, Connection{URL: start(t, l).URL}).Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
	f := err.(*contract.Failure)
	if _, calls := l.counts(); calls != 2 || f.Class != contract.ClassConnection && f.Class != contract.ClassUnavailable {
		t.Errorf("%d calls, failure %v", calls, f)
	}
}

// TestNoHiddenRetry checks that a call is not repeated if a reused connection breaks: Go's transport repeats such
// requests by itself if they look idempotent.
func TestNoHiddenRetry(t *testing.T) {
	l := &legacy{}
	l.onCall = func(w http.ResponseWriter, id json.RawMessage, n int) {
		if n == 1 {
			result(w, id, `{"content":[]}`)
			return
		}
		panic(http.ErrAbortHandler)
	}
	tools := open(t, Connection{URL: start(t, l).URL})
	mustCall(t, tools, "x", `{}`)
	_, _, err := resultText(tools.Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{IdempotencyKey: "k"}))
	wantFailure(t, err, contract.ClassUnavailable)
	if _, calls := l.counts(); calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}

func TestCredentials(t *testing.T) {
	const key = "sk-very-secret-0123456789"
	l := &legacy{list: `{"tools":[]}`, onCall: func(w http.ResponseWriter, id json.RawMessage, n int) {
		if n == 1 {
			result(w, id, `{"content":[{"type":"text","text":"your key is `+key+`"}]}`)
			return
		}
		http.Error(w, "bad key "+key+" in "+strings.Repeat("-", 2000), http.StatusForbidden)
	}}
	tools := open(t, Connection{URL: start(t, l).URL + "?token=another-secret", Headers: map[string]string{"Authorization": "Bearer " + key}})
	if text := mustCall(t, tools, "x", `{}`); text != "your key is [secret]" {
		t.Errorf("result is %q", text)
	}
	_, _, err := resultText(tools.Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
	f := wantFailure(t, err, contract.ClassDenied, "bad key [secret]")
	if strings.Contains(f.Error(), key) || strings.Contains(f.Error(), "another-secret") || len(f.Text) > 1000 {
		t.Errorf("failure is %q", f.Error())
	}
	tools.Close()
	for _, r := range l.requests() {
		if !strings.HasSuffix(r, "Bearer "+key) {
			t.Errorf("request %q has no credentials", r)
		}
	}
	if all := strings.Join(l.requests(), "\n"); strings.Contains(all, "DELETE") {
		t.Errorf("session was deleted, though runs may continue it on other workers:\n%s", all)
	}
}

func TestRedirectRefused(t *testing.T) {
	for _, transport := range []string{TransportHTTP, TransportSSE} {
		t.Run(transport, func(t *testing.T) {
			var requests int
			other := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests++ }))
			s := start(t, http.RedirectHandler(other.URL+"/stolen?x=1", http.StatusTemporaryRedirect))
			tools := open(t, Connection{Transport: transport, URL: s.URL, Headers: map[string]string{"X-Api-Key": "sk-0123456789"}})
			_, _, err := resultText(tools.Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
			wantFailure(t, err, contract.ClassConnection, "redirects to "+other.URL+"/stolen", "not followed")
			if requests != 0 {
				t.Errorf("the other server received %d requests", requests)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	for _, transport := range []string{TransportHTTP, TransportSSE} {
		_, _, err := resultText(open(t, Connection{Transport: transport, URL: s.URL + "/?key=sk-0123456789"}).Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
		f := wantFailure(t, err, contract.ClassUnavailable, "connection refused")
		if strings.Contains(f.Error(), "sk-0123456789") {
			t.Errorf("failure is %q", f.Error())
		}
	}
}

func TestInvalidTransport(t *testing.T) {
	sse := overSSE(t, nil)
	sse.Transport = TransportHTTP
	_, _, err := resultText(open(t, sse).Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
	wantFailure(t, err, contract.ClassConnection, "no MCP server responds over http", "connections.c.transport: sse")
	// The address serves an HTML page.
	page := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<html>Welcome</html>")
	}))
	for _, transport := range []string{TransportHTTP, TransportSSE} {
		_, _, err := resultText(open(t, Connection{URL: page.URL, Transport: transport, ConnectTimeout: time.Hour}).Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
		wantFailure(t, err, contract.ClassConnection, "no MCP server responds over "+transport+": ", "unexpected content type: text/html", "check the path of the url")
	}
}

func TestInvalidResponses(t *testing.T) {
	tests := map[string]struct {
		list  string
		call  string
		class string
		text  string
	}{
		"null result":         {call: `null`, class: contract.ClassUnavailable},
		"string result":       {call: `"x"`, class: contract.ClassBadRequest, text: "cannot unmarshal"},
		"object as content":   {call: `{"content":{}}`, class: contract.ClassBadRequest, text: "cannot unmarshal"},
		"number as tool list": {list: `1`, class: contract.ClassBadRequest, text: "tools/list"},
		"tool without a name": {list: `{"tools":[{"inputSchema":{}}]}`, class: contract.ClassBadRequest, text: "without a name"},
		"list as schema":      {list: `{"tools":[{"name":"a","inputSchema":[]}]}`, class: contract.ClassBadRequest, text: `tool "a" must be an object, got []`},
		"repeated cursor":     {list: `{"tools":[],"nextCursor":"x"}`, class: contract.ClassBadRequest, text: `repeats the cursor "x"`},
		"oversized schemas": {list: `{"tools":[{"name":"a","description":"` + strings.Repeat("d", 2_000_000) + `","inputSchema":{}}]}`,
			class: contract.ClassTooLarge, text: "split the server"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := &legacy{list: tc.list, onCall: func(w http.ResponseWriter, id json.RawMessage, _ int) { result(w, id, tc.call) }}
			tools := open(t, Connection{URL: start(t, l).URL})
			var err error
			if tc.list != "" {
				_, err = tools.List(withTimeout(t, time.Minute), plan.Connection{ID: connection})
			} else {
				_, _, err = resultText(tools.Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
			}
			wantFailure(t, err, tc.class, tc.text)
		})
	}
}

func TestUnusualSchemas(t *testing.T) {
	l := &legacy{list: `{"tools":[{"name":"b","title":"B","inputSchema":{"type":"object", "properties":[]}},{"name":"a"},{"name":"b"}]}`}
	specs, err := open(t, Connection{URL: start(t, l).URL}).List(withTimeout(t, time.Minute), plan.Connection{ID: connection})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(specs)
	want := `[{"name":"a","schema":{"type":"object"}},{"name":"b","description":"B","schema":{"type":"object","properties":[]}}]`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestResumeAfterSessionLoss checks a server that ends the response stream early and then loses the session. It had accepted
// the call, which must therefore not be repeated in a new session.
func TestResumeAfterSessionLoss(t *testing.T) {
	for name, resume := range map[string]http.HandlerFunc{
		"session not found":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "session not found", http.StatusNotFound) },
		"unknown session":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "unknown session", http.StatusBadRequest) },
		"resume not supported": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"connection reset":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			l := &legacy{}
			l.onCall = func(w http.ResponseWriter, _ json.RawMessage, _ int) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "id: 1\nretry: 10\ndata:\n\n")
			}
			s := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					resume(w, r)
					return
				}
				l.ServeHTTP(w, r)
			}))
			_, _, err := resultText(open(t, Connection{URL: s.URL}).Call(withTimeout(t, time.Minute), call("x", `{}`), Meta{}))
			wantFailure(t, err, contract.ClassUnavailable, "the response stream ended early")
			if _, calls := l.counts(); calls != 1 {
				t.Errorf("%d calls, want 1", calls)
			}
		})
	}
}
