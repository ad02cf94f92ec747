// Package specadapter turns documents in any dialect into plans.
//
// It only converts text to data: it never runs a flow, accesses a network, reads the
// environment or imports Temporal. Documents are untrusted.
//
// Start at [Load], then [Dialects]: a new dialect is a package and one row there.
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
	// Name is the dialect's name, as users write it.
	Name() string
	// Profiles are the names of the dialect's readings, "default" first.
	Profiles() []string
	// Detect reports whether a document is of this dialect, and what it looked for.
	Detect(doc *source.Document) (ok bool, lookedFor string)
	// Schema is the JSON Schema of a document, for editors. It is made of the tables by which documents are read.
	Schema() shape.Schema
	// Adapt returns the plan, without limits and policy. All diagnostics are returned at once, in
	// any order; the plan is valid only if none is an error.
	Adapt(doc *source.Document, profile string, host source.Host) (*plan.Flow, plan.Source, []source.Diagnostic)
}

// Traits are what documents of a dialect may have beyond a graph.
type Traits = source.Traits

// TraitsOf returns the traits of a dialect by its name.
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

// Dialects are all dialects, in the order in which they are tried.
var Dialects = []Adapter{
	continuum.Adapter{},
	blueprint.Adapter{},
	koog.Adapter{},
	agentspec.Adapter{},
}

// Options determine how to read a document. The zero value detects the dialect and reads its
// default profile.
type Options struct {
	// Dialect is one of [Dialects] by name; empty detects it.
	Dialect string
	// Profile is one of the dialect's; empty is "default".
	Profile string
	// Bounds and Policy go into the plan. Each zero field of the limits and of Policy takes the one of
	// [plan.DefaultLimits] or [plan.DefaultPolicy].
	Bounds plan.Bounds
	Policy plan.Policy
	// Host is where the flow will run. Load reads none of its files itself, see [ReadFolder]; a dialect
	// without components reports a diagnostic for them; secrets are passed once the document is
	// read without an error.
	source.Host
}

// Result is a document's plan and the positions of its parts.
type Result struct {
	Flow   *plan.Flow
	Source plan.Source
}

// Codes of the diagnostics that Load itself makes.
const (
	CodeDialect    = "unknown-dialect"
	CodeAmbiguous  = "ambiguous-dialect"
	CodeProfile    = "unknown-profile"
	CodeComponents = "no-components"
	CodePlan       = "invalid-plan"
)

