package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weft/specadapter/source"
)

// errNoSetting is the answer of a record to a variable that names no setting of it.
var errNoSetting = errors.New("no such setting")

// section reads one object of the file: single values and, at the top, records.
func (l *loader) section(file, path string, v *source.Value) {
	if v.Kind != source.Object {
		l.wrong(file, v.Pos, strings.TrimSuffix(path, "."), v, "want a section of settings")
		return
	}
	for _, m := range v.Members {
		key := path + m.Key
		if m.Value.Kind == source.Null && slices.Contains(known(path), m.Key) {
			continue
		}
		switch i := slices.IndexFunc(settings, func(s setting) bool { return s.key == key }); {
		case i >= 0:
			l.single(file, key, m.Value)
		case path == "" && recordOf(m.Key) != nil:
			if m.Value.Kind != source.Object {
				l.wrong(file, m.Value.Pos, key, m.Value, "want a section of settings")
				continue
			}
			recordOf(m.Key).file(l, file, m.Value)
		case path == "" && slices.Contains(known(""), m.Key):
			l.section(file, key+".", m.Value)
		default:
			l.unknown(file, m.KeyPos, key, m.Key, known(path))
		}
	}
}

// single takes one value of the file.
func (l *loader) single(file, key string, v *source.Value) {
	origin := place(file, v.Pos)
	if i := slices.IndexFunc(settings, func(s setting) bool { return s.key == key }); settings[i].want == wantList {
		items, ok := texts(v)
		if !ok {
			l.wrong(file, v.Pos, key, v, "want a list of texts")
			return
		}
		l.file[key], l.origin[key] = items, origin
		return
	}
	s, ok := scalar(v)
	if !ok {
		l.wrong(file, v.Pos, key, v, "want a single value")
		return
	}
	l.file[key], l.origin[key] = s, origin
}

// place is where a value stands in the file.
func place(file string, at source.Pos) string {
	return fmt.Sprintf("%s:%d:%d", file, at.Line, at.Col)
}

// known lists the keys of a section; path is "" for the top, else it ends with a dot.
func known(path string) []string {
	var out []string
	for _, s := range settings {
		if rest, ok := strings.CutPrefix(s.key, path); ok {
			first, _, _ := strings.Cut(rest, ".")
			if !slices.Contains(out, first) {
				out = append(out, first)
			}
		}
	}
	if path == "" {
		for _, r := range records {
			out = append(out, r.name())
		}
	}
	return out
}

func recordOf(key string) record {
	for _, r := range records {
		if r.name() == key {
			return r
		}
	}
	return nil
}

func (l *loader) wrong(file string, at source.Pos, key string, v *source.Value, want string) {
	if key == "" {
		key = "the file"
	}
	l.problem("%s:%d:%d: %s is %s, %s", file, at.Line, at.Col, key, v.Describe(), want)
}

func (l *loader) unknown(file string, at source.Pos, path, key string, names []string) {
	hint := "known here: " + strings.Join(names, ", ")
	if near := source.NewSuggester(names).Nearest(key); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	l.problem("%s:%d:%d: there is no setting %s; %s", file, at.Line, at.Col, source.Quote(path), hint)
}

// readEnvironment takes the variables that are settings. Others with the prefix are no
// error, because a cluster makes variables of its own (WEFT_SERVICE_HOST), but a misspelt
// one gets a warning.
func (l *loader) readEnvironment() {
	for _, pair := range l.cfg.env.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, prefix) && value != "" {
			l.env[name] = value
		}
	}
	names := map[string]string{}
	for _, s := range settings {
		names[prefix+variableOf(s.key)] = s.key
	}
	suggest := source.NewSuggester(slices.Sorted(maps.Keys(names)))
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		value := l.env[name]
		if key, ok := names[name]; ok {
			l.give(key, value, name)
			continue
		}
		if name == fileVariable || isSecret(name) || l.recordVariable(name, value) {
			continue
		}
		if near := suggest.Nearest(name); near != "" {
			l.cfg.Warnings = append(l.cfg.Warnings, fmt.Sprintf("the environment variable %s is no setting; did you mean %s?", name, near))
		}
	}
}

// recordVariable takes a variable of a record, such as WEFT_PROVIDERS_OPENAI_BASE_URL.
func (l *loader) recordVariable(name, value string) bool {
	for _, r := range records {
		rest, ok := strings.CutPrefix(name, prefix+variableOf(r.name())+"_")
		if !ok || rest == "" {
			continue
		}
		err := r.variable(l, rest, value)
		if err != nil && !errors.Is(err, errNoSetting) {
			l.problem("%s: %v", name, err)
		} else if err != nil {
			l.problem("%s: there is no such setting in %s", name, r.name())
		}
		return true
	}
	return false
}
