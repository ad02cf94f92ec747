package koog

import (
	"fmt"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// check reports unreachable agents and ends, transitions that are never taken, and trivial conditions.
func (b *builder) check() {
	dead := map[*transition]bool{}
	if b.mode == meant {
		for _, ag := range b.doc.agents {
			b.checkAgent(ag, b.from(ag.name), dead)
		}
	}
	b.checkReach(dead)
}

// from are the transitions out of an agent, in order.
func (b *builder) from(name string) []*transition {
	if b.leads == nil {
		b.leads = map[string][]*transition{}
		for _, t := range b.doc.transitions {
			b.leads[t.from] = append(b.leads[t.from], t)
		}
	}
	return b.leads[name]
}

// checkAgent checks the transitions out of one agent.
func (b *builder) checkAgent(ag *agent, out []*transition, dead map[*transition]bool) {
	given := b.typeOf(ag)
	var always *transition
	seen := map[string]*transition{}
	compared := out[:min(len(out), maxPairs)]
	taken := newCoverage(compared, given)
	var full []int
	never := func(t *transition, help, format string, args ...any) {
		if !dead[t] {
			b.Warnf(t.at, CodeShadowed, help, "the transition %s -> %s is never taken: "+format, append([]any{t.from, t.to}, args...)...)
		}
		dead[t] = true
	}
	const before = "move it before the others or change a condition"
	for i, t := range out {
		switch {
		case always != nil:
			never(t, "move it before the other or add a condition to the other", "%s -> %s at line %d comes first and is always taken", always.from, always.to, always.at.Line)
			continue
		case full != nil:
			never(t, before, "%s", shadowed(out, full))
			if t.compare != nil {
				b.checkType(ag, t, given)
			}
			continue
		case t.compare == nil:
			always = t
			continue
		}
		if same := seen[condition(t.compare)]; same != nil {
			never(t, "change one of the conditions", "the one before it at line %d has the same condition", same.at.Line)
		} else {
			seen[condition(t.compare)] = t
		}
		if i < len(compared) {
			if earlier := taken.take(i+1, t); len(earlier) > 0 {
				never(t, before, "%s", shadowed(out, earlier))
			}
			full = taken.full(compared)
		}
		b.checkType(ag, t, given)
	}
	if len(out) > 0 && always == nil && full == nil && !exhaustive(out, given) {
		b.Warnf(ag.at, CodeNotExhausted, "add a last transition without a condition, or one to "+finishName,
			"all transitions from %s are conditional; a run fails where none of the conditions holds", source.Quote(ag.name))
	}
}

// condition is the same for the same conditions.
func condition(c *plan.Compare) string {
	return strings.Join(append([]string{c.Op, string(c.Value)}, c.Path...), "\x00")
}

// given is what is known of an agent's value: kinds is empty where nothing is.
type given struct {
	kind     value.Kind
	known    bool
	critique bool
	numeric  bool
}

// typeOf says what an agent's value will be, as far as the document says it.
func (b *builder) typeOf(ag *agent) given {
	switch ag.kind {
	case kindVerify:
		return given{kind: value.Object, known: true, critique: true}
	case kindReact:
		return given{kind: value.String, known: true}
	case kindParallel:
		if ag.merge == nil {
			return given{kind: value.Array, known: true}
		}
	case kindTransform:
		if len(ag.steps) == 1 {
			_, path := segments(ag.steps[0].text)
			return critiqueField(path[len(path)-1])
		}
		if len(ag.steps) == 0 {
			return b.typeIn(ag)
		}
	case kindTask:
		return schemaType(ag.schema)
	}
	return given{}
}

// critiqueFields are the types of the parts of a verification's result that are known.
var critiqueFields = map[string]given{"success": {kind: value.Bool, known: true}, "feedback": {kind: value.String, known: true}}

func critiqueField(name string) given { return critiqueFields[name] }

// schemaTypes are the types that a JSON Schema may ask for.
var schemaTypes = map[string]given{
	"string":  {kind: value.String, known: true},
	"boolean": {kind: value.Bool, known: true},
	"integer": {kind: value.Double, known: true, numeric: true},
	"number":  {kind: value.Double, known: true, numeric: true},
	"array":   {kind: value.Array, known: true},
}

// schemaType is the type that a JSON Schema asks for.
func schemaType(schema *source.Value) given {
	if kind := schema.Get("type"); kind != nil {
		return schemaTypes[kind.Text]
	}
	return given{}
}

// checkType reports a condition that never or always holds because of the types that it compares.
func (b *builder) checkType(ag *agent, t *transition, g given) {
	c := t.compare
	if g.critique {
		field := c.Path[0]
		switch field {
		case "input":
			return
		case "success", "feedback":
			g = critiqueField(field)
		default:
			b.Warnf(t.variableAt, CodeNever, "write input.success or input.feedback",
				"the condition %q fails every run that comes to it: the verify agent %s returns success, feedback and input, and no %s", c.Words, source.Quote(ag.name), field)
			return
		}
	}
	never, always := g.neverHolds(t), ""
	if never != "" && c.Op == value.NotEquals {
		never, always = "", never
	}
	if c.Op == value.Or && t.want.Kind == value.Bool && t.want.True && g.known && g.kind == value.Bool {
		always = "or with true is always true"
	}
	if never != "" {
		b.Warnf(t.valueAt, CodeNever, "compare with a value of the right type", "the condition %q can never hold: %s", c.Words, strings.ReplaceAll(never, "{agent}", source.Quote(ag.name)))
	}
	if always != "" {
		b.Warnf(t.valueAt, CodeAlways, "remove or change the condition", "the condition %q always holds: %s", c.Words, strings.ReplaceAll(always, "{agent}", source.Quote(ag.name)))
	}
}

// neverHolds explains why a comparison with a value of a known type can never hold; "" if it can.
func (g given) neverHolds(t *transition) string {
	op, want := t.compare.Op, t.want
	if op == value.Not || op == value.And || op == value.Or {
		return g.logical(op, want)
	}
	switch {
	case op != value.Equals && op != value.NotEquals && want.Kind == value.Bool:
		return fmt.Sprintf("%s compares numbers or texts, and %s is neither", op, want.Brief())
	case g.known && !g.fits(want.Kind, want.IsNumber()):
		return fmt.Sprintf("{agent} returns %s, and %s is %s", g.name(), want.Brief(), want.Kind)
	}
	return ""
}

// logical is neverHolds for the operations on true and false.
func (g given) logical(op string, want value.Value) string {
	switch {
	case want.Kind != value.Bool:
		return fmt.Sprintf("%s wants true or false, and compares with %s", op, want.Kind)
	case g.known && g.kind != value.Bool:
		return fmt.Sprintf("%s wants true or false, and {agent} returns %s", op, g.name())
	case op == value.And && !want.True:
		return "and with false is never true"
	}
	return ""
}

func (g given) name() string {
	if g.numeric {
		return "a number"
	}
	return g.kind.String()
}

func (g given) fits(kind value.Kind, number bool) bool {
	if g.numeric {
		return number
	}
	return g.kind == kind
}

// complements are operations of which one holds where the other does not.
var complements = map[string]string{
	value.Equals: value.NotEquals, value.NotEquals: value.Equals, value.More: value.LessOrEqual, value.LessOrEqual: value.More,
	value.Less: value.MoreOrEqual, value.MoreOrEqual: value.Less,
}

// maxPairs is how many of an agent's transitions are compared with each other.
const maxPairs = 200

// exhaustive reports whether two of the conditions are complementary.
func exhaustive(out []*transition, g given) bool {
	out = out[:min(len(out), maxPairs)]
	for _, x := range out {
		for _, y := range out {
			if x.compare == nil || y.compare == nil || !slices.Equal(x.compare.Path, y.compare.Path) {
				continue
			}
			field := g
			if g.critique {
				field = critiqueField(x.compare.Path[0])
			}
			if opposite(x, y, field.known && field.kind == value.Bool) {
				return true
			}
		}
	}
	return false
}

// opposite reports whether one of two conditions on the same value holds in any case.
func opposite(x, y *transition, boolean bool) bool {
	equal := value.Equal(value.ByValue, x.want, y.want)
	a, b := x.compare.Op, y.compare.Op
	switch {
	case equal && complements[a] == b:
		return true
	case !boolean || x.want.Kind != value.Bool || y.want.Kind != value.Bool:
		return false
	case equal:
		return a == value.Equals && b == value.Not
	}
	return a == b && (a == value.Equals || a == value.Not)
}

// checkReach reports agents that no run comes to, and a flow without a way to its end.
func (b *builder) checkReach(dead map[*transition]bool) {
	next := map[string][]string{}
	for _, t := range b.doc.transitions {
		if !dead[t] {
			next[t.from] = append(next[t.from], t.to)
		}
	}
	steps := b.steps()
	for i, ag := range steps {
		switch {
		case len(b.from(ag.name)) > 0:
		case len(b.doc.transitions) == 0 && i+1 < len(steps):
			next[ag.name] = append(next[ag.name], steps[i+1].name)
		default:
			next[ag.name] = append(next[ag.name], finishName)
		}
	}
	reached := plan.Reachable(b.first.name, func(at string) []string { return next[at] })
	if !reached[finishName] {
		text := fmt.Sprintf("no way leads from the first agent, %s, to an end of the flow", source.Quote(b.first.name))
		if b.mode != meant {
			text = fmt.Sprintf("Finish node is not reachable from the start node in the subgraph 'koog-flow-strategy-%s'.", b.doc.id)
		}
		b.Errorf(b.doc.root.Pos("transitions"), CodeNoFinish, "add a transition to "+finishName+", or an agent without transitions", "%s", text)
	}
	if b.mode != meant {
		return
	}
	for _, ag := range steps {
		if !reached[ag.name] {
			b.Warnf(ag.at, CodeUnreachable, "add a transition to it or remove it; a run starts at the first transition's from",
				"no run comes to agent %s", source.Quote(ag.name))
		}
	}
}
