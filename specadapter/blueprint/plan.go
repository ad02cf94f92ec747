package blueprint

import (
	"strings"

	"weft/specadapter/inputs"
	"weft/specadapter/source"
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

// kept are the kinds that the framework replaces and a run does not, and why.
var kept = map[string]string{
	"env":     "a file may not read the worker's environment",
	"runtime": "a run's ids are not put into texts yet",
	"runner":  "there is no runner",
}

// replaced says whether a text holds a placeholder that a run's start replaces.
func replaced(text string) bool {
	for _, m := range inputs.Placeholder.FindAllStringSubmatch(text, -1) {
		if kind, _, ok := strings.Cut(m[1], "."); ok && kinds[kind] {
			return true
		}
	}
	return false
}

// placeholders reports those that stay as they are written.
func (g *agent) placeholders() {
	if file, ok := g.a.beside(filePrompt); ok {
		text := g.a.files[file]
		for _, m := range inputs.Placeholder.FindAllStringSubmatchIndex(text, -1) {
			g.placeholder(file, placeOf(text, m[0]), text[m[2]:m[3]])
		}
	}
	for _, key := range []string{"system_prompt", "output_schema"} {
		if v := g.value.Get(key); v != nil {
			g.inValue(v)
		}
	}
}

// inValue reports the placeholders in the texts of a value.
func (g *agent) inValue(v *source.Value) {
	if v.Kind == source.String {
		for _, m := range inputs.Placeholder.FindAllStringSubmatch(v.Text, -1) {
			g.placeholder(g.file, v.Pos, m[1])
		}
	}
	for _, item := range v.Items {
		g.inValue(item)
	}
	for _, m := range v.Members {
		g.inValue(m.Value)
	}
}

func (g *agent) placeholder(file string, at source.Pos, name string) {
	kind, key, ok := strings.Cut(name, ".")
	switch {
	case ok && kind == "params" && !g.declares(key):
		g.a.warnf(file, at, CodePlaceholder, "declare it in parameters_schema, or correct the name",
			"%s stands for a parameter that no run can have; it stays as it is written", source.Quote("${"+name+"}"))
	case ok && kinds[kind]:
	case ok && kept[kind] != "":
		g.a.warnf(file, at, CodePlaceholder, "give the value as a parameter: ${params.NAME}", "%s stays as it is written: %s", source.Quote("${"+name+"}"), kept[kind])
	}
}

// declares says whether a run can have a parameter.
func (g *agent) declares(name string) bool {
	if g.mode == plan.InputsMerged && name == "prompt" {
		return true
	}
	if len(g.params) == 0 || string(g.params) == "{}" {
		return name == "prompt"
	}
	rules := g.value.Get("parameters_schema")
	extra := rules.Get("additionalProperties")
	closed := extra != nil && extra.Kind == source.Bool && !extra.True
	return !closed || rules.Get("properties").Get(name) != nil
}
