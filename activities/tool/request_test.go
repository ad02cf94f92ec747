package tool

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// echo starts a server that responds with the request it received.
func echo(t *testing.T) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/missing":
			http.NotFound(w, r)
		case "/busy":
			http.Error(w, "later", http.StatusServiceUnavailable)
		case "/private":
			http.Error(w, "who are you?", http.StatusUnauthorized)
		case "/away":
			http.Redirect(w, r, "http://example.com/", http.StatusFound)
		default:
			fmt.Fprintf(w, "%s %s %s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), r.Header.Get("X-A"), r.Header.Get("Idempotency-Key"), body)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestRequest(t *testing.T) {
	const args = `{"city":"a/../b?x=1&y #","n":2,"list":[1,"b"]}`
	tests := map[string]struct {
		q          plan.Request
		args, want string
		isError    bool
		class      string
	}{
		"values are escaped in path and query": {q: plan.Request{Method: "get", Path: "/c/{{city}}?n={{ n }}&c={{city}}", Query: []plan.Header{{Name: "q{{n}}", Value: "{{city}}"}}}, args: args,
			want: "GET /c/a%2F..%2Fb%3Fx=1&y%20%23?n=2&c=a%2F..%2Fb%3Fx%3D1%26y+%23&q2=a%2F..%2Fb%3Fx%3D1%26y+%23    "},
		"parent path in a value":          {q: plan.Request{Method: "GET", Path: "/users/{{id}}/orders"}, args: `{"id":".."}`, want: "a path with ..", isError: true},
		"parent path of two values":       {q: plan.Request{Method: "GET", Path: "/users/{{id}}{{id}}"}, args: `{"id":"."}`, want: "a path with ..", isError: true},
		"value of three dots":             {q: plan.Request{Method: "GET", Path: "/users/{{id}}"}, args: `{"id":"..."}`, want: "GET /users/... "},
		"parent path in the flow's path":  {q: plan.Request{Method: "GET", Path: "/users/../{{id}}"}, args: `{"id":"..."}`, want: "GET /users/../... "},
		"JSON body with lists as strings": {q: plan.Request{Method: "POST", Path: "/", Body: json.RawMessage(`["x",{"{{n}}":"{{list}}","b":true}]`)}, args: args, want: `POST / application/json  key ["x",{"2":"[1, \"b\"]","b":true}]`},
		"form body":                       {q: plan.Request{Method: "POST", Path: "/", Headers: []plan.Header{{Name: "content-type", Value: "application/x-www-form-urlencoded"}}, Body: json.RawMessage(`{"c":"{{city}}"}`)}, args: args, want: `POST / application/x-www-form-urlencoded  key c=a%2F..%2Fb%3Fx%3D1%26y+%23`},
		"text body":                       {q: plan.Request{Method: "PUT", Path: "/", Body: json.RawMessage(`"city: {{city}}"`)}, args: `{"city":"Bern"}`, want: `PUT / text/plain; charset=utf-8  key city: Bern`},
		"text body with JSON":             {q: plan.Request{Method: "PUT", Path: "/", Body: json.RawMessage(`"{{list}}"`)}, args: args, want: `PUT / application/json  key [1, "b"]`},
		"header":                          {q: plan.Request{Method: "GET", Path: "/", Headers: []plan.Header{{Name: "X-A", Value: "{{n}}"}}}, args: args, want: `GET /  2  `},
		"header with a line break":        {q: plan.Request{Method: "GET", Path: "/", Headers: []plan.Header{{Name: "X-A", Value: "{{n}}"}}}, args: `{"n":"1\r\nX-B: 2"}`, want: `an invalid header "X-A"`, isError: true},
		"header with a control character": {q: plan.Request{Method: "GET", Path: "/", Headers: []plan.Header{{Name: "X-A", Value: "{{n}}"}}}, args: `{"n":"1\u0001"}`, want: `an invalid header "X-A"`, isError: true},
		"invalid header name":             {q: plan.Request{Method: "GET", Path: "/", Headers: []plan.Header{{Name: "X-{{n}}", Value: "1"}}}, args: `{"n":"é"}`, want: `an invalid header "X-é"`, isError: true},
		"header with non-ASCII letters":   {q: plan.Request{Method: "GET", Path: "/", Headers: []plan.Header{{Name: "X-A", Value: "{{n}}"}}}, args: `{"n":"é\tü"}`, want: "é\tü"},
		"names with non-ASCII letters": {q: plan.Request{Method: "POST", Path: "/{{größe}}", Query: []plan.Header{{Name: "{{名前}}", Value: "{{ größe }}"}}, Headers: []plan.Header{{Name: "X-A", Value: "{{größe}}"}}, Body: json.RawMessage(`{"{{名前}}":"{{größe}}"}`)},
			args: `{"größe":7,"名前":"n"}`, want: `POST /7?n=7 application/json 7 key {"n":"7"}`},
		"non-ASCII placeholder without a value": {q: plan.Request{Method: "POST", Path: "/", Body: json.RawMessage(`{"a":"{{ größe }}"}`)}, args: `{}`, want: `ask has no value for {{größe}}`, isError: true},
		"placeholder without a value":           {q: plan.Request{Method: "GET", Path: "/", Headers: []plan.Header{{Name: "X-A", Value: "{{other}}"}}}, args: `{}`, want: `ask has no value for {{other}}`, isError: true},
		"URL not allowed":                       {q: plan.Request{Method: "GET", Path: "/x", Allow: []string{"http://other/"}}, args: `{}`, want: `is not allowed`, isError: true},
		"not found":                             {q: plan.Request{Method: "GET", Path: "/missing"}, args: `{}`, want: `status 404 Not Found: 404 page not found`, isError: true},
		"server unavailable":                    {q: plan.Request{Method: "GET", Path: "/busy"}, args: `{}`, class: contract.ClassUnavailable},
		"credentials required":                  {q: plan.Request{Method: "GET", Path: "/private"}, args: `{}`, class: contract.ClassDenied},
		"redirect":                              {q: plan.Request{Method: "GET", Path: "/away"}, args: `{}`, class: contract.ClassConnection},
	}
	tools, err := Open(Settings{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	server := echo(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.q.Name = "ask"
			c := plan.Connection{ID: "x", Kind: plan.ConnectionHTTP, URL: server, Requests: []plan.Request{tc.q}}
			got, isError, err := resultText(tools.Call(t.Context(), contract.ToolInput{Connection: c, Name: "ask", Arguments: json.RawMessage(tc.args)}, Meta{IdempotencyKey: "key"}))
			if tc.class != "" {
				if err == nil || contract.FailureOf(err).Class != tc.class {
					t.Errorf("error is %v, want one of class %s", err, tc.class)
				}
				return
			}
			if err != nil || isError != tc.isError || !strings.Contains(got, tc.want) {
				t.Errorf("got  %q, %v, %v\nwant %q", got, isError, err, tc.want)
			}
		})
	}
}

