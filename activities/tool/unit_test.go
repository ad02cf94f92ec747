package tool

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/activities/address"
	"weft/activities/contract"
	"weft/activities/tool/lines"
	"weft/activities/tool/stream"
	"weft/workflows/plan"
)

// TestProgressText checks that numbers of progress notifications are shown without exponents.
func TestProgressText(t *testing.T) {
	for raw, want := range map[string]string{
		`{"progress":1500000,"total":20000000}`:          "1500000/20000000",
		`{"progress":0.25,"total":1,"message":"a part"}`: "0.25/1 a part",
		`{"progress":null}`:                              "?",
		`{"progress":"half"}`:                            "half",
		`{}`:                                             "?",
	} {
		var fields map[string]any
		if err := json.Unmarshal([]byte(raw), &fields); err != nil {
			t.Fatal(err)
		}
		if got := progressText(fields); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// TestSecretOrigins checks that a secret is sent only to the scheme, host and port that it is bound to. The error names the line that allows another.
func TestSecretOrigins(t *testing.T) {
	tests := []struct {
		host, address, line string // line of the remedy; empty: allowed
	}{
		{host: "x.com", address: "https://x.com/a"},
		{host: "X.com.", address: "https://x.com:443/"},
		{host: "x.com:443", address: "https://X.COM./"},
		{"x.com", "http://x.com/", `["x.com", "http://x.com"]`},
		{"x.com", "http://x.com:443/", `["x.com", "http://x.com:443"]`},
		{"x.com", "https://x.com:444/", `["x.com", "x.com:444"]`},
		{"x.com:8080", "http://x.com:8080/", `["x.com:8080", "http://x.com:8080"]`},
		{host: "http://x.com:8080", address: "http://x.com:8080/"},
		{"http://x.com", "https://x.com/", `["http://x.com", "x.com"]`},
		{"x.com", "https://x.com@y.com/", `["x.com", "y.com"]`},
		{host: "::1", address: "https://[0::1]/"},
		{"::1", "https://[::1]:99/", `["::1", "[::1]:99"]`},
	}
	for _, tc := range tests {
		s := Settings{Secrets: map[string]Secret{"s": {Value: "value", Hosts: []string{tc.host}}}}
		_, err := s.Secret("s", tc.address)
		if tc.line == "" && err != nil {
			t.Errorf("secret for %s at %s: %v", tc.host, tc.address, err)
		}
		if tc.line != "" {
			wantFailure(t, err, contract.ClassConnection, "may not be used", `secrets: {"s": {value: "${NAME}", hosts: `+tc.line+"}}")
		}
	}
	for _, host := range []string{"", "x.com/", "https://x.com/path", "a@x.com", "*.x.com", "ftp://x.com", "x.com:port", "x.com?q"} {
		_, err := Open(Settings{Variables: map[string]Secret{"V": {Hosts: []string{host}}}})
		wantFailure(t, err, contract.ClassConnection, "variables.V.hosts: ", "is not a host; write it as")
	}
}

func TestPolicy(t *testing.T) {
	tests := map[string]struct {
		url     string
		private bool
		hosts   []string
		refused string // part of the text; empty: allowed
	}{
		"public address":                   {url: "https://93.184.216.34/mcp"},
		"public name":                      {url: "https://example.com/mcp"},
		"loopback":                         {url: "http://127.0.0.1:80/", refused: "127.0.0.1 is a loopback address"},
		"loopback, another address":        {url: "http://127.9.9.9/", refused: "loopback"},
		"loopback, IPv6":                   {url: "http://[::1]:80/", refused: "loopback"},
		"loopback, mapped":                 {url: "http://[::ffff:127.0.0.1]/", refused: "loopback"},
		"loopback, NAT64":                  {url: "http://[64:ff9b::7f00:1]/", refused: "loopback"},
		"loopback, as one number":          {url: "http://2130706433/", refused: "2130706433 is at 127.0.0.1, a loopback address"},
		"loopback, hexadecimal":            {url: "http://0x7F.1/", refused: "0x7f.1 is at 127.0.0.1, a loopback address"},
		"loopback, octal":                  {url: "http://0177.0.0.01:80/", refused: "loopback"},
		"metadata, as one number":          {url: "http://0xa9fea9fe/", refused: "metadata"},
		"metadata, three parts":            {url: "http://169.254.43518./", refused: "metadata"},
		"public, as one number":            {url: "http://134744072/"},
		"name that looks like a number":    {url: "http://0x7f.example/"},
		"loopback, translated":             {url: "http://[::ffff:0:127.0.0.1]/", refused: "loopback"},
		"metadata, ISATAP":                 {url: "http://[2600::200:5efe:a9fe:a9fe]/", refused: "metadata"},
		"NAT64, local prefix":              {url: "http://[64:ff9b:1:a00:1::]/", refused: "private"},
		"Teredo":                           {url: "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", refused: "reserved"},
		"public, IPv6":                     {url: "http://[2606:4700:4700::1111]/"},
		"public, NAT64":                    {url: "http://[64:ff9b::808:808]/"},
		"user that looks like a host":      {url: "http://example.com@10.0.0.1/", refused: "user or password"},
		"private, 6to4":                    {url: "http://[2002:a00:1::]/", refused: "private"},
		"localhost":                        {url: "http://localhost:8080/", refused: "localhost is a loopback name"},
		"localhost with a dot":             {url: "http://LOCALHOST./", refused: "loopback name"},
		"subdomain of localhost":           {url: "http://db.localhost/", refused: "loopback name"},
		"private":                          {url: "http://10.1.2.3/", refused: "10.1.2.3 is a private address"},
		"private, 172":                     {url: "http://172.16.0.1/", refused: "private"},
		"private, 192":                     {url: "http://192.168.0.1/", refused: "private"},
		"private, IPv6":                    {url: "http://[fd12::1]/", refused: "private"},
		"carrier-grade NAT":                {url: "http://100.64.0.1/", refused: "private"},
		"metadata":                         {url: "http://169.254.169.254/latest", refused: "metadata"},
		"link-local":                       {url: "http://169.254.1.1/", refused: "link-local"},
		"link-local, IPv6":                 {url: "http://[fe80::1]/", refused: "link-local"},
		"unspecified":                      {url: "http://0.0.0.0/", refused: "unspecified"},
		"multicast":                        {url: "http://224.1.1.1/", refused: "multicast"},
		"broadcast":                        {url: "http://255.255.255.255/", refused: "reserved"},
		"private allowed":                  {url: "http://10.1.2.3/", private: true},
		"host allowed":                     {url: "http://10.1.2.3:99/", hosts: []string{"10.1.2.3"}},
		"host and port allowed":            {url: "http://localhost:99/", hosts: []string{"localhost:99"}},
		"default port allowed":             {url: "https://10.1.2.3/", hosts: []string{"10.1.2.3:443"}},
		"default port of the other scheme": {url: "http://10.1.2.3/", hosts: []string{"10.1.2.3:443"}, refused: "private"},
		"another port":                     {url: "http://localhost:98/", hosts: []string{"localhost:99"}, refused: "loopback"},
		"another host":                     {url: "http://10.1.2.4/", hosts: []string{"10.1.2.3"}, refused: "private"},
		"file URL":                         {url: "file:///etc/passwd", refused: `scheme "file"; use http or https`},
		"no scheme":                        {url: "example.com/mcp", refused: "use http or https"},
		"no host":                          {url: "http:///mcp", refused: "has no host"},
		"password":                         {url: "https://u:geheim@example.com/", refused: "user or password"},
		"not a URL":                        {url: "http://[::1", refused: "not a URL"},
		"IPv6 host allowed":                {url: "http://[::1]:80/", hosts: []string{"::1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowPrivate, s.AllowHosts = tc.private, tc.hosts })
			_, err := tools.Resolve(plan.Connection{ID: "flow", URL: tc.url}, "x")
			if tc.refused == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			f := wantFailure(t, err, contract.ClassConnection, tc.refused, `connection "flow"`)
			if strings.Contains(f.Error(), "geheim") {
				t.Errorf("password in the error %q", f.Error())
			}
		})
	}
}

// TestPolicyWhenDialing checks that the policy applies to the addresses to which a name resolves.
func TestPolicyWhenDialing(t *testing.T) {
	r := address.New(address.Allowed{}, "http://innocent.example/")
	err := r.Control("tcp4", "169.254.169.254:80", nil)
	want := "innocent.example is at 169.254.169.254, the cloud's metadata address"
	if err == nil || err.Error() != want {
		t.Fatalf("error is %v, want %s", err, want)
	}
	if err := r.Control("tcp6", "[fe80::1%eth0]:80", nil); err == nil {
		t.Error("link-local address with a zone is allowed")
	}
	if err := r.Control("tcp4", "8.8.8.8:80", nil); err != nil {
		t.Error(err)
	}
	s := address.New(address.Allowed{Hosts: []string{"Innocent.Example"}}, "http://innocent.example/")
	if err := s.Control("tcp4", "10.0.0.1:80", nil); err != nil {
		t.Error(err)
	}
}

// TestSuppliedURL checks that a loopback URL of a flow is rejected unless allowed, also when dialling.
func TestSuppliedURL(t *testing.T) {
	l := &legacy{}
	url := start(t, l).URL
	in := call("x", `{}`)
	in.Connection = plan.Connection{ID: "flow", URL: url}
	_, _, err := resultText(open(t, Connection{URL: "http://x"}).Call(withTimeout(t, time.Minute), in, Meta{}))
	wantFailure(t, err, contract.ClassConnection, "127.0.0.1 is a loopback address", `to allow it, set in the worker's weft.yaml: allow_hosts: ["127.0.0.1"], or allow_loopback: true (the worker's own machine), or allow_private: true (all such addresses)`)
	if len(l.requests()) != 0 {
		t.Errorf("refused server received the requests %q", l.requests())
	}
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowHosts = []string{"127.0.0.1"} })
	if text, _, err := resultText(tools.Call(withTimeout(t, time.Minute), in, Meta{})); err != nil || text != "ok" {
		t.Errorf("with allow_hosts: %q, %v", text, err)
	}
	loopback := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
	if text, _, err := resultText(loopback.Call(withTimeout(t, time.Minute), in, Meta{})); err != nil || text != "ok" {
		t.Errorf("with allow_loopback: %q, %v", text, err)
	}
	at := &target{id: "flow", kind: plan.ConnectionMCP, conn: Connection{Transport: TransportHTTP, URL: url}.withDefaults(), restricted: true, settings: &Settings{MaxMessageBytes: 1000}}
	_, err = dial(withTimeout(t, time.Minute), at)
	wantFailure(t, err, contract.ClassConnection, "127.0.0.1 is a loopback address")
}