// Load reads a document. The extension of the name determines the format, and the name is used in
// messages; nothing is read from disk. All diagnostics are returned at once, ordered by position, at most
// [source.MaxDiagnostics]. The result is nil if and only if one of them is an error.
func Load(name string, data []byte, o Options) (*Result, []source.Diagnostic) {
	doc, diags, wrong, forgives := read(name, data)
	if doc == nil {
		return nil, wrong
	}
	a, d := choose(doc, o.Dialect)
	switch {
	case forgives != nil && (d != nil || !forgives(traits(a))):
		return nil, wrong
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
		for _, text := range f.Check() { // what the adapter missed
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

// read parses a document. forgives tells which dialects accept what is wrong with it, if any.
func read(name string, data []byte) (doc *source.Document, diags, wrong []source.Diagnostic, forgives func(Traits) bool) {
	if doc, diags = source.Parse(name, data); doc != nil {
		return doc, diags, nil, nil
	}
	wrong = diags
	// Repeated keys are all that is wrong.
	if source.HasErrors(wrong) && !slices.ContainsFunc(wrong, func(d source.Diagnostic) bool {
		return d.Severity == source.Error && d.Code != source.CodeDuplicateKey
	}) {
		doc, diags = source.ParseLoose(name, data)
		return doc, diags, wrong, func(t Traits) bool { return t.LastKeyWins }
	}
	doc, diags = source.ParseLenient(name, data)
	return doc, diags, wrong, func(t Traits) bool { return t.Lenient }
}

// choose finds the adapter by name, or else the one that recognises the document.
func choose(doc *source.Document, dialect string) (Adapter, *source.Diagnostic) {
	var names, looked, several []string
	var found Adapter
	for _, a := range Dialects {
		names = append(names, a.Name())
		switch {
		case a.Name() == dialect:
			return a, nil
		case dialect == "":
			ok, what := a.Detect(doc)
			if ok {
				found, several = a, append(several, a.Name())
			}
			looked = append(looked, fmt.Sprintf("%s looks for %s", a.Name(), what))
		}
	}
	if len(several) == 1 {
		return found, nil
	}
	d := &source.Diagnostic{File: doc.Name, Line: doc.Root.Pos.Line, Col: doc.Root.Pos.Col, Code: CodeDialect}
	switch {
	case dialect != "":
		d.Text, d.Help = fmt.Sprintf("unknown dialect %s", source.Quote(dialect)), "use one of: "+strings.Join(names, ", ")
	case len(several) > 1:
		d.Code = CodeAmbiguous
		d.Text = fmt.Sprintf("the document, %s, matches several dialects: %s", doc.Root.Kind, strings.Join(several, ", "))
		d.Help = fmt.Sprintf("select one with -dialect; %s", strings.Join(looked, "; "))
	default:
		d.Text = fmt.Sprintf("unknown dialect: the document is %s", doc.Root.Kind)
		d.Help = strings.Join(looked, "; ")
	}
	return nil, d
}

// Recognize returns the dialect of a document, by name unless that is empty; nil if there is none, or more than one.
func Recognize(doc *source.Document, dialect string) Adapter {
	a, _ := choose(doc, dialect)
	return a
}

// check refuses an unknown profile, and components that the dialect would pass over in silence.
func (o *Options) check(doc *source.Document, a Adapter, profile string) *source.Diagnostic {
	d := &source.Diagnostic{File: doc.Name}
	switch {
	case !slices.Contains(a.Profiles(), profile):
		d.Code, d.Text = CodeProfile, fmt.Sprintf("unknown profile %q of the dialect %s", profile, a.Name())
		d.Help = "use one of: " + strings.Join(a.Profiles(), ", ")
	case len(o.Components)+len(o.ComponentIDs) > 0 && !traits(a).Components:
		given := "an id"
		if len(o.Components) > 0 {
			given = source.Quote(o.Components[0].Name)
		}
		d.Code, d.Help = CodeComponents, "remove the components or select another dialect"
		d.Text = fmt.Sprintf("the dialect %s does not support components, but %s was passed", a.Name(), given)
	default:
		return nil
	}
	return d
}

// resolve sets limits and policy of a flow and its sub-agents. Options override a dialect's steps.
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

// FolderMain is the file that makes a folder a flow.
const FolderMain = "agent.json"

// Folder is a flow of several files: the document that Load reads, and what lies around it.
type Folder struct {
	// Name is the document's path; Text is what stands there.
	Name string
	Text []byte
	// Files are [Options.Files].
	Files []source.File
	// Warnings name agents that the document could start, and that cannot be read.
	Warnings []source.Diagnostic
}

// Locate says where a flow's folder is: the folder to open, so that nothing outside it can be
// read, and the document's path in it, with slashes. Path names the document, absolute or not.
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

// Load reads the folder's document as [Load] does, with what lies around it. The folder's warnings come first.
func (f *Folder) Load(o Options) (*Result, []source.Diagnostic) {
	o.Files = f.Files
	res, diags := Load(f.Name, f.Text, o)
	return res, append(slices.Clone(f.Warnings), diags...)
}

// Under gives the folder's names a path in front, so that messages name them as its user does.
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

// ReadFolder reads a flow's folder: the document main and all that a start of it can reach,
// within bounds. It fails where a file cannot be read, naming it.
func ReadFolder(fsys fs.FS, main string) (*Folder, error) {
	text, files, warnings, err := blueprint.Collect(fsys, main)
	if err != nil {
		return nil, err
	}
	return &Folder{Name: main, Text: text, Files: files, Warnings: warnings}, nil
}
