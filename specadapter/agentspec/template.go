package agentspec

import (
	"regexp"
	"strings"

	"weft/specadapter/source"
)

var placeholder = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// blank finds {{ }} around what is no name.
var blankHolder = regexp.MustCompile(`\{\{[^{}]{0,200}\}\}`)

// holder is a placeholder in a text.
type holder struct {
	name string
	at   Place
}

// holders lists the placeholders of a component's texts, each name once, in the order in
// which they stand.
func holders(c *Component) []holder {
	var out []holder
	seen := map[string]bool{}
	for i := range c.Type.Fields {
		spec := &c.Type.Fields[i]
		if f := c.fields[spec.Name]; spec.Template && f != nil && f.JSON != nil {
			texts(f.JSON, func(v *source.Value, at source.Pos, text string) {
				for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
					if !seen[m[1]] {
						seen[m[1]] = true
						out = append(out, holder{m[1], Place{f.At.File, at}})
					}
				}
			})
		}
	}
	return out
}

// texts visits all strings in a value, the keys of objects too.
func texts(v *source.Value, visit func(v *source.Value, at source.Pos, text string)) {
	if v.Kind == source.String {
		visit(v, v.Pos, v.Text)
	}
	for _, item := range v.Items {
		texts(item, visit)
	}
	for _, m := range v.Members {
		visit(v, m.KeyPos, m.Key)
		texts(m.Value, visit)
	}
}

// environment are names that look like those of environment variables.
var environment = regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)

// checkTemplates judges a component's texts: template languages that nothing reads here,
// and inputs that a text cannot show as their author may think.
func (l *loader) checkTemplates(c *Component) {
	for i := range c.Type.Fields {
		spec := &c.Type.Fields[i]
		f := c.fields[spec.Name]
		if !spec.Template || f == nil || f.JSON == nil {
			continue
		}
		texts(f.JSON, func(_ *source.Value, at source.Pos, text string) {
			if strings.Contains(text, "{%") {
				l.warnf(Place{f.At.File, at}, "template-jinja", "only {{NAME}} is replaced; write the text out, or build it in a node before",
					"%s of %s has {%% %%}, which stays as it is", spec.Name, c)
			}
			for _, m := range blankHolder.FindAllString(text, -1) {
				if placeholder.FindString(m) != m {
					l.warnf(Place{f.At.File, at}, "template-name", "a placeholder is {{NAME}}, of letters, digits and _", "%s of %s has %s, which stays as it is",
						spec.Name, c, source.Quote(m))
					break
				}
			}
		})
	}
	for _, h := range holders(c) {
		if in := c.Input(h.name); in != nil && !scalar(in.Type) {
			l.warnf(h.at, "template-nonscalar", "declare it as a string to say so, or format it in a node before",
				"the placeholder %s stands for %s; it is written as JSON", source.Quote(h.name), in.Type)
		}
	}
}

// scalar says whether values of a type are written as one would write them by hand.
func scalar(t *Shape) bool {
	switch t.Kind {
	case ArrayShape, ObjectShape:
		return false
	case UnionShape:
		for _, m := range t.Members {
			if !scalar(m) {
				return false
			}
		}
	}
	return true
}
