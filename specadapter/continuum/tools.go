package continuum

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

type boundTool struct {
	plan.Tool
	at source.Pos
}

// tools returns a node's ToolBindings without those that have no effect.
func (g *graph) tools(node *source.Fields) []boundTool {
	type key struct{ name, connection string }
	seen := map[key]bool{}
	var out []boundTool
	for i, v := range node.List("tools") {
		o := g.adaptation.Fields(v, fmt.Sprintf("tool %d of %s", i+1, node.Name), g.object.Path+"nodes[].tools[].").Check(&toolShape)
		if !o.OK {
			continue
		}
		t := boundTool{at: v.Pos}
		t.Name = o.Required("name")
		t.Description = o.Text("description")
		connection, invalid := o.Text("data_connection_id"), !o.Is("data_connection_id", source.String)
		t.Connection = connection
		if invalid || strings.TrimSpace(t.Name) == "" || !g.bind(o, node, t.Name, connection) {
			continue
		}
		k := key{t.Name, connection}
		if seen[k] {
			g.Warnf(v.Pos, CodeDuplicateTool, "remove one of the two", "%s binds the tool %s of this connection twice", node.Name, source.Quote(t.Name))
			continue
		}
		seen[k] = true
		out = append(out, t)
	}
	return out
}

// bind validates a binding and reports whether it becomes part of the plan.
func (g *graph) bind(o, node *source.Fields, name, connection string) bool {
	c := g.conns.known(connection)
	switch {
	case name == plan.BuiltinCallSubAgent && connection == "":
		return false // every node has this tool
	case name == plan.BuiltinCallSubAgent && (c == nil || c.Kind == plan.ConnectionAgent):
	case slices.Contains(plan.Builtins, name):
		g.Strictf(o.Pos("name"), "V11", "remove it from tools", "%s binds the system tool %s, which every node has; this has no effect", node.Name, name)
		return false
	case connection == "":
		if !g.host.UnboundTools[name] {
			g.Errorf(o.Pos("data_connection_id"), "V10", g.unboundHelp(name),
				"the tool %s of %s has no data_connection_id", source.Quote(name), node.Name)
		}
		return g.host.UnboundTools[name]
	case c != nil && c.Kind == plan.ConnectionAgent:
		g.Errorf(o.Pos("name"), "V10", "use "+plan.BuiltinCallSubAgent, "the connection %s is a sub-agent and has no tool %s",
			source.Quote(connection), source.Quote(name))
		return false
	}
	if c == nil && g.conns.declared && !g.host.Connections[connection] {
		g.Errorf(o.Pos("data_connection_id"), "V9", "declare it in data_connections, which has: "+g.conns.help+"; or set in weft.yaml, of the starter and the worker: "+source.ConnectionLine(connection, ""),
			"the tool %s of %s refers to the unknown connection %s", source.Quote(name), node.Name, source.Quote(connection))
		return false
	}
	return true
}

// builtins returns the built-in tools of a node: all, without call_sub_agent if a sub-agent is bound.
func builtins(tools []boundTool) []string {
	bound := slices.ContainsFunc(tools, func(t boundTool) bool { return t.Name == plan.BuiltinCallSubAgent })
	return slices.DeleteFunc(slices.Clone(plan.Builtins), func(n string) bool { return bound && n == plan.BuiltinCallSubAgent })
}

// assignNames gives every tool a unique name for the model. Names that tools share are prefixed with the connection.
func assignNames(tools []boundTool, conns connections) []plan.Tool {
	taken, shared := map[string]bool{}, map[string]int{}
	for _, n := range builtins(tools) {
		taken[n] = true
		shared[n]++
	}
	for _, t := range tools {
		shared[source.SafeName(t.Name)]++
	}
	var out []plan.Tool
	for _, t := range tools {
		if base := source.SafeName(t.Name); shared[base] == 1 {
			t.As = unique(base, t.Tool, taken)
		}
		out = append(out, t.Tool)
	}
	for i := range out {
		if t := &out[i]; t.As == "" {
			t.As = unique(prefixed(t, conns), *t, taken)
		}
	}
	return out
}

func prefixed(t *plan.Tool, conns connections) string {
	slug := t.Connection
	if c := conns.known(t.Connection); c != nil && strings.TrimSpace(c.Name) != "" {
		slug = c.Name
	}
	if slug == "" {
		return source.SafeName(t.Name)
	}
	return source.SafeName(slug) + "_" + source.SafeName(t.Name)
}

// maxToolName is the maximum length of a tool name that all providers accept.
const maxToolName = 64

// unique returns name, or if it is too long or taken, name with a hash of the binding; it marks the result as taken.
func unique(name string, t plan.Tool, taken map[string]bool) string {
	for salt := 0; ; salt++ {
		as := name
		if salt > 0 || len(name) > maxToolName {
			sum := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%s", salt, t.Connection, t.Name))
			as = name[:min(len(name), maxToolName-9)] + "_" + hex.EncodeToString(sum[:4])
		}
		if !taken[as] {
			taken[as] = true
			return as
		}
	}
}

// unboundHelp describes how to set the connection of a tool, and lists the tools that need none.
func (g *graph) unboundHelp(name string) string {
	help := "set the id of the connection that has the tool"
	if g.conns.help != "none" {
		help += " (" + g.conns.help + ")"
	}
	connection := "CONNECTION"
	if ids := slices.Sorted(maps.Keys(g.host.Connections)); len(ids) == 1 {
		connection = ids[0]
	}
	help += fmt.Sprintf("; or set in weft.yaml, of the starter and the worker: tools: {%q: %q}", name, connection)
	names := slices.Sorted(maps.Keys(g.host.UnboundTools))
	if near := source.NewSuggester(names).Nearest(name); near != "" {
		return fmt.Sprintf("did you mean %s? Otherwise ", source.Quote(near)) + help
	}
	if len(names) > 0 {
		help += "; tools that need no connection here: " + source.Listed(names, source.ListedNames)
	}
	return help
}

type connections struct {
	list []plan.Connection
	byID map[string]int
	// declared reports whether the document lists connections. If not, the ids are resolved
	// at run time.
	declared bool
	// agents maps the id of each agent to whether a connection refers to it.
	agents map[string]bool
	// help lists the connection ids, for messages.
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
		o := a.Fields(v, fmt.Sprintf("connection %d", i+1), "data_connections[].").Check(&connectionShape)
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
	if v := o.Expect("config", source.Object); v != nil {
		config = a.Fields(v, "config of "+o.Name, "data_connections[].config.").Check(&configShape)
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

// connectionKind returns the kind for the type: 1 is MCP, 2 a sub-agent. Without a type, a URL implies MCP.
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
	a.Errorf(v.Pos, CodeConnectionType, "use 1 for an MCP server or 2 for a sub-agent", "the type of %s is %s, expected 1 or 2", o.Name, v.Describe())
	return ""
}

// checkURL validates the URL of an MCP server. Messages never contain a URL with a password.
func (a *adaptation) checkURL(o, config *source.Fields, c *plan.Connection) {
	if c.URL == "" {
		if !a.host.Connections[c.ID] {
			a.Warnf(config.Pos("url"), CodeConnectionURL, "set config.url, or set in the worker's weft.yaml: "+source.ConnectionLine(c.ID, ""), "%s has no config.url", o.Name)
		}
		return
	}
	a.CheckAddress(config.Pos("url"), CodeConnectionURL, "the url of "+o.Name, c.URL, "remove it and set in the worker's weft.yaml: "+source.ConnectionLine(c.ID, c.URL))
}

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
