package model

import (
	"cmp"
	"slices"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// inferred are the inputs and outputs that a component's parts imply.
type inferred struct {
	in, out []*Property
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
	n := 1
	for part := range c.parts() {
		n += len(part.Inputs) + len(part.Outputs)
	}
	c.broken = !l.work(c.At, n) || c.broken
	rules := l.rulesOf(c.Type)
	if rules.infer != nil && (!c.broken || rules.own) {
		inf = rules.infer(l, c)
		// Many nodes may share a subflow with many properties, and some copy them.
		l.work(c.At, 40*(len(inf.in)+len(inf.out)))
		inf.in, inf.out = c.renamed(catalog.InputMapping, inf.in), c.renamed(catalog.OutputMapping, inf.out)
	}
	switch wanted := index(inf.in); {
	case !c.ins:
		c.Inputs = inf.in
	case c.broken:
		for _, in := range c.Inputs {
			in.Unused = wanted[in.Title] == nil
		}
	case !inf.anyIn:
		l.match(c, "inputs", c.Inputs, inf.in)
	}
	if !c.outs {
		c.Outputs = inf.out
	} else if !inf.anyOut && !c.broken {
		l.match(c, "outputs", c.Outputs, inf.out)
	}
	l.checkTemplates(c)
}

// match requires declared properties to have the titles of the implied ones, and compatible types.
func (l *loader) match(c *Component, key string, declared, implied []*Property) {
	byTitle := index(declared)
	for _, want := range implied {
		have := cmp.Or(byTitle[want.Title], l.unprefixed(c, key, want.Title, byTitle))
		if have == nil {
			l.missing(c, key, want)
			continue
		}
		if want.Type != nil && !l.castable(have.At, want.Type, have.Type) && !l.castable(have.At, have.Type, want.Type) {
			l.Errorf(have.At, "io-inferred-type-castable", "declare a type that the value can be converted to, or remove "+key,
				"%s in %s of %s is declared as %s, but its parts imply %s", source.Quote(have.Title), key, c, have.Type, want.Type)
		}
	}
	byTitle = index(implied)
	for _, d := range declared {
		if byTitle[d.Title] != nil || isMap(c) && byTitle[prefixOf(key)+d.Title] != nil {
			continue
		}
		report, code, verb := l.Errorf, "io-extra", "produces"
		if key == "inputs" {
			verb = "uses"
		}
		if c.Type.ActsAs("BranchingNode") {
			code = "branching-no-output"
		} else if key == "inputs" {
			d.Unused = true
			report = l.Strictf
		}
		report(d.At, code, "remove it; "+expected(implied), "%s of %s have %s, which nothing in it %s", key, c, source.Quote(d.Title), verb)
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
	if !isMap(c) || declared[title] != nil {
		return nil
	}
	have := declared[strings.TrimPrefix(title, prefixOf(key))]
	if have != nil {
		l.Strictf(have.At, "map-prefixes", "rename it to "+source.Quote(title), "%s in %s of %s has the subflow's name; a MapNode adds the prefix %s",
			source.Quote(have.Title), key, c, prefixOf(key))
	}
	return have
}

func expected(list []*Property) string {
	if len(list) == 0 {
		return "it has none"
	}
	return "it has " + quoted(len(list), func(i int) string { return list[i].Title })
}

// missing reports an undeclared property; one named like an environment variable may be filled in earlier.
func (l *loader) missing(c *Component, key string, want *Property) {
	if key != "inputs" || want.Type != nil {
		l.Errorf(c.FieldPos(key), "io-missing", "declare it or remove "+key, "%s of %s do not include %s, which its parts imply", key, c, source.Quote(want.Title))
		return
	}
	text := "the text of %s has the placeholder %s, which is not one of its inputs"
	if environment.MatchString(want.Title) {
		c.Undeclared = append(c.Undeclared, want.Title)
		l.Strictf(want.At, "io-missing", "declare it in inputs; environment variables are not read", text, c, source.Quote(want.Title))
		return
	}
	l.Errorf(want.At, "io-missing", "declare it in inputs or remove inputs", text, c, source.Quote(want.Title))
}

func (l *loader) branches(c *Component) {
	implied := []string{catalog.NextBranch}
	if b := l.rulesOf(c.Type).branches; b != nil {
		implied = b(c)
	}
	implied = unique(implied)
	c.Branches = implied
	v := c.source.Get("branches")
	if v == nil || v.Kind == source.Null {
		return
	}
	if !l.wants(v, source.Array, "branches of "+c.String()) {
		return
	}
	seen := map[string]bool{}
	for _, item := range v.Items {
		if !l.wants(item, source.String, "a branch of "+c.String()) {
			return
		}
		if seen[item.Text] {
			l.Errorf(item.Pos, "branches-dup", "list each branch once", "branches of %s lists %s twice", c, source.Quote(item.Text))
			return
		}
		seen[item.Text] = true
	}
	names := sorted(seen)
	switch {
	case c.broken:
	case l.isPlugin(c.Type) && l.rulesOf(c.Type).branches == nil:
		c.Branches = names
	case !slices.Equal(names, implied):
		l.Errorf(v.Pos, "branches-match", "remove branches, or use "+list(implied), "branches of %s are %s, but the node has %s", c, list(names), list(implied))
	}
}

func unique(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

func list(names []string) string {
	return "[" + quoted(len(names), func(i int) string { return names[i] }) + "]"
}

// quoted writes up to ten of n names.
func quoted(n int, name func(i int) string) string {
	return strings.Join(some(n, 10, func(i int) string { return source.Quote(name(i)) }), ", ")
}
