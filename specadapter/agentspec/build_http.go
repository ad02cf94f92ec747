package agentspec

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// request makes the connection of a component that is one HTTP request.
func (b *builder) request(c *model.Component) plan.Connection {
	name := cmp.Or(c.Name, c.ID)
	address := c.Text("url")
	server := model.HostOf(address)
	if strings.Contains(server, "{{") {
		b.chosenHost(c, server)
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

// chosenHost checks an address whose server is a placeholder.
func (b *builder) chosenHost(c *model.Component, server string) {
	scheme, host, _ := strings.Cut(server, "://")
	begins := scheme == "" && strings.HasPrefix(host, "{{")
	rest := value.Placeholder.ReplaceAllString(scheme+host, "")
	if !begins && scheme != "http" && scheme != "https" && value.Placeholder.ReplaceAllString(scheme, "") != "" || strings.ContainsAny(rest, "@{} ") || !begins && scheme == "" {
		b.Errorf(c.FieldPos("url"), "field-value", "start with http:// or https:// and a host, or with a placeholder for the whole URL", "url of %s is %s, which cannot become an http or https URL",
			c, source.Quote(c.Text("url")))
	}
}

// pairs are the members of a field, as texts. A list gives one for each item.
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

// retry makes of a retry policy what a call is repeated by; nil where there is none. byStatus
// reports whether the component is a request whose answers' statuses count; others are judged by
// what speaks to the server.
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
	b.statuses(c, f, r, byStatus)
	return r
}

// statuses are the answers over HTTP after which a request is made again.
func (b *builder) statuses(c *model.Component, f *model.Field, r *plan.Retry, byStatus bool) {
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
		r.Statuses = b.listed(c, listed)
	}
	r.NoServer = any5xx != nil && any5xx.JSON.Kind == source.Bool && !any5xx.JSON.True
}

// listed are the statuses of recoverable_statuses.
func (b *builder) listed(c *model.Component, f *model.Field) []int {
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
