package tool

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// TestServerFromArguments checks servers that arguments of a call choose, by a part of the host name or by the
// complete URL. All rules apply to the resulting URL.
func TestServerFromArguments(t *testing.T) {
	server := echo(t)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]Secret{"key": {Value: "sesame", Hosts: []string{server}}}
	open := func(s Settings) *Tools {
		t.Helper()
		s.Secrets = secrets
		tools, err := Open(s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(tools.Close)
		return tools
	}
	unrestricted, restricted := open(Settings{AllowPrivate: true}), open(Settings{})
	tests := map[string]struct {
		tools      *Tools
		url, path  string
		allow      []string
		secret     bool
		args, want string
		isError    bool
		class      string
	}{
		"host and port":                 {url: "http://{{host}}:{{port}}", path: "/c/{{host}}", args: `{"host":"` + u.Hostname() + `","port":` + u.Port() + `}`, want: "GET /c/127.0.0.1"},
		"URL with a path":               {url: "{{base}}", path: "/c", args: `{"base":"` + server + `/v%201/"}`, want: "GET /v%201/c"},
		"scheme":                        {url: "{{scheme}}://" + u.Host, path: "/c", args: `{"scheme":"http"}`, want: "GET /c"},
		"in the allow list":             {url: "{{base}}", path: "/c/d", allow: []string{server + "/c"}, args: `{"base":"` + server + `"}`, want: "GET /c/d"},
		"with a secret for the host":    {url: "http://{{host}}", path: "/c", secret: true, args: `{"host":"` + u.Host + `"}`, want: "GET /c  sesame"},
		"secret for another host":       {url: "http://{{host}}", path: "/c", secret: true, args: `{"host":"example.com"}`, class: contract.ClassConnection, want: "example.com"},
		"another host through the path": {url: server, path: "{{host}}/c", secret: true, args: `{"host":"@example.com"}`, class: contract.ClassConnection, want: "example.com"},
		"not in the allow list":         {url: "{{base}}", path: "/c", allow: []string{"https://example.com/"}, args: `{"base":"` + server + `"}`, isError: true, want: "is not allowed"},
		"loopback address":              {tools: restricted, url: "{{base}}", path: "/c", args: `{"base":"` + server + `"}`, class: contract.ClassConnection, want: "127.0.0.1"},
		"metadata address":              {tools: restricted, url: "http://{{host}}", path: "/c", args: `{"host":"169.254.169.254"}`, class: contract.ClassConnection, want: "169.254.169.254"},
		"missing value":                 {url: "http://{{host}}", path: "/c", args: `{}`, isError: true, want: "no value for host"},
		"host with a path":              {url: "http://{{host}}", path: "/c", args: `{"host":"` + u.Host + `/admin?x="}`, isError: true, want: "the value of host is not part of a valid host name"},
		"host with a user":              {url: "http://{{host}}.example.com", path: "/c", args: `{"host":"a@` + u.Host + `"}`, isError: true, want: "is not part of a valid host name"},
		"URL with a password":           {url: "{{base}}", path: "/c", args: `{"base":"http://a:b@` + u.Host + `"}`, isError: true, want: "contains a user or password"},
		"URL with a query":              {url: "{{base}}", path: "/c", args: `{"base":"` + server + `/?x="}`, isError: true, want: "may only have a server and a path"},
		"URL with a placeholder":        {url: "{{base}}", path: "/c", args: `{"base":"` + server + `/{{other}}","other":"x"}`, isError: true, want: "may only have a server and a path"},
		"another scheme":                {url: "{{base}}", path: "/c", args: `{"base":"file:///etc"}`, isError: true, want: "use http or https"},
		"not a URL":                     {url: "{{base}}", path: "/c", args: `{"base":"nowhere"}`, isError: true, want: "use http or https"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.tools == nil {
				tc.tools = unrestricted
			}
			c := plan.Connection{ID: "x", Kind: plan.ConnectionHTTP, URL: tc.url, Requests: []plan.Request{{Name: "ask", Method: "GET", Path: tc.path, Allow: tc.allow}}}
			if tc.secret {
				c.Secrets = []plan.Header{{Name: "X-A", Value: "key"}}
			}
			c, err := tc.tools.Resolve(c, "ask")
			if err != nil {
				t.Fatal(err)
			}
			got, isError, err := resultText(tc.tools.Call(t.Context(), contract.ToolInput{Connection: c, Name: "ask", Arguments: json.RawMessage(tc.args)}, Meta{}))
			if tc.class != "" {
				if err == nil || contract.FailureOf(err).Class != tc.class || !strings.Contains(contract.FailureOf(err).Text, tc.want) {
					t.Errorf("got %q, %v, want %s: %s", got, err, tc.class, tc.want)
				}
				return
			}
			if err != nil || isError != tc.isError || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, %v, %v, want %q", got, isError, err, tc.want)
			}
		})
	}
}
