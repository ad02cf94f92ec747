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

// tools reads a node's ToolBindings and leaves out those that have no effect.
func (g *graph) tools(node *source.Fields) []boundTool {
	type key struct{ name, connection string }
	seen := map[key]bool{}
	var out []boundTool
	for i, v := range node.List("tools") {
		o := g.adaptation.Fields(v, fmt.Sprintf("tool %d of %s", i+1, node.Name), g.object.Path+"nodes[].tools[].").Of(&toolShape)
		if !o.OK {
			continue
		}
		t := boundTool{at: v.Pos}
		t.Name = o.Required("name")
		t.Description = o.Text("description")
		connection, bad := o.Text("data_connection_id"), !o.Is("data_connection_id", source.String)
		t.Connection = connection
		if bad || strings.TrimSpace(t.Name) == "" || !g.bind(o, node, t.Name, connection) {
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

// bind judges a binding and reports whether it goes into the plan.
func (g *graph) bind(o, node *source.Fields, name, connection string) bool {
	c := g.conns.known(connection)
	switch {
	case name == plan.BuiltinCallSubAgent && connection == "":
		return false // every node has it
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

// builtins are the built-in tools of a node: all, without call_sub_agent where a sub-agent is bound.
func builtins(tools []boundTool) []string {
	bound := slices.ContainsFunc(tools, func(t boundTool) bool { return t.Name == plan.BuiltinCallSubAgent })
	return slices.DeleteFunc(slices.Clone(plan.Builtins), func(n string) bool { return bound && n == plan.BuiltinCallSubAgent })
}

// named gives every tool a unique name; a name that two tools share gets the connection as prefix.
func named(tools []boundTool, conns connections) []plan.Tool {
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

// maxToolName is the longest name of a tool that all providers take.
const maxToolName = 64

// unique takes a name, shortened, or with a hash of the binding where another tool has it.
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

// unboundHelp says how to give a tool a connection, and which tools need none.
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