// TestAllowLoopback checks that allow_loopback allows loopback addresses only.
func TestAllowLoopback(t *testing.T) {
	tests := map[string]string{
		"http://127.0.0.1/": "", "http://[::1]:80/": "", "http://localhost/": "", "http://db.localhost/": "", "http://[::ffff:127.9.9.9]/": "",
		"http://10.1.2.3/": "a private address", "http://169.254.169.254/": "metadata", "http://0.0.0.0/": "unspecified", "http://[fe80::1]/": "link-local",
	}
	tools := open(t, Connection{URL: "http://x"}, func(s *Settings) { s.AllowLoopback = true })
	for url, want := range tests {
		_, err := tools.Resolve(plan.Connection{ID: "flow", URL: url}, "x")
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", url, err)
			}
			continue
		}
		if f := wantFailure(t, err, contract.ClassConnection, want, "allow_private: true"); strings.Contains(f.Remedy, "allow_loopback") {
			t.Errorf("%s: remedy is %s", url, f.Remedy)
		}
	}
	// A loopback name that resolves to another address is not allowed.
	if err := address.New(address.Allowed{Loopback: true}, "http://localhost/").Control("tcp4", "10.0.0.1:80", nil); err == nil {
		t.Error("localhost at a private address is allowed")
	}
}

