package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/activities/llm"
)

// The settings are the fields of [Config] and of what it holds that have a mapstructure tag. Their
// other tags are
//
//	default  the value without a setting, as it is written in the file
//	oneof    the values that a string may have, separated by commas
//	min, max bounds of a number or a duration, default 0 to 2147483647 and 24h
//	or       one more number, outside these bounds
//	unit     a duration is a multiple of it
//	kind     url, secret, address (host:port to listen on) or connection (the id of one)
//	doc      the description in the reference, or of a section for editors
//
// A map of structs is a section whose names are the operator's.

// node is a place in the file: a single setting, a section, or a section of the operator's names.
type node struct {
	// name is the key in the section above, key the dotted path; NAME stands for an operator's name. doc describes a section.
	name, key, doc string
	// index is the field's in [Config], or in the struct of an entry.
	index []int
	// setting is set for a single value.
	setting *setting
	// children are a section's, each the node of every name of a section of the operator's names.
	children []*node
	each     *node
}

// setting says what a single value may be.
type setting struct {
	typ            reflect.Type
	kind, def, doc string
	oneOf          []string
	min, max       int64
	unit           time.Duration
	or             string
	// named is whether it stands below a name of the operator's.
	named bool
}

// schema describes [Config].
var schema = &node{children: nodesOf(reflect.TypeFor[Config](), "", nil, false)}

func nodesOf(t reflect.Type, path string, index []int, named bool) []*node {
	var out []*node
	for f := range t.Fields() {
		name := f.Tag.Get("mapstructure")
		if name == "" || name == "-" {
			continue
		}
		at := slices.Concat(index, f.Index)
		if name == ",squash" {
			out = append(out, nodesOf(f.Type, path, at, named)...)
			continue
		}
		n := &node{name: name, key: path + name, doc: f.Tag.Get("doc"), index: at}
		switch {
		case f.Type.Kind() == reflect.Struct:
			n.children = nodesOf(f.Type, n.key+".", at, named)
		case f.Type.Kind() == reflect.Map && !named && f.Type.Elem().Kind() == reflect.Struct:
			n.each = &node{key: n.key + ".NAME", children: nodesOf(f.Type.Elem(), n.key+".NAME.", nil, true)}
		case f.Type.Kind() == reflect.Map && !named:
			n.each = &node{key: n.key + ".NAME", setting: settingOf(f.Type.Elem(), f.Tag, true)}
		default:
			n.setting = settingOf(f.Type, f.Tag, named)
		}
		out = append(out, n)
	}
	return out
}

// settingOf reads a field's tags. It panics where they are wrong, which every test would show.
func settingOf(t reflect.Type, tag reflect.StructTag, named bool) *setting {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	s := &setting{typ: t, kind: tag.Get("kind"), def: tag.Get("default"), doc: tag.Get("doc"), or: tag.Get("or"), named: named}
	if words := tag.Get("oneof"); words != "" {
		s.oneOf = strings.Split(words, ",")
	}
	bound := func(name string, otherwise int64) int64 {
		text := tag.Get(name)
		if text == "" {
			return otherwise
		}
		if s.typ == durationType {
			d, err := time.ParseDuration(text)
			must(err)
			return int64(d)
		}
		n, err := strconv.ParseInt(text, 10, 64)
		must(err)
		return n
	}
	most := int64(1<<31 - 1)
	if s.typ == durationType {
		most = int64(24 * time.Hour)
	}
	s.unit = time.Duration(bound("unit", 0))
	s.min, s.max = bound("min", 0), bound("max", most)
	return s
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (n *node) child(name string) *node {
	if n.each != nil {
		return n.each
	}
	if i := slices.IndexFunc(n.children, func(c *node) bool { return c.name == name }); i >= 0 {
		return n.children[i]
	}
	return nil
}

func (n *node) names() []string {
	var out []string
	for _, c := range n.children {
		out = append(out, c.name)
	}
	return out
}

// leaves lists the single settings of a node, in the order of the fields. Sections of the operator's
// names are left out; see [node.records].
func (n *node) leaves() []*node {
	var out []*node
	for _, c := range n.children {
		if c.setting != nil {
			out = append(out, c)
		}
		out = append(out, c.leaves()...)
	}
	return out
}

// records lists the sections of the operator's names.
func (n *node) records() []*node {
	return slices.DeleteFunc(slices.Clone(n.children), func(c *node) bool { return c.each == nil })
}

// fields lists the settings of one entry of a section of the operator's names.
func (n *node) fields() []*node {
	if n.each.setting != nil {
		return []*node{n.each}
	}
	return n.each.children
}

// all lists the settings, those of entries last.
func (n *node) all() []*node {
	out := n.leaves()
	for _, r := range n.records() {
		out = append(out, r.fields()...)
	}
	return out
}

// Reference is a Markdown table of all settings, made of the same tags that read them.
func Reference() string {
	var b strings.Builder
	b.WriteString("| Setting | Variable | Value | Default | Description |\n| --- | --- | --- | --- | --- |\n")
	for _, n := range schema.all() {
		variable, def := "`"+prefix+variableOf(n.key)+"`", n.setting.def
		if n.setting.typ.Kind() == reflect.Map {
			variable = ""
		}
		if def != "" {
			def = "`" + def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", n.key, variable, n.setting.want(), def, n.setting.doc)
	}
	b.WriteString("\nAPI keys of providers, each as the variable or as a file given by NAME_FILE:")
	for _, p := range llm.Providers {
		for _, name := range []string{p.KeyName, p.OtherKeyName} {
			if name != "" {
				fmt.Fprintf(&b, " `%s`", name)
			}
		}
	}
	b.WriteString(".\n")
	return b.String()
}
