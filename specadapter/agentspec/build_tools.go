package agentspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// tool compiles a tool of a node. taken are the names of the node's other tools.
func (b *builder) tool(c *model.Component, taken map[string]bool) *plan.Tool {
	t := &plan.Tool{Name: cmp.Or(c.Name, c.ID), Description: c.Description, Alone: c.Description != "", Confirm: c.Flag("requires_confirmation"), Outputs: outputs(c.Outputs)}
	t.As = unique(taken, toolName(t.Name))
	if len(c.Inputs) > 0 || c.Type.Acts() != "MCPTool" { // without inputs, the server describes an MCPTool
		t.ArgumentsSchema = objectOf(c.Inputs)
	}
	switch c.Type.Acts() {
	case "ServerTool", "BuiltinTool":
		what := "of this name"
		if c.Type.Acts() == "BuiltinTool" {
			t.Name, what = c.Text("tool_type"), "of its tool_type "+source.Quote(c.Text("tool_type"))
			if len(c.JSON("configuration").Members) > 0 {
				b.Warnf(c.FieldPos("configuration"), CodeNoEffect, "remove it, and configure the tool on the worker", "configuration of %s has no effect", c)
			}
		}
		if !b.host.UnboundTools[t.Name] {
			b.Warnf(c.At, CodeUnknownTool, "register a function "+what+" with the worker, or map it in weft.yaml under tools", "%s is unknown; a run needs a worker that has it", c)
		}
	case "ClientTool":
		t.Connection = b.connect(c, b.client)
	case "RemoteTool":
		t.Connection = b.connect(c, b.request)
	case "MCPTool":
		t.Connection = b.connect(c.Component("client_transport"), b.server)
	}
	return t
}

func componentOf(c *model.Component) *plan.Component {
	return &plan.Component{ID: c.ID, Name: cmp.Or(c.Name, c.ID), Description: c.Description}
}

// maxToolName is the maximum length of a tool name that all providers accept, with room for a suffix.
const maxToolName = 60

func toolName(s string) string {
	s = source.SafeName(s)
	return s[:min(len(s), maxToolName)]
}

// connect returns the id of a component's connection, which is created once.
func (b *builder) connect(c *model.Component, make func(*model.Component) plan.Connection) string {
	if id, ok := b.connected[c]; ok {
		return id
	}
	conn := make(c)
	b.connected[c] = conn.ID
	b.connections = append(b.connections, conn)
	return conn.ID
}

// client returns the connection of a tool that a client of the run executes.
func (b *builder) client(c *model.Component) plan.Connection {
	name := cmp.Or(c.Name, c.ID)
	id := unique(b.ids, "client:"+model.SafeID(name))
	tool := plan.ClientTool{Name: name, Description: c.Description, Schema: objectOf(c.Inputs)}
	if len(c.Outputs) > 1 {
		tool.Result = objectOf(c.Outputs)
	}
	return plan.Connection{ID: id, Name: name, Kind: plan.ConnectionClient, Tools: []plan.ClientTool{tool}}
}

// server returns the connection to an MCP server. Its id is the component's name, which the worker's settings refer to.
func (b *builder) server(c *model.Component) plan.Connection {
	conn := plan.Connection{ID: unique(b.ids, model.SafeID(cmp.Or(c.Name, c.ID, "mcp"))), Name: c.Name, Kind: plan.ConnectionMCP, Description: c.Description}
	if c.Type.Acts() == "StdioTransport" {
		b.stdio(c, &conn)
	} else {
		conn.URL = c.Text("url")
		if strings.HasPrefix(c.Type.Acts(), "SSE") {
			conn.Transport = plan.TransportSSE
		}
		if conn.TLS = certificates(c); conn.TLS != nil && !strings.HasPrefix(conn.URL, "https://") {
			b.Errorf(c.FieldPos("url"), "field-value", "use https://, or a transport without certificates", "%s has a client certificate, but its url is not https", c)
		}
		b.checkURL(c, "url")
		conn.Headers, conn.Secrets, conn.Retry = b.headers(c), secretHeaders(c), b.retry(c, false)
		b.login(c, &conn)
	}
	// If it is not set, the worker's own limit applies.
	if f := c.Field("session_parameters"); f != nil && f.Fields["read_timeout_seconds"] != nil {
		conn.TimeoutSeconds = int(math.Ceil(min(max(f.Number("read_timeout_seconds"), 0), 1e6)))
		conn.TimeoutAt = fieldAt(f, "session_parameters", "read_timeout_seconds")
	}
	if f := c.Field("retry_policy"); conn.Retry != nil && f.Fields["request_timeout"] != nil {
		conn.Retry.TimeoutAt = fieldAt(f, "retry_policy", "request_timeout")
	}
	return conn
}

func fieldAt(f *model.Field, name, part string) string {
	at := f.Fields[part].At
	return fmt.Sprintf("%s.%s (%s:%d)", name, part, at.File, at.Line)
}

