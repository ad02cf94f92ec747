// Package specadapter compiles documents of any supported dialect to plans.
//
// It only converts text to data: it never runs a flow, accesses a network, reads the
// environment or imports Temporal. Documents are untrusted.
//
// Start at [Load], then [Dialects]: a new dialect is a package and one row in that table.
package specadapter

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"weft/specadapter/agentspec"
	"weft/specadapter/blueprint"
	"weft/specadapter/continuum"
	"weft/specadapter/koog"
	"weft/specadapter/shape"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// Adapter compiles the documents of one dialect to plans.
type Adapter interface {
	// Name returns the dialect's name, as users write it.
	Name() string
	// Profiles returns the names of the dialect's profiles, "default" first.
	Profiles() []string
	// Detect reports whether a document is of this dialect, and describes the evidence it looked for.
	Detect(doc *source.Document) (ok bool, lookedFor string)
	// Schema returns the JSON Schema of a document, for editors. It is generated from the tables that the parser uses.
	Schema() shape.Schema
	// Adapt returns the plan, without limits and policy, and all diagnostics in any order. The plan
	// is valid only if none of them is an error.
	Adapt(doc *source.Document, profile string, host source.Host) (*plan.Flow, plan.Source, []source.Diagnostic)
}

// Traits are the optional features of a dialect.
type Traits = source.Traits

// TraitsOf returns the traits of the named dialect; zero if there is no such dialect.
func TraitsOf(dialect string) Traits {
	for _, a := range Dialects {
		if a.Name() == dialect {
			return traits(a)
		}
	}
	return Traits{}
}

func traits(a Adapter) Traits {
	if t, ok := a.(interface{ Traits() Traits }); ok {
		return t.Traits()
	}
	return Traits{}
}

// Dialects lists the supported dialects, in the order of detection.
var Dialects = []Adapter{
	continuum.Adapter{},
	blueprint.Adapter{},
	koog.Adapter{},
	agentspec.Adapter{},
}

// Options determine how to read a document. The zero value detects the dialect and reads its
// default profile.
type Options struct {
	// Dialect is the name of one of [Dialects]; empty means that it is detected.
	Dialect string
	// Profile is one of the dialect's profiles; empty means "default".
	Profile string
	// Bounds and Policy become part of the plan. Zero fields of the limits and of Policy default to those of
	// [plan.DefaultLimits] and [plan.DefaultPolicy].
	Bounds plan.Bounds
	Policy plan.Policy
	// Host describes where the flow will run. Load reads no files from disk (see [ReadFolder]), rejects
	// components if the dialect has none, and passes secrets only if the document has no errors.
	source.Host
}

// Result is the plan of a document and the positions of its parts.
type Result struct {
	Flow   *plan.Flow
	Source plan.Source
}

// Codes of the diagnostics that Load itself reports.
const (
	CodeDialect    = "unknown-dialect"
	CodeAmbiguous  = "ambiguous-dialect"
	CodeProfile    = "unknown-profile"
	CodeComponents = "no-components"
	CodePlan       = "invalid-plan"
)

// Load compiles a document. The extension of the name determines the format, and messages contain the
// name; nothing is read from disk. Load returns all diagnostics, ordered by position, up to
// [source.MaxDiagnostics]. The result is nil if and only if one of them is an error.
func Load(name string, data []byte, o Options) (*Result, []source.Diagnostic) {
	doc, diags, errs, tolerates := read(name, data)
	if doc == nil {
		return nil, errs
	}
	a, d := choose(doc, o.Dialect)
	switch {
	case tolerates != nil && (d != nil || !tolerates(traits(a))):
		return nil, errs
	case d != nil:
		return nil, append(diags, *d)
	}
	profile := cmp.Or(o.Profile, "default")
	if d := o.check(doc, a, profile); d != nil {
		return nil, append(diags, *d)
	}
	var secrets []source.InlineSecret
	host := o.Host
	if o.PassSecret != nil {
		host.PassSecret = func(s source.InlineSecret) { secrets = append(secrets, s) }
	}
	f, src, more := a.Adapt(doc, profile, host)
	diags = append(diags, more...)
	if !source.HasErrors(diags) {
		o.resolve(f)
		for _, text := range f.Check() { // problems that the adapter missed
			diags = append(diags, source.Diagnostic{File: doc.Name, Code: CodePlan, Text: text})
		}
	}
	source.SortDiagnostics(diags)
	diags = source.LimitDiagnostics(diags)
	if source.HasErrors(diags) {
		return nil, diags
	}
	for i := range secrets {
		o.PassSecret(secrets[i])
	}
	return &Result{Flow: f, Source: src}, diags
}

