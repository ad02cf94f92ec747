package agentspec

import (
	"net/url"
	"strings"

	"weft/workflows/plan"
)

// tool is a tool as a node calls it. taken are the names that the node's model knows already.
func (b *builder) tool(c *Component, taken map[string]bool) *plan.Tool {
	t := &plan.Tool{Name: or(c.Name, c.ID), Description: c.Description, Confirm: c.Flag("requires_confirmation")}
	t.As = unique(taken, toolName(t.Name))
	switch c.Type.Name {
	case "ServerTool":
		if !b.host.UnboundTools[t.Name] && !b.told[c] {
			b.told[c] = true
			b.warnf(c.At, CodeUnknownTool, "register a function of this name with the worker, or map it in weft.yaml under tools", "%s is none of the tools that are known here; a run needs a worker that has it", c)
		}
	case "ClientTool":
		t.Connection = b.client(c)
	case "RemoteTool":
		t.Connection = b.request(c)
	case "MCPTool":
		t.Connection = b.server(c.Component("client_transport"))
	}
	return t
}

// maxToolName is the longest name of a tool that all providers take.
const maxToolName = 60

// toolName is a tool's name as all providers take it.
func toolName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
	return s[:min(len(s), maxToolName)]
}

// client is the connection of a tool that a client of the run executes.
func (b *builder) client(c *Component) string {
	if id, ok := b.connected[c]; ok {
		return id
	}
	name := or(c.Name, c.ID)
	id := unique(b.ids, "client:"+safeID(name))
	tool := plan.ClientTool{Name: name, Description: c.Description, Schema: objectOf(c.Inputs)}
	if len(c.Outputs) > 1 {
		tool.Result = objectOf(c.Outputs)
	}
	b.connected[c] = id
	b.connections = append(b.connections, plan.Connection{ID: id, Name: name, Kind: plan.ConnectionClient, Tools: []plan.ClientTool{tool}})
	return id
}

// server is the connection to an MCP server. Its id is the author's name, so that the worker's
// settings can name it.
func (b *builder) server(c *Component) string {
	if id, ok := b.connected[c]; ok {
		return id
	}
	conn := plan.Connection{ID: unique(b.ids, safeID(or(c.Name, or(c.ID, "mcp")))), Name: c.Name, Kind: plan.ConnectionMCP, Description: c.Description}
	switch c.Type.Name {
	case "StdioTransport":
		conn.Transport, conn.Command = plan.TransportStdio, c.Text("command")
		if f := c.Field("args"); f != nil {
			for _, a := range f.JSON.Items {
				conn.Args = append(conn.Args, a.Text)
			}
		}
	default:
		conn.URL = c.Text("url")
		if c.Type.Name == "SSETransport" {
			conn.Transport = plan.TransportSSE
		}
		if u, err := url.Parse(conn.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			b.errorf(c.at("url"), "field-value", "write the server's http or https address, without a password", "the url of %s is no address of a server", c)
		}
		conn.Headers = b.headers(c)
	}
	b.connected[c] = conn.ID
	b.connections = append(b.connections, conn)
	return conn.ID
}

// headers go with every request to a server.
func (b *builder) headers(c *Component) []plan.Header {
	f := c.Field("headers")
	if f == nil {
		return nil
	}
	var out []plan.Header
	for _, m := range f.JSON.Members {
		if strings.ContainsAny(m.Key, " \t\r\n:") || strings.ContainsAny(m.Value.Text, "\r\n\x00") || m.Key == "" {
			b.errorf(Place{f.At.File, m.KeyPos}, "field-value", "write a header's name and one line of text", "a header of %s cannot be sent", c)
			continue
		}
		out = append(out, plan.Header{Name: m.Key, Value: m.Value.Text})
	}
	return out
}
