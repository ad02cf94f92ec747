// Package koog compiles flows of Koog's agents-protocol to plans.
//
// The profile default interprets a document as its authors intended, and so does strict, except
// that numbers of different types are not equal. The profile koog behaves like the protocol's
// published code, including its bugs, see README.md. All produce ordinary plans: the interpreter
// does not know the dialect. Every default and every ignored part is reported as a diagnostic.
//
// Start at [Adapter.Adapt]; document.go parses the parts, build.go compiles them to a plan,
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
	// ProfileDefault interprets a document as its authors intended.
	ProfileDefault = "default"
	// ProfileKoog behaves like the protocol's published code: the first version, which belongs to the
	// protocol's text, or the later version if a document uses its syntax.
	ProfileKoog = "koog"
	// ProfileStrict is ProfileDefault, but numbers are equal only if they have the same type, as the protocol's text says.
	ProfileStrict = "strict"
)

// Adapter is the dialect's adapter.
type Adapter struct{}

// Name returns "koog".
func (Adapter) Name() string { return Name }

// Profiles returns default, koog and strict.
func (Adapter) Profiles() []string { return []string{ProfileDefault, ProfileKoog, ProfileStrict} }

// Traits returns the dialect's traits: values are typed, existing documents have duplicate keys, and
// the protocol's first code accepts unquoted strings and keys.
func (Adapter) Traits() source.Traits {
	return source.Traits{Values: true, LastKeyWins: true, Lenient: true}
}

// Detect reports whether the document has agents with types or top-level members that only this dialect has.
func (Adapter) Detect(doc *source.Document) (bool, string) {
	const evidence = `an object with "agents" that have a "type", "transitions" or "defaultModel"`
	root := doc.Root
	if foreign := root.FirstOf("component_type", "agentspec_version", "nodes", "edges", "data_connections"); foreign != "" {
		return false, evidence + ", and without " + source.Quote(foreign)
	}
	typed := slices.ContainsFunc(root.Get("agents").Elements(), func(a *source.Value) bool {
		kind := a.Get("type")
		return kind != nil && kind.Kind == source.String && a.Get("nodes") == nil
	})
	return typed || root.FirstOf("transitions", "defaultModel") != "", evidence
}

type mode uint8

const (
	// modeIntended interprets a document as its authors intended.
	modeIntended mode = iota
	// modeFirst and modeLater imitate the two versions of the protocol's published code.
	modeFirst
	modeLater
)

// Adapt compiles a flow to a plan.
func (Adapter) Adapt(doc *source.Document, profile string, host source.Host) (*plan.Flow, plan.Source, []source.Diagnostic) {
	a := &adaptation{host: host, exact: profile == ProfileStrict}
	if profile == ProfileKoog {
		a.mode = modeFirst
		if usesLaterSyntax(doc.Root) {
			a.mode = modeLater
		}
	}
	a.Reader = reader(a.mode)
	src := plan.Source{File: doc.Name}
	if doc.Root.Kind != source.Object {
		a.Errorf(doc.Root.Pos, CodeWrongType, `use a flow: {"id": ..., "version": ..., "agents": [...], "transitions": [...]}`,
			"the document is %s, expected an object", doc.Root.Kind)
		return nil, src, a.Diags
	}
	if a.mode == modeLater && doc.Unquoted != (source.Pos{}) {
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

// usesLaterSyntax reports whether a document uses syntax that only the protocol's later code has.
func usesLaterSyntax(root *source.Value) bool {
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

// syntax returns the syntax of values in a mode; see package value.
func (m mode) syntax() string {
	switch m {
	case modeFirst:
		return value.Bare
	case modeLater:
		return value.Tagged
	}
	return value.Literal
}

func (a *adaptation) rules() string {
	switch {
	case a.exact:
		return value.Exact
	case a.mode == modeIntended:
		return value.ByValue
	}
	return value.ByType
}

type adaptation struct {
	*source.Reader
	mode mode
	// exact reports whether numbers are equal only if they have the same type.
	exact bool
	host  source.Host
}

// Codes of the diagnostics; README.md describes them.
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

// nullable are the fields for which null means absent in the published code.
var nullable = []string{"defaultModel", "model", "runtime", "config", "prompt", "params", "output", "user", "condition",
	"temperature", "topP", "maxTokens", "maxIterations", "toolChoice", "speculation", "task", "transformation"}

// reader returns a reader that handles scalars in place of strings and null in place of absent fields as the mode does.
func reader(m mode) *source.Reader {
	r := source.NewReader()
	r.Group, r.Scalars = true, map[mode]source.Scalars{modeIntended: source.ScalarsWarned, modeFirst: source.ScalarsAccepted, modeLater: source.ScalarsRejected}[m]
	r.NullIsValue = func(key string) bool { return m != modeIntended && !slices.Contains(nullable, key) }
	return r
}

// numeric returns a field's value, with a quoted number converted to a number, as in the published code.
func (a *adaptation) numeric(o *source.Fields, key string) *source.Value {
	v := o.Get(key)
	if v == nil || v.Kind != source.String || !json.Valid([]byte(v.Text)) || strings.Trim(v.Text, "0123456789+-.eE") != "" {
		return v
	}
	if a.mode == modeIntended {
		a.Warnf(v.Pos, CodeWrongType, source.TypeHelp[source.Number], "%s of %s is %s, expected a number; it is converted", key, o.Name, v.Describe())
	}
	return &source.Value{Kind: source.Number, Pos: v.Pos, Text: v.Text}
}
