// Package blueprint compiles agent blueprints of the Agent Orchestrator Framework to plans.
//
// A blueprint is a folder with agent.json, agent.system-prompt.md and agent.mcp.json, which refer to
// capabilities, MCP servers and scripts in registries around it. The adapter receives the contents of
// all files and never accesses the disk; [Collect] reads the files of a blueprint. Unsupported parts
// are reported and never silently ignored; README.md has the table.
//
// Start at [Adapter.Adapt]; agent.go parses an agent, plan.go compiles its plan.
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
	// ProfileDefault requires a prompt in addition to an agent's own parameters.
	ProfileDefault = "default"
	// ProfileAuthoritative uses an agent's parameters_schema as written.
	ProfileAuthoritative = "authoritative"
	// ProfileDocumented is ProfileDefault, with validation errors formatted as in the framework's documentation.
	ProfileDocumented = "documented"
)

// Adapter is the dialect's adapter.
type Adapter struct{}

// Name returns "blueprint".
func (Adapter) Name() string { return Name }

// Profiles returns default, authoritative and documented.
func (Adapter) Profiles() []string {
	return []string{ProfileDefault, ProfileAuthoritative, ProfileDocumented}
}

// Traits returns the dialect's traits: agents declare their inputs, and they are folders.
func (Adapter) Traits() source.Traits { return source.Traits{Inputs: true, Files: true} }

// Detect reports whether the document has a name, another member of blueprints, and none of the members
// that mark other dialects.
func (Adapter) Detect(doc *source.Document) (bool, string) {
	const evidence = `an object with "name" and "description" and no "nodes"`
	switch path.Base(doc.Name) {
	case fileCapability, fileScript, fileServer:
		return false, evidence
	}
	if doc.Root.Get("name") == nil {
		return false, evidence
	}
	if foreign := doc.Root.FirstOf("nodes", "edges", "agents", "data_connections", "response_format", "generation_prompt",
		"execution_plan", "component_type", "agentspec_version", "url", "script_file"); foreign != "" {
		return false, evidence + ", and without " + source.Quote(foreign)
	}
	return doc.Root.FirstOf("description", "parameters_schema", "output_schema", "system_prompt", "mcp_servers", "capabilities", "hooks", "command") != "", evidence
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
	a.warnUnsupported(agent)
	f := a.plan(agent)
	a.setStartable(agent, f)
	src.Positions = []plan.Position{{Path: plan.NodePath(f.Nodes[0].ID), Line: doc.Root.Pos.Line, Col: doc.Root.Pos.Col}}
	return f, src, a.Diags
}

type adaptation struct {
	*source.Reader
	main string
	// hookName is the name of the hook whose agent is compiled; "" outside of hooks.
	hookName string
	profile  string
	host     source.Host
	files    map[string]string
	// collector, if set, reads files on demand.
	collector *collector
	// parsed caches the JSON files by name; the value of an invalid file is nil.
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

// object is an object in one of the agent's files.
type object struct {
	*source.Fields
	a *adaptation
}

// object returns the fields of a value; it reports a value that is not an object.
func (a *adaptation) object(v *source.Value, name string) *object {
	return &object{Fields: a.Fields(v, name, ""), a: a}
}

// open returns the object in a file, or nil after reporting an error.
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

type listItem struct {
	text string
	at   source.Pos
}

// Limits of one agent, which bound its cost.
const (
	maxListItems = 1000
	maxServers   = 100
	maxHeaders   = 100
)

// withinLimit reports whether a list or object has at most limit elements; if not, it also reports an error.
func (o *object) withinLimit(v *source.Value, what string, limit int) bool {
	n := len(v.Items) + len(v.Members)
	if n <= limit {
		return true
	}
	o.a.Errorf(v.Pos, CodeTooMany, "remove what is not needed", "%s has %d elements, over the limit of %d", what, n, limit)
	return false
}

func (o *object) listItems(key string) []listItem {
	v := o.Expect(key, source.Array)
	if v == nil || !o.withinLimit(v, key+" of "+o.Name, maxListItems) {
		return nil
	}
	var out []listItem
	for i, item := range v.Items {
		if text, ok := o.a.Text(item, fmt.Sprintf("%s[%d] of %s", key, i, o.Name), false); ok {
			out = append(out, listItem{text, item.Pos})
		}
	}
	return out
}
