package model

import (
	"regexp"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan/value"
)

type holder struct {
	name string
	at   source.Pos
}

// scan is what is in a text, or in the texts of a value.
type scan struct {
	holders []holder   // each name once, in order
	jinja   source.Pos // of the first {%
	odd     string     // the first {{ }} around what is not a name
	oddAt   source.Pos
}

// scanned looks at the texts of a field, once for all that refer to them.
func (l *loader) scanned(f *Field) *scan {
	if s := l.scans[f.JSON]; s != nil {
		return s
	}
	s := &scan{}
	seen := map[string]bool{}
	texts(f.JSON, func(at source.Pos, text string) {
		if s.jinja.Line == 0 && strings.Contains(text, "{%") {
			s.jinja = at
		}
		for {
			begin := strings.Index(text, "{{")
			if begin < 0 {
				return
			}
			text = text[begin:]
			end := strings.Index(text, "}}")
			if end < 0 {
				return
			}
			// Of {{ {{x}} the inner one counts.
			if inner := strings.LastIndex(text[:end], "{{"); inner > 0 {
				text, end = text[inner:], end-inner
			}
			m := value.Placeholder.FindStringSubmatch(text[:end+2])
			switch {
			case m == nil && s.odd == "":
				s.odd, s.oddAt = text[:end+2], at
			case m != nil && !seen[m[1]]:
				seen[m[1]] = true
				s.holders = append(s.holders, holder{m[1], at})
			}
			text = text[end+2:]
		}
	})
	l.scans[f.JSON] = s
	return s
}

// holders lists the placeholders of a component's texts, each name once, in order.
func (l *loader) holders(c *Component) []holder {
	var out []holder
	seen := map[string]bool{}
	l.templates(c, func(_ string, found *scan) {
		for _, h := range found.holders {
			if !seen[h.name] {
				seen[h.name] = true
				out = append(out, h)
			}
		}
	})
	return out
}

// templates visits the fields of a component that may hold placeholders.
func (l *loader) templates(c *Component, visit func(field string, found *scan)) {
	for _, spec := range c.Type.Fields {
		if f := c.fields[spec.Name]; spec.Template && f != nil && f.JSON != nil {
			visit(spec.Name, l.scanned(f))
		}
	}
}

// texts visits all strings in a value, the keys of objects too.
func texts(v *source.Value, visit func(at source.Pos, text string)) {
	for m := range v.All() {
		visit(m.KeyPos, m.Key)
		if m.Value.Kind == source.String {
			visit(m.Value.Pos, m.Value.Text)
		}
	}
}

// environment are names that look like those of environment variables.
var environment = regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)

// checkTemplates reports unsupported template syntax, and placeholders whose values become JSON.
func (l *loader) checkTemplates(c *Component) {
	l.templates(c, func(field string, found *scan) {
		if found.jinja.Line > 0 {
			l.Warnf(found.jinja, "template-jinja", "only {{NAME}} is replaced; remove it, or build the text in an earlier node",
				"%s of %s has {%% %%}, which is not replaced", field, c)
		}
		if found.odd != "" {
			l.Warnf(found.oddAt, "template-name", "use {{NAME}} with letters, digits and _", "%s of %s has %s, which is not replaced",
				field, c, source.Quote(found.odd))
		}
	})
	for _, h := range l.holders(c) {
		if in := c.Input(h.name); in != nil && !scalar(in.Type) {
			l.Warnf(h.at, "template-nonscalar", "declare it as a string or format it in an earlier node",
				"the placeholder %s is replaced by %s; it is written as JSON", source.Quote(h.name), in.Type)
		}
	}
}

// scalar reports whether values of a type are written as one would write them by hand.
func scalar(t *Shape) bool {
	return t.all(func(t *Shape) bool { return t.Kind != ArrayShape && t.Kind != ObjectShape })
}
