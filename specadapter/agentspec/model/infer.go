package model

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"weft/specadapter/agentspec/catalog"
	"weft/specadapter/source"
	"weft/workflows/plan/value"
)

// Fixed names of branches and outputs, and prefixes of a map's names.
const (
	DefaultBranch = "default"
	CaughtBranch  = "caught_exception_branch"
	CaughtInfo    = "caught_exception_info"
	Iterated      = "iterated_"
	Collected     = "collected_"
)

// placeholders returns the inputs in a component's texts, with a type if inputs are not declared.
func placeholders(l *loader, c *Component) []*Property {
	var in []*Property
	for _, h := range l.placeholdersOf(c) {
		p := &Property{Title: h.name, At: h.at}
		if !c.ins {
			p.Type = stringType
		}
		in = append(in, p)
	}
	return in
}

// unknownIO reports whether a component's inputs and outputs are too uncertain to check others by them.
func unknownIO(c *Component) bool { return c == nil || c.broken || c.Type.Unknown }

// inferTexts infers the placeholders in texts as inputs, and one output unless title is "".
func inferTexts(title string, of *Shape) func(*loader, *Component) inferred {
	return func(l *loader, c *Component) inferred {
		inf := inferred{in: placeholders(l, c), anyOut: true}
		if title != "" {
			inf.out = []*Property{{Title: title, Type: of, At: c.At}}
		}
		return inf
	}
}

// inferMessage infers the inputs of a node that sends a message and may also output it.
func inferMessage(l *loader, c *Component) inferred {
	out := inferred{in: placeholders(l, c), anyIn: true, anyOut: true}
	if c.Flag("expose_message_as_output") {
		out.out = []*Property{{Title: "output_message", Type: stringType, At: c.At}}
	}
	return out
}

// inferParts infers from the components in some fields, and infers nothing if the inputs and outputs of one are uncertain.
func inferParts(from func(c *Component, parts []*Component) inferred, fields ...string) func(*loader, *Component) inferred {
	return func(_ *loader, c *Component) inferred {
		var parts []*Component
		for _, f := range fields {
			parts = append(parts, c.Components(f)...)
		}
		if slices.ContainsFunc(parts, unknownIO) {
			return inferred{anyIn: true, anyOut: true}
		}
		return from(c, parts)
	}
}

// ofParts returns the inputs of all parts and the outputs of the first.
func ofParts(_ *Component, parts []*Component) inferred {
	if len(parts) == 1 { // avoids copies: many nodes may share a part with many inputs
		return inferred{in: parts[0].Inputs, out: parts[0].Outputs}
	}
	return inferred{in: ofParallel(nil, parts).in, out: parts[0].Outputs}
}

// ofTeam is like ofParts, but an author may declare others.
func ofTeam(_ *Component, parts []*Component) inferred {
	return inferred{in: ofParallel(nil, parts).in, out: parts[0].Outputs, anyIn: true, anyOut: true}
}

func ofParallel(_ *Component, parts []*Component) inferred {
	var in, out [][]*Property
	for _, p := range parts {
		in, out = append(in, p.Inputs), append(out, p.Outputs)
	}
	return inferred{in: Merge(in...), out: Merge(out...)}
}

// Merge concatenates lists of properties; the first with a title wins.
func Merge(lists ...[]*Property) []*Property {
	var out []*Property
	seen := map[string]bool{}
	for _, p := range slices.Concat(lists...) {
		if !seen[p.Title] {
			seen[p.Title] = true
			out = append(out, p)
		}
	}
	return out
}

// inferEqual infers the inputs from declared outputs and vice versa.
func inferEqual(_ *loader, c *Component) inferred {
	return inferred{in: c.Outputs, out: c.Inputs, anyIn: true, anyOut: true}
}

