// Package blueprint adapts agent blueprints of the Agent Orchestrator Framework to plans.
//
// A blueprint is a folder: agent.json, agent.system-prompt.md, agent.mcp.json, with
// capabilities, MCP servers and scripts in registries beside it. The adapter gets all of them as
// texts and never accesses the disk; [Collect] finds the files of a blueprint. Unsupported parts
// are errors and never silently ignored; README.md has the table.
//
// Start at [Adapter.Adapt]; agent.go reads one agent, plan.go compiles its plan.
package blueprint

import (
	"fmt"
	"path"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// Name is the dialect's name.
const Name = "blueprint"

// The profiles.
const (
	// ProfileDefault wants a prompt beside an agent's own parameters.
	ProfileDefault = "default"
	// ProfileAuthoritative uses an agent's parameters_schema as written.
	ProfileAuthoritative = "authoritative"
	// ProfileDocumented is default, with errors of parameters and answers as the documentation shows them.
	ProfileDocumented = "documented"
)

// Adapter is the dialect's adapter.
type Adapter struct{}

// Name is "blueprint".
func (Adapter) Name() string { return Name }

// Profiles are default, authoritative and documented.
func (Adapter) Profiles() []string {
	return []string{ProfileDefault, ProfileAuthoritative, ProfileDocumented}
}

// Traits returns the traits: agents declare their inputs, and they are folders.
func (Adapter) Traits() source.Traits { return source.Traits{Inputs: true, Files: true} }

// Detect looks for a name with one of the members that blueprints have, and for none of
// those that mark other dialects.
func (Adapter) Detect(doc *source.Document) (bool, string) {
	const looked = `an object with "name" and "description" and no "nodes"`
	switch path.Base(doc.Name) {
	case fileCapability, fileScript, fileServer:
		return false, looked
	}
	if doc.Root.Get("name") == nil {
		return false, looked
	}
	if foreign := doc.Root.FirstOf("nodes", "edges", "agents", "data_connections", "response_format", "generation_prompt",
		"execution_plan", "component_type", "agentspec_version", "url", "script_file"); foreign != "" {
		return false, looked + ", and without " + source.Quote(foreign)
	}
	return doc.Root.FirstOf("description", "parameters_schema", "output_schema", "system_prompt", "mcp_servers", "capabilities", "hooks", "command") != "", looked
}

// Adapt compiles an agent to a plan with one node, which produces the result.
func (Adapter) Adapt(doc *source.Document, profile string, host source.Host) (*plan.Flow, plan.Source, []source.Diagnostic) {
	return newAdaptation(doc, profile, host).adapt(doc)
}

func (a *adaptation) adapt(doc *source.Document) (*plan.Flow, plan.Source, []source.Diagnostic) {
	src := plan.Source{File: doc.Name}
	if doc.Root.Kind != source.Object {
		a.Errorf(doc.Root.Pos, CodeWrongType, `use an agent: {"name": ..., "description": ...}`,
			"the document is %s, expected an object", doc.Root.Kind)
		return nil, src, a.Diags
	}
	agent := a.agent(doc.Root)
	a.unsupported(agent)
	f := a.plan(agent)
	a.startable(agent, f)
	src.Positions = []plan.Position{{Path: plan.NodePath(f.Nodes[0].ID), Line: doc.Root.Pos.Line, Col: doc.Root.Pos.Col}}
	return f, src, a.Diags
}

type adaptation struct {
	*source.Reader
	main string
	// hooking says for which hook the agent is read, if for one.
	hooking string
	profile string
	host    source.Host
	files   map[string]string
	// collector, if set, reads files when they are asked for.
	collector *collector
	// parsed are the files that have been read as JSON.
	parsed map[string]*source.Value
}

func newAdaptation(doc *source.Document, profile string, host source.Host) *adaptation {
	a := &adaptation{Reader: source.NewReader(), main: doc.Name, profile: profile, host: host, files: map[string]string{}, parsed: map[string]*source.Value{}}
	for _, f := range host.Files {
		a.files[f.Name] = f.Text
	}
	return a
}

// Codes of the diagnostics. README.md lists them.
const (
	CodeWrongType    = source.CodeWrongType
	CodeMissing      = source.CodeMissing
	CodeUnknown      = source.CodeUnknown
	CodeName         = "name"
	CodeType         = "agent-type"
	CodeDisabled     = "disabled"
	CodeSchema       = "schema"
	CodeTwice        = "twice"
	CodeTooMany      = "too-many"
	CodeNoPrompt     = "no-prompt"
	CodeEncoding     = "encoding"
	CodeCapability   = "capability"
	CodeScript       = "script"
	CodeServer       = "mcp-server"
	CodeServerConfig = "mcp-config"
	CodeServerURL    = "mcp-url"
	CodeCommand      = "inline-command"
	CodeSecret       = source.CodeSecretInline
	CodeOlder        = "older-shape"
	CodeHook         = "hook"
	CodeMode         = "input-mode"
	CodePlaceholder  = "placeholder"
	CodeProgram      = "program"
	CodeNoEffect     = "no-effect"
	CodeNotStarted   = "not-started"
)

// object is an object of one of the agent's files whose fields are being read.
type object struct {
	*source.Fields
	a *adaptation
}

// object begins to read a value's fields; it reports a value that is not an object.
func (a *adaptation) object(v *source.Value, name string) *object {
	return &object{Fields: a.Fields(v, name, ""), a: a}
}

// open begins to read the object in a file; nil where there is none, which is reported.
func (a *adaptation) open(file, name string) *object {
	root := a.parse(file)
	if root == nil {
		return nil
	}
	if o := a.object(root, name); o.OK {
		return o
	}
	return nil
}

func (o *object) file() string { return o.Value.Pos.File }

type word struct {
	text string
	at   source.Pos
}

// Bounds of what one agent names, so that its cost stays small whatever it holds.
const (
	maxWords   = 1000
	maxServers = 100
	maxHeaders = 100
)

// fits reports a list or object with more elements than are read.
func (o *object) fits(v *source.Value, what string, most int) bool {
	n := len(v.Items) + len(v.Members)
	if n <= most {
		return true
	}
	o.a.Errorf(v.Pos, CodeTooMany, "remove what is not needed", "%s has %d elements, over the limit of %d", what, n, most)
	return false
}

func (o *object) words(key string) []word {
	v := o.Expect(key, source.Array)
	if v == nil || !o.fits(v, key+" of "+o.Name, maxWords) {
		return nil
	}
	var out []word
	for i, item := range v.Items {
		if text, ok := o.a.Text(item, fmt.Sprintf("%s[%d] of %s", key, i, o.Name), false); ok {
			out = append(out, word{text, item.Pos})
		}
	}
	return out
}