// TestCompressedResponse checks that compressed responses are decoded even if the flow itself requests compression.
func TestCompressedResponse(t *testing.T) {
	web := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			fmt.Fprint(w, "plain words")
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprint(z, "plain words")
		z.Close()
	}))
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
	for _, value := range []string{"gzip, deflate, br", "identity", "gzip"} {
		in := call("get", "{}")
		in.Connection = plan.Connection{ID: "http:get", Kind: plan.ConnectionHTTP, URL: web.URL,
			Requests: []plan.Request{{Name: "get", Method: "GET", Path: "/", Headers: []plan.Header{{Name: "accept-encoding", Value: value}}}}}
		if text, isError, err := resultText(tools.Call(withTimeout(t, time.Minute), in, Meta{})); err != nil || isError || text != "plain words" {
			t.Errorf("%s: %q, %v, %v", value, text, isError, err)
		}
	}
}

// TestRequestRules checks that the worker's address policy applies to a flow's server, whatever the request.
func TestRequestRules(t *testing.T) {
	tools, err := Open(Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	for _, url := range []string{"http://127.0.0.1:1", "http://169.254.169.254", "file:///etc"} {
		c := plan.Connection{ID: "x", Kind: plan.ConnectionHTTP, URL: url, Requests: []plan.Request{{Name: "ask", Method: "GET", Path: "/"}}}
		_, _, err := resultText(tools.Call(t.Context(), contract.ToolInput{Connection: c, Name: "ask"}, Meta{}))
		if err == nil || contract.FailureOf(err).Class != contract.ClassConnection {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestAllowedPaths checks that a URL with an allowed prefix cannot escape to a parent path, whichever notation a server interprets.
func TestAllowedPaths(t *testing.T) {
	list := []string{"https://x.com/open/"}
	for path, want := range map[string]bool{
		"/open/a": true, "/open/a..b/..c": true, "/open/.hidden": true, "/closed": false, "/open/../closed": false, "/open/..": false,
		"/open/%2e%2e/closed": false, "/open/%252e%252E/closed": false, `/open/..\closed`: false, "/open/a/..%2fclosed": false, "/open/..;/closed": false,
	} {
		u, err := url.Parse("https://x.com" + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := isAllowed(list, u); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// TestProxyEnvironmentIgnored checks that no proxy of the environment is used: it would connect to addresses that the policy does not check.
func TestProxyEnvironmentIgnored(t *testing.T) {
	var requests atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(proxy.Close)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	tools, err := Open(Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Close)
	for _, address := range []string{"http://innocent.invalid", "https://innocent.invalid"} {
		for _, c := range []plan.Connection{
			{ID: "x", Kind: plan.ConnectionHTTP, URL: address, Requests: []plan.Request{{Name: "ask", Method: "GET", Path: "/"}}},
			{ID: "x", URL: address},
		} {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			_, _, err := resultText(tools.Call(ctx, contract.ToolInput{Connection: c, Name: "ask"}, Meta{}))
			stop()
			if err == nil || requests.Load() > 0 {
				t.Errorf("%s over %q: %v; the proxy received %d requests", address, c.Kind, err, requests.Load())
			}
		}
	}
}