// inferFlow infers the inputs of the start node, and the outputs that all end nodes have.
func inferFlow(_ *loader, c *Component) inferred {
	inf := inferred{anyOut: true, anyIn: true}
	if c.Flow == nil || unknownIO(c.Flow.Start) {
		return inf
	}
	inf.in, inf.anyIn = c.Flow.Start.Inputs, false
	ends := c.Flow.acting("EndNode")
	if len(ends) == 0 {
		return inf
	}
	for _, p := range ends[0].Outputs {
		if !slices.ContainsFunc(ends, func(e *Component) bool { return e.Output(p.Title) == nil }) {
			inf.out = append(inf.out, p)
		}
	}
	return inf
}

// ofMap prefixes the subflow's names. An input is one value for all iterations or a list with one
// for each; an output is a list or the result of its reducer.
func ofMap(c *Component, parts []*Component) inferred {
	var inf inferred
	sub := parts[0]
	for _, p := range sub.Inputs {
		in := &Property{Title: Iterated + p.Title, Description: p.Description, Default: p.Default, At: c.At}
		in.Type = union(p.Type, ArrayOf(p.Type))
		inf.in = append(inf.in, in)
	}
	reducers := c.JSON("reducers")
	for _, p := range sub.Outputs {
		how := "append"
		if c.Field("reducers") != nil {
			if how = TextOf(reducers.Get(p.Title)); how == "" {
				continue
			}
		}
		out := &Property{Title: Collected + p.Title, Description: p.Description, Type: p.Type, At: c.At}
		if how == "append" {
			out.Type = ArrayOf(p.Type)
		}
		inf.out = append(inf.out, out)
	}
	return inf
}

// TextOf returns the text of a string; "" for any other value, including nil.
func TextOf(v *source.Value) string {
	if v == nil || v.Kind != source.String {
		return ""
	}
	return v.Text
}

func ofCatch(c *Component, parts []*Component) inferred {
	info := &Property{Title: CaughtInfo, Type: union(stringType, nullType), Default: &source.Value{Kind: source.Null}, At: c.At}
	return inferred{in: parts[0].Inputs, out: append(slices.Clip(parts[0].Outputs), info)}
}

func inferBranching(_ *loader, c *Component) inferred {
	return inferred{in: []*Property{{Title: "branching_mapping_key", Type: stringType, At: c.At}}, anyIn: true}
}

func noBranches(*Component) []string { return nil }

func subflowBranches(c *Component) []string { return slices.Clone(ends(c.Component("subflow"))) }

// ends returns the branch names of a flow's end nodes, without duplicates.
func ends(flow *Component) []string {
	if flow == nil || flow.Flow == nil {
		return []string{catalog.NextBranch}
	}
	if flow.Flow.ends == nil {
		names := source.Map(flow.Flow.acting("EndNode"), func(n *Component) string { return n.Text("branch_name") })
		if len(names) == 0 {
			names = []string{catalog.NextBranch}
		}
		flow.Flow.ends = unique(names)
	}
	return flow.Flow.ends
}

func catchBranches(c *Component) []string { return append(subflowBranches(c), CaughtBranch) }

func values(v *source.Value) []string {
	return source.Map(v.Members, func(m source.Member) string { return m.Value.Text })
}

func yieldsAlways(c *Component) string { return c.String() }

func yieldsConfirmation(c *Component) string {
	if c.Flag("requires_confirmation") {
		return c.String()
	}
	return ""
}

// yieldsInner returns a function for the part that waits in the components of a field.
func yieldsInner(field string) func(*Component) string {
	return func(c *Component) string { return firstYield(c.Components(field)) }
}

func firstYield(parts []*Component) string {
	if i := slices.IndexFunc(parts, func(p *Component) bool { return p.yields != "" }); i >= 0 {
		return parts[i].yields
	}
	return ""
}

func yieldsAgent(c *Component) string {
	if c.Flag("human_in_the_loop") {
		return c.String()
	}
	return toolYield(c)
}

