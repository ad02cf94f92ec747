package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// component reads a component or a reference to one. It returns nil after reporting an error.
func (l *loader) component(s *scope, v *source.Value, want, what string) *Component {
	return l.keyed(s, v, want, what, "")
}

// keyed is like component for a definition with a key, which may be "".
func (l *loader) keyed(s *scope, v *source.Value, want, what, key string) *Component {
	at := v.Pos
	ref, v := l.reference(s, v, what)
	switch {
	case v == nil:
		return nil
	case ref == nil:
		return l.inline(s, v, want, what, key)
	case !l.Expect(ref, source.String, `use {"$component_ref": "NAME"}`, "the reference in "+what):
		return nil
	}
	if v != l.rootOf(s.file) {
		s = l.enter(s, v)
	}
	d := l.resolve(s, ref.Text, ref.Pos)
	if d == nil {
		return nil
	}
	c := l.definition(d, ref.Pos)
	if c != nil && !c.Type.Satisfies(want) {
		l.wrongType(at, want, what, c)
		return nil
	}
	return c
}

// wrongType reports a component that cannot be used where another type is expected.
func (l *loader) wrongType(at source.Pos, want, what string, c *Component) {
	if want == "Tool" && c.Type.Satisfies("ToolBox") {
		code, help := "ref-type", "put it into toolboxes"
		if what == "tool of ToolNode" {
			code, help = "toolnode-not-toolbox", "use one tool: a ServerTool, ClientTool, RemoteTool or MCPTool"
		}
		l.Errorf(at, code, help, "%s is %s, which is a toolbox and not a tool", what, c)
		return
	}
	l.Errorf(at, "ref-type", "refer to a component that is "+article(want), "%s is %s, expected %s", what, c, article(want))
}

// article prefixes a type's name with a or an: an Agent, an LlmNode, an MCPTool, a Flow.
func article(name string) string {
	spelt := len(name) > 2 && (strings.HasPrefix(name, "Llm") || name[1] >= 'A' && name[1] <= 'Z' && strings.IndexByte("AEFHILMNORSX", name[0]) >= 0)
	if spelt || strings.IndexByte("AEIO", name[0]) >= 0 {
		return "an " + name
	}
	return "a " + name
}

func (l *loader) inline(s *scope, v *source.Value, want, what, key string) *Component {
	at := v.Pos
	if !l.Fields(v, what, "").OK {
		return nil
	}
	l.count++
	if l.count == MaxComponents+1 {
		l.Errorf(at, "too-many", "split the document", "the document has more than %d components", MaxComponents)
	}
	if l.count > MaxComponents || l.steps > maxSteps {
		return nil
	}
	if l.depth >= MaxNesting {
		l.tooDeep(at)
		return nil
	}
	l.depth++
	defer func() { l.depth-- }()
	// The definitions at the root of a file have already been entered.
	if v != l.rootOf(s.file) {
		s = l.enter(s, v)
	}
	t := l.typeOf(v, want, what)
	if t == nil {
		return nil
	}
	c := &Component{Type: t, At: at, Key: key, source: v, fields: map[string]*Field{}}
	l.readNames(c)
	if !t.Satisfies(want) {
		l.wrongType(at, want, what, c)
		c.broken = true
	}
	l.needs(at, t.Since, "the component %s", t.Name)
	l.fields(s, c)
	l.finish(c)
	if !t.Satisfies(want) {
		return nil
	}
	return c
}

func (l *loader) tooDeep(at source.Pos) {
	l.Errorf(at, "too-deep", "flatten the components", "components are nested deeper than %d, references included", MaxNesting)
}

// rootOf returns the root of a file, whose definitions are entered before anything is read.
func (l *loader) rootOf(name string) *source.Value {
	i := slices.IndexFunc(l.files, func(f *file) bool { return f.name == name })
	return l.files[i].root
}

// typeOf returns a component's type, or nil after reporting an error.
func (l *loader) typeOf(v *source.Value, want, what string) *catalog.Type {
	at := v.Pos
	name := v.Get("component_type")
	if name == nil {
		name = l.legacyType(v)
		if name != nil {
			l.legacy(name.Pos, "component_type is spelled type", `set "component_type"`)
		}
	}
	if name == nil {
		if row := l.rows[want]; row != nil && l.concrete(want) == want {
			l.Strictf(at, "type-missing", `set "component_type": "`+row.Name+`"`, "%s has no component_type; it is read as %s", what, article(row.Name))
			return row
		}
		l.Errorf(at, "type-missing", `set "component_type"`, "%s has no component_type", what)
		return nil
	}
	at = name.Pos
	if !l.Expect(name, source.String, "use the name of a component type", "component_type of "+what) {
		return nil
	}
	text := name.Text
	if alias := legacyTypes[text]; alias != "" && l.rows[text] == nil {
		l.legacy(at, fmt.Sprintf("the component type is spelled %s", text), "use "+strconv.Quote(alias))
		text = alias
	}
	row := l.rows[text]
	switch {
	case row == nil:
		help, of := "register its plugin or use another component", ""
		if p := v.Get("component_plugin_name"); p != nil && p.Kind == source.String {
			of = " of the plugin " + source.Quote(p.Text)
		}
		if text == "ConditionalControlFlowEdge" {
			help = "use a BranchingNode, and a ControlFlowEdge with from_branch for each of its branches"
		} else if near := l.Near(text, func() []string { return sorted(l.rows) }); near != "" {
			help = "did you mean " + strconv.Quote(near) + "? Otherwise " + help
		}
		l.Errorf(at, "type-unknown", help, "unknown component %s%s", source.Quote(text), of)
		return catalog.UnknownType(source.Quote(text))
	case row.Abstract:
		l.Errorf(at, "type-abstract", "use one of: "+l.concrete(text), "%s is abstract and cannot be used directly", text)
		return nil
	}
	return row
}