func TestResolve(t *testing.T) {
	s := Settings{
		Connections: map[string]Connection{"own": {URL: "http://10.0.0.1/mcp", Headers: map[string]string{"Authorization": "Bearer 0123456789"}}},
		Tools:       map[string]string{"search": "own"},
	}
	tools, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer tools.Close()
	tests := map[string]struct {
		conn  plan.Connection
		tool  string
		id    string
		url   string
		auth  bool
		fails string
	}{
		"by id":                    {conn: plan.Connection{ID: "own"}, id: "own", auth: true},
		"by tool name":             {tool: "search", id: "own", auth: true},
		"by url":                   {conn: plan.Connection{ID: "f", URL: "https://example.com/"}, id: "f", url: "https://example.com/"},
		"own url with own id":      {conn: plan.Connection{ID: "own", URL: "http://10.0.0.1/mcp"}, id: "own", auth: true},
		"own url with another id":  {conn: plan.Connection{ID: "f", URL: "http://10.0.0.1/mcp"}, id: "f", url: "http://10.0.0.1/mcp"},
		"own id with another url":  {conn: plan.Connection{ID: "own", URL: "https://evil.example/"}, id: "own", url: "https://evil.example/"},
		"unknown id":               {conn: plan.Connection{ID: "nope"}, fails: "available connections: own; to allow it, set in the worker's weft.yaml: connections: {\"nope\": {url: \"https://HOST/mcp\"}}"},
		"unbound tool":             {tool: "nope", fails: "weft.yaml: tools: {\"nope\": \"own\"}"},
		"kind without tools":       {conn: plan.Connection{ID: "own", Kind: plan.ConnectionAgent}, fails: `kind "agent"`},
		"own id with another path": {conn: plan.Connection{ID: "own", URL: "http://10.0.0.1/other"}, fails: "private address"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := tools.Resolve(tc.conn, tc.tool)
			if tc.fails != "" {
				wantFailure(t, err, contract.ClassConnection, tc.fails)
				return
			}
			if err != nil || c.ID != tc.id || c.URL != tc.url {
				t.Fatalf("got %+v, %v", c, err)
			}
			at, err := tools.locate(tc.conn, tc.tool)
			if err != nil || (len(at.conn.Headers) > 0) != tc.auth {
				t.Errorf("headers are %v, %v; want headers: %v", at.conn.Headers, err, tc.auth)
			}
		})
	}
}

