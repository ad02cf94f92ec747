// Package continuum compiles Continuum Agent JSON to plans.
//
// If the texts of the specification contradict each other, it accepts both variants, see README.md.
// Every default and every ignored part is reported as a diagnostic.
//
// Start at [Adapter.Adapt]; graph.go parses a graph, check.go validates it.
package continuum

import (
	"fmt"
	"path/filepath"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
)

// Name is the dialect's name.
const Name = "continuum"

// The profiles.
const (
	// ProfileDefault sets defaults for required fields that existing documents omit, with warnings.
	ProfileDefault = "default"
	// ProfileStrict requires all fields that the specification's schema requires.
	ProfileStrict = "strict"
)

// Adapter is the dialect's adapter.
type Adapter struct{}

// Name returns "continuum".
func (Adapter) Name() string { return Name }

// Profiles returns default and strict.
func (Adapter) Profiles() []string { return []string{ProfileDefault, ProfileStrict} }

// Detect reports whether the document has members of a graph or a bundle and none that mark
// other dialects with nodes or agents.
func (Adapter) Detect(doc *source.Document) (bool, string) {
	const evidence = `an object with "nodes", or with "agents" and "data_connections"`
	if foreign := doc.Root.FirstOf("component_type", "agentspec_version", "transitions", "defaultModel"); foreign != "" {
		return false, evidence + ", and without " + source.Quote(foreign)
	}
	for _, a := range doc.Root.Get("agents").Elements() {
		if a.Get("type") != nil && a.Get("nodes") == nil {
			return false, evidence + `, and no agents with a "type"` // agents of another dialect
		}
	}
	return doc.Root.FirstOf("nodes", "edges", "agents", "data_connections", "response_format", "generation_prompt", "execution_plan") != "", evidence
}

// Adapt returns the plan of a graph, of a bundle of connections and agents, or of a graph
// that also contains connections or agents.
func (Adapter) Adapt(doc *source.Document, profile string, host source.Host) (*plan.Flow, plan.Source, []source.Diagnostic) {
	a := &adaptation{Reader: source.NewReader(), file: doc.Name, host: host}
	a.Strict, a.Group, a.Codes.Missing = profile == ProfileStrict, true, "V12"
	src := plan.Source{File: doc.Name}
	if doc.Root.Kind != source.Object {
		a.Errorf(doc.Root.Pos, CodeWrongType, "use a graph: {\"name\": ..., \"nodes\": [...], \"edges\": [...]}",
			"the document is %s, expected an object", doc.Root.Kind)
		return nil, src, a.Diags
	}
	flow := a.document(doc.Root, &src)
	a.ReportUnknown()
	return flow, src, a.Diags
}

type adaptation struct {
	*source.Reader
	file  string
	host  source.Host
	conns connections
}

func (a *adaptation) document(root *source.Value, src *plan.Source) *plan.Flow {
	isGraph := root.Get("nodes") != nil || root.Get("edges") != nil || root.Get("agents") == nil
	top := a.Fields(root, "the document", "")
	var bundle []graphFile
	if isGraph {
		graph := *top
		graph.Name = "the graph"
		bundle = append(bundle, graphFile{Fields: &graph})
		top.Check(&documentShape)
	} else {
		top.Check(&bundleShape)
	}
	for i, v := range top.List("agents") {
		o := a.Fields(v, fmt.Sprintf("agent %d of the bundle", i+1), "agents[].")
		if o.OK {
			o.Check(&graphShape)
			bundle = append(bundle, graphFile{Fields: o})
		}
	}
	if len(bundle) == 0 && len(a.Diags) == 0 {
		a.Errorf(top.Pos("agents"), CodeNoNodes, `put a graph into "agents", or add "nodes" and "edges"`, "the document has no agent")
	}
	a.identify(bundle)
	conns := top.Get("data_connections")
	a.connections(top.List("data_connections"), conns != nil && conns.Kind == source.Array, bundle)
	if len(bundle) == 0 {
		return nil
	}
	return a.plans(bundle, src)
}

