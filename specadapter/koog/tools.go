package koog

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// toolDecl is a tool that the flow declares: an MCP server or a tool of the worker.
type toolDecl struct {
	at, nameAt source.Pos
	name       string
	local      bool
	connection plan.Connection
	// skipped reports whether the published code ignores the tool.
	skipped bool
}

// The transports of an MCP server in this dialect; http is an extension.
const (
	transportSSE   = "sse"
	transportStdio = "stdio"
	transportHTTP  = "http"
)

func (a *adaptation) tool(i int, v *source.Value) *toolDecl {
	o := a.Fields(v, fmt.Sprintf("tool %d", i+1), "tools[].").Check(&toolShape)
	if !o.OK {
		return nil
	}
	t := &toolDecl{at: v.Pos, nameAt: o.Pos("name"), name: o.Required("name")}
	if t.name != "" {
		o.Name = "tool " + source.Quote(t.name)
	}
	kind := strings.ToLower(o.Required("type"))
	if o.Value.Get("parameters") == nil {
		a.Errorf(v.Pos, CodeMissing, `set "parameters"`, "%s has no parameters", o.Name)
		return t
	}
	p := o.Inner("parameters", o.Name)
	switch kind {
	case "mcp":
		a.mcp(p, t)
	case "local":
		t.local, t.skipped = true, a.mode != modeIntended
		p.Check(&localShape)
		if p.Get("fqn") == nil || a.mode != modeIntended {
			p.Required("path")
		}
	case "":
	default:
		a.Errorf(o.Pos("type"), CodeTool, "use mcp or local", "unknown type %s of %s", source.Quote(kind), o.Name)
	}
	return t
}

// mcp reads an MCP server. The tool's name becomes the connection's id.
func (a *adaptation) mcp(p *source.Fields, t *toolDecl) {
	c := &t.connection
	c.ID, c.Name, c.Kind, c.WholeResults = t.name, t.name, plan.ConnectionMCP, a.mode != modeIntended
	transport := p.Required("transport")
	if a.mode == modeIntended {
		transport = strings.ToLower(transport)
	}
	switch transport {
	case transportSSE, transportHTTP, "streamable-http", "streamable_http":
		if transport == transportSSE {
			c.Transport = plan.TransportSSE
		} else if a.mode != modeIntended {
			a.Errorf(p.Pos("transport"), CodeTool, "use sse or stdio", "unknown transport %s of %s", source.Quote(transport), p.Name)
		}
		p.Check(&remoteShape)
		c.URL = p.Required("url")
		if c.URL != "" {
			a.CheckAddress(p.Pos("url"), CodeTool, "the url of "+p.Name, c.URL, "put secrets into the worker's configuration, as a connection of this name")
		}
		a.headers(p, c)
	case transportStdio:
		p.Check(&stdioShape)
		a.command(p, t)
	case "":
	default:
		a.Errorf(p.Pos("transport"), CodeTool, "use sse, stdio or http", "unknown transport %s of %s", source.Quote(transport), p.Name)
	}
}

// headers reads the headers of every request. The published code drops them.
func (a *adaptation) headers(p *source.Fields, c *plan.Connection) {
	v := p.Expect("headers", source.Object)
	if v == nil {
		return
	}
	for _, m := range v.Members {
		text, ok := a.Text(m.Value, fmt.Sprintf("the header %s of %s", source.Quote(m.Key), p.Name), secretWord.MatchString(m.Key))
		switch {
		case !ok || a.mode != modeIntended:
		case !source.IsHeader(m.Key, text):
			a.Errorf(m.KeyPos, CodeTool, "use a valid header name and a single-line value", "the header %s of %s cannot be sent", source.Quote(m.Key), p.Name)
		default:
			c.Headers = append(c.Headers, plan.Header{Name: m.Key, Value: text})
			if secretWord.MatchString(m.Key) {
				a.Warnf(m.Value.Pos, CodeSecret, fmt.Sprintf("remove it, and set connections.%s with this url and headers in weft.yaml", c.ID),
					"the value of the header %s of %s is stored in the history of every run", source.Quote(m.Key), p.Name)
			}
		}
	}
	slices.SortFunc(c.Headers, func(x, y plan.Header) int { return strings.Compare(x.Name, y.Name) })
}