func TestOpenReportsAllErrors(t *testing.T) {
	_, err := Open(Settings{
		Connections: map[string]Connection{
			"a": {Transport: "pigeon"},
			"b": {Transport: "stdio", URL: "http://x"},
			"c": {URL: "ftp://x", Headers: map[string]string{"Accept": "x", "bad name": "x", "X-A": "a\nb"}},
			"d": {URL: "https://u:geheim@x/", CertFile: "x"},
		},
		Tools:      map[string]string{"search": "nope"},
		AllowHosts: []string{"http://x"},
	})
	f := wantFailure(t, err, contract.ClassConnection,
		`connections.a.transport: unknown transport "pigeon"; use http, sse, stdio, local or postgres`,
		"connections.b.command: required by transport stdio", "connections.b: url, headers",
		`connections.c.url: "ftp://x" has scheme "ftp"`,
		`"Accept" is set by the protocol`, `"bad name" is not the name`, `"X-A" has a line break`,
		"connections.d.url", "cert_file and key_file", `tools.search: unknown connection "nope"; available connections: a, b, c, d`, `allow_hosts: "http://x"`)
	if strings.Contains(f.Error(), "geheim") {
		t.Errorf("password in the error %q", f.Error())
	}
	if len(f.Diagnostics) != 11 {
		t.Errorf("%d diagnostics: %q", len(f.Diagnostics), f.Diagnostics)
	}
}

func TestRetry(t *testing.T) {
	specs := []contract.ToolSpec{{Name: "look", Repeatable: true}, {Name: "pay"}}
	tests := map[string]struct {
		retry string
		at    plan.Connection
		want  string
		ask   bool
	}{
		"by annotations":       {at: plan.Connection{ID: connection}, want: "look"},
		"never":                {retry: "never", at: plan.Connection{ID: connection}},
		"always":               {retry: "always", at: plan.Connection{ID: connection}, want: "look pay"},
		"ask":                  {retry: "ask", at: plan.Connection{ID: connection}, want: "look", ask: true},
		"another connection":   {retry: "always", at: plan.Connection{ID: "other"}, want: "look"},
		"same id and url":      {retry: "always", at: plan.Connection{ID: connection, URL: "http://x"}, want: "look pay"},
		"same id, another url": {retry: "always", at: plan.Connection{ID: connection, URL: "http://y"}, want: "look"},
		"same id, a command":   {retry: "always", at: plan.Connection{ID: connection, Command: "y"}, want: "look"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			rules := open(t, Connection{URL: "http://x", Retry: tc.retry}).Rules(tc.at, specs)
			if got := strings.Join(rules.Repeatable, " "); got != tc.want || rules.AskUnknown != tc.ask {
				t.Errorf("repeatable tools are %q, ask %v", got, rules.AskUnknown)
			}
		})
	}
}

