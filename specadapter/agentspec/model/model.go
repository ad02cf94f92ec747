// Package model parses documents of Open Agent Spec into a typed and validated model of components,
// and reports all of their errors.
//
// It reads no files, fetches nothing that a document refers to, and holds no secrets except in
// development. Documents are untrusted: time and memory are bounded regardless of their
// content.
//
// Start at [Read]; package catalog lists what a document may contain.
package model

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// The profiles.
const (
	// ProfileDefault tolerates common deviations with warnings: pre-release syntax, a version
	// that is too low, some undeclared inputs.
	ProfileDefault = "default"
	// ProfileStrict requires conformance to the specification.
	ProfileStrict = "strict"
)

// Limits of a document in addition to those of [source.Parse].
const (
	// MaxComponents is the maximum number of components in a document and its files.
	MaxComponents = 50_000
	// MaxNesting is the maximum nesting depth of components, including references.
	MaxNesting = 200
	// MaxFiles is the maximum number of component files of a document.
	MaxFiles = 100
	// maxSteps limits the checks that are not linear: comparisons of types, and of paths.
	maxSteps = 20_000_000
	// maxSchemas limits the schemas that need a full schema compiler.
	maxSchemas = 5_000
)

// File is a named text. The extension of the name determines the format, and messages contain
// the name. Nothing is read from disk.
type File struct {
	Name string
	Text []byte
}

// Options determine how to read a document. The zero value selects the default profile.
type Options struct {
	// Profile is [ProfileDefault] or [ProfileStrict]; empty is the default.
	Profile string
	// Components are files with components and values that the document may refer to: each
	// has $referenced_components or is a component with an id.
	Components []File
	// Named maps the name in a reference to FILE#KEY if document and files use different
	// names. FILE is the name of one of Components.
	Named map[string]string
	// InlineSecrets allows secrets in the document with a warning, for development. They are
	// stored in [Secret.Inline].
	InlineSecrets bool
	// Plugins are component types that the language does not have.
	Plugins []catalog.Type
}

// Document is the model of a document.
type Document struct {
	// Version is the document's version, or the newest if it has none.
	Version catalog.Version
	// Root is the main component.
	Root *Component
	// Components are all components, each once, after the components in it.
	Components []*Component
	// Secrets are the references that a run must resolve, in the order of parsing.
	Secrets []Secret
}

// Read builds the model of a parsed document with a main component. It returns all diagnostics, those of
// the document first and each file's by position, up to [source.MaxDiagnostics]. ok reports whether none of
// them is an error; the model of a document with errors contains the components that could be read.
func Read(doc *source.Document, o Options) (d *Document, ok bool, _ []source.Diagnostic) {
	l, diags := read(doc, o, (*loader).main)
	return l.doc, l.Errors == 0, diags
}

// Intact reports whether there is no error in the component's own fields.
func (c *Component) Intact() bool { return !c.broken && !c.Type.Unknown }

// parse parses a file of components. In the default profile, a .json file may contain JSON5.
func parse(name string, text []byte, o Options) (*source.Document, []source.Diagnostic) {
	doc, diags := source.Parse(name, text)
	if doc != nil || o.Profile == ProfileStrict || !strings.EqualFold(filepath.Ext(name), ".json") || diags[0].Code != source.CodeSyntax {
		return doc, diags
	}
	lenient, _ := source.ParseJSON5(name, text)
	if lenient == nil {
		return nil, diags
	}
	d := diags[0]
	d.Severity, d.Code, d.Help = source.Warning, "json5", "rename the file to .json5 or use JSON"
	d.Text = "the text is JSON5; " + d.Text
	return lenient, []source.Diagnostic{d}
}

// IsWayFlow reports whether a document is in WayFlow's own format.
func IsWayFlow(root *source.Value) bool {
	return root.FirstOf("_component_type", "_referenced_objects") != "" && root.FirstOf("component_type", definitionsKey) == ""
}

func (l *loader) wayFlow(root *source.Value) bool {
	if !IsWayFlow(root) {
		return false
	}
	l.Errorf(root.Pos, "wayflow", "export it in Python with AgentSpecExporter().to_json(COMPONENT) of wayflowcore.agentspec, and use the result",
		"the document is in WayFlow's own format (with _component_type), not in Open Agent Spec")
	return true
}

// read reads a document; top reads its root in a scope for the root's definitions.
func read(doc *source.Document, o Options, top func(*loader, *scope, *source.Value)) (*loader, []source.Diagnostic) {
	l := newLoader(doc.Name, o)
	if l.options() && l.openFiles() && l.Fields(doc.Root, "the document", "").OK && !l.wayFlow(doc.Root) {
		l.version(doc.Root)
		l.files[0].root = doc.Root
		top(l, &scope{file: doc.Name}, doc.Root)
	}
	return l, l.diagnostics()
}

