package model

import (
	"slices"

	"weft/specadapter/source"
)

// The tests read texts, and files of components alone, as the specification's examples are.

// Load reads a document with a main component. All diagnostics come at once, those of the
// document first and each file's by place, at most [source.MaxDiagnostics]. The result is
// nil if and only if one of them is an error.
func Load(name string, text []byte, o Options) (*Document, []source.Diagnostic) {
	return load(name, text, o, (*loader).main)
}

// LoadComponents reads a document that only holds components for others to refer to.
func LoadComponents(name string, text []byte, o Options) (*Document, []source.Diagnostic) {
	return load(name, text, o, (*loader).definitionsOnly)
}

// load merges the parser's diagnostics with the document's, which come first in more.
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
	l.sketch()
}

// sketchy are the codes of what a sketch leaves out or writes as one would on paper.
var sketchy = map[string]bool{"field-missing": true, "ref-missing": true, "ref-type": true, "prop-schema": true, "prop-title": true,
	"type-unknown": true, "end-incoming": true, "start-io-eq": true, "end-io-eq": true}

// sketch takes a file of components in syntax from before the first release as what such files are:
// sketches, with parts left out. In the default profile that is a warning, and components that are
// not whole are none of the document's.
func (l *loader) sketch() {
	if l.Strict || !slices.ContainsFunc(l.Diags, func(d source.Diagnostic) bool { return d.Code == "legacy-syntax" }) || l.Dropped > 0 {
		return
	}
	for i := range l.Diags {
		if d := &l.Diags[i]; d.Severity == source.Error && !sketchy[d.Code] {
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
	l.doc.Components = slices.DeleteFunc(l.doc.Components, func(c *Component) bool { return !c.whole(known) })
}

// whole reports whether a component and all in it have what they need.
func (c *Component) whole(known map[*Component]bool) bool {
	if ok, seen := known[c]; seen {
		return ok
	}
	ok := !c.broken && !c.Type.Unknown
	for _, spec := range c.Type.Fields {
		ok = ok && (c.fields[spec.Name] != nil || !spec.Required)
	}
	for part := range c.parts() {
		ok = part.whole(known) && ok
	}
	for _, p := range slices.Concat(c.Inputs, c.Outputs) {
		ok = ok && p.Title != "" && p.Type != nil
	}
	known[c] = ok
	return ok
}
