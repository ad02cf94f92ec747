package continuum

import (
	"fmt"
	"net/url"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

var (
	connectionFields = []string{"id", "type", "name", "description", "config"}
	configFields     = []string{"url", "agent_id"}
)

// connections are those that the document declares.
type connections struct {
	list []plan.Connection
	byID map[string]int
	// declared says that the document lists connections at all; else all names are left
	// to the run.
	declared bool
	// agents are the ids of the agents that connections name.
	agents map[string]bool
	// help lists the ids for messages.
	help string
}

// known finds a declared connection, or nil.
func (c connections) known(id string) *plan.Connection {
	if i, ok := c.byID[id]; ok {
		return &c.list[i]
	}
	return nil
}

// agentIDs are the ids that a sub-agent connection can name.
type agentIDs struct {
	known map[string]bool
	names *source.Suggester
	help  string
}

func newAgentIDs(bundle []graphFile) agentIDs {
	var ids []string
	known := map[string]bool{}
	for _, g := range bundle {
		if g.id != "" && !known[g.id] {
			ids = append(ids, g.id)
			known[g.id] = true
		}
	}
	return agentIDs{known: known, names: source.NewSuggester(ids), help: "agents are: " + source.Listed(ids, listedNames)}
}

// connections reads data_connections.
func (a *adaptation) connections(items []*source.Value, declared bool, bundle []graphFile) {
	a.conns = connections{byID: map[string]int{}, declared: declared, agents: map[string]bool{}}
	agents := newAgentIDs(bundle)
	var ids []string
	for i, v := range items {
		o := a.object(v, fmt.Sprintf("connection %d", i+1), "data_connections[].")
		if !o.ok {
			continue
		}
		o.only(connectionFields...)
		c := plan.Connection{ID: o.required("id")}
		if c.ID != "" {
			o.what = "connection " + source.Quote(c.ID)
		}
		a.lintUUID(&o, "id")
		c.Name, _ = o.text("name")
		c.Description, _ = o.text("description")
		a.configure(&o, &c, agents)
		if at, double := a.conns.byID[c.ID]; double {
			a.errorf(o.pos("id"), CodeDuplicateConn, "give it another id", "the connection id %s is already that of connection %d", source.Quote(c.ID), at+1)
			continue
		}
		if c.ID == "" {
			continue
		}
		a.conns.byID[c.ID] = len(a.conns.list)
		a.conns.list = append(a.conns.list, c)
		ids = append(ids, c.ID)
	}
	a.conns.help = source.Listed(ids, listedNames)
}

// configure reads a connection's type and config.
func (a *adaptation) configure(o *object, c *plan.Connection, agents agentIDs) {
	config := object{a: a, value: o.value, what: o.what}
	if v, _ := o.present("config", source.Object); v != nil {
		config = a.object(v, "config of "+o.what, "data_connections[].config.")
		config.only(configFields...)
	}
	address, _ := config.text("url")
	agent, _ := config.text("agent_id")
	switch a.connectionKind(o, address) {
	case plan.ConnectionMCP:
		c.Kind, c.URL = plan.ConnectionMCP, address
		a.checkURL(o, &config, c)
	case plan.ConnectionAgent:
		c.Kind, c.Agent = plan.ConnectionAgent, agent
		a.checkAgent(&config, agent, agents)
	}
}

// connectionKind reads the type: 1 is MCP, 2 a sub-agent. Without a type a URL makes it
// MCP. The dialect's texts never name the number of MCP.
func (a *adaptation) connectionKind(o *object, address string) string {
	v := o.get("type")
	if v == nil || v.Kind == source.Null {
		if address == "" {
			a.errorf(o.value.Pos, CodeConnectionType, "write 1 for an MCP server or 2 for a sub-agent", "%s has no type", o.what)
			return ""
		}
		return plan.ConnectionMCP
	}
	switch n, _ := v.Int(); n {
	case 1:
		return plan.ConnectionMCP
	case 2:
		return plan.ConnectionAgent
	}
	a.errorf(v.Pos, CodeConnectionType, "write 1 for an MCP server or 2 for a sub-agent", "the type of %s is %s, want 1 or 2", o.what, v.Describe())
	return ""
}

// checkURL judges the address of an MCP server. It never repeats an address that holds a
// password.
func (a *adaptation) checkURL(o, config *object, c *plan.Connection) {
	if c.URL == "" {
		if !a.host.Connections[c.ID] {
			a.warnf(config.pos("url"), CodeConnectionURL, "write config.url, or set in the worker's weft.yaml: "+source.ConnectionLine(c.ID, ""), "%s has no config.url", o.what)
		}
		return
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		a.errorf(config.pos("url"), CodeConnectionURL, "write the server's address, such as https://tools.example.com/mcp",
			"the url of %s is no http or https address", o.what)
	case u.User != nil:
		a.errorf(config.pos("url"), CodeConnectionURL, "take it out, and set in the worker's weft.yaml: "+source.ConnectionLine(c.ID, c.URL),
			"the url of %s holds a user name or a password", o.what)
	}
}

// checkAgent judges the agent that a sub-agent connection names.
func (a *adaptation) checkAgent(config *object, agent string, agents agentIDs) {
	a.conns.agents[agent] = true
	if agents.known[agent] {
		return
	}
	help := agents.help
	if near := agents.names.Nearest(agent); near != "" {
		help = fmt.Sprintf("did you mean %q?", near)
	}
	if agent == "" {
		a.errorf(config.pos("agent_id"), "V9", help, "%s has no agent_id", config.what)
		return
	}
	a.errorf(config.pos("agent_id"), "V9", help, "the agent_id of %s is %s, which is no agent of the document", config.what, source.Quote(agent))
}
