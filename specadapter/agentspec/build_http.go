package agentspec

import (
	"cmp"
	"strings"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
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
	if f := c.Field("data"); f != nil && f.JSON != nil && (len(f.JSON.Members) > 0 || len(f.JSON.Items) > 0 || f.JSON.Text != "") {
		q.Body = jsonOf(f.JSON)
	}
	if f := c.Field("url_allow_list"); f != nil {
		for _, item := range f.JSON.Items {
			q.Allow = append(q.Allow, item.Text)
		}
	}
	id := unique(b.ids, "http:"+model.SafeID(name))
	return plan.Connection{ID: id, Name: name, Kind: plan.ConnectionHTTP, URL: server, Requests: []plan.Request{q},
		Secrets: secretHeaders(c), Retry: b.retry(c, true)}
}

// chosenHost checks an address whose server is a placeholder.
func (b *builder) chosenHost(c *model.Component, server string) {
	scheme, host, _ := strings.Cut(server, "://")
	begins := scheme == "" && strings.HasPrefix(host, "{{")
	rest := model.Placeholder.ReplaceAllString(scheme+host, "")
	if !begins && scheme != "http" && scheme != "https" && model.Placeholder.ReplaceAllString(scheme, "") != "" || strings.ContainsAny(rest, "@{} ") || !begins && scheme == "" {
		b.Errorf(c.FieldPos("url"), "field-value", "write http:// or https:// and the host, or begin with a placeholder for the whole URL", "url of %s is %s, which is not an http or https URL for any values",
			c, source.Quote(c.Text("url")))
	}
}

// pairs are the members of a field, as texts. A list gives one for each item.
func (b *builder) pairs(c *model.Component, field string) []plan.Header {
	f := c.Field(field)
	if f == nil || f.JSON == nil {
		return nil
	}
	var out []plan.Header
	for _, m := range f.JSON.Members {
		values := []*source.Value{m.Value}
		if m.Value.Kind == source.Array {
			values = m.Value.Items
		}
		for _, v := range values {
			switch v.Kind {
			case source.String, source.Number:
				out = append(out, plan.Header{Name: m.Key, Value: v.Text})
			case source.Bool:
				out = append(out, plan.Header{Name: m.Key, Value: string(v.JSON())})
			case source.Null:
			default:
				b.Errorf(v.Pos, "field-value", "write a string, a number, true or false", "%s in %s of %s is %s", source.Quote(m.Key), field, c, v.Describe())
			}
		}
	}
	return out
}