// read parses a document. If it has errors that some dialects tolerate, tolerates reports whether one does, and
// errs are the diagnostics for the others.
func read(name string, data []byte) (doc *source.Document, diags, errs []source.Diagnostic, tolerates func(Traits) bool) {
	if doc, diags = source.Parse(name, data); doc != nil {
		return doc, diags, nil, nil
	}
	errs = diags
	// The only errors are repeated keys.
	if source.HasErrors(errs) && !slices.ContainsFunc(errs, func(d source.Diagnostic) bool {
		return d.Severity == source.Error && d.Code != source.CodeDuplicateKey
	}) {
		doc, diags = source.ParseLoose(name, data)
		return doc, diags, errs, func(t Traits) bool { return t.LastKeyWins }
	}
	doc, diags = source.ParseLenient(name, data)
	return doc, diags, errs, func(t Traits) bool { return t.Lenient }
}

// choose returns the named adapter or, without a name, the only one that recognises the document.
func choose(doc *source.Document, dialect string) (Adapter, *source.Diagnostic) {
	var names, evidence, matches []string
	var found Adapter
	for _, a := range Dialects {
		names = append(names, a.Name())
		switch {
		case a.Name() == dialect:
			return a, nil
		case dialect == "":
			ok, what := a.Detect(doc)
			if ok {
				found, matches = a, append(matches, a.Name())
			}
			evidence = append(evidence, fmt.Sprintf("%s looks for %s", a.Name(), what))
		}
	}
	if len(matches) == 1 {
		return found, nil
	}
	d := &source.Diagnostic{File: doc.Name, Line: doc.Root.Pos.Line, Col: doc.Root.Pos.Col, Code: CodeDialect}
	switch {
	case dialect != "":
		d.Text, d.Help = fmt.Sprintf("unknown dialect %s", source.Quote(dialect)), "use one of: "+strings.Join(names, ", ")
	case len(matches) > 1:
		d.Code = CodeAmbiguous
		d.Text = fmt.Sprintf("the document, %s, matches several dialects: %s", doc.Root.Kind, strings.Join(matches, ", "))
		d.Help = fmt.Sprintf("select one with -dialect; %s", strings.Join(evidence, "; "))
	default:
		d.Text = fmt.Sprintf("unknown dialect: the document is %s", doc.Root.Kind)
		d.Help = strings.Join(evidence, "; ")
	}
	return nil, d
}

// Recognize returns the named adapter or, if dialect is empty, the only one that recognises the document; nil if there is none.
func Recognize(doc *source.Document, dialect string) Adapter {
	a, _ := choose(doc, dialect)
	return a
}

// check rejects an unknown profile, and components if the dialect would ignore them.
func (o *Options) check(doc *source.Document, a Adapter, profile string) *source.Diagnostic {
	d := &source.Diagnostic{File: doc.Name}
	switch {
	case !slices.Contains(a.Profiles(), profile):
		d.Code, d.Text = CodeProfile, fmt.Sprintf("unknown profile %q of the dialect %s", profile, a.Name())
		d.Help = "use one of: " + strings.Join(a.Profiles(), ", ")
	case len(o.Components)+len(o.ComponentIDs) > 0 && !traits(a).Components:
		component := "an id"
		if len(o.Components) > 0 {
			component = source.Quote(o.Components[0].Name)
		}
		d.Code, d.Help = CodeComponents, "remove the components or select another dialect"
		d.Text = fmt.Sprintf("the dialect %s does not support components, but %s was passed", a.Name(), component)
	default:
		return nil
	}
	return d
}