// toolYield returns the tool of an agent that waits. It is cached, because many agents may specialize it.
func toolYield(c *Component) string {
	if c.waiting == nil {
		found := firstYield(slices.Concat(c.Components("tools"), c.Components("toolboxes")))
		c.waiting = &found
	}
	return *c.waiting
}

func yieldsSpecialized(c *Component) string {
	agent, params := c.Component("agent"), c.Component("agent_specialization_parameters")
	if agent == nil || params == nil {
		return ""
	}
	switch {
	case params.Field("human_in_the_loop") == nil && agent.yields != "":
		return agent.yields
	case params.Flag("human_in_the_loop"):
		return c.String()
	}
	return cmp.Or(toolYield(agent), firstYield(params.Components("additional_tools")))
}

// sinceLLM returns the version of structured generation, which is required by outputs other than a single string.
func sinceLLM(c *Component) (catalog.Version, string) {
	if len(c.Outputs) > 1 || len(c.Outputs) == 1 && c.Outputs[0].Type != nil && c.Outputs[0].Type.Kind != StringShape {
		return catalog.V2542, "structured generation"
	}
	return 0, ""
}

type placeholder struct {
	name string
	at   source.Pos
}

// scan holds the placeholders and template syntax in the strings of a value.
type scan struct {
	placeholdersOf []placeholder // each name once, in order
	jinja          source.Pos    // position of the first {%
	odd            string        // the first {{ }} that does not contain a name
	oddAt          source.Pos
}

// scanField scans the strings of a field; results are shared by all references to the value.
func (l *loader) scanField(f *Field) *scan {
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
			// In {{ {{x}}, the inner one is the placeholder.
			if inner := strings.LastIndex(text[:end], "{{"); inner > 0 {
				text, end = text[inner:], end-inner
			}
			m := value.Placeholder.FindStringSubmatch(text[:end+2])
			switch {
			case m == nil && s.odd == "":
				s.odd, s.oddAt = text[:end+2], at
			case m != nil && !seen[m[1]]:
				seen[m[1]] = true
				s.placeholdersOf = append(s.placeholdersOf, placeholder{m[1], at})
			}
			text = text[end+2:]
		}
	})
	l.scans[f.JSON] = s
	return s
}

// placeholdersOf returns the placeholders in a component's texts, in order and without duplicates.
func (l *loader) placeholdersOf(c *Component) []placeholder {
	var out []placeholder
	seen := map[string]bool{}
	l.templates(c, func(_ string, found *scan) {
		for _, h := range found.placeholdersOf {
			if !seen[h.name] {
				seen[h.name] = true
				out = append(out, h)
			}
		}
	})
	return out
}

// templates visits the fields of a component that may contain placeholders.
func (l *loader) templates(c *Component, visit func(field string, found *scan)) {
	for _, spec := range c.Type.Fields {
		if f := c.fields[spec.Name]; spec.Template && f != nil && f.JSON != nil {
			visit(spec.Name, l.scanField(f))
		}
	}
}

// texts visits all strings in a value, including keys.
func texts(v *source.Value, visit func(at source.Pos, text string)) {
	for m := range v.All() {
		visit(m.KeyPos, m.Key)
		if m.Value.Kind == source.String {
			visit(m.Value.Pos, m.Value.Text)
		}
	}
}

// environment matches names that look like environment variables.
var environment = regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)

// checkTemplates reports unsupported template syntax, and placeholders that are replaced by JSON.
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
	for _, h := range l.placeholdersOf(c) {
		if in := c.Input(h.name); in != nil && !in.Type.all(func(t *Shape) bool { return t.Kind != ArrayShape && t.Kind != ObjectShape }) {
			l.Warnf(h.at, "template-nonscalar", "declare it as a string or format it in an earlier node",
				"the placeholder %s is replaced by %s; it is written as JSON", source.Quote(h.name), in.Type)
		}
	}
}
