package continuum

import (
	"fmt"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// connections are those that the document declares.
type connections struct {
	list []plan.Connection
	byID map[string]int
	// declared reports whether the document lists connections at all; else all names are left
	// to the run.
	declared bool
	// agents are the ids of the agents, and whether a connection names each.
	agents map[string]bool
	// help lists the ids for messages.
	help string
}

func (c connections) known(id string) *plan.Connection {
	if i, ok := c.byID[id]; ok {
		return &c.list[i]
	}
	return nil
}

func (a *adaptation) connections(items []*source.Value, declared bool, bundle []graphFile) {
	a.conns = connections{byID: map[string]int{}, declared: declared, agents: map[string]bool{}}
	var agents, ids []string
	for _, g := range bundle {
		if g.id != "" {
			agents = append(agents, g.id)
			a.conns.agents[g.id] = false
		}
	}
	for i, v := range items {
		o := a.Fields(v, fmt.Sprintf("connection %d", i+1), "data_connections[].").Of(&connectionShape)
		if !o.OK {
			continue
		}
		c := plan.Connection{ID: o.Required("id")}
		if c.ID != "" {
			o.Name = "connection " + source.Quote(c.ID)
		}
		a.lintUUID(o)
		c.Name = o.Text("name")
		c.Description = o.Text("description")
		a.configure(o, &c, agents)
		if at, double := a.conns.byID[c.ID]; double {
			a.Errorf(o.Pos("id"), CodeDuplicateConn, "use a unique id", "duplicate connection id %s, first used by connection %d", source.Quote(c.ID), at+1)
			continue
		}
		if c.ID == "" {
			continue
		}
		a.conns.byID[c.ID] = len(a.conns.list)
		a.conns.list = append(a.conns.list, c)
		ids = append(ids, c.ID)
	}
	a.conns.help = source.Listed(ids, source.ListedNames)
}

func (a *adaptation) configure(o *source.Fields, c *plan.Connection, agents []string) {
	config := a.Fields(o.Value, o.Name, "")
	if v := o.Want("config", source.Object); v != nil {
		config = a.Fields(v, "config of "+o.Name, "data_connections[].config.").Of(&configShape)
	}
	address := config.Text("url")
	agent := config.Text("agent_id")
	switch a.connectionKind(o, address) {
	case plan.ConnectionMCP:
		c.Kind, c.URL = plan.ConnectionMCP, address
		a.checkURL(o, config, c)
	case plan.ConnectionAgent:
		c.Kind, c.Agent = plan.ConnectionAgent, agent
		a.checkAgent(config, agent, agents)
	}
}

// connectionKind reads the type: 1 is MCP, 2 a sub-agent; without a type a URL means MCP.
func (a *adaptation) connectionKind(o *source.Fields, address string) string {
	v := o.Get("type")
	if v == nil {
		if address == "" {
			a.Errorf(o.Value.Pos, CodeConnectionType, "use 1 for an MCP server or 2 for a sub-agent", "%s has no type", o.Name)
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
	a.Errorf(v.Pos, CodeConnectionType, "use 1 for an MCP server or 2 for a sub-agent", "the type of %s is %s, want 1 or 2", o.Name, v.Describe())
	return ""
}

// checkURL checks the address of an MCP server. It never repeats an address with a password.
func (a *adaptation) checkURL(o, config *source.Fields, c *plan.Connection) {
	if c.URL == "" {
		if !a.host.Connections[c.ID] {
			a.Warnf(config.Pos("url"), CodeConnectionURL, "set config.url, or set in the worker's weft.yaml: "+source.ConnectionLine(c.ID, ""), "%s has no config.url", o.Name)
		}
		return
	}
	a.CheckAddress(config.Pos("url"), CodeConnectionURL, "the url of "+o.Name, c.URL, "remove it and set in the worker's weft.yaml: "+source.ConnectionLine(c.ID, c.URL))
}

// checkAgent judges the agent that a sub-agent connection names.
func (a *adaptation) checkAgent(config *source.Fields, agent string, agents []string) {
	if _, known := a.conns.agents[agent]; known {
		a.conns.agents[agent] = true
		return
	}
	help := a.DidYouMean(agent, agents, "agents are")
	if agent == "" {
		a.Errorf(config.Pos("agent_id"), "V9", help, "%s has no agent_id", config.Name)
		return
	}
	a.Errorf(config.Pos("agent_id"), "V9", help, "unknown agent %s as the agent_id of %s", source.Quote(agent), config.Name)
}