// login warns that a server requires a login, which must be configured in the worker's connection of the same name.
func (b *builder) login(c *model.Component, conn *plan.Connection) {
	auth := c.Component("auth")
	if auth == nil || b.host.Connections[conn.ID] {
		return
	}
	settings := []string{fmt.Sprintf("url: %q", conn.URL), "oauth: login"}
	for _, s := range [][2]string{{"client_id", "oauth_client_id: ID"}, {"client_secret", `oauth_client_secret: "${NAME}"`},
		{"client_id_metadata_url", "oauth_client_url: URL"}} {
		if auth.Component("client").Field(s[0]) != nil {
			settings = append(settings, s[1])
		}
	}
	var scopes []string
	for _, s := range append(auth.JSON("scopes").Elements(), auth.JSON("scopes")) {
		if s != nil && s.Kind == source.String {
			scopes = append(scopes, strings.Fields(s.Text)...)
		}
	}
	if len(scopes) > 0 {
		quoted, _ := json.Marshal(scopes) // cannot fail for strings
		settings = append(settings, "oauth_scopes: "+string(quoted))
	}
	b.Warnf(auth.At, CodeOAuth, fmt.Sprintf("set in weft.yaml: connections: {%q: {%s}}; then run: worker login %s", conn.ID, strings.Join(settings, ", "), conn.ID),
		"%s requires an OAuth login on the worker", c)
}

// checkURL reports an invalid URL, such as one with a placeholder for its host.
func (b *builder) checkURL(c *model.Component, field string) {
	if _, ok := source.ServerURL(c.Text(field)); !ok {
		b.Errorf(c.FieldPos(field), "field-value", "use an http or https URL without a password", "the %s of %s is not an http or https URL", field, c)
	}
}

func (b *builder) stdio(c *model.Component, conn *plan.Connection) {
	conn.Transport, conn.Command, conn.Dir = plan.TransportStdio, c.Text("command"), c.Text("cwd")
	if conn.Dir != "" && !path.IsAbs(conn.Dir) {
		b.Errorf(c.FieldPos("cwd"), "field-value", "use an absolute path", "cwd of %s is %s, expected an absolute path", c, source.Quote(conn.Dir))
	}
	for _, a := range c.JSON("args").Items {
		conn.Args = append(conn.Args, a.Text)
	}
	for _, m := range c.JSON("env").Members {
		if m.Key == "" || strings.ContainsAny(m.Key, "=\x00") || strings.Contains(m.Value.Text, "\x00") {
			b.Errorf(m.KeyPos, "field-value", "use a variable name without =", "env of %s has %s, which is not a valid variable name", c, source.Quote(m.Key))
			continue
		}
		conn.Env = append(conn.Env, plan.Header{Name: m.Key, Value: m.Value.Text})
	}
}

// secretHeaders returns the headers whose values are secrets of the worker: one per header, or one for all of them.
func secretHeaders(c *model.Component) []plan.Header {
	f := c.Field("sensitive_headers")
	if f == nil {
		return nil
	}
	var out []plan.Header
	for i, ref := range f.Secrets {
		h := plan.Header{Value: ref}
		if i < len(f.Keys) {
			h.Name = f.Keys[i]
		}
		out = append(out, h)
	}
	return out
}

// certificates returns a client's certificates; nil if it has none.
func certificates(c *model.Component) *plan.TLS {
	secret := func(field string) string {
		if f := c.Field(field); f != nil && len(f.Secrets) > 0 {
			return f.Secrets[0]
		}
		return ""
	}
	if t := (plan.TLS{CA: secret("ca_file"), Cert: secret("cert_file"), Key: secret("key_file")}); t != (plan.TLS{}) {
		return &t
	}
	return nil
}

func (b *builder) headers(c *model.Component) []plan.Header {
	var out []plan.Header
	for _, m := range c.JSON("headers").Members {
		if !source.IsHeader(m.Key, m.Value.Text) {
			b.Errorf(m.KeyPos, "field-value", "use a valid header name and a single-line value", "a header of %s cannot be sent", c)
			continue
		}
		out = append(out, plan.Header{Name: m.Key, Value: m.Value.Text})
	}
	return out
}

// request returns the connection of a component that is a single HTTP request.
func (b *builder) request(c *model.Component) plan.Connection {
	name := cmp.Or(c.Name, c.ID)
	address := c.Text("url")
	server := model.HostOf(address)
	if strings.Contains(server, "{{") {
		b.checkTemplatedHost(c, server)
	}
	server = strings.TrimPrefix(server, "://")
	path := strings.TrimPrefix(address, server)
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	path, _, _ = strings.Cut(path, "#")
	q := plan.Request{Name: name, Description: c.Description, Schema: objectOf(c.Inputs), Method: c.Text("http_method"), Path: path,
		Query: b.pairs(c, "query_params"), Headers: b.pairs(c, "headers")}
	if f := c.Field("data"); f != nil && f.IsSet() {
		q.Body = jsonOf(f.JSON)
	}
	for _, item := range c.JSON("url_allow_list").Items {
		q.Allow = append(q.Allow, item.Text)
	}
	id := unique(b.ids, "http:"+model.SafeID(name))
	return plan.Connection{ID: id, Name: name, Kind: plan.ConnectionHTTP, URL: server, Requests: []plan.Request{q},
		Secrets: secretHeaders(c), Retry: b.retry(c, true)}
}