func TestReply(t *testing.T) {
	tests := map[string]struct {
		raw  string
		want string
	}{
		"texts":                                {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, "a\nb"},
		"image":                                {`{"content":[{"type":"image","mimeType":"image/png","data":"aGVsbG8="}]}`, "[image, image/png, 5 bytes]"},
		"audio":                                {`{"content":[{"type":"audio","mimeType":"audio/wav","data":"aGVsbG8h"}]}`, "[audio, audio/wav, 6 bytes]"},
		"text resource":                        {`{"content":[{"type":"resource","resource":{"uri":"f:/a","text":"inside"}}]}`, "[resource f:/a]\ninside"},
		"binary resource":                      {`{"content":[{"type":"resource","resource":{"uri":"f:/a","mimeType":"x/y","blob":"aGVsbG8="}}]}`, "[resource f:/a, x/y, 5 bytes]"},
		"resource without content":             {`{"content":[{"type":"resource"}]}`, "[resource without content]"},
		"link":                                 {`{"content":[{"type":"resource_link","uri":"f:/a","name":"n","mimeType":"x/y","size":7}]}`, "[resource link f:/a, n, x/y, 7 bytes]"},
		"unknown":                              {`{"content":[{"type":"smell","s":1}]}`, `[content of type "smell", 22 bytes of JSON]`},
		"structured content only":              {`{"structuredContent":{"a": 12345678901234567890}}`, `{"a":12345678901234567890}`},
		"structured content and empty text":    {`{"content":[{"type":"text","text":""}],"structuredContent":{"a":1}}`, `{"a":1}`},
		"structured content equal to the text": {`{"content":[{"type":"text","text":"{ \"a\" : 1 }"}],"structuredContent":{"a":1}}`, `{ "a" : 1 }`},
		"structured content more precise than the text": {`{"content":[{"type":"text","text":"{\"a\":1e19}"}],"structuredContent":{"a":10000000000000000001}}`, "{\"a\":1e19}\n" + `{"a":10000000000000000001}`},
		"field equal to the text":                       {`{"content":[{"type":"text","text":"a <b>\n"}],"structuredContent":{"content":"a \u003cb>\n"}}`, "a <b>\n"},
		"one of several fields equal to the text":       {`{"content":[{"type":"text","text":"a"}],"structuredContent":{"n": 1.0, "content":"a", "m":{"x": 1}}}`, "a\n" + `{"n":1.0,"m":{"x":1}}`},
		"first field equal to the text":                 {`{"content":[{"type":"text","text":"a"}],"structuredContent":{"content":"a","n":1}}`, "a\n" + `{"n":1}`},
		"field equal to the text as JSON":               {`{"content":[{"type":"text","text":"[1, 2]"}],"structuredContent":{"result":[1,2]}}`, "[1, 2]"},
		"field equal to all texts":                      {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"structuredContent":{"result":"a\nb"}}`, "a\nb"},
		"field that differs from the text":              {`{"content":[{"type":"text","text":"a"}],"structuredContent":{"content":"ab"}}`, "a\n" + `{"content":"ab"}`},
		"field with the JSON of the text":               {`{"content":[{"type":"text","text":"{\n  \"a\": [1, 2]\n}"}],"structuredContent":{"result":"{\"a\":[1,2]}"}}`, "{\n  \"a\": [1, 2]\n}"},
		"field with a list of the texts":                {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"{\"n\": 1}"}],"structuredContent":{"result":["a",{"n":1}]}}`, "a\n{\"n\": 1}"},
		"field with a longer list":                      {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"structuredContent":{"result":["a","b","c"]}}`, "a\nb\n" + `{"result":["a","b","c"]}`},
		"field with a list of one":                      {`{"content":[{"type":"text","text":"a"}],"structuredContent":{"result":["a"]}}`, "a\n" + `{"result":["a"]}`},
		"two fields equal to the text":                  {`{"content":[{"type":"text","text":"1"}],"structuredContent":{"users":1,"pages":1}}`, "1\n" + `{"pages":1}`},
		"number as string":                              {`{"content":[{"type":"text","text":"1"}],"structuredContent":{"result":"1"}}`, "1"},
		"empty structured content":                      {`{"content":[{"type":"text","text":"a"}],"structuredContent":{}}`, "a\n{}"},
		"structured list and text":                      {`{"content":[{"type":"text","text":"one"}],"structuredContent":[1]}`, "one\n[1]"},
		"empty result":                                  {`{}`, ""},
		"input required":                                {`{"resultType":"input_required","inputRequests":{"x":{"method":"elicitation/create","params":{"requestedSchema":{}}}}}`, `tool "t" requires more input from its caller`},
		"sampling required":                             {`{"resultType":"input_required","inputRequests":{"x":{"method":"sampling/createMessage"}}}`, `request of tool "t" cannot be answered: sampling is not allowed: sampling_tokens of the server's connection is not set`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &session{at: &target{id: "x", settings: &Settings{}}}
			got, err := s.callResult("t", []byte(tc.raw), false, nil)
			if err != nil || got.Text != tc.want {
				t.Errorf("got %q, %v; want %q", got.Text, err, tc.want)
			}
		})
	}
}

