package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"weft/specadapter/source"
)

// record is a section of the file keyed by an author's names.
type record interface {
	// name is the section's key.
	name() string
	// file reads the section from the file.
	file(l *loader, file string, v *source.Value)
	// variable reads one variable, without prefix and section; false means that there is
	// no such setting.
	variable(l *loader, rest, value string) error
	// shown lists what is set.
	shown(c *Config) []Shown
	// rows describe the settings, for the reference.
	rows() []setting
}

// section is a record of T by name.
type section[T any] struct {
	key    string
	of     func(*Config) map[string]T
	fields []field[T]
}

// field is one value of a T.
type field[T any] struct {
	key, does string
	entry[T]
}

// entry is a kind of fields: how it is read, and how what is set is shown.
type entry[T any] struct {
	want string
	set  func(t *T, v *source.Value) error
	show func(t *T) []Shown
}

func (s section[T]) name() string { return s.key }

func (s section[T]) file(l *loader, file string, v *source.Value) {
	for _, m := range v.Members {
		path := s.key + "." + m.Key
		if m.Value.Kind != source.Object {
			l.wrong(file, m.Value.Pos, path, m.Value, "want a section of settings")
			continue
		}
		l.origin[path] = place(file, m.KeyPos)
		var t T
		for _, f := range m.Value.Members {
			i := slices.IndexFunc(s.fields, func(g field[T]) bool { return g.key == f.Key })
			if i < 0 {
				l.unknown(file, f.KeyPos, path+"."+f.Key, f.Key, s.keys())
				continue
			}
			if f.Value.Kind == source.Null {
				continue
			}
			if err := s.fields[i].set(&t, f.Value); err != nil {
				l.wrong(file, f.Value.Pos, path+"."+f.Key, f.Value, err.Error())
			}
			l.origin[path+"."+f.Key] = place(file, f.Value.Pos)
		}
		s.of(l.cfg)[m.Key] = t
	}
}

// variable reads NAME_FIELD: a name that the file has in any case, or a new one in lower
// case.
func (s section[T]) variable(l *loader, rest, value string) error {
	for _, f := range s.fields {
		name, ok := strings.CutSuffix(rest, "_"+strings.ToUpper(f.key))
		if !ok || name == "" {
			continue
		}
		name = match(slices.Collect(maps.Keys(s.of(l.cfg))), name)
		t := s.of(l.cfg)[name]
		if err := f.set(&t, fromVariable(value)); err != nil {
			return fmt.Errorf("%s.%s.%s is %s, %w", s.key, name, f.key, source.Quote(value), err)
		}
		s.of(l.cfg)[name] = t
		l.origin[s.key+"."+name+"."+f.key] = prefix + variableOf(s.key) + "_" + rest
		return nil
	}
	return errNoSetting
}

// shown lists what was given; a field that nobody set is left out.
func (s section[T]) shown(c *Config) []Shown {
	var out []Shown
	for _, name := range slices.Sorted(maps.Keys(s.of(c))) {
		t := s.of(c)[name]
		for _, f := range s.fields {
			key := s.key + "." + name + "." + f.key
			if c.origin[key] == "" {
				continue
			}
			for _, v := range f.show(&t) {
				out = append(out, Shown{key + v.Key, v.Value, c.originOf(key)})
			}
		}
	}
	return out
}

func (s section[T]) rows() []setting {
	var out []setting
	for _, f := range s.fields {
		out = append(out, setting{s.key + ".NAME." + f.key, f.does, value{want: f.want}})
	}
	return out
}

func (s section[T]) keys() []string {
	var out []string
	for _, f := range s.fields {
		out = append(out, f.key)
	}
	return out
}

// tools is the section that maps tools to connections.
type tools struct{}

func (tools) name() string { return "tools" }

func (tools) file(l *loader, file string, v *source.Value) {
	for _, m := range v.Members {
		if m.Value.Kind != source.String {
			l.wrong(file, m.Value.Pos, "tools."+m.Key, m.Value, "want the id of a connection")
			continue
		}
		l.cfg.Tools[m.Key], l.origin["tools."+m.Key] = m.Value.Text, place(file, m.Value.Pos)
	}
}

func (tools) variable(l *loader, rest, value string) error {
	name := match(slices.Collect(maps.Keys(l.cfg.Tools)), rest)
	l.cfg.Tools[name], l.origin["tools."+name] = value, prefix+"TOOLS_"+rest
	return nil
}

func (tools) shown(c *Config) []Shown {
	var out []Shown
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		out = append(out, Shown{"tools." + name, c.Tools[name], c.originOf("tools." + name)})
	}
	return out
}

