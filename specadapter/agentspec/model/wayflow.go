package model

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
)

// Fixed names of branches, inputs and outputs of WayFlow's nodes.
const (
	ExceptionBranch  = "default_exception_branch"
	ExceptionName    = "exception_name"
	ExceptionPayload = "exception_payload_name"
	IteratedInput    = "iterated_input"
	Matched          = "output"
	Variable         = "value"
)

// InnerName returns a WayFlow step's name of an input or output of its node.
func (c *Component) InnerName(mapping, title string) string {
	for _, m := range c.mapping(mapping) {
		if m.Value.Text == title {
			return m.Key
		}
	}
	return title
}

func (c *Component) mapping(name string) []source.Member {
	if c.Type.Field(name) == nil {
		return nil
	}
	return c.JSON(name).Members
}

// renamed returns properties with the names that a mapping of a WayFlow node gives them.
func (c *Component) renamed(mapping string, list []*Property) []*Property {
	members := c.mapping(mapping)
	if len(members) == 0 {
		return list
	}
	out := make([]*Property, len(list))
	for i, p := range list {
		renamed := *p
		for _, m := range members {
			if m.Key == p.Title {
				renamed.Title = m.Value.Text
			}
		}
		out[i] = &renamed
	}
	return out
}

func inferRegex(_ *loader, c *Component) inferred {
	out := &Property{Title: Matched, Type: stringType, Default: &source.Value{Kind: source.String}, At: c.At}
	if !c.Flag("return_first_match_only") {
		out.Type, out.Default = ArrayOf(AnyType), &source.Value{Kind: source.Array}
	}
	return inferred{in: []*Property{{Title: "text", Type: stringType, At: c.At}}, out: []*Property{out}}
}

// pythonFlags are the supported flags of Python's module re, with Go's flags; 32 (Unicode) has no effect.
var pythonFlags = []struct {
	bit  int
	flag string
}{{2, "i"}, {8, "m"}, {16, "s"}, {32, ""}}

// Expression returns the regular expression of a PluginRegexNode in Go's syntax, and which match it selects: "first" or "last".
func (c *Component) Expression() (pattern, match string) {
	v := c.JSON("regex_pattern")
	if v.Kind == source.String {
		return goPattern(v.Text, ""), "first"
	}
	bits, flags := flagBits(v), ""
	for _, f := range pythonFlags {
		if bits&f.bit != 0 {
			flags += f.flag
		}
	}
	return goPattern(TextOf(v.Get("pattern")), flags), cmp.Or(TextOf(v.Get("match")), "first")
}

// flagBits returns the flags of a pattern, or 0.
func flagBits(v *source.Value) int {
	if f := v.Get("flags"); f != nil && f.Kind == source.Number {
		return int(decimal(f.Text))
	}
	return 0
}

// goPattern converts a Python expression to Go's syntax, in which \z is the end of the text.
func goPattern(pattern, flags string) string {
	if flags != "" {
		flags = "(?" + flags + ")"
	}
	return flags + strings.NewReplacer(`\\`, `\\`, `\Z`, `\z`).Replace(pattern)
}