// TestMultipleOutputs checks that several outputs are set from the texts of a result in order, unless the result names them.
func TestMultipleOutputs(t *testing.T) {
	tests := map[string]struct{ raw, want string }{
		"texts":               {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"result":["a"]}}`, `{"x":"a","y":"{\"n\":1}"}`},
		"missing output":      {`{"content":[{"type":"text","text":"7"}]}`, `{"x":"7"}`},
		"too many":            {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"text","text":"c"}]}`, `{"x":"a","y":"b"}`},
		"JSON object as text": {`{"content":[{"type":"text","text":"{\"y\": 2}"}]}`, `{"y":2}`},
		"structured content":  {`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"structuredContent":{"x":1,"y":[2]}}`, `{"x":1,"y":[2]}`},
		"error":               {`{"content":[{"type":"text","text":"no"}],"isError":true}`, `no`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &session{at: &target{id: "x", settings: &Settings{}}}
			got, err := s.callResult("t", []byte(tc.raw), false, []string{"x", "y"})
			if err != nil || got.Text != tc.want {
				t.Errorf("got %q, %v; want %q", got.Text, err, tc.want)
			}
		})
	}
}

// TestReplyImages checks that image data is detected by its signature, whatever its declared type; other data is described in text.
func TestReplyImages(t *testing.T) {
	png, gif := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\nrest")), base64.StdEncoding.EncodeToString([]byte("GIF89a"))
	part := func(kind, data string) string {
		return `{"type":"image","mimeType":"` + kind + `","data":"` + data + `"}`
	}
	tests := map[string]struct {
		raw, text string
		images    []contract.Media
	}{
		"in order": {
			raw:  `{"content":[{"type":"text","text":"a"},` + part("image/png", png) + `,{"type":"text","text":"b"},` + part("image/png", gif) + `]}`,
			text: "a\n[image 1, image/png, 12 bytes]\nb\n[image 2, image/gif, 6 bytes]", images: []contract.Media{{MediaType: "image/png", Data: png}, {MediaType: "image/gif", Data: gif}},
		},
		"resource": {
			raw:  `{"content":[{"type":"resource","resource":{"uri":"f:/a","mimeType":"image/png","blob":"` + png + `"}}]}`,
			text: "[image 1, image/png, 12 bytes]", images: []contract.Media{{MediaType: "image/png", Data: png}},
		},
		"invalid base64":     {raw: `{"content":[` + part("image/png", "!!!") + `]}`, text: "[image, image/png, 2 bytes]"},
		"unsupported format": {raw: `{"content":[` + part("image/tiff", "SUkqAA==") + `]}`, text: "[image, image/tiff, 4 bytes]"},
		"too large": {
			raw:  `{"content":[` + part("image/png", png+strings.Repeat("AAAA", contract.MaxImageBytes/3)) + `]}`,
			text: fmt.Sprintf("[image, image/png, %d bytes]", 12+contract.MaxImageBytes),
		},
		"too many": {
			raw:    `{"content":[` + strings.Repeat(part("image/gif", gif)+",", contract.MaxMedia) + part("image/gif", gif) + `]}`,
			images: slices.Repeat([]contract.Media{{MediaType: "image/gif", Data: gif}}, contract.MaxMedia),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &session{at: &target{id: "x"}}
			got, err := s.callResult("t", []byte(tc.raw), false, nil)
			if err != nil || !slices.Equal(got.Media, tc.images) {
				t.Errorf("got %d images, %v", len(got.Media), err)
			}
			if tc.text != "" && got.Text != tc.text {
				t.Errorf("text %q, want %q", got.Text, tc.text)
			}
		})
	}
}