func (b *builder) checkTemplatedHost(c *model.Component, server string) {
	scheme, host, _ := strings.Cut(server, "://")
	begins := scheme == "" && strings.HasPrefix(host, "{{")
	rest := value.Placeholder.ReplaceAllString(scheme+host, "")
	if !begins && scheme != "http" && scheme != "https" && value.Placeholder.ReplaceAllString(scheme, "") != "" || strings.ContainsAny(rest, "@{} ") || !begins && scheme == "" {
		b.Errorf(c.FieldPos("url"), "field-value", "start with http:// or https:// and a host, or with a placeholder for the whole URL", "url of %s is %s, which cannot become an http or https URL",
			c, source.Quote(c.Text("url")))
	}
}

// pairs returns the members of a field as strings. A list becomes one pair per item.
func (b *builder) pairs(c *model.Component, field string) []plan.Header {
	var out []plan.Header
	for _, m := range c.JSON(field).Members {
		values := []*source.Value{m.Value}
		if m.Value.Kind == source.Array {
			values = m.Value.Items
		}
		for _, v := range values {
			switch v.Kind {
			case source.String, source.Number, source.Bool:
				out = append(out, plan.Header{Name: m.Key, Value: v.Literal()})
			case source.Null:
			default:
				b.Errorf(v.Pos, "field-value", "use a string, a number, true or false", "%s in %s of %s is %s", source.Quote(m.Key), field, c, v.Describe())
			}
		}
	}
	return out
}

// retry returns the retry policy of a component's calls; nil if it has none. byStatus reports
// whether calls are retried depending on the HTTP status; for others, the client of the server
// decides.
func (b *builder) retry(c *model.Component, byStatus bool) *plan.Retry {
	f := c.Field("retry_policy")
	if f == nil {
		return nil
	}
	millis := func(name string) int { return int(f.Number(name) * 1000) }
	const day = 24 * 3600
	for _, name := range []string{"request_timeout", "initial_retry_delay", "max_retry_delay", "max_attempts"} {
		if part := f.Fields[name]; part != nil && f.Number(name) > day {
			b.Errorf(part.At, "field-value", "use at most 86400", "%s in retry_policy of %s is %s", name, c, part.JSON.Describe())
			return nil
		}
	}
	r := &plan.Retry{
		Attempts: int(f.Number("max_attempts")), TimeoutMillis: millis("request_timeout"),
		FirstMillis: millis("initial_retry_delay"), MostMillis: millis("max_retry_delay"), Factor: f.Number("backoff_factor"),
	}
	if part := f.Fields["backoff_factor"]; r.Factor < 1 || r.Factor > 1000 {
		b.Warnf(part.At, CodeNoEffect, "use 1 to 1000", "backoff_factor in retry_policy of %s is %s; the delay stays constant", c, part.JSON.Describe())
		r.Factor = 1
	}
	if part := f.Fields["jitter"]; part != nil && part.JSON.Kind == source.String {
		b.Warnf(part.At, CodeNoEffect, "remove it", "jitter in retry_policy of %s has no effect", c)
	}
	b.setStatuses(c, f, r, byStatus)
	return r
}

// setStatuses sets the HTTP statuses after which a request is retried.
func (b *builder) setStatuses(c *model.Component, f *model.Field, r *plan.Retry, byStatus bool) {
	listed, any5xx := f.Fields["recoverable_statuses"], f.Fields["service_error_retry_on_any_5xx"]
	if !byStatus {
		for _, part := range []*model.Field{listed, any5xx} {
			if part != nil {
				b.Warnf(part.At, CodeNoEffect, "remove it", "statuses in retry_policy of %s have no effect: only transient failures are retried", c)
				return
			}
		}
		return
	}
	r.Statuses = []int{409, 429}
	if listed != nil && listed.JSON.Kind == source.Object {
		r.Statuses = b.statusList(c, listed)
	}
	r.NoServer = any5xx != nil && any5xx.JSON.Kind == source.Bool && !any5xx.JSON.True
}

func (b *builder) statusList(c *model.Component, f *model.Field) []int {
	var out []int
	for _, m := range f.JSON.Members {
		n, err := strconv.Atoi(m.Key)
		if err != nil || n < 400 || n > 599 {
			b.Errorf(m.KeyPos, "field-value", "use a status from 400 to 599", "recoverable_statuses of %s has the unsupported status %s", c, source.Quote(m.Key))
			continue
		}
		if len(m.Value.Items) > 0 {
			b.Warnf(m.Value.Pos, CodeNoEffect, "use []", "codes of a status in retry_policy of %s have no effect: every response with the status is retried", c)
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