func checkRegex(l *loader, c *Component) {
	v := c.JSON("regex_pattern")
	at := c.FieldPos("regex_pattern")
	switch v.Kind {
	case source.String:
	case source.Object:
		if TextOf(v.Get("pattern")) == "" || !slices.Contains([]string{"", "first", "last"}, TextOf(v.Get("match"))) {
			l.Errorf(at, "regex", `use {"pattern": EXPRESSION, "match": "first" or "last", "flags": NUMBER}`, "regex_pattern of %s is %s", c, v.Describe())
			return
		}
		known := 0
		for _, f := range pythonFlags {
			known |= f.bit
		}
		if bits := flagBits(v); bits&^known != 0 {
			l.Errorf(at, "regex", "use 2 (ignore case), 8 (multiline) and 16 (a dot matches newlines)", "the flags %d of %s are not supported", bits, c)
		}
	default:
		l.Errorf(at, "regex", "use a regular expression", "regex_pattern of %s is %s, expected a string", c, v.Describe())
		return
	}
	pattern, _ := c.Expression()
	if _, err := regexp.Compile(pattern); err != nil {
		l.Errorf(at, "regex", "remove lookaheads, lookbehinds and backreferences, which are not supported", "regex_pattern of %s: %s",
			c, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
}

// variables returns the valid variables that a field lists; it reports the others.
func (l *loader) variables(c *Component, field string) []*Property {
	v := c.JSON(field)
	items := v.Items
	switch v.Kind {
	case source.Object:
		items = []*source.Value{v}
	case source.Array, source.Null:
	default:
		l.Errorf(c.FieldPos(field), "variable", `use [{"title": ..., "type": ...}]`, "%s of %s is %s, expected an array", field, c, v.Describe())
	}
	var out []*Property
	for _, item := range items {
		if p := l.property(item, field+" of "+c.String()); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// Write is a variable that a node writes; How is overwrite, merge or insert.
type Write struct {
	Variable *Property
	How      string
}

func inferRead(l *loader, c *Component) inferred {
	c.Reads = l.variables(c, "variable")
	inf := inferred{}
	for _, p := range c.Reads {
		value := *p
		value.Title = Variable
		inf.out = append(inf.out, &value)
	}
	return inf
}

func inferWrite(l *loader, c *Component) inferred {
	for _, p := range l.variables(c, "variable") {
		c.Writes = append(c.Writes, Write{p, c.Text("operation")})
	}
	inf := l.inferWrites(c)
	for _, p := range inf.in {
		p.Title = Variable
	}
	return inf
}

func inferVariables(l *loader, c *Component) inferred {
	c.Reads = l.variables(c, "read_variables")
	how := c.JSON("write_operations")
	for _, p := range l.variables(c, "write_variables") {
		op := TextOf(how)
		if how.Kind == source.Object {
			op = TextOf(how.Get(p.Title))
		}
		c.Writes = append(c.Writes, Write{p, op})
	}
	inf := l.inferWrites(c)
	inf.out = c.Reads
	return inf
}

// inferWrites infers the inputs of a node that writes variables, and validates the operations.
func (l *loader) inferWrites(c *Component) inferred {
	var inf inferred
	for _, w := range c.Writes {
		in := &Property{Title: w.Variable.Title, Description: w.Variable.Description, Type: w.Variable.Type, At: c.At}
		list := w.Variable.Type.Kind == ArrayShape
		switch {
		case w.How == "overwrite", w.How == "merge" && (list || w.Variable.Type.Kind == ObjectShape):
		case w.How == "insert" && list:
			in.Type = cmp.Or(w.Variable.Type.Items, AnyType)
		default:
			l.Errorf(w.Variable.At, "variable", "use overwrite; merge for a list or an object; insert for a list", "%s applies %s to the variable %s, which is %s",
				c, source.Quote(w.How), source.Quote(w.Variable.Title), w.Variable.Type)
		}
		inf.in = append(inf.in, in)
	}
	return inf
}

// checkVariables requires the variables that the nodes of a flow use to be in its own state; those of other flows are not visible.
func (l *loader) checkVariables(c *Component) {
	state, help := l.variables(c, "state"), "make the flow an ExtendedFlow with the variable in state, or give it the value as an input"
	if c.Type.Field("state") != nil {
		help = "add it to state; " + expected(state)
	}
	listed := len(c.JSON("state").Items)
	if k := c.JSON("state").Kind; k != source.Array && k != source.Null {
		listed = 1
	}
	if len(state) < listed {
		return // already reported
	}
	for _, n := range c.Flow.Nodes {
		used := slices.Clone(n.Reads)
		for _, w := range n.Writes {
			used = append(used, w.Variable)
		}
		for _, p := range used {
			if !slices.ContainsFunc(state, func(s *Property) bool { return s.Title == p.Title }) {
				l.Errorf(p.At, "variable", help, "%s uses the variable %s, which is not in the state of %s", n, source.Quote(p.Title), c)
			}
		}
	}
}

// ofException infers the inputs and outputs of the flow, and outputs for the caught exception.
func ofException(c *Component, parts []*Component) inferred {
	out := slices.Clip(parts[0].Outputs)
	for _, title := range []string{ExceptionName, ExceptionPayload} {
		out = append(out, &Property{Title: title, Type: AnyType, Default: &source.Value{Kind: source.String}, At: c.At})
	}
	return inferred{in: parts[0].Inputs, out: out}
}

func exceptionBranches(c *Component) []string {
	out := append(subflowBranches(c), values(c.JSON("except_on"))...)
	if c.Flag("catch_all_exceptions") {
		out = append(out, ExceptionBranch)
	}
	return out
}

func checkException(l *loader, c *Component) {
	l.catches(c, ExceptionBranch, ExceptionName, ExceptionPayload)
}

// ofExtendedMap infers a list as input, and the flow's inputs that are not extracted from its elements. Outputs must be declared.
func ofExtendedMap(c *Component, parts []*Component) inferred {
	element := AnyType
	unpack := c.JSON("unpack_input")
	inf := inferred{anyOut: true}
	for _, p := range parts[0].Inputs {
		if m := unpack.Get(p.Title); m == nil {
			inf.in = append(inf.in, p)
		} else if m.Text == "." && len(unpack.Members) == 1 {
			element = p.Type
		}
	}
	inf.in = append(inf.in, &Property{Title: IteratedInput, Type: union(ArrayOf(element), anyObject), At: c.At})
	return inf
}

var anyObject = &Shape{Kind: ObjectShape, More: AnyType}

// Path parses a query of unpack_input: names, each after a dot, or a single dot for the entire element. ok is false for any
// other query.
func Path(query string) (path []string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(query), ".")
	if !ok || rest == "" {
		return nil, ok
	}
	path = strings.Split(rest, ".")
	return path, !slices.ContainsFunc(path, func(name string) bool { return !jqName.MatchString(name) })
}

var jqName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkExtendedMap(l *loader, c *Component) {
	sub := c.Component("subflow")
	if unknownIO(sub) {
		return
	}
	for _, m := range c.JSON("unpack_input").Members {
		if sub.Input(m.Key) == nil {
			l.Errorf(m.KeyPos, "unpack", expected(sub.Inputs), "unknown input %s of %s in unpack_input of %s", source.Quote(m.Key), sub, c)
		}
		if _, ok := Path(m.Value.Text); !ok {
			l.Errorf(m.Value.Pos, "unpack", "use . for the entire element, or a path such as .user.name; other queries are not supported",
				"unpack_input of %s has the query %s", c, m.Value.Describe())
		}
	}
	for _, p := range c.Outputs {
		title := c.InnerName(catalog.OutputMapping, p.Title)
		if sub.Output(title) == nil {
			l.Errorf(p.At, "io-extra", expected(sub.Outputs), "outputs of %s have %s, which %s does not have", c, source.Quote(title), sub)
		} else if k := p.Type.Kind; k != ArrayShape && k != AnyShape {
			l.Errorf(p.At, "io-inferred-type-castable", "declare an array", "%s in outputs of %s is declared as %s, but it is the list of each run's values", source.Quote(p.Title), c, p.Type)
		}
	}
	if c.Flag("parallel_execution") {
		l.waitsInParallel(c, c.Components("subflow"))
	}
}
