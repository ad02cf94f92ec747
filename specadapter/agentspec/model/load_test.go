package model

import (
	"slices"

	"weft/specadapter/source"
)

// The tests also load plain texts and documents without a main component, as in the specification's examples.

// Load reads a document with a main component. It returns all diagnostics at once, at most
// [source.MaxDiagnostics]: those of the document first, then those of each file, by position.
// The result is nil if and only if one of them is an error.
func Load(name string, text []byte, o Options) (*Document, []source.Diagnostic) {
	return load(name, text, o, (*loader).main)
}

// LoadComponents reads a document without a main component, which only holds components to refer to.
func LoadComponents(name string, text []byte, o Options) (*Document, []source.Diagnostic) {
	return load(name, text, o, (*loader).definitionsOnly)
}

// load merges the parser's diagnostics with those of the document, which come first in more.
func load(name string, text []byte, o Options, top func(*loader, *scope, *source.Value)) (*Document, []source.Diagnostic) {
	doc, diags := parse(name, text, o)
	if doc == nil {
		return nil, diags
	}
	l, more := read(doc, o, top)
	result, n := l.doc, 0
	if l.Errors > 0 {
		result = nil
	}
	for n < len(more) && more[n].File == name {
		n++
	}
	head := append(diags, more[:n]...)
	source.SortDiagnostics(head)
	return result, source.LimitDiagnostics(append(head, more[n:]...))
}

func (l *loader) definitionsOnly(s *scope, root *source.Value) {
	if root.Get(definitionsKey) == nil {
		l.Errorf(root.Pos, "field-missing", `put the components into "$referenced_components"`, "the document has no $referenced_components")
		return
	}
	l.enter(s, root)
	l.readUnused()
	l.reportMissingEdges()
	l.tolerateSketch()
}

// sketchCodes are the errors that are tolerated in sketches, which leave parts out.
var sketchCodes = map[string]bool{"field-missing": true, "ref-missing": true, "ref-type": true, "prop-schema": true, "prop-title": true,
	"type-unknown": true, "end-incoming": true, "start-io-eq": true, "end-io-eq": true}

// tolerateSketch turns the errors of a file of components into warnings if the file uses the syntax from before
// the first release and has no errors but sketchCodes: such files are sketches, with parts left out. It removes
// incomplete components from the document. The strict profile keeps the errors.
func (l *loader) tolerateSketch() {
	if l.Strict || !slices.ContainsFunc(l.Diags, func(d source.Diagnostic) bool { return d.Code == "legacy-syntax" }) || l.Dropped > 0 {
		return
	}
	for i := range l.Diags {
		if d := &l.Diags[i]; d.Severity == source.Error && !sketchCodes[d.Code] {
			return
		}
	}
	for i := range l.Diags {
		if d := &l.Diags[i]; d.Severity == source.Error {
			d.Severity = source.Warning
		}
	}
	l.Errors = 0
	known := map[*Component]bool{}
	l.doc.Components = slices.DeleteFunc(l.doc.Components, func(c *Component) bool { return !c.complete(known) })
}

// complete reports whether a component and all its parts have what they need. It memoizes in known.
func (c *Component) complete(known map[*Component]bool) bool {
	if ok, seen := known[c]; seen {
		return ok
	}
	ok := !c.broken && !c.Type.Unknown
	for _, spec := range c.Type.Fields {
		ok = ok && (c.fields[spec.Name] != nil || !spec.Required)
	}
	for part := range c.parts() {
		ok = part.complete(known) && ok
	}
	for _, p := range slices.Concat(c.Inputs, c.Outputs) {
		ok = ok && p.Title != "" && p.Type != nil
	}
	known[c] = ok
	return ok
}
