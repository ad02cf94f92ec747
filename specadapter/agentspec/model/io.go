package model

import (
	"sort"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// inferred are the inputs and outputs that a component's parts imply.
type inferred struct {
	in, out []Property
	// anyIn and anyOut say that an author may declare others; in and out then stand in
	// where nothing is declared.
	anyIn, anyOut bool
}

// io completes inputs and outputs, and compares those that are declared with those that are inferred.
func (l *loader) io(c *Component) {
	if !c.Type.IO {
		return
	}
	inf := inferred{anyIn: true, anyOut: true}
	if !l.work(c.At, partProperties(c)) {
		c.broken = true
	}
	if infer := l.rulesOf(c.Type).infer; infer != nil && !c.broken {
		inf = infer(l, c)
		// Many nodes may share a subflow with many properties, and some copy them.
		l.work(c.At, 40*(len(inf.in)+len(inf.out)))
	}
	switch {
	case !c.ins:
		c.Inputs = inf.in
	case !inf.anyIn && !c.broken:
		l.match(c, "inputs", c.Inputs, inf.in)
	}
	switch {
	case !c.outs:
		c.Outputs = inf.out
	case !inf.anyOut && !c.broken:
		l.match(c, "outputs", c.Outputs, inf.out)
	}
	l.checkTemplates(c)
}

// partProperties counts the properties of a component's parts.
func partProperties(c *Component) int {
	n := 1
	for _, f := range c.fields {
		for _, part := range f.Components {
			n += len(part.Inputs) + len(part.Outputs)
		}
	}
	return n
}

// match requires declared properties to have the titles of the inferred ones, and compatible types.
func (l *loader) match(c *Component, key string, declared, implied []Property) {
	byTitle := index(declared)
	for i := range implied {
		want := &implied[i]
		have := byTitle[want.Title]
		if have == nil {
			have = l.unprefixed(c, key, want.Title, byTitle)
		}
		if have == nil {
			l.missing(c, key, want)
			continue
		}
		if want.Type != nil && !l.castable(have.At, want.Type, have.Type) && !l.castable(have.At, have.Type, want.Type) {
			l.Errorf(have.At, "io-inferred-type-castable", "declare a type that it can be converted to, or remove "+key,
				"%s in %s of %s is declared as %s, but its parts make it %s", source.Quote(have.Title), key, c, have.Type, want.Type)
		}
	}
	byTitle = index(implied)
	for i := range declared {
		d := &declared[i]
		if byTitle[d.Title] != nil || isMap(c) && byTitle[prefixOf(key)+d.Title] != nil {
			continue
		}
		help := "remove it; " + expected(implied)
		text := "%s of %s have %s, which nothing in it uses"
		if key == "outputs" {
			text = "%s of %s have %s, which nothing in it produces"
		}
		switch {
		case c.Type.ActsAs("BranchingNode"):
			l.Errorf(d.At, "branching-no-output", help, text, key, c, source.Quote(d.Title))
		case key == "inputs":
			d.Unused = true
			l.Strictf(d.At, "io-extra", help, text, key, c, source.Quote(d.Title))
		default:
			l.Errorf(d.At, "io-extra", help, text, key, c, source.Quote(d.Title))
		}
	}
}

func isMap(c *Component) bool { return c.Type.ActsAs("MapNode") || c.Type.ActsAs("ParallelMapNode") }

// prefixOf is what a MapNode puts before the names of its subflow.
func prefixOf(key string) string {
	if key == "inputs" {
		return Iterated
	}
	return Collected
}

// unprefixed finds the property of a MapNode that its author called as in the subflow.
func (l *loader) unprefixed(c *Component, key, title string, declared map[string]*Property) *Property {
	if !isMap(c) {
		return nil
	}
	have := declared[strings.TrimPrefix(title, prefixOf(key))]
	if have != nil {
		l.Strictf(have.At, "map-prefixes", "call it "+source.Quote(title), "%s in %s of %s has the subflow's name; a MapNode adds the prefix %s",
			source.Quote(have.Title), key, c, prefixOf(key))
	}
	return have
}

// expected lists the titles that a component has by itself.
func expected(list []Property) string {
	if len(list) == 0 {
		return "it has none"
	}
	return "it has " + quoted(len(list), func(i int) string { return list[i].Title })
}

// missing reports an undeclared property; one named like an environment variable may be filled in earlier.
func (l *loader) missing(c *Component, key string, want *Property) {
	help := "declare it or remove " + key
	text := "%s of %s do not include %s, which its parts have"
	if key != "inputs" || want.Type != nil {
		l.Errorf(c.FieldPos(key), "io-missing", help, text, key, c, source.Quote(want.Title))
		return
	}
	text = "the text of %s has the placeholder %s, which is not one of its inputs"
	if environment.MatchString(want.Title) {
		c.Undeclared = append(c.Undeclared, want.Title)
		l.Strictf(want.At, "io-missing", "declare it in inputs; a variable of the environment is not read", text, c, source.Quote(want.Title))
		return
	}
	l.Errorf(want.At, "io-missing", "declare it in inputs or remove inputs", text, c, source.Quote(want.Title))
}

// branches completes a node's branches and checks those that are declared.
func (l *loader) branches(c *Component) {
	implied := []string{catalog.NextBranch}
	if b := l.rulesOf(c.Type).branches; b != nil {
		implied = b(c)
	}
	sort.Strings(implied)
	c.Branches = implied
	v := c.source.Get("branches")
	if v == nil || v.Kind == source.Null {
		return
	}
	at := v.Pos
	if v.Kind != source.Array {
		l.Errorf(at, "field-type", source.HowToWrite[source.Array], "branches of %s is %s, want an array", c, v.Describe())
		return
	}
	seen := map[string]bool{}
	for _, item := range v.Items {
		if item.Kind != source.String {
			l.Errorf(item.Pos, "field-type", "write a string in double quotes", "a branch of %s is %s, want a string", c, item.Describe())
			return
		}
		if seen[item.Text] {
			l.Errorf(item.Pos, "branches-dup", "name each branch once", "branches of %s has %s twice", c, source.Quote(item.Text))
			return
		}
		seen[item.Text] = true
	}
	if c.broken {
		return
	}
	if l.isPlugin(c.Type) && l.rulesOf(c.Type).branches == nil {
		c.Branches = sorted(seen)
		return
	}
	if names := sorted(seen); strings.Join(names, "\x00") != strings.Join(implied, "\x00") {
		l.Errorf(at, "branches-match", "remove branches or write "+list(implied), "branches of %s are %s, but the node has %s", c, list(names), list(implied))
	}
}

// list writes names for a message.
func list(names []string) string {
	return "[" + quoted(len(names), func(i int) string { return names[i] }) + "]"
}

// quoted writes up to ten of n names.
func quoted(n int, name func(i int) string) string {
	return strings.Join(some(n, 10, func(i int) string { return source.Quote(name(i)) }), ", ")
}