func FuzzReply(f *testing.F) {
	for _, seed := range []string{`{}`, `{"content":[{"type":"image","data":"="}]}`, `{"content":[1]}`, `null`, `{"structuredContent":[1e999]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := &session{at: &target{id: "x", settings: &Settings{}}}
		for _, whole := range []bool{false, true} {
			if _, err := s.callResult("t", raw, whole, nil); err != nil {
				wantFailure(t, err, err.(*contract.Failure).Class)
			}
		}
	})
}

func FuzzPolicy(f *testing.F) {
	for _, seed := range []string{"http://127.0.0.1", "http://[::ffff:7f00:1%25x]", "http://0x7f.1", "http://a@b", "//x", "http://1.1.1.1:99999"} {
		f.Add(seed)
	}
	tools := &Tools{settings: Settings{}}
	f.Fuzz(func(t *testing.T, raw string) {
		if tools.checkSupplied(plan.Connection{URL: raw}) != nil {
			return
		}
		if ip, err := netip.ParseAddr(address.New(tools.settings.allowed(), raw).Host); err == nil && address.Special(ip) != "" {
			t.Errorf("%q is allowed and leads to %s", raw, ip)
		}
	})
}

// TestLines checks the output of a command with a limit of 100 bytes per line.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	tooLarge := `{"jsonrpc":"2.0","id":7,"error":{"code":-31999,"message":"too large"}}` + "\n"
	tests := map[string]struct {
		in, want string
		tooLong  bool
	}{
		"short lines":                  {in: "a\nb\n", want: "a\nb\n"},
		"last line without a newline":  {in: "a\nb", want: "a\nb"},
		"long response":                {in: `{"jsonrpc":"2.0","id":7,"result":"` + long + "\"}\nb\n", want: tooLarge + "b\n"},
		"response just over the limit": {in: `{"id":7,"result":"` + long[:90] + "\"}\nb\n", want: tooLarge + "b\n"},
		"long response, id at the end": {in: `{"result":"` + long + `","id":7}` + "\nb\n", want: "", tooLong: true},
		"long notification":            {in: `{"method":"x","params":"` + long + "\"}\nb\n", want: "", tooLong: true},
		"long text":                    {in: long, want: "", tooLong: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = io.WriteString(w, tc.in)
				w.Close()
			}()
			lost := 0
			l := lines.NewReader(r, 100, func() { lost++ })
			got, err := io.ReadAll(l)
			if err != nil || string(got) != tc.want || l.TooLong.Load() != tc.tooLong || lost != 1 {
				t.Errorf("got %q, %v, too long %v, %d callbacks; want %q, %v", got, err, l.TooLong.Load(), lost, tc.want, tc.tooLong)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		value string
		want  time.Duration
	}{
		"seconds": {"3", 3 * time.Second}, "date": {"Thu, 01 Jan 2026 00:00:09 GMT", 9 * time.Second}, "absent": {"", 0},
		"nonsense": {"soon", 0}, "negative": {"-4", 0}, "past": {"Wed, 31 Dec 2025 00:00:09 GMT", 0},
		"one year": {"31536000", time.Hour}, "overflow": {"9223372036854775807", time.Hour},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := retryAfter(tc.value, now); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestEventLimit(t *testing.T) {
	tests := map[string]struct {
		in     string
		events bool
		ok     bool
	}{
		"body within the limit":           {in: "12345678", ok: true},
		"body over the limit":             {in: "1234567890123", ok: false},
		"events within the limit":         {in: "data: 1\n\ndata: 2\r\n\r\ndata: 3\n\n", events: true, ok: true},
		"event over the limit":            {in: "data: 1\n\ndata: 1234567890\n\n", events: true, ok: false},
		"multi-line event over the limit": {in: "data: 1\ndata: 2\ndata: 3\n\n", events: true, ok: false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ex := &exchange{}
			var body io.Reader = &limitedBody{ReadCloser: io.NopCloser(strings.NewReader(tc.in)), left: 12, ex: ex}
			if tc.events {
				e := stream.New(io.NopCloser(strings.NewReader(tc.in)), 12)
				e.TooLarge, body = func() { ex.tooLarge = true }, e
			}
			_, err := io.ReadAll(body)
			if (err == nil) != tc.ok || ex.tooLarge == tc.ok {
				t.Errorf("error %v, too large %v", err, ex.tooLarge)
			}
		})
	}
}

func TestShort(t *testing.T) {
	if got := short(strings.Repeat("é", 1000)); !json.Valid([]byte(`"`+got+`"`)) || len(got) > maxQuotedText+3 || !strings.HasSuffix(got, "é...") {
		t.Errorf("got %q", got)
	}
}