// graphFile is a graph of the document whose parts have not been parsed.
type graphFile struct {
	*source.Fields
	id string
}

// identify reads the ids of the graphs and reports missing and duplicate ones.
func (a *adaptation) identify(bundle []graphFile) {
	seen := map[string]source.Pos{}
	for i := range bundle {
		g := &bundle[i]
		id, invalid := g.Text("id"), !g.Is("id", source.String)
		g.id = id
		if first, ok := seen[id]; ok && id != "" {
			a.Errorf(g.Pos("id"), CodeDuplicateAgent, "use a unique id", "duplicate agent id %s, first used at line %d", source.Quote(id), first.Line)
		} else if id == "" && !invalid && g.Path != "" && len(bundle) > 1 {
			a.Errorf(g.Pos("id"), "V12", `add an id; connections name it by "agent_id"`, "%s has no id", g.Name)
		}
		seen[id] = g.Pos("id")
	}
}

// plans compiles all graphs and returns the root flow, which contains the others as agents.
func (a *adaptation) plans(bundle []graphFile, src *plan.Source) *plan.Flow {
	at := a.root(bundle)
	root, positions := a.graph(bundle[at])
	src.Positions = positions
	for i, g := range bundle {
		if i == at {
			continue
		}
		sub, positions := a.graph(g)
		root.Agents = append(root.Agents, *sub)
		for _, p := range positions {
			p.Path = plan.AgentPath(g.id) + p.Path
			src.Positions = append(src.Positions, p)
		}
	}
	root.Connections = a.conns.list
	return root
}

// root returns the index of the graph where a run starts: the top-level graph, or the one that no connection refers to.
func (a *adaptation) root(bundle []graphFile) int {
	if bundle[0].Path == "" || len(bundle) == 1 {
		return 0
	}
	var unreferenced []int
	for i, g := range bundle {
		if !a.conns.agents[g.id] {
			unreferenced = append(unreferenced, i)
		}
	}
	if len(unreferenced) == 1 {
		return unreferenced[0]
	}
	at, problem := 0, "a connection refers to each agent of the bundle"
	if len(unreferenced) > 1 {
		at, problem = unreferenced[0], "no connection refers to several agents of the bundle"
	}
	a.Warnf(bundle[at].Value.Pos, CodeRootAgent, "list the agent that a run starts at first, and refer to the others by connections of type 2",
		"%s; a run starts at %s", problem, source.Quote(bundle[at].id))
	return at
}

// flowName returns the name for a graph without one: its id or the name of the file.
func (a *adaptation) flowName(id string) string {
	if id != "" {
		return id
	}
	base := filepath.Base(filepath.ToSlash(a.file))
	if name := strings.TrimSuffix(base, filepath.Ext(base)); name != "" && name != "." && name != "/" {
		return name
	}
	return "flow"
}

// Codes in addition to the V and L rules of the dialect. README.md lists them.
const (
	CodeWrongType       = source.CodeWrongType
	CodeMissing         = source.CodeMissing
	CodeUnknown         = source.CodeUnknown
	CodeNoNodes         = "no-nodes"
	CodeBlankCondition  = "blank-condition"
	CodeDuplicateAgent  = "duplicate-agent"
	CodeDuplicateConn   = "duplicate-connection"
	CodeDuplicateTool   = "duplicate-tool"
	CodeConnectionType  = "connection-type"
	CodeConnectionURL   = "connection-url"
	CodeRootAgent       = "root-agent"
	CodeUnusedPayload   = "unused-payload"
	CodeExitTools       = "exit-tools"
	CodeTooManyElements = "too-many"
)

// requireField reports the absence of a field that the schema requires but many documents omit.
func (a *adaptation) requireField(o *source.Fields, key, instead string) {
	if o.Get(key) == nil {
		a.Strictf(o.Pos(key), CodeMissing, instead, "%s has no %s", o.Name, key)
	}
}
