package blueprint

import (
	"strings"

	"weft/specadapter/inputs"
	"weft/specadapter/structured"
	"weft/workflows/plan"
)

// What the framework does not bound and a run must.
const (
	// maxCalls is the budget of tool calls of one run.
	maxCalls = 200
	// maxErrors is how many tool errors in a row end it.
	maxErrors = 20
)

// plan makes a flow of one node, the agent, which gives the result.
func (a *adaptation) plan(g *agent) *plan.Flow {
	id := g.name
	if id == plan.Start || id == plan.End {
		id = "agent"
	}
	agent := &plan.Agent{Prompt: g.prompt, MaxCalls: maxCalls, MaxErrors: maxErrors, System: structured.Enrich(g.prompt, g.output)}
	if len(g.output) > 0 && string(g.output) != "{}" {
		agent.Output = &plan.Output{Schema: g.output, Repairs: 1}
	}
	in := &plan.Inputs{Schema: g.params, Mode: g.mode, Placeholders: replaced(g.prompt) || replaced(string(g.output))}
	if a.profile == ProfileDocumented {
		in.Style = plan.StyleDocumented
	}
	f := &plan.Flow{Version: plan.Version, ID: g.name, Name: g.name, Dialect: Name, Description: g.description, Inputs: in,
		Nodes: []plan.Node{{ID: id, Name: g.name, Kind: plan.KindAgent, Exit: true, Agent: agent}},
		Edges: []plan.Edge{{ID: "in", From: plan.Start, To: id}, {ID: "out", From: id, To: plan.End}},
	}
	for _, s := range g.servers {
		if s.orchestrator {
			agent.Builtins = plan.SessionTools
			continue
		}
		c := plan.Connection{ID: s.name, Name: s.title, Kind: plan.ConnectionMCP, Description: s.description, URL: s.url}
		if s.configured {
			c.URL = ""
		}
		f.Connections = append(f.Connections, c)
	}
	return f
}

// kinds are the kinds of placeholders that a run's start replaces.
var kinds = map[string]bool{"params": true, "scope": true}

// replaced says whether a text holds a placeholder that a run's start replaces.
func replaced(text string) bool {
	for _, m := range inputs.Placeholder.FindAllStringSubmatch(text, -1) {
		if kind, _, ok := strings.Cut(m[1], "."); ok && kinds[kind] {
			return true
		}
	}
	return false
}
