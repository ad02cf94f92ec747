package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
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
}

// section is a record of T by name.
type section[T any] struct {
	key    string
	of     func(*Config) map[string]T
	fields []field[T]
}

// field is one value of a T.
type field[T any] struct {
	key string
	set func(t *T, v *source.Value) error
}

func (s section[T]) name() string { return s.key }

func (s section[T]) file(l *loader, file string, v *source.Value) {
	for _, m := range v.Members {
		path := s.key + "." + m.Key
		if m.Value.Kind != source.Object {
			l.wrong(file, m.Value.Pos, path, m.Value, "want a section of settings")
			continue
		}
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
		return nil
	}
	return errNoSetting
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
		l.cfg.Tools[m.Key] = m.Value.Text
	}
}

func (tools) variable(l *loader, rest, value string) error {
	l.cfg.Tools[match(slices.Collect(maps.Keys(l.cfg.Tools)), rest)] = value
	return nil
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

func one[T any](at func(*T) *string) func(*T, *source.Value) error {
	return func(t *T, v *source.Value) error {
		s, ok := scalar(v)
		if !ok {
			return fmt.Errorf("want a text")
		}
		*at(t) = s
		return nil
	}
}

func yes[T any](at func(*T) *bool) func(*T, *source.Value) error {
	return func(t *T, v *source.Value) (err error) {
		s, _ := scalar(v)
		*at(t), err = parseBool(s)
		return err
	}
}

func count[T any](at func(*T) *int) func(*T, *source.Value) error {
	return func(t *T, v *source.Value) (err error) {
		s, _ := scalar(v)
		*at(t), err = parseInt(s, 0, math.MaxInt32)
		return err
	}
}

func many[T any](at func(*T) *[]string) func(*T, *source.Value) error {
	return func(t *T, v *source.Value) error {
		items, ok := texts(v)
		if !ok {
			return fmt.Errorf("want a list of texts")
		}
		*at(t) = items
		return nil
	}
}

func named[T any](at func(*T) *map[string]string) func(*T, *source.Value) error {
	return func(t *T, v *source.Value) error {
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
	}
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
