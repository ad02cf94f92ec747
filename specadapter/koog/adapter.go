// Package koog adapts flows of Koog's agents-protocol to plans.
//
// The profile default reads a document as its authors intended, and so does strict, except that numbers of
// different types are not equal; the profile koog behaves like the
// protocol's published code, including its bugs, see README.md. All produce ordinary
// plans: the interpreter knows no dialect. Every default and every omission is reported as a
// diagnostic.
//
// Start at [Adapter.Adapt]; document.go reads the parts, build.go compiles them to a plan,
// check.go validates the graph.
package koog

import (
	"encoding/json"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// Name is the dialect's name.
const Name = "koog"

// The profiles.
const (
	// ProfileDefault reads a document as its authors meant it.
	ProfileDefault = "default"
	// ProfileKoog does what the protocol's published code does: the code beside the protocol's
	// text, or the later one where a document uses its syntax.
	ProfileKoog = "koog"
	// ProfileStrict is the default one, but that equal numbers are of one type, as the protocol's text says.
	ProfileStrict = "strict"
)

// Adapter is the dialect's adapter.
type Adapter struct{}

// Name is "koog".
func (Adapter) Name() string { return Name }

// Profiles are default, koog and strict.
func (Adapter) Profiles() []string { return []string{ProfileDefault, ProfileKoog, ProfileStrict} }

// Traits returns the traits: typed values flow, documents in the wild repeat keys, and the
// protocol's first code takes strings and keys without quotes.
func (Adapter) Traits() source.Traits {
	return source.Traits{Values: true, LastKeyWins: true, Lenient: true}
}

// Detect looks for agents with types, or for what else only this dialect has at the top.
func (Adapter) Detect(doc *source.Document) (bool, string) {
	const looked = `an object with "agents" that have a "type", "transitions" or "defaultModel"`
	root := doc.Root
	if foreign := root.FirstOf("component_type", "agentspec_version", "nodes", "edges", "data_connections"); foreign != "" {
		return false, looked + ", and without " + source.Quote(foreign)
	}
	typed := slices.ContainsFunc(root.Get("agents").Elements(), func(a *source.Value) bool {
		kind := a.Get("type")
		return kind != nil && kind.Kind == source.String && a.Get("nodes") == nil
	})
	return typed || root.FirstOf("transitions", "defaultModel") != "", looked
}

type mode uint8

const (
	// meant reads it as its authors meant it.
	meant mode = iota
	// seed and later are the two states of the protocol's published code.
	seed
	later
)

// Adapt compiles a flow to a plan.
func (Adapter) Adapt(doc *source.Document, profile string, host source.Host) (*plan.Flow, plan.Source, []source.Diagnostic) {
	a := &adaptation{host: host, exact: profile == ProfileStrict}
	if profile == ProfileKoog {
		a.mode = seed
		if usesLater(doc.Root) {
			a.mode = later
		}
	}
	a.Reader = reader(a.mode)
	src := plan.Source{File: doc.Name}
	if doc.Root.Kind != source.Object {
		a.Errorf(doc.Root.Pos, CodeWrongType, `use a flow: {"id": ..., "version": ..., "agents": [...], "transitions": [...]}`,
			"the document is %s, expected an object", doc.Root.Kind)
		return nil, src, a.Diags
	}
	if a.mode == later && doc.Unquoted != (source.Pos{}) {
		a.Errorf(doc.Unquoted, source.CodeSyntax, "use double quotes around strings and keys",
			"unquoted string or key; the code for this syntax requires quotes")
	}
	d := a.document(doc.Root)
	a.ReportUnknown()
	b := &builder{adaptation: a, doc: d}
	if d.partial {
		b.checkParts()
		return nil, src, a.Diags
	}
	flow := b.build()
	src.Positions = b.positions
	if a.Errors > 0 {
		return nil, src, a.Diags
	}
	return flow, src, a.Diags
}

// usesLater reports whether a document uses the syntax of the protocol's later code.
func usesLater(root *source.Value) bool {
	for _, a := range root.Get("agents").Elements() {
		if kind := a.Get("type"); kind != nil && (kind.Text == kindReact || kind.Text == kindParallel) {
			return true
		}
	}
	for _, t := range root.Get("transitions").Elements() {
		if t.Get("transformation") != nil {
			return true
		}
		if c := t.Get("condition"); c != nil {
			if v := c.Get("variable"); v != nil && strings.HasPrefix(v.Text, "output.") {
				return true
			}
		}
	}
	return false
}

// way is how values are read in a mode; see package value.
func (m mode) way() string {
	switch m {
	case seed:
		return value.Bare
	case later:
		return value.Tagged
	}
	return value.Literal
}

func (a *adaptation) rules() string {
	switch {
	case a.exact:
		return value.Exact
	case a.mode == meant:
		return value.ByValue
	}
	return value.ByType
}

type adaptation struct {
	*source.Reader
	mode mode
	// exact reports whether equal numbers must be of one type.
	exact bool
	host  source.Host
}

// Codes of the diagnostics; README.md says what they mean.
const (
	CodeWrongType    = source.CodeWrongType
	CodeMissing      = source.CodeMissing
	CodeUnknown      = source.CodeUnknown
	CodeNoAgents     = "no-agents"
	CodeTooMany      = "too-many"
	CodeDuplicate    = "duplicate-name"
	CodeName         = "agent-name"
	CodeType         = "agent-type"
	CodeRuntime      = "unknown-runtime"
	CodeModel        = "model"
	CodeConfig       = "config"
	CodeNoEffect     = "no-effect"
	CodeTransform    = "transformation"
	CodeParallel     = "parallel"
	CodeTool         = "tool"
	CodeUnknownTool  = "unknown-tool"
	CodeSecret       = "secret-in-flow"
	CodeCommand      = "command"
	CodeUnknownAgent = "unknown-agent"
	CodeVariable     = "condition-variable"
	CodeOperation    = "unknown-operation"
	CodeValue        = "condition-value"
	CodeNever        = "never-holds"
	CodeShadowed     = "shadowed"
	CodeUnreachable  = "unreachable-agent"
	CodeNoFinish     = "finish-unreachable"
)

// nullable are the fields that the published code reads as absent where they are null.
var nullable = []string{"defaultModel", "model", "runtime", "config", "prompt", "params", "output", "user", "condition",
	"temperature", "topP", "maxTokens", "maxIterations", "toolChoice", "speculation", "task", "transformation"}

// reader returns a reader for a mode: scalars may stand for strings, and null for absent fields.
func reader(m mode) *source.Reader {
	r := source.NewReader()
	r.Group, r.Scalars = true, map[mode]source.Scalars{meant: source.ScalarsWarned, seed: source.ScalarsAccepted, later: source.ScalarsRejected}[m]
	r.NullIsValue = func(key string) bool { return m != meant && !slices.Contains(nullable, key) }
	return r
}

// numeric returns a field's value; a number in quotes is that number, as in the published code.
func (a *adaptation) numeric(o *source.Fields, key string) *source.Value {
	v := o.Get(key)
	if v == nil || v.Kind != source.String || !json.Valid([]byte(v.Text)) || strings.Trim(v.Text, "0123456789+-.eE") != "" {
		return v
	}
	if a.mode == meant {
		a.Warnf(v.Pos, CodeWrongType, source.TypeHelp[source.Number], "%s of %s is %s, expected a number; it is converted", key, o.Name, v.Describe())
	}
	return &source.Value{Kind: source.Number, Pos: v.Pos, Text: v.Text}
}
