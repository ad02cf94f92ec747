package model

import (
	"fmt"

	"weft/specadapter/source"
)

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
	l.legacySeen = true
	l.Strictf(at, "legacy-syntax", help, "%s, as before the language's first release", text)
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
		l.legacy(at, what+" is a list of one component", "write the component without the list")
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
			l.legacy(at, what+" is the name of a component", fmt.Sprintf(`write {"$component_ref": %q}`, v.Text))
			return v, v
		}
		l.Errorf(at, "field-type", `write a component: {"component_type": ...}, or {"$component_ref": "NAME"}`, "%s is %s, want a component", what, v.Describe())
		return nil, nil
	}
	if ref := v.Get(legacyRefKey); ref != nil && v.Get("component_type") == nil {
		l.legacy(ref.Pos, what+" is a reference by $ref", `write "$component_ref"`)
		return ref, v
	}
	return nil, v
}

// legacyFields are members that had a meaning before the first release and are ignored.
func (l *loader) legacyFields(c *Component) []string {
	var out []string
	add := func(key, instead string) {
		if v := c.source.Get(key); v != nil {
			out = append(out, key)
			l.legacy(v.Pos, fmt.Sprintf("%s has %s", article(c.Type.Name), key), instead)
		}
	}
	if c.source.Get("component_type") == nil {
		out = append(out, "type")
	}
	switch c.Type.Name {
	case "StartNode":
		add("input_values", `write "inputs"`)
	case "EndNode":
		add("output_values", `write "outputs"`)
	}
	if c.source.Get("air_version") != nil {
		out = append(out, "air_version")
	}
	return out
}