// loader is the state of reading a document and its files.
type loader struct {
	*source.Reader
	o     Options
	rows  map[string]*catalog.Type
	rules map[string]rules
	doc   *Document

	files   []*file // the document first
	outer   map[string][]*definition
	asked   map[string]bool         // names that were looked up in outer
	cycles  map[[2]*definition]bool // reported cycles, by their first and last definition
	entered map[string][]*definition
	defs    []*definition // all definitions, in the order in which they entered a scope
	open    []*definition
	depth   int
	ids     map[string][]*Component

	casts   map[[2]*Shape]bool
	scans   map[*source.Value]*scan
	schemas int
	steps   int
	count   int
	// skipPaths is set once checking all paths would take too long.
	skipPaths bool

	// missingEdges are inputs that lack an edge.
	missingEdges []missingEdge
}

type file struct {
	name string
	root *source.Value
}

func newLoader(name string, o Options) *loader {
	r := source.NewReader()
	r.Codes = source.Codes{Type: "field-type", Missing: "field-missing", Unknown: "field-unknown"}
	r.UnknownHelp = "unknown fields have no effect; put notes into metadata"
	r.Strict, r.Max = o.Profile == ProfileStrict, maxDiagnostics
	return &loader{
		Reader: r, o: o, rows: catalog.Rows(o.Plugins), rules: typeRules(), doc: &Document{},
		files: []*file{{name: name}}, outer: map[string][]*definition{}, asked: map[string]bool{}, cycles: map[[2]*definition]bool{}, entered: map[string][]*definition{},
		ids: map[string][]*Component{}, casts: map[[2]*Shape]bool{}, scans: map[*source.Value]*scan{},
	}
}

func (l *loader) main(s *scope, root *source.Value) {
	if !mainComponent(root) {
		l.Errorf(root.Pos, "no-main", `add "component_type", or a "$component_ref" to one of its components, at the top; pass a file of components alone together with a document that refers to them`,
			"the document has no main component")
	}
	s = l.enter(s, root)
	if mainComponent(root) {
		l.doc.Root = l.component(s, root, "Component", "the document")
	}
	l.readUnused()
	l.warnUnmapped()
	l.reportMissingEdges()
	if c := l.doc.Root; c != nil && !c.Type.Satisfies("AgenticComponent") {
		l.Infof(c.At, "main-part", "make an Agent, a Flow or another agentic component the main one", "the main component is %s, which cannot be run on its own", c)
	}
}

func mainComponent(root *source.Value) bool {
	return slices.ContainsFunc(root.Members, func(m source.Member) bool {
		return m.Key != definitionsKey && m.Key != versionField && m.Key != "air_version"
	})
}

// options validates the options.
func (l *loader) options() bool {
	at := source.Pos{File: l.files[0].name}
	switch l.o.Profile {
	case "", ProfileDefault, ProfileStrict:
	default:
		l.Errorf(at, "unknown-profile", "use one of: default, strict", "unknown profile %s", source.Quote(l.o.Profile))
	}
	own := catalog.Rows(nil)
	seen := map[string]bool{}
	for _, t := range l.o.Plugins {
		switch {
		case t.Name == "" || own[t.Name] != nil || seen[t.Name]:
			l.Errorf(at, "plugin-row", "rename the plugin's component", "the name %s of a plugin's component is blank or already used", source.Quote(t.Name))
		case t.Like != "" && own[t.Like] == nil:
			l.Errorf(at, "plugin-row", "use a component of the language", "the plugin's component %s extends the unknown component %s", source.Quote(t.Name), source.Quote(t.Like))
		}
		seen[t.Name] = true
	}
	return l.Errors == 0
}

// maxDiagnostics is the maximum number of diagnostics before sorting and truncation.
const maxDiagnostics = 8 * source.MaxDiagnostics

// diagnostics returns the diagnostics, sorted by file in the order of the options and by position.
func (l *loader) diagnostics() []source.Diagnostic {
	order := map[string]int{}
	for i, file := range l.files {
		order[file.name] = i + 1
	}
	out := slices.DeleteFunc(l.Diags, func(d source.Diagnostic) bool { return order[d.File] == 0 })
	source.SortDiagnostics(out)
	slices.SortStableFunc(out, func(a, b source.Diagnostic) int { return order[a.File] - order[b.File] })
	if l.Dropped > 0 {
		out = append(out, source.Diagnostic{File: l.files[0].name, Severity: source.Warning, Code: source.CodeMore,
			Text: fmt.Sprintf("%d more diagnostics were omitted", l.Dropped), Help: "fix the problems above first"})
	}
	return source.LimitDiagnostics(out)
}

// work counts steps of checks that are not linear. It returns false once the limit is exceeded.
func (l *loader) work(at source.Pos, steps int) bool {
	if l.steps > maxSteps {
		return false
	}
	l.steps += steps
	if l.steps > maxSteps {
		l.Errorf(at, "too-complex", "split the document, or simplify the types in it", "checking the document takes more than %d steps", maxSteps)
		return false
	}
	return true
}