func (tools) rows() []setting {
	return []setting{{"tools.TOOL", "connection that has a tool for which the flow names none", value{want: "id of a connection"}}}
}

// match finds the name that a variable means, as variables have neither lower case nor
// signs.
func match(names []string, upper string) string {
	slices.Sort(names)
	for _, n := range names {
		if variableOf(n) == upper {
			return n
		}
	}
	return strings.ToLower(upper)
}

// variableOf is a key as part of the name of a variable.
func variableOf(key string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(key))
}

// fromVariable makes a value of a variable's text, of whatever kind a setter wants.
func fromVariable(s string) *source.Value {
	return &source.Value{Kind: source.String, Text: s, Items: nil}
}

// Setters of a record's fields. A string is taken for a number or a boolean too, because
// that is what a variable has.

func one[T any](at func(*T) *string) entry[T] {
	return entry[T]{want: "text", set: func(t *T, v *source.Value) error {
		s, ok := scalar(v)
		if !ok {
			return fmt.Errorf("want a text")
		}
		*at(t) = s
		return nil
	}, show: func(t *T) []Shown { return []Shown{{Value: *at(t)}} }}
}

// link is a URL, which may hold a secret.
func link[T any](at func(*T) *string) entry[T] {
	e := one(at)
	e.want = "URL"
	e.show = func(t *T) []Shown { return []Shown{{Value: maskURL(*at(t))}} }
	return e
}

// hidden is a text that is a secret but for the variables that it names.
func hidden[T any](at func(*T) *string) entry[T] {
	e := one(at)
	e.show = func(t *T) []Shown { return []Shown{{Value: maskText(*at(t))}} }
	return e
}

func yes[T any](at func(*T) *bool) entry[T] {
	return entry[T]{want: "true or false", set: func(t *T, v *source.Value) (err error) {
		s, _ := scalar(v)
		*at(t), err = parseBool(s)
		return err
	}, show: func(t *T) []Shown { return []Shown{{Value: fmt.Sprint(*at(t))}} }}
}

func count[T any](at func(*T) *int) entry[T] {
	return entry[T]{want: "number", set: func(t *T, v *source.Value) (err error) {
		s, _ := scalar(v)
		*at(t), err = parseInt(s, 0, math.MaxInt32)
		return err
	}, show: func(t *T) []Shown { return []Shown{{Value: fmt.Sprint(*at(t))}} }}
}

// decimal is a number that is no whole one.
func decimal[T any](at func(*T) *float64) entry[T] {
	return entry[T]{want: "decimal", set: func(t *T, v *source.Value) error {
		s, _ := scalar(v)
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
			return fmt.Errorf("want a number like 1.25, 0 or more")
		}
		*at(t) = n
		return nil
	}, show: func(t *T) []Shown { return []Shown{{Value: strconv.FormatFloat(*at(t), 'f', -1, 64)}} }}
}

// orNew is where an optional number is; it is made when it is first asked for.
func orNew(at **float64) *float64 {
	if *at == nil {
		*at = new(float64)
	}
	return *at
}

func many[T any](at func(*T) *[]string) entry[T] {
	return entry[T]{want: "list", set: func(t *T, v *source.Value) error {
		items, ok := texts(v)
		if !ok {
			return fmt.Errorf("want a list of texts")
		}
		*at(t) = items
		return nil
	}, show: func(t *T) []Shown { return []Shown{{Value: strings.Join(maskArgs(*at(t)), " ")}} }}
}

func named[T any](at func(*T) *map[string]string) entry[T] {
	return entry[T]{want: "names and texts", set: func(t *T, v *source.Value) error {
		out := map[string]string{}
		for _, m := range v.Members {
			s, ok := scalar(m.Value)
			if !ok {
				return fmt.Errorf("want a text for %s", source.Quote(m.Key))
			}
			out[m.Key] = s
		}
		if v.Kind != source.Object {
			return fmt.Errorf("want names and texts, in the file")
		}
		*at(t) = out
		return nil
	}, show: func(t *T) []Shown {
		var out []Shown
		for _, name := range slices.Sorted(maps.Keys(*at(t))) {
			out = append(out, Shown{Key: "." + name, Value: maskText((*at(t))[name])})
		}
		return out
	}}
}

// scalar is the text of a single value.
func scalar(v *source.Value) (string, bool) {
	switch v.Kind {
	case source.String, source.Number:
		return v.Text, true
	case source.Bool:
		return fmt.Sprint(v.True), true
	}
	return "", false
}

func texts(v *source.Value) ([]string, bool) {
	if v.Kind == source.String {
		return strings.Fields(v.Text), true
	}
	if v.Kind != source.Array {
		return nil, false
	}
	out := []string{}
	for _, item := range v.Items {
		s, ok := scalar(item)
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}
