package model

import "weft/specadapter/source"

// sketchy are the codes of what a sketch leaves out or writes as one would on paper.
var sketchy = map[string]bool{"field-missing": true, "ref-missing": true, "ref-type": true, "prop-schema": true, "prop-title": true,
	"type-unknown": true, "end-incoming": true, "start-io-eq": true, "end-io-eq": true}

// sketch takes a file of components in syntax from before the first release as what such files are:
// sketches, with parts left out. In the default profile that is a warning, and components that are
// not whole are none of the document's.
func (l *loader) sketch() {
	if l.Strict || !l.legacySeen || l.Dropped > 0 {
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
	var whole []*Component
	for _, c := range l.doc.Components {
		if c.whole(known) {
			whole = append(whole, c)
		}
	}
	l.doc.Components = whole
}

// whole reports whether a component and all in it have what they need.
func (c *Component) whole(known map[*Component]bool) bool {
	if ok, seen := known[c]; seen {
		return ok
	}
	ok := !c.broken && !c.Type.Unknown
	for i := range c.Type.Fields {
		spec := &c.Type.Fields[i]
		f := c.fields[spec.Name]
		ok = ok && (f != nil || !spec.Required)
		if f == nil {
			continue
		}
		for _, part := range f.Components {
			ok = part.whole(known) && ok
		}
	}
	for _, list := range [][]Property{c.Inputs, c.Outputs} {
		for i := range list {
			ok = ok && list[i].Title != "" && list[i].Type != nil
		}
	}
	known[c] = ok
	return ok
}