// resolve sets the limits and policy of a flow and its sub-agents. The options override the maximum number of steps of the document.
func (o *Options) resolve(f *plan.Flow) {
	d, l := plan.DefaultLimits, o.Bounds.Limits
	l = plan.Limits{MaxSteps: cmp.Or(l.MaxSteps, f.Limits.MaxSteps, d.MaxSteps), MaxStateBytes: cmp.Or(l.MaxStateBytes, d.MaxStateBytes),
		MaxDepth: cmp.Or(l.MaxDepth, d.MaxDepth), FilterBytes: cmp.Or(l.FilterBytes, d.FilterBytes)}
	p := plan.DefaultPolicy
	p.ModelSeconds, p.ToolSeconds = cmp.Or(o.Policy.ModelSeconds, p.ModelSeconds), cmp.Or(o.Policy.ToolSeconds, p.ToolSeconds)
	p.HeartbeatSeconds, p.RetrySeconds = cmp.Or(o.Policy.HeartbeatSeconds, p.HeartbeatSeconds), cmp.Or(o.Policy.RetrySeconds, p.RetrySeconds)
	p.FirstRetryMillis = cmp.Or(o.Policy.FirstRetryMillis, p.FirstRetryMillis)
	f.Limits, f.Policy = l, p
	for i := range f.Agents {
		f.Agents[i].Limits, f.Agents[i].Policy = l, p
	}
	f.Bind(&o.Bounds)
}

// FolderMain is the name of the main document of a flow's folder.
const FolderMain = "agent.json"

// Folder is a flow that consists of several files: a main document and the files around it.
type Folder struct {
	// Name is the path of the main document; Text is its content.
	Name string
	Text []byte
	// Files are the other files, as in [Options.Files].
	Files []source.File
	// Warnings report agents that the document could start but that cannot be read.
	Warnings []source.Diagnostic
}

// Locate returns the root folder of a flow, outside of which nothing may be read, and the slash-separated path of
// the main document in it. The path of the document may be absolute or relative.
func Locate(path string) (root, main string) {
	dir := filepath.Dir(path)
	up := filepath.Dir(dir)
	if filepath.Base(up) == "agents" {
		up = filepath.Dir(up)
	}
	rel, err := filepath.Rel(up, path)
	if err != nil || up == dir {
		return dir, filepath.Base(path)
	}
	return up, filepath.ToSlash(rel)
}

// Load compiles the folder's main document, see [Load]. The folder's warnings come first.
func (f *Folder) Load(o Options) (*Result, []source.Diagnostic) {
	o.Files = f.Files
	res, diags := Load(f.Name, f.Text, o)
	return res, append(slices.Clone(f.Warnings), diags...)
}

// Under returns a copy of the folder with path prepended to all names, so that messages show the names that the user passed.
func (f *Folder) Under(path string) *Folder {
	under := func(name string) string { return filepath.ToSlash(filepath.Join(path, name)) }
	out := &Folder{Name: under(f.Name), Text: f.Text, Warnings: slices.Clone(f.Warnings)}
	for _, file := range f.Files {
		out.Files = append(out.Files, source.File{Name: under(file.Name), Text: file.Text})
	}
	for i := range out.Warnings {
		out.Warnings[i].File = under(out.Warnings[i].File)
	}
	return out
}

// ReadFolder reads the document main of a flow's folder and all files that it can reach, within bounds.
// If a file cannot be read, the error names it.
func ReadFolder(fsys fs.FS, main string) (*Folder, error) {
	text, files, warnings, err := blueprint.Collect(fsys, main)
	if err != nil {
		return nil, err
	}
	return &Folder{Name: main, Text: text, Files: files, Warnings: warnings}, nil
}
