package blueprint

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"weft/specadapter/inputs"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// The types of agents.
const (
	typeAutonomous = "autonomous"
	typeProcedural = "procedural"
)

// agent is a parsed blueprint.
type agent struct {
	*object
	name, description, kind, mode string
	// prompt is the system prompt of the agent and its capabilities.
	prompt string
	// params and output are JSON Schemas in the author's key order.
	params, output json.RawMessage
	servers        []server
	// program is the program of a procedural agent.
	program *plan.Program
	// scripts are the names of the scripts that its capabilities refer to.
	scripts []listItem
	hooks   []hook
	demands *source.Value
	// capabilities are the names of the capabilities that have been read.
	capabilities map[string]bool
}

func (a *adaptation) agent(root *source.Value) *agent {
	g := &agent{object: a.object(root, "the agent"), capabilities: map[string]bool{}}
	g.checkFields()
	g.name = g.agentName()
	g.description = g.Required("description")
	g.kind = g.agentType()
	g.mode = g.inputMode()
	g.params = g.schema("parameters_schema")
	g.output = g.schema("output_schema")
	g.listItems("skills")
	g.listItems("tags")
	g.readDemands()
	g.readHooks()
	parts := []string{g.systemPrompt()}
	for _, c := range g.listItems("capabilities") {
		parts = append(parts, g.capability(c)...)
	}
	g.ownServers()
	g.prompt = strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "\n\n---\n\n")
	g.procedural()
	g.placeholders()
	if file, off := a.agentFile(fileDisabled); off {
		g.a.Errorf(source.Pos{File: g.file()}, CodeDisabled, "remove "+file+" to make it active", "the agent is disabled")
	}
	return g
}

// checkFields reports unknown fields, and separately those of earlier versions.
func (g *agent) checkFields() {
	if v := g.Value.Get("visibility"); v != nil {
		g.a.Warnf(v.Pos, CodeOlder, `use "tags": ["internal"] or ["external"]`, "visibility is the old name of tags and has no effect")
		g.WarnUnknown(append(agentShape.Names(), "visibility")...)
		return
	}
	g.Check(&agentShape)
}

