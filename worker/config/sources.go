package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// given is a value as it was given, and where. [loader.decode] turns it into what the field of the setting
// holds.
type given struct {
	key    string
	at     *setting
	value  *source.Value
	origin string
	pos    source.Pos
}

// section holds the values and sections of a section by name. Viper, which lower-cases the keys of maps and splits
// them at dots, leaves maps of this type alone.
type section map[string]any

// below is the section of a path, which is created if there is none.
func (s section) below(path []string) section {
	for _, name := range path {
		next, _ := s[name].(section)
		if next == nil {
			next = section{}
			s[name] = next
		}
		s = next
	}
	return s
}

// problem is something wrong with a value; pos is zero for a variable or a flag.
type problem struct {
	pos  source.Pos
	text string
}

func (l *loader) wrong(key, origin string, pos source.Pos, v *source.Value, want string) {
	l.problems = append(l.problems, problem{pos, fmt.Sprintf("%s: %s is %s, %s", origin, cmp.Or(key, "the file"), v.Describe(), want)})
}

// sorted returns the problems by their position in the file, followed by those of variables and flags.
func (l *loader) sorted() Problems {
	slices.SortStableFunc(l.problems, func(a, b problem) int {
		if (a.pos.Line == 0) != (b.pos.Line == 0) {
			return cmp.Compare(b.pos.Line, a.pos.Line)
		}
		if a.pos.Line == 0 {
			return cmp.Compare(a.text, b.text)
		}
		return cmp.Or(cmp.Compare(a.pos.Line, b.pos.Line), cmp.Compare(a.pos.Col, b.pos.Col))
	})
	var out Problems
	for _, p := range l.problems {
		out = append(out, p.text)
	}
	return out
}

func (l *loader) decode(from, _ reflect.Value) (any, error) {
	g, ok := from.Interface().(given)
	if !ok {
		return from.Interface(), nil
	}
	out, err := g.at.parse(g.value)
	if err != nil {
		l.wrong(g.key, g.origin, g.pos, g.value, err.Error())
		return nil, nil
	}
	return out, nil
}

func (l *loader) readFile(name string) {
	named := cmp.Or(name, l.cfg.variable(FileVariable))
	name = cmp.Or(named, DefaultFile)
	data, err := os.ReadFile(name)
	switch {
	case named == "" && errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		l.problems = append(l.problems, problem{text: fmt.Sprintf("read the configuration: %v; use another file with -config or %s", err, FileVariable)})
		return
	}
	l.cfg.File = name
	doc, diags := source.Parse(name, data)
	for _, d := range diags {
		if d.Code != source.CodeEmpty {
			l.problems = append(l.problems, problem{source.Pos{Line: d.Line, Col: d.Col}, d.String()})
		}
	}
	if doc == nil || doc.Root.Kind == source.Null {
		return
	}
	if out, ok := l.read(schema, "", doc.Root).(section); ok {
		l.tree = out
	}
}

// read reads a value or a section of the file into [given] values.
func (l *loader) read(n *node, key string, v *source.Value) any {
	if n.setting != nil {
		l.cfg.origin[key] = l.place(v.Pos)
		return given{key, n.setting, v, l.place(v.Pos), v.Pos}
	}
	if v.Kind != source.Object {
		l.wrong(key, l.place(v.Pos), v.Pos, v, "expected a section of settings")
		return nil
	}
	out := section{}
	for _, m := range v.Members {
		path, child := strings.TrimPrefix(key+"."+m.Key, "."), n.child(m.Key)
		switch {
		case path == SchemaKey:
			continue
		case child == nil:
			l.unknown(m.KeyPos, path, m.Key, n.names())
			continue
		case m.Value.Kind == source.Null && n.each == nil:
			continue
		case n.each != nil:
			l.cfg.origin[path] = l.place(m.KeyPos)
		}
		if below := l.read(child, path, m.Value); below != nil {
			out[m.Key] = below
		}
	}
	return out
}

func (l *loader) place(at source.Pos) string {
	return fmt.Sprintf("%s:%d:%d", l.cfg.File, at.Line, at.Col)
}

