package tool

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// Arguments of a call may choose the server: a part of its name, or its complete address. All
// rules apply to the chosen address.
func TestChosenServer(t *testing.T) {
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
	free, bound := open(Settings{AllowPrivate: true}), open(Settings{})
	tests := map[string]struct {
		tools      *Tools
		url, path  string
		allow      []string
		secret     bool
		args, want string
		wrong      bool
		class      string
	}{
		"a name":                      {url: "http://{{host}}:{{port}}", path: "/c/{{host}}", args: `{"host":"` + u.Hostname() + `","port":` + u.Port() + `}`, want: "GET /c/127.0.0.1"},
		"an address with a path":      {url: "{{base}}", path: "/c", args: `{"base":"` + server + `/v%201/"}`, want: "GET /v%201/c"},
		"a scheme":                    {url: "{{scheme}}://" + u.Host, path: "/c", args: `{"scheme":"http"}`, want: "GET /c"},
		"in the list":                 {url: "{{base}}", path: "/c/d", allow: []string{server + "/c"}, args: `{"base":"` + server + `"}`, want: "GET /c/d"},
		"with its secret":             {url: "http://{{host}}", path: "/c", secret: true, args: `{"host":"` + u.Host + `"}`, want: "GET /c  sesame"},
		"a secret for another":        {url: "http://{{host}}", path: "/c", secret: true, args: `{"host":"example.com"}`, class: contract.ClassConnection, want: "example.com"},
		"another server by the path":  {url: server, path: "{{host}}/c", secret: true, args: `{"host":"@example.com"}`, class: contract.ClassConnection, want: "example.com"},
		"not in the list":             {url: "{{base}}", path: "/c", allow: []string{"https://example.com/"}, args: `{"base":"` + server + `"}`, wrong: true, want: "is not allowed"},
		"this machine":                {tools: bound, url: "{{base}}", path: "/c", args: `{"base":"` + server + `"}`, class: contract.ClassConnection, want: "127.0.0.1"},
		"a cloud's own address":       {tools: bound, url: "http://{{host}}", path: "/c", args: `{"host":"169.254.169.254"}`, class: contract.ClassConnection, want: "169.254.169.254"},
		"no value":                    {url: "http://{{host}}", path: "/c", args: `{}`, wrong: true, want: "no value for host"},
		"more than a name":            {url: "http://{{host}}", path: "/c", args: `{"host":"` + u.Host + `/admin?x="}`, wrong: true, want: "the value of host is not part of a valid host name"},
		"a password":                  {url: "http://{{host}}.example.com", path: "/c", args: `{"host":"a@` + u.Host + `"}`, wrong: true, want: "is not part of a valid host name"},
		"a password in an address":    {url: "{{base}}", path: "/c", args: `{"base":"http://a:b@` + u.Host + `"}`, wrong: true, want: "contains a user or password"},
		"a question in an address":    {url: "{{base}}", path: "/c", args: `{"base":"` + server + `/?x="}`, wrong: true, want: "may only have a server and a path"},
		"a placeholder in an address": {url: "{{base}}", path: "/c", args: `{"base":"` + server + `/{{other}}","other":"x"}`, wrong: true, want: "may only have a server and a path"},
		"another scheme":              {url: "{{base}}", path: "/c", args: `{"base":"file:///etc"}`, wrong: true, want: "use http or https"},
		"no address":                  {url: "{{base}}", path: "/c", args: `{"base":"nowhere"}`, wrong: true, want: "use http or https"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.tools == nil {
				tc.tools = free
			}
			c := plan.Connection{ID: "x", Kind: plan.ConnectionHTTP, URL: tc.url, Requests: []plan.Request{{Name: "ask", Method: "GET", Path: tc.path, Allow: tc.allow}}}
			if tc.secret {
				c.Secrets = []plan.Header{{Name: "X-A", Value: "key"}}
			}
			c, err := tc.tools.Resolve(c, "ask")
			if err != nil {
				t.Fatal(err)
			}
			got, wrong, err := said(tc.tools.Call(t.Context(), contract.ToolInput{Connection: c, Name: "ask", Arguments: json.RawMessage(tc.args)}, Meta{}))
			if tc.class != "" {
				if err == nil || contract.FailureOf(err).Class != tc.class || !strings.Contains(contract.FailureOf(err).Text, tc.want) {
					t.Errorf("%q, %v, want %s: %s", got, err, tc.class, tc.want)
				}
				return
			}
			if err != nil || wrong != tc.wrong || !strings.Contains(got, tc.want) {
				t.Errorf("%q, %v, %v, want %q", got, wrong, err, tc.want)
			}
		})
	}
}