var agentName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,59}$`)

func (g *agent) agentName() string {
	name := g.Required("name")
	if strings.TrimSpace(name) == "" {
		return "agent"
	}
	g.Name = "agent " + source.Quote(name)
	if !agentName.MatchString(name) {
		g.a.Warnf(g.Pos("name"), CodeName, "use at most 60 letters, digits, _ and -, with a letter or digit first", "the framework's API rejects the name %s", source.Quote(name))
	}
	if folder := path.Base(path.Dir(g.file())); path.Base(g.file()) == fileAgent && path.Dir(g.file()) != "." && folder != name {
		g.a.Warnf(g.Pos("name"), CodeName, "use one name for both; agents are found by folder name", "the agent %s is in a folder named %s", source.Quote(name), source.Quote(folder))
	}
	return name
}

func (g *agent) agentType() string {
	switch kind := g.Text("type"); kind {
	case "":
		// The framework's runners register programs without a type.
		if g.Value.Get("command") != nil {
			return typeProcedural
		}
		return typeAutonomous
	case typeAutonomous, typeProcedural:
		return kind
	default:
		g.a.Errorf(g.Pos("type"), CodeType, `use "autonomous" or "procedural"`, "the type of %s is %s", g.Name, source.Quote(kind))
		return typeAutonomous
	}
}

func (g *agent) inputMode() string {
	if g.kind == typeProcedural {
		return plan.InputsProcedural
	}
	switch mode := g.Text("input_mode"); mode {
	case plan.InputsMerged, plan.InputsAuthoritative:
		return mode
	case "":
	default:
		g.a.Errorf(g.Pos("input_mode"), CodeMode, `use "merged" or "authoritative"`, "the input_mode of %s is %s", g.Name, source.Quote(mode))
	}
	if g.a.profile == ProfileAuthoritative {
		return plan.InputsAuthoritative
	}
	return plan.InputsMerged
}

// schema validates and returns a schema; nil if it is absent, unlike the schema {}.
func (g *agent) schema(key string) json.RawMessage {
	v := g.Expect(key, source.Object)
	if v == nil {
		return nil
	}
	g.a.CheckSchema(v, CodeSchema, key+" of "+g.Name)
	return v.JSON()
}

// systemPrompt returns the agent's system prompt, from the file next to it or from its field.
func (g *agent) systemPrompt() string {
	file, ok := g.a.agentFile(filePrompt)
	inline := g.Expect("system_prompt", source.String)
	switch {
	case ok && inline != nil:
		g.a.Errorf(inline.Pos, CodeTwice, "keep one of the two", "the system prompt of %s is defined both here and in %s", g.Name, file)
		return ""
	case ok:
		return g.a.markdown(file)
	case inline != nil:
		return inline.Text
	}
	if g.kind == typeAutonomous && g.Value.Get("capabilities") == nil {
		g.a.Warnf(g.Value.Pos, CodeNoPrompt, "add "+filePrompt+" next to it; for a folder, pass the folder or its "+fileAgent,
			"%s has no system prompt", g.Name)
	}
	return ""
}

// readDemands validates the requirements on a runner, which have no effect.
func (g *agent) readDemands() {
	g.demands = g.Expect("demands", source.Object)
	if g.demands == nil {
		return
	}
	o := g.a.object(g.demands, "demands of "+g.Name)
	o.Check(&demandsShape)
	for _, key := range []string{"hostname", "project_dir", "executor_profile", "executor_type"} {
		o.Text(key)
	}
	o.listItems("tags")
}

// unsupportedKinds are the kinds of placeholders that only the framework replaces, with the reason.
var unsupportedKinds = map[string]string{
	"env":    "texts cannot read the worker's environment",
	"runner": "runs have no runner",
}

// maxPlaceholders is the maximum number of placeholders of an agent that are reported.
const maxPlaceholders = 20

// placeholders reports placeholders that are not replaced, each name once.
func (g *agent) placeholders() {
	declared, seen, reported := g.declared(), map[string]bool{}, 0
	report := func(name string, at func() source.Pos) {
		kind, key, ok := strings.Cut(name, ".")
		if !ok || seen[name] || reported > maxPlaceholders {
			return
		}
		seen[name] = true
		why, help := unsupportedKinds[kind], "pass the value as a parameter: ${params.NAME}"
		if kind == "params" && !declared(key) {
			why, help = "unknown parameter", "declare it in parameters_schema, or fix the name"
		}
		if why == "" {
			return
		}
		if reported++; reported > maxPlaceholders {
			g.a.Warnf(at(), CodePlaceholder, "fix the ones above first", "further placeholders that are not replaced are omitted")
		} else {
			g.a.Warnf(at(), CodePlaceholder, help, "%s is not replaced: %s", source.Quote("${"+name+"}"), why)
		}
	}
	if file, ok := g.a.agentFile(filePrompt); ok {
		text := g.a.files[file]
		for _, m := range inputs.Placeholder.FindAllStringSubmatchIndex(text, -1) {
			report(text[m[2]:m[3]], func() source.Pos {
				before := text[:m[0]]
				return source.Pos{File: file, Line: strings.Count(before, "\n") + 1, Col: m[0] - strings.LastIndexByte(before, '\n')}
			})
		}
	}
	for _, key := range []string{"system_prompt", "output_schema"} {
		if v := g.Value.Get(key); v != nil {
			for part := range v.All() {
				for _, m := range inputs.Placeholder.FindAllStringSubmatch(part.Value.Text, -1) {
					report(m[1], func() source.Pos { return part.Value.Pos })
				}
			}
		}
	}
}

// declared returns a function that reports whether a run can have a parameter.
func (g *agent) declared() func(name string) bool {
	rules := g.Value.Get("parameters_schema")
	if len(g.params) == 0 || string(g.params) == "{}" {
		return func(name string) bool { return name == "prompt" }
	}
	if extra := rules.Get("additionalProperties"); extra == nil || extra.Kind != source.Bool || extra.True {
		return func(string) bool { return true }
	}
	properties := rules.Get("properties")
	return func(name string) bool {
		return name == "prompt" && g.mode == plan.InputsMerged || properties.Get(name) != nil
	}
}