var secretWord = regexp.MustCompile(`(?i)auth|token|key|secret|cookie`)

// command reads a server that the worker starts. The published code skips it.
func (a *adaptation) command(p *source.Fields, t *toolDecl) {
	c := &t.connection
	c.Transport, t.skipped = plan.TransportStdio, a.mode != modeIntended
	c.Command = p.Required("command")
	for _, v := range p.List("args") {
		if text, ok := a.Text(v, "an argument of "+p.Name, false); ok {
			c.Args = append(c.Args, text)
		}
	}
	if a.mode == modeIntended && !a.host.Connections[t.name] {
		a.Warnf(p.Pos("command"), CodeCommand, fmt.Sprintf("allow it in weft.yaml: allow_commands: [%q], or configure connections.%s", c.Command, t.name),
			"%s starts the command %s, which the worker's operator must allow", p.Name, source.Quote(c.Command))
	}
}

// duplicateTools reports duplicate tool names. The published code accepts them.
func (a *adaptation) duplicateTools(d *document) {
	seen := map[string]*toolDecl{}
	for _, t := range d.tools {
		first := seen[t.name]
		switch {
		case first == nil:
			seen[t.name] = t
		case a.mode == modeIntended:
			a.Errorf(t.nameAt, CodeDuplicate, "rename it", "duplicate tool name %s, first used at line %d", source.Quote(t.name), first.at.Line)
		default:
			a.Warnf(t.nameAt, CodeDuplicate, "rename it", "duplicate tool name %s, first used at line %d; Koog uses the tools of both", source.Quote(t.name), first.at.Line)
			id := t.name + "~2"
			for n := 3; seen[id] != nil; n++ {
				id = fmt.Sprintf("%s~%d", t.name, n)
			}
			t.connection.ID, seen[id] = id, t
		}
	}
}

// availableTools returns the tools that agents can use: MCP servers and tools of the worker.
func (d *document) availableTools() (servers, locals []string) {
	for _, t := range d.tools {
		switch {
		case t.skipped:
		case t.local:
			locals = append(locals, t.name)
		case t.connection.ID != "":
			servers = append(servers, t.connection.ID)
		}
	}
	return servers, locals
}

// toolNames validates the names of tools: without an MCP server, the worker must have them.
func (a *adaptation) toolNames(d *document) {
	servers, locals := d.availableTools()
	for _, t := range d.tools {
		if t.local && !a.host.UnboundTools[t.name] {
			a.Errorf(t.nameAt, CodeUnknownTool, localHelp(t.name), "unknown local tool %s: the worker does not have it", source.Quote(t.name))
		}
	}
	for _, ag := range d.agents {
		a.chosenTool(ag, servers, locals)
		for i, name := range ag.toolNames {
			if slices.Contains(locals, name) || len(servers) > 0 || a.host.UnboundTools[name] {
				continue
			}
			a.Errorf(ag.toolsAt[i], CodeUnknownTool, localHelp(name), "unknown tool %s of agent %s: the flow declares no MCP server and the worker has no tool of that name",
				source.Quote(name), source.Quote(ag.name))
		}
	}
}

// chosenTool validates the tool that an agent's model must call first.
func (a *adaptation) chosenTool(ag *agent, servers, locals []string) {
	switch ag.choice {
	case "", plan.ChoiceAuto, plan.ChoiceNone, plan.ChoiceRequired, finishTool:
		return
	}
	availableTools := append(slices.Clone(ag.toolNames), locals...)
	if ag.listsTools {
		availableTools = ag.toolNames
	}
	if !slices.Contains(availableTools, ag.choice) && (ag.listsTools || len(servers) == 0) {
		a.Errorf(ag.choiceAt, CodeUnknownTool, a.DidYouMean(ag.choice, append(availableTools, finishTool), fmt.Sprintf("the tools of %q are", ag.name)),
			"the toolChoice of agent %s is %s, which is not one of its tools", source.Quote(ag.name), source.Quote(ag.choice))
	}
}

func localHelp(name string) string {
	return fmt.Sprintf("register the tool with the worker, or map it in weft.yaml (tools: {%s: CONNECTION}), for the starter and the worker", source.Quote(name))
}