func (l *loader) concrete(want string) string {
	return strings.Join(slices.DeleteFunc(sorted(l.rows), func(name string) bool {
		return l.rows[name].Abstract || !l.rows[name].Satisfies(want)
	}), ", ")
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// finish completes and validates a component whose fields have been read.
func (l *loader) finish(c *Component) {
	for part := range c.parts() {
		c.height = max(c.height, part.height)
	}
	if c.height++; c.height > MaxNesting {
		l.tooDeep(c.At)
		c.height = 0
	}
	l.identify(c)
	if c.Type.ActsAs("Flow") {
		c.Flow = l.flow(c)
	}
	l.io(c)
	if c.Type.Satisfies("Node") && !c.Type.Unknown {
		l.branches(c)
	}
	if r := l.rulesOf(c.Type); !c.broken {
		if r.since != nil {
			if since, what := r.since(c); what != "" {
				l.needs(c.FieldPos("outputs"), since, "%s of %s", what, c)
			}
		}
		if r.check != nil {
			r.check(l, c)
		}
	} else if c.Flow != nil && c.Flow.partial {
		l.checkCounts(c, c.Flow)
		l.checkUnconnected(c, newGraph(c.Flow))
	}
	if y := l.rulesOf(c.Type).yields; y != nil {
		c.yields = y(c)
	}
	if c.Type.Unsupported != "" {
		l.Warnf(c.At, "unsupported", c.Type.Unsupported, "%s is validated but cannot be run", c)
	}
	l.doc.Components = append(l.doc.Components, c)
}

// identify sets the id of a component without one, and reports duplicate ids.
func (l *loader) identify(c *Component) {
	if c.ID == "" {
		c.ID = fmt.Sprintf("%s@%d:%d", c.Type.Name, c.At.Line, c.At.Col)
		return
	}
	same := l.ids[c.ID]
	if slices.ContainsFunc(same, func(other *Component) bool {
		return c.Type.Name == other.Type.Name && l.equal(c.At, c.source, other.source)
	}) {
		return
	}
	if len(same) > 0 {
		l.Strictf(c.FieldPos("id"), "id-dup", "change its id, or refer to the other component by $component_ref",
			"the id %s of %s is already used by another component, at %s", source.Quote(c.ID), c, l.where(same[0].At, c.At))
	}
	if len(same) < 20 {
		l.ids[c.ID] = append(same, c)
	}
}

// equal reports whether two values are the same JSON text except for the order of members.
func (l *loader) equal(at source.Pos, a, b *source.Value) bool {
	if a == b {
		return true
	}
	if a.Kind != b.Kind || a.Text != b.Text || a.True != b.True || len(a.Items) != len(b.Items) || len(a.Members) != len(b.Members) ||
		!l.work(at, 1+len(a.Members)) {
		return false
	}
	for i := range a.Items {
		if !l.equal(at, a.Items[i], b.Items[i]) {
			return false
		}
	}
	for i, m := range a.Members {
		other := b.Members[i].Value
		if b.Members[i].Key != m.Key && l.work(at, len(b.Members)) {
			other = b.Get(m.Key)
		}
		if other == nil || !l.equal(at, m.Value, other) {
			return false
		}
	}
	return true
}

const versionField = "agentspec_version"

// version determines the document's version.
func (l *loader) version(root *source.Value) {
	l.doc.Version = catalog.Current
	v := root.Get(versionField)
	if v == nil {
		if v = root.Get("air_version"); v != nil {
			l.legacy(v.Pos, "agentspec_version is spelled air_version", `set "agentspec_version"`)
		}
	}
	if v == nil || v.Kind == source.Null {
		l.Warnf(root.Pos, "version-missing", `set "agentspec_version": "`+catalog.Current.String()+`"`,
			"the document has no version; it is read as %s", catalog.Current)
		return
	}
	if version, old := l.label(v); version != 0 {
		l.doc.Version = version
		if old {
			l.Warnf(v.Pos, "version-old", `use "`+version.String()+`"`,
				"the version %s is a pre-release; the document is read as %s", v.Describe(), version)
		}
	}
}

// label parses a version's label; it returns 0 after reporting an error.
func (l *loader) label(v *source.Value) (version catalog.Version, old bool) {
	if v.Kind == source.String {
		if version, old = catalog.ParseVersion(v.Text); version != 0 {
			return version, old
		}
	}
	l.Errorf(v.Pos, "version-unknown", "use one of: "+catalog.VersionLabels(), "unknown version %s", v.Describe())
	return 0, false
}

// nestedVersion reports a version below the root, where it has no effect. surprise is false in files of components.
func (l *loader) nestedVersion(v *source.Value, surprise bool) {
	if v.Kind == source.Null {
		return
	}
	if version, _ := l.label(v); version != 0 && version != l.doc.Version && surprise {
		l.Warnf(v.Pos, "version-nested", "remove it, or set it at the top of the document",
			"a version is only read at the top of the document; this part is read as %s, not as %s", l.doc.Version, version)
	}
}

// needs reports a part that requires a newer version than the document's.
func (l *loader) needs(at source.Pos, since catalog.Version, format string, args ...any) {
	if since <= l.doc.Version {
		return
	}
	l.Strictf(at, "version-too-low", `set "agentspec_version": "`+since.String()+`"`,
		format+" needs version %s, but the document has %s", append(args, since, l.doc.Version)...)
}

// legacyTypes maps pre-release names of component types to the current ones.
var legacyTypes = map[string]string{
	"LLMNode":          "LlmNode",
	"APINode":          "ApiNode",
	"OciGenAiLLM":      "OciGenAiConfig",
	"OCIGenAILLM":      "OciGenAiConfig",
	"VLLMConfig":       "VllmConfig",
	"LLMConfig":        "LlmConfig",
	"OpenAIConfig":     "OpenAiConfig",
	"OpenAILikeConfig": "OpenAiCompatibleConfig",
	"InputNode":        "InputMessageNode",
	"OutputNode":       "OutputMessageNode",
}

// legacy reports pre-release syntax, which the default profile accepts.
func (l *loader) legacy(at source.Pos, text, help string) {
	l.Strictf(at, "legacy-syntax", help, "%s, the form used before the first release", text)
}

// legacyType returns the member that names the type in pre-release syntax, or nil.
func (l *loader) legacyType(v *source.Value) *source.Value {
	t := v.Get("type")
	if t == nil || t.Kind != source.String || l.rows[t.Text] == nil && legacyTypes[t.Text] == "" && t.Text != "ConditionalControlFlowEdge" {
		return nil
	}
	return t
}

// reference returns the name in a reference to a component, or nil for a component, and the value
// itself. In pre-release syntax, a reference may also be {"$ref": NAME}, NAME alone, or a list of one
// of these; in is then the element. Both are nil after reporting an error.
func (l *loader) reference(s *scope, v *source.Value, what string) (ref, in *source.Value) {
	at := v.Pos
	if v.Kind == source.Array && len(v.Items) == 1 {
		l.legacy(at, what+" is a list of one component", "remove the list around the component")
		v = v.Items[0]
	}
	if ref := refOf(v); ref != nil {
		for _, m := range v.Members {
			if m.Key != refKey && m.Key != definitionsKey && m.Key != versionField {
				l.Warnf(m.KeyPos, "field-unknown", "remove the other fields", "the reference in %s has the field %s, which has no effect", what, source.Quote(m.Key))
			}
		}
		return ref, v
	}
	if v.Kind == source.String {
		if l.lookup(s, v.Text) != nil {
			l.legacy(at, what+" is the name of a component", fmt.Sprintf(`use {"$component_ref": %q}`, v.Text))
			return v, v
		}
		l.Errorf(at, "field-type", `use a component: {"component_type": ...}, or {"$component_ref": "NAME"}`, "%s is %s, expected a component", what, v.Describe())
		return nil, nil
	}
	if ref := v.Get(legacyRefKey); ref != nil && v.Get("component_type") == nil {
		l.legacy(ref.Pos, what+" is a reference by $ref", `use "$component_ref"`)
		return ref, v
	}
	return nil, v
}

// legacyFields returns pre-release fields of a component, which are ignored with a diagnostic.
func (l *loader) legacyFields(c *Component) []string {
	var out []string
	for _, old := range []struct{ of, key, instead string }{{"StartNode", "input_values", `use "inputs"`}, {"EndNode", "output_values", `use "outputs"`}} {
		if v := c.source.Get(old.key); v != nil && c.Type.Name == old.of {
			out = append(out, old.key)
			l.legacy(v.Pos, fmt.Sprintf("%s has %s", article(c.Type.Name), old.key), old.instead)
		}
	}
	if c.source.Get("component_type") == nil {
		out = append(out, "type")
	}
	if c.source.Get("air_version") != nil {
		out = append(out, "air_version")
	}
	return out
}
