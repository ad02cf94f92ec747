package model

import (
	"fmt"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

const versionField = "agentspec_version"

// version negotiates the document's version.
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

// label reads a version's label, or reports it and returns 0.
func (l *loader) label(v *source.Value) (version catalog.Version, old bool) {
	if v.Kind == source.String {
		if version, old = catalog.ParseVersion(v.Text); version != 0 {
			return version, old
		}
	}
	l.Errorf(v.Pos, "version-unknown", "use one of: "+catalog.VersionLabels(), "unknown version %s", v.Describe())
	return 0, false
}

// nestedVersion reports a version below the top, where it has no effect, except in files of components.
func (l *loader) nestedVersion(v *source.Value, surprise bool) {
	if v.Kind == source.Null {
		return
	}
	if version, _ := l.label(v); version != 0 && version != l.doc.Version && surprise {
		l.Warnf(v.Pos, "version-nested", "remove it, or set it at the top of the document",
			"a version is only read at the top of the document; this part is read as %s, not as %s", l.doc.Version, version)
	}
}

// needs reports a part that the document's version does not have yet.
func (l *loader) needs(at source.Pos, since catalog.Version, format string, args ...any) {
	if since <= l.doc.Version {
		return
	}
	l.Strictf(at, "version-too-low", `set "agentspec_version": "`+since.String()+`"`,
		format+" needs version %s, but the document has %s", append(args, since, l.doc.Version)...)
}

// legacyTypes are names of components from before the first release.
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

// legacy reports syntax from before the first release, which is read all the same.
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

// reference tells a reference to a component from a component. In pre-release syntax a
// reference is also {"$ref": NAME}, NAME alone, or a list of one of them; v is then what
// the list holds. Both are nil after a report.
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
		l.Errorf(at, "field-type", `use a component: {"component_type": ...}, or {"$component_ref": "NAME"}`, "%s is %s, want a component", what, v.Describe())
		return nil, nil
	}
	if ref := v.Get(legacyRefKey); ref != nil && v.Get("component_type") == nil {
		l.legacy(ref.Pos, what+" is a reference by $ref", `use "$component_ref"`)
		return ref, v
	}
	return nil, v
}

// legacyFields are members that had a meaning before the first release and are ignored.
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
