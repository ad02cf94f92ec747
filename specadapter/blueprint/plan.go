package blueprint

import (
	"slices"
	"strings"

	"weft/specadapter/inputs"
	"weft/specadapter/source"
	"weft/specadapter/structured"
	"weft/workflows/plan"
)

// Limits of a run that the framework does not have.
const (
	// maxCalls is the maximum number of tool calls.
	maxCalls = 200
	// maxErrors is the number of consecutive tool errors that end the run.
	maxErrors = 20
)

// style returns the format of paths in validation errors.
func (a *adaptation) style() string {
	if a.profile == ProfileDocumented {
		return plan.StyleDocumented
	}
	return plan.StyleFramework
}

// plan returns a flow of one node, the agent, which produces the result.
func (a *adaptation) plan(g *agent) *plan.Flow {
	id := g.name
	if id == plan.Start || id == plan.End {
		id = "agent"
	}
	agent := &plan.Agent{Prompt: g.prompt, MaxCalls: maxCalls, MaxErrors: maxErrors, System: structured.Enrich(g.prompt, g.output)}
	if len(g.output) > 0 && string(g.output) != "{}" {
		agent.Output = &plan.Output{Schema: g.output, Repairs: 1, Style: a.style()}
	}
	in := &plan.Inputs{Schema: g.params, Mode: g.mode, Style: a.style(), Placeholders: hasPlaceholder(g.prompt) || hasPlaceholder(string(g.output))}
	connections := g.connections()
	for _, c := range connections {
		if agent.Toolboxes == nil {
			agent.Toolboxes = &plan.Toolboxes{All: true}
		}
		agent.Toolboxes.Connections = append(agent.Toolboxes.Connections, c.ID)
		in.Placeholders = in.Placeholders || hasPlaceholder(c.URL)
		for _, h := range c.Headers {
			// Required headers are checked when a run starts.
			in.Placeholders = in.Placeholders || h.Required || hasPlaceholder(h.Value)
		}
	}
	node := plan.Node{ID: id, Name: g.name, Kind: plan.KindAgent, Exit: true, Agent: agent}
	if g.kind == typeProcedural {
		node.Kind, node.Agent, node.Program = plan.KindProgram, nil, g.program
		in.Placeholders, connections = false, nil
	}
	f := &plan.Flow{Version: plan.Version, ID: g.name, Name: g.name, Dialect: Name, Description: g.description, Inputs: in,
		Nodes:       []plan.Node{node},
		Edges:       []plan.Edge{{ID: "in", From: plan.Start, To: id}, {ID: "out", From: id, To: plan.End}},
		Connections: connections,
	}
	if g.orchestrator() != nil {
		agent.Builtins = plan.SessionTools
	}
	g.addHooks(f)
	return f
}

// connections returns the agent's MCP servers; those that the worker configures have neither URL nor headers.
func (g *agent) connections() []plan.Connection {
	var out []plan.Connection
	for _, s := range g.servers {
		c := plan.Connection{ID: s.name, Name: s.title, Kind: plan.ConnectionMCP, Description: s.description, URL: s.url, Transport: s.transport}
		switch {
		case s.orchestrator:
			continue
		case s.configured:
			c.ID, c.URL, c.Transport = s.connection, "", ""
		default:
			for _, h := range s.headers {
				c.Headers = append(c.Headers, plan.Header{Name: h.name, Value: h.value, Secret: strings.Contains(h.value, "${env."), Required: h.required})
			}
		}
		if !slices.ContainsFunc(out, func(o plan.Connection) bool { return o.ID == c.ID }) {
			out = append(out, c)
		}
	}
	return out
}

// placeholderKinds are the kinds of placeholders that are replaced when a run starts.
var placeholderKinds = map[string]bool{"params": true, "scope": true, "runtime": true}

// hasPlaceholder reports whether a text contains a placeholder that is replaced when a run starts.
func hasPlaceholder(text string) bool {
	return slices.ContainsFunc(inputs.Placeholder.FindAllStringSubmatch(text, -1), func(m []string) bool {
		kind, _, ok := strings.Cut(m[1], ".")
		return ok && placeholderKinds[kind]
	})
}

// warnUnsupported warns of parts that have no effect on a run.
func (a *adaptation) warnUnsupported(g *agent) {
	for _, s := range g.scripts {
		a.Warnf(s.at, CodeNoEffect, "add a tool that runs it to the agent", "the script %s is described to the model, but no tool runs it", source.Quote(s.text))
	}
	if g.demands != nil && len(g.demands.Members) > 0 {
		g.a.Warnf(g.demands.Pos, CodeNoEffect, "start the run on a task queue with matching workers", "the demands of %s are ignored; any worker may run it", g.Name)
	}
}