func (l *loader) unknown(at source.Pos, path, key string, names []string) {
	hint := "known settings: " + strings.Join(names, ", ")
	if near := source.NewSuggester(names).Nearest(key); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	l.problems = append(l.problems, problem{at, fmt.Sprintf("%s: unknown setting %s; %s", l.place(at), source.Quote(path), hint)})
}

// give sets the value at a path, which overrides the file and earlier ones.
func (l *loader) give(n *node, text, origin string, path ...string) {
	key, last := strings.Join(path, "."), len(path)-1
	l.cfg.origin[key] = origin
	l.tree.below(path[:last])[path[last]] = given{key: key, at: n.setting, value: n.setting.fromText(text), origin: origin}
}

// readEnvironment reads the variables that are settings. Others with the prefix are not errors, because
// Kubernetes sets some of its own (WEFT_SERVICE_HOST), but a misspelt one gets a warning.
func (l *loader) readEnvironment() {
	env := map[string]string{}
	for _, pair := range l.cfg.env.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, prefix) && value != "" {
			env[name] = value
		}
	}
	known := map[string]*node{}
	for _, n := range schema.leaves() {
		known[prefix+variableOf(n.key)] = n
	}
	suggest := source.NewSuggester(slices.Sorted(maps.Keys(known)))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if n := known[name]; n != nil {
			l.give(n, env[name], name, strings.Split(n.key, ".")...)
			continue
		}
		if name == FileVariable || isSecret(name) || l.recordVariable(name, env[name]) {
			continue
		}
		if near := suggest.Nearest(name); near != "" {
			l.cfg.Warnings = append(l.cfg.Warnings, fmt.Sprintf("the environment variable %s is not a setting; did you mean %s?", name, near))
		}
	}
}

// recordVariable reads a variable of a section of the operator's names, such as
// WEFT_PROVIDERS_OPENAI_BASE_URL: of a name that the file has in any case, or of a new one in lower
// case. It reports whether the variable belongs to such a section.
func (l *loader) recordVariable(name, text string) bool {
	for _, r := range schema.records() {
		rest, ok := strings.CutPrefix(name, prefix+variableOf(r.name)+"_")
		if !ok {
			continue
		}
		entries, _ := l.tree[r.name].(section)
		if r.each.setting != nil {
			l.give(r.each, text, name, r.name, match(entries, rest))
		} else if field, end := fieldOf(r, rest); field != nil {
			l.give(field, text, name, r.name, match(entries, strings.TrimSuffix(rest, end)), field.name)
		} else {
			l.problems = append(l.problems, problem{text: fmt.Sprintf("%s: unknown setting of %s; known settings: %s", name, r.name, strings.Join(r.each.names(), ", "))})
		}
		return true
	}
	return false
}

// fieldOf finds the field whose name is the longest suffix of a variable, and that suffix: CONNECT_TIMEOUT,
// not TIMEOUT of a connection whose name ends in CONNECT.
func fieldOf(record *node, rest string) (field *node, end string) {
	for _, n := range record.each.children {
		if e := "_" + variableOf(n.name); len(e) > len(end) && len(rest) > len(e) && strings.HasSuffix(rest, e) {
			field, end = n, e
		}
	}
	return field, end
}

// setDefaults sets the defaults of what is not in a section, and in those below it.
func setDefaults(n *node, in section) {
	for _, c := range n.children {
		switch {
		case c.each != nil:
			entries, _ := in[c.name].(section)
			for _, entry := range entries {
				if values, ok := entry.(section); ok {
					setDefaults(c.each, values)
				}
			}
		case c.setting == nil:
			setDefaults(c, in.below([]string{c.name}))
		case in[c.name] == nil && c.setting.def != "":
			in[c.name] = given{key: c.key, at: c.setting, value: c.setting.fromText(c.setting.def), origin: "default"}
		}
	}
}

// match finds the name of an entry by a part of a variable, which has neither lower case nor punctuation.
func match(entries section, upper string) string {
	for _, n := range slices.Sorted(maps.Keys(entries)) {
		if variableOf(n) == upper {
			return n
		}
	}
	return strings.ToLower(upper)
}

func variableOf(key string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(key))
}
