package model

import (
	"slices"
	"strconv"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// Keys of references and definitions.
const (
	refKey         = "$component_ref"
	definitionsKey = "$referenced_components"
	legacyRefKey   = "$ref"
)

// scope holds the definitions of a component; up is the enclosing scope.
type scope struct {
	file string
	up   *scope
	defs map[string]*definition
}

// definition is a named component or value.
type definition struct {
	key   string
	at    source.Pos // of the key
	value *source.Value
	scope *scope // the scope of references in the value

	component *Component
	started   bool // the component has been read, or is being read if it is in loader.open
	used      bool // referred to, as a component or a value
	weight    int  // of the value; 0 until it is computed
}

// weight returns the cost of reading a value, in steps.
func weight(v *source.Value) int {
	n := 0
	for m := range v.All() {
		n += 8 + len(m.Key)/4 + len(m.Value.Text)/4
	}
	return n
}

// openFiles parses the files of components and adds their definitions.
func (l *loader) openFiles() bool {
	if len(l.o.Components) > MaxFiles {
		l.Errorf(source.Pos{File: l.files[0].name}, "too-many", "put more components into one file", "%d files of components exceed the limit of %d", len(l.o.Components), MaxFiles)
		return false
	}
	for _, f := range l.o.Components {
		if slices.ContainsFunc(l.files, func(other *file) bool { return other.name == f.Name }) {
			l.Errorf(source.Pos{File: f.Name}, "file-twice", "pass each file once", "duplicate file of components %s", source.Quote(f.Name))
			return false
		}
		l.files = append(l.files, &file{name: f.Name})
		doc, diags := parse(f.Name, f.Text, l.o)
		for _, d := range diags {
			l.Report(d)
		}
		if doc == nil || !l.Fields(doc.Root, "the file of components", "").OK || l.wayFlow(doc.Root) {
			continue
		}
		l.define(f.Name, doc.Root)
	}
	return l.Errors == 0 && l.mapNames()
}

// define adds the definitions of a file of components.
func (l *loader) define(name string, root *source.Value) {
	if v := root.Get(versionField); v != nil && v.Kind != source.Null {
		l.label(v)
	}
	if root.Get("component_type") != nil {
		id := root.Get("id")
		if id == nil || id.Kind != source.String {
			l.Errorf(root.Pos, "field-missing", `set "id", or put the component into "$referenced_components"`,
				"the file's component has no id for a document to refer to")
			return
		}
		s := &scope{file: name}
		d := &definition{key: id.Text, at: id.Pos, value: root, scope: s}
		l.outer[d.key] = append(l.outer[d.key], d)
		return
	}
	if root.Get(definitionsKey) == nil {
		l.Errorf(root.Pos, "field-missing", `put the components into "$referenced_components"`, "the file has no $referenced_components")
		return
	}
	l.files[len(l.files)-1].root = root
	s := l.enter(&scope{file: name}, root)
	for _, m := range root.Get(definitionsKey).Members {
		l.outer[m.Key] = append(l.outer[m.Key], s.defs[m.Key])
	}
}

// mapNames validates and applies [Options.Named].
func (l *loader) mapNames() bool {
	chosen := map[string]*definition{}
	for _, key := range sorted(l.o.Named) {
		name, target, ok := strings.Cut(l.o.Named[key], "#")
		for _, d := range l.outer[target] {
			if d.at.File == name {
				chosen[key] = d
			}
		}
		if !ok || chosen[key] == nil {
			l.Errorf(source.Pos{File: l.files[0].name}, "ref-missing", "use ID=FILE#KEY, with a key of $referenced_components in a file of components",
				"the reference %s is mapped to %s, which is not found", source.Quote(key), source.Quote(l.o.Named[key]))
		}
	}
	for key, d := range chosen {
		l.outer[key] = []*definition{d}
	}
	return l.Errors == 0
}

// warnUnmapped warns of mapped references that are not used, which may be misspelt.
func (l *loader) warnUnmapped() {
	for _, key := range sorted(l.o.Named) {
		if !l.asked[key] {
			l.Warnf(source.Pos{File: l.files[0].name}, "ref-unused", "remove the mapping or map an id that the document refers to",
				"the reference %s is mapped to %s but not used", source.Quote(key), source.Quote(l.o.Named[key]))
		}
	}
}

// enter returns the scope of a component: a new one if it has definitions, else that of its parent.
func (l *loader) enter(up *scope, v *source.Value) *scope {
	defs := v.Get(definitionsKey)
	if defs == nil || defs.Kind == source.Null {
		return up
	}
	s := &scope{file: up.file, up: up, defs: map[string]*definition{}}
	top := up.up == nil && up.defs == nil && up.file != l.files[0].name
	if !l.Expect(defs, source.Object, `use an object: {"NAME": {...}}`, definitionsKey) {
		return s
	}
	for _, m := range defs.Members {
		d := &definition{key: m.Key, at: m.KeyPos, value: m.Value, scope: s}
		// Several files may define the same name; this is an error only if it is used.
		if first := l.lookup(up, m.Key); first != nil && !top {
			l.Errorf(d.at, "ref-dup-level", "rename one of the two", "the name %s is already defined at %s, in the same scope",
				source.Quote(m.Key), l.where(first.at, d.at))
		}
		s.defs[m.Key] = d
		l.entered[m.Key] = append(l.entered[m.Key], d)
		l.defs = append(l.defs, d)
	}
	return s
}

// where formats a position for a message at another position.
func (l *loader) where(p, from source.Pos) string {
	text := "line " + strconv.Itoa(p.Line)
	if p.File != from.File {
		text += " of " + p.File
	}
	return text
}

// lookup finds a definition in a scope, the enclosing scopes and the files of components.
func (l *loader) lookup(s *scope, key string) *definition {
	for ; s != nil; s = s.up {
		if d := s.defs[key]; d != nil {
			return d
		}
	}
	if defs := l.outer[key]; len(defs) > 0 {
		l.asked[key] = true
		return defs[0]
	}
	return nil
}

func (l *loader) resolve(s *scope, key string, at source.Pos) *definition {
	d := l.lookup(s, key)
	if all := l.outer[key]; d != nil && len(all) > 1 && d == all[0] {
		l.Errorf(at, "ref-dup-level", "map the reference to one file: -component "+key+"="+all[0].at.File+"#"+key+", or in component_ids of a run's input",
			"the reference %s is defined in several files: %s and %s", source.Quote(key), all[0].at.File, all[1].at.File)
		return nil
	}
	if d != nil {
		return d
	}
	if elsewhere := l.entered[key]; len(elsewhere) == 1 && !l.Strict {
		l.Warnf(at, "ref-scope", `define it at the top, in "$referenced_components"`, "the reference %s points into another component, at line %d",
			source.Quote(key), elsewhere[0].at.Line)
		return elsewhere[0]
	}
	l.Errorf(at, "ref-missing", l.missingHelp(s, key), "unknown reference %s", source.Quote(key))
	return nil
}

// maxGuessed is the maximum number of names among which a similar one is searched.
const maxGuessed = 2000

// missingHelp returns the help for an unknown reference, with a similar name if there is one.
func (l *loader) missingHelp(s *scope, key string) string {
	help := `define it in "$referenced_components", or pass a file of components that does`
	near := l.Near(key, func() []string {
		var names []string
		for ; s != nil; s = s.up {
			if len(names)+len(s.defs) > maxGuessed {
				return nil
			}
			names = append(names, sorted(s.defs)...)
		}
		if len(names)+len(l.outer) > maxGuessed {
			return nil
		}
		return append(names, sorted(l.outer)...)
	})
	if near != "" {
		help = "did you mean " + source.Quote(near) + "? Otherwise " + help
	}
	return help
}

// refOf returns the name in a reference, or nil if the value is not a reference.
func refOf(v *source.Value) *source.Value {
	if v == nil || v.Kind != source.Object {
		return nil
	}
	return v.Get(refKey)
}

// readUnused reads the document's definitions that nothing refers to, so that their errors are
// reported too. Those in files of components may be for other documents. Reading may add
// further definitions.
func (l *loader) readUnused() {
	for i := 0; i < len(l.defs); i++ {
		d := l.defs[i]
		if d.used || d.at.File != l.files[0].name {
			continue
		}
		d.used = true
		// A value without component_type is data.
		if d.value.Get("component_type") != nil || refOf(d.value) != nil || l.legacyType(d.value) != nil {
			l.definition(d, d.at)
		}
	}
}

func (l *loader) definition(d *definition, from source.Pos) *Component {
	if i := slices.Index(l.open, d); i >= 0 {
		l.cycle(l.open[i:], from)
		return nil
	}
	if d.started {
		return d.component
	}
	d.started, d.used = true, true
	if len(l.open) >= MaxNesting {
		l.tooDeep(d.at)
		return nil
	}
	l.open = append(l.open, d)
	d.component = l.keyed(d.scope, d.value, "Component", source.Quote(d.key), d.key)
	l.open = l.open[:len(l.open)-1]
	return d.component
}

// cycle reports a cycle of definitions once; the last may refer to the first several times.
func (l *loader) cycle(open []*definition, from source.Pos) {
	ends := [2]*definition{open[0], open[len(open)-1]}
	if l.cycles[ends] {
		return
	}
	l.cycles[ends] = true
	path := source.Map(open, func(d *definition) string { return source.Quote(d.key) })
	if len(path) > 6 {
		path = append(path[:3:3], append([]string{"..."}, path[len(path)-2:]...)...)
	}
	l.Errorf(from, "ref-cycle", "a component cannot contain itself; repeat with a loop of control flow edges or a MapNode",
		"the component %s contains itself: %s", path[0], strings.Join(append(path, path[0]), " → "))
}

// value returns a value with all references in it replaced, and its scope.
func (l *loader) value(s *scope, v *source.Value, what string) (*source.Value, *scope, bool) {
	v, s, ok := l.follow(s, v, what)
	if !ok || !refers(v) {
		return v, s, ok
	}
	v, ok = l.expand(s, v, what, nil, v.Pos)
	return v, s, ok
}

// follow resolves a reference to a value and returns the scope of the value.
func (l *loader) follow(s *scope, v *source.Value, what string) (*source.Value, *scope, bool) {
	var seen []*definition
	for refOf(v) != nil {
		d := l.valueOf(s, v, what, seen)
		if d == nil {
			return nil, s, false
		}
		seen = append(seen, d)
		v, s = d.value, d.scope
	}
	return v, s, true
}

// valueOf resolves one reference to a value, or returns nil after reporting an error. open are the enclosing definitions.
func (l *loader) valueOf(s *scope, v *source.Value, what string, open []*definition) *definition {
	ref, at := refOf(v), v.Pos
	if !l.expectKind(ref, source.String, "the reference in "+what) {
		return nil
	}
	d := l.resolve(s, ref.Text, ref.Pos)
	switch {
	case d == nil:
		return nil
	case d.value.Kind == source.Object && d.value.Get("component_type") != nil:
		l.Errorf(at, "ref-type", "refer to a value", "%s refers to the component %s, expected a value", what, source.Quote(d.key))
		return nil
	case slices.Contains(open, d) || len(open) >= MaxNesting:
		l.Errorf(at, "ref-cycle", "refer to a value", "the reference in %s has no value: %s contains itself or nests deeper than %d", what, source.Quote(d.key), MaxNesting)
		return nil
	}
	d.used = true
	// A value is read again for every reference to it.
	if d.weight == 0 {
		d.weight = weight(d.value)
	}
	if !l.work(at, d.weight) {
		return nil
	}
	return d
}

func refers(v *source.Value) bool {
	for m := range v.All() {
		if refOf(m.Value) != nil {
			return true
		}
	}
	return false
}

// expand returns a copy of a value with all references in it replaced. open are the enclosing definitions;
// replaced parts have the position from of the outermost reference.
func (l *loader) expand(s *scope, v *source.Value, what string, open []*definition, from source.Pos) (*source.Value, bool) {
	if len(open) == 0 {
		from = v.Pos
	}
	if refOf(v) != nil {
		d := l.valueOf(s, v, what, open)
		if d == nil {
			return nil, false
		}
		return l.expand(d.scope, d.value, what, append(slices.Clip(open), d), from)
	}
	c := *v
	c.Pos = from
	c.Items, c.Members = slices.Clone(v.Items), slices.Clone(v.Members)
	all := true
	for i, item := range v.Items {
		part, ok := l.expand(s, item, what, open, from)
		c.Items[i], all = part, all && ok
	}
	for i, m := range v.Members {
		part, ok := l.expand(s, m.Value, what, open, from)
		c.Members[i].Value, all = part, all && ok
		if len(open) > 0 {
			c.Members[i].KeyPos = from
		}
	}
	return &c, all
}

// plainParts replaces references in an object's members.
func (l *loader) plainParts(s *scope, spec *catalog.FieldSpec, f *Field, what string) bool {
	c, all := *f.JSON, true
	c.Members = slices.Clone(c.Members)
	for i, m := range c.Members {
		known := slices.ContainsFunc(spec.Fields, func(s catalog.FieldSpec) bool { return s.Name == m.Key })
		switch read := f.Fields[m.Key]; {
		case read != nil && read.JSON != nil:
			c.Members[i].Value = read.JSON
		case !known && refers(m.Value):
			part, ok := l.expand(s, m.Value, what, nil, m.Value.Pos)
			c.Members[i].Value, all = part, all && ok
		}
	}
	f.JSON = &c
	return all
}
